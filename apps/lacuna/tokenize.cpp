#include <fmt/core.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "commands.h"
#include "input.h"
#include "loading.h"
#include "model/locate.h"
#include "model/random_spec.h"
#include "tokenizer/tokenizer.h"

namespace lacuna {
namespace {

struct TokenizeFlags {
  std::string model;
  ModelFlags config;  ///< every command takes these; a tokenizer needs none of them
  bool decode = false;
  bool special = false;
  bool skip_special = false;
};

/// To tokenize, a folder needs no config.json.
Tokenizer load_tokenizer(const std::string& model) {
  std::error_code ignored;
  if (std::filesystem::is_directory(model, ignored)) return Tokenizer::load(model);
  if (is_random_spec(model)) throw InputError("{}: random weights come without a tokenizer", model);
  return Tokenizer::load(locate_model(model));
}

void tokenize(const TokenizeFlags& flags) {
  const Tokenizer tokenizer = load_tokenizer(flags.model);
  const std::string input = read_standard_input();
  if (flags.decode) {
    const std::string text = tokenizer.decode(parse_token_list(input, "standard input"), flags.skip_special);
    std::fwrite(text.data(), 1, text.size(), stdout);
  } else {
    const auto special = flags.special ? SpecialTokens::kAsAtoms : SpecialTokens::kAsText;
    fmt::print("{}\n", nlohmann::json(tokenizer.encode(input, special)).dump());
  }
}

}  // namespace

void add_tokenize_command(CLI::App& program) {
  auto flags = std::make_shared<TokenizeFlags>();
  CLI::App* command =
      program.add_subcommand("tokenize", "Turn text from standard input into token ids, or back");
  add_model_flag(*command, flags->model);
  add_config_flags(*command, flags->config);
  CLI::Option* decode = command->add_flag("--decode", flags->decode,
                                          "Read a JSON list of ids and write their text, byte for byte");
  command->add_flag("--special", flags->special, "Read special tokens in the text as tokens, not as text")
      ->excludes(decode);
  command->add_flag("--skip-special", flags->skip_special, "Leave special tokens out of the text")
      ->needs(decode);
  command->callback([flags] { tokenize(*flags); });
}

}  // namespace lacuna
