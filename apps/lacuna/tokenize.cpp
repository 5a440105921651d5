
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "commands.h"
#include "engine/chat_prompt.h"
#include "input.h"
#include "loading.h"
#include "model/locate.h"
#include "model/random_spec.h"
#include "terminal.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode.h"

namespace lacuna {
namespace {

struct TokenizeFlags {
  std::string model;
  ModelFlags config;  ///< accepted like in other commands, but unused
  TemplateFlags prompt_template;
  std::optional<std::string> prompt;
  bool chat = false;
  bool json = false;
  bool decode = false;
  bool special = false;
  bool skip_special = false;
};

/// Finds the model's folder, which needs no config.json here.
std::filesystem::path find_folder(const std::string& model) {
  std::error_code ignored;
  if (std::filesystem::is_directory(model, ignored)) return model;
  if (is_random_spec(model)) throw InputError("{}: random weights come without a tokenizer", model);
  return locate_model(model);
}

/// Parses a list of messages, or the body of a request to /apply-template.
Conversation parse_conversation(std::string_view text) {
  constexpr const char* kSource = "standard input";
  nlohmann::ordered_json input = parse_ordered_json(text, kSource);
  Conversation conversation;
  if (input.is_array()) {
    conversation.messages = std::move(input);
  } else {
    if (!input.is_object() || !input.contains("messages"))
      throw InputError("{}: expected a list of messages, or an object with \"messages\"", kSource);
    const auto take = [&](const char* key, nlohmann::ordered_json& value) {
      if (input.contains(key)) value = std::move(input[key]);
    };
    take("messages", conversation.messages);
    take("tools", conversation.tools);
    take("documents", conversation.documents);
    take("chat_template_kwargs", conversation.keywords);
    if (input.contains("add_generation_prompt"))
      conversation.add_generation_prompt = input["add_generation_prompt"] != false;
    if (input.contains("enable_thinking"))
      conversation.keywords["enable_thinking"] = input["enable_thinking"];
  }
  if (!conversation.messages.is_array() || conversation.messages.empty())
    throw InputError("{}: messages is no list of at least one message", kSource);
  for (const nlohmann::ordered_json& message : conversation.messages) {
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string())
      throw InputError("{}: messages holds {}; expected \"role\" and \"content\"", kSource,
                       in_quotes(message.dump()));
  }
  if (!conversation.keywords.is_object()) throw InputError("{}: chat_template_kwargs is no object", kSource);
  return conversation;
}

void show_prompt(const TokenizeFlags& flags) {
  const std::filesystem::path folder = find_folder(flags.model);
  const Tokenizer tokenizer = Tokenizer::load(folder);
  const ChatTemplate chat_template = choose_chat_template(folder, flags.prompt_template);
  if (chat_template.is_none())
    print_message("lacuna: chat template {}; the prompt is the message's text\n",
                  chat_template.description());
  Conversation conversation;
  if (flags.prompt) {
    conversation = Conversation(std::vector<Message>{{"user", *flags.prompt}});
  } else {
    conversation = parse_conversation(read_standard_input());
  }
  const RenderedPrompt prompt = chat_prompt(chat_template, tokenizer, conversation);
  if (flags.json) {
    const nlohmann::ordered_json json{{"prompt", replace_ill_formed(prompt.text)}, {"tokens", prompt.tokens}};
    print_data("{}\n", json.dump());
  } else {
    print_data("{}\n", prompt.text);
  }
}

void tokenize(const TokenizeFlags& flags) {
  if (flags.chat) return show_prompt(flags);
  const Tokenizer tokenizer = Tokenizer::load(find_folder(flags.model));
  const std::string input = read_standard_input();
  if (flags.decode) {
    const std::string text = tokenizer.decode(parse_token_list(input, "standard input"), flags.skip_special);
    print_data("{}", text);
  } else {
    const auto special = flags.special ? SpecialTokens::kAsAtoms : SpecialTokens::kAsText;
    print_data("{}\n", nlohmann::json(tokenizer.encode(input, special)).dump());
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
  CLI::Option* chat = command->add_flag("--chat", flags->chat,
                                        "Read messages as JSON (a list, or a request with \"messages\") and "
                                        "write the prompt that the chat template makes of them");
  chat->excludes(decode);
  command
      ->add_option("-p,--prompt", flags->prompt, "With --chat: the text of one user's turn, in place of JSON")
      ->needs(chat);
  command->add_flag("--json", flags->json, "With --chat: write an object with the prompt and its tokens")
      ->needs(chat);
  add_template_flags(*command, flags->prompt_template, "Prompt");
  command->get_option("--chat-template")->needs(chat);
  command->get_option("--chat-template-kwargs")->needs(chat);
  command->callback([flags] { tokenize(*flags); });
}

}  // namespace lacuna
