#include "model/read_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/gguf.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "model/config_texts.h"
#include "model/gguf_model.h"

namespace lacuna {
namespace {

namespace fs = std::filesystem;

std::optional<MappedFile> open_if_present(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return {};
  return MappedFile::open(path);
}

std::string_view text_of(const std::optional<MappedFile>& file) {
  return file ? file->text() : "";
}

}  // namespace

ModelConfig read_config(const fs::path& folder, const ConfigChoices& choices) {
  if (GgufFile::is_gguf(folder)) return read_gguf_config(GgufFile::open(folder), choices);
  const MappedFile config = MappedFile::open(folder / "config.json");
  const auto generation_config = open_if_present(folder / "generation_config.json");
  const auto tokenizer_config = open_if_present(folder / "tokenizer_config.json");
  const auto tokenizer = open_if_present(folder / "tokenizer.json");
  const auto special_tokens_map = open_if_present(folder / "special_tokens_map.json");
  const auto added_tokens = open_if_present(folder / "added_tokens.json");
  return read_config_texts({.config = config.text(),
                            .generation_config = text_of(generation_config),
                            .tokenizer_config = text_of(tokenizer_config),
                            .tokenizer = text_of(tokenizer),
                            .special_tokens_map = text_of(special_tokens_map),
                            .added_tokens = text_of(added_tokens)},
                           folder, choices);
}

std::string warning_of(const ModelConfig& config, const fs::path& folder) {
  if (config.unknown_keys.empty()) return {};
  std::vector<std::string> named;
  for (const std::string& key : config.unknown_keys) named.push_back(in_quotes(key));
  const bool is_one = named.size() == 1;
  const std::string path = (folder / "config.json").string();
  const std::string names = fmt::format("{}", fmt::join(named, ", "));
  return format_error(
      "{}: {} {} not known here; {} {} nothing on",
      fmt::make_format_args(path, names, is_one ? "is" : "are", is_one ? "its value" : "their values",
                            is_one ? "switches" : "switch"));
}

}  // namespace lacuna
