// Chat templates: turn a conversation into the tokens of a prompt.
//
// Checkpoints carry their template as a Jinja program, which tokenizer/jinja.h evaluates. The library
// transformers defines the files that may hold it and their order. Others can use a built-in template.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lacuna/types.h"
#include "tokenizer/conversation.h"
#include "tokenizer/jinja.h"
#include "tokenizer/tokenizer.h"

namespace lacuna {

/// Which parts of a conversation a template renders, detected by rendering small conversations. Callers must
/// write all other parts into the texts of the turns.
struct TemplateTraits {
  static constexpr std::string_view kShownFunction = "NEEDLE";

  bool shows_tools = false;           ///< renders Conversation::tools
  bool shows_calls = false;           ///< renders tool_calls of an assistant's message
  bool shows_results = false;         ///< renders messages of the role "tool"; only if shows_calls
  bool takes_text_arguments = false;  ///< expects arguments of calls as JSON text, not as an object
  /// A call of kShownFunction without arguments as the template renders it, with some surrounding text; empty
  /// unless shows_calls.
  std::string shown_call = {};
  bool shows_developer = false;    ///< renders messages of the role "developer"
  bool takes_lists = false;        ///< content may be a list of text parts
  bool takes_lists_alone = false;  ///< content must be a list of text parts
};

/// Parts of a chat template before it is parsed.
struct TemplateSource {
  /// (name, program): "default", "tool_use" and others; empty: no template.
  std::vector<std::pair<std::string, std::string>> programs = {};
  std::vector<std::string> places = {};  ///< file and key of each program
  /// bos_token, eos_token and so on: strings, and lists of strings.
  nlohmann::ordered_json special_tokens = nlohmann::ordered_json::object();
  /// Default variables that the model's own tokenizer class sets.
  nlohmann::ordered_json keywords = nlohmann::ordered_json::object();
  std::string reason = {};  ///< why there are no programs, as a sentence for the user

  const std::string* find(std::string_view name) const;
};

inline constexpr std::string_view kDefaultTemplate = "default", kToolTemplate = "tool_use";
inline constexpr size_t kMaxTemplateBytes = size_t{1} << 20;
inline constexpr size_t kMaxTemplates = 64;  ///< limit per checkpoint

/// The templates of a checkpoint folder or of a GGUF file: chat_template.jinja and the files in
/// additional_chat_templates; else chat_template.json; else tokenizer_config.json. Throws InputError for
/// damaged or too large files.
TemplateSource read_chat_templates(const std::filesystem::path& folder);

class ChatTemplate {
 public:
  struct Program;  ///< a parsed program

  /// No template: a prompt is the content of one message.
  ChatTemplate() = default;
  /// A program that cannot be parsed makes a template whose problem() says so, and which renders nothing.
  explicit ChatTemplate(TemplateSource source);
  /// The built-in template `name` of kBuiltInNames; empty for another name.
  ///   special_tokens  the checkpoint's TemplateSource::special_tokens
  static std::optional<ChatTemplate> built_in(
      std::string_view name, nlohmann::ordered_json special_tokens = nlohmann::ordered_json::object());
  static constexpr std::string_view kBuiltInNames = "llada, chatml, nemotron, seed-coder, gemma or none";

  bool is_none() const { return default_ == nullptr; }
  /// One line for the user: "chat_template.jinja", "built-in chatml", "none: M has no chat template".
  std::string description() const;
  /// Why the template cannot be used, with the line of the program; empty if it can.
  const std::string& problem() const;
  /// The Jinja program; empty without a template.
  const std::string& program() const;
  /// Traits of the program that renders a conversation with or without tools.
  const TemplateTraits& traits(bool has_tools) const;

  /// Sets defaults, which a request can override. Throws InputError as check_template_keywords() does.
  void set_keywords(const nlohmann::ordered_json& keywords);
  const nlohmann::ordered_json& keywords() const { return keywords_; }

  /// The text of a prompt, split into the template's own parts and the conversation's. Throws InputError with
  /// the message of raise_exception, or with a problem of the program and its line.
  std::vector<jinja::Piece> pieces(const Conversation& conversation) const;
  /// Tokens that a built-in template needs.
  std::span<const std::string_view> required_tokens() const { return required_tokens_; }

 private:
  const Program& program_for(bool has_tools) const;

  std::shared_ptr<const Program> default_;
  std::shared_ptr<const Program> with_tools_;  // null: default_
  nlohmann::ordered_json special_tokens_ = nlohmann::ordered_json::object();
  nlohmann::ordered_json keywords_ = nlohmann::ordered_json::object();
  std::span<const std::string_view> required_tokens_ = {};
  std::string reason_;
};

/// Throws InputError for variables that conversations set: messages, tools, documents, add_generation_prompt.
void check_template_keywords(const nlohmann::ordered_json& keywords);

/// read_chat_templates(), parsed.
ChatTemplate load_chat_template(const std::filesystem::path& folder);

/// A prompt as text and as tokens.
struct RenderedPrompt {
  std::string text;
  std::vector<TokenId> tokens;
};

/// The prompt for an assistant's answer. Special tokens that the template writes are atoms; the
/// conversation's texts are encoded as plain text, so that no message can imitate special tokens. Ids equal
/// those of the whole rendered text unless a message contains the text of a special token. Without a
/// template, the prompt is the content of the single message. Throws InputError as pieces() does, and if the
/// tokenizer lacks a token of required_tokens().
RenderedPrompt render_prompt(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                             const Conversation& conversation);
/// The tokens of render_prompt() for `messages`.
std::vector<TokenId> render(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                            std::span<const Message> messages);

/// The token that ends a chat turn, found by its names in the supported model families.
std::optional<TokenId> end_of_turn(const Tokenizer& tokenizer);

}  // namespace lacuna
