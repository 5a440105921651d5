// Chat templates: conversations to the tokens of a prompt.
//
// Checkpoints carry their template as a Jinja program, which tokenizer/jinja.h evaluates. The files that may
// hold it, and their order, are those of the library transformers. A checkpoint without one can be given a
// built-in form.
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

/// Which parts of a conversation a template shows, found by rendering small ones. What it does not show has
/// to be written into the texts of the turns.
struct TemplateTraits {
  static constexpr std::string_view kShownFunction = "NEEDLE";

  bool shows_tools = false;           ///< functions in Conversation::tools
  bool shows_calls = false;           ///< tool_calls of an assistant's message
  bool shows_results = false;         ///< messages of the role "tool", where it shows calls
  bool takes_text_arguments = false;  ///< arguments of calls as JSON text, not as an object
  /// A call of kShownFunction without arguments as the template writes it, with some text around it; empty
  /// where it shows no calls.
  std::string shown_call = {};
  bool shows_developer = false;    ///< messages of the role "developer"
  bool takes_lists = false;        ///< content may be a list of text parts
  bool takes_lists_alone = false;  ///< content has to be one
};

/// Parts of a chat template before it is parsed.
struct TemplateSource {
  /// Programs by name: "default", "tool_use" and others; empty: there are none.
  std::vector<std::pair<std::string, std::string>> programs = {};
  std::vector<std::string> places = {};  ///< of each program: the file, and the key in it
  /// bos_token, eos_token and so on: strings, and lists of strings.
  nlohmann::ordered_json special_tokens = nlohmann::ordered_json::object();
  /// Variables that the model's own tokenizer sets where a request does not.
  nlohmann::ordered_json keywords = nlohmann::ordered_json::object();
  std::string reason = {};  ///< without programs: why, as a sentence for the user

  const std::string* find(std::string_view name) const;
};

inline constexpr std::string_view kDefaultTemplate = "default", kToolTemplate = "tool_use";
inline constexpr size_t kMaxTemplateBytes = size_t{1} << 20;
inline constexpr size_t kMaxTemplates = 64;  ///< of one checkpoint

/// The templates of a checkpoint folder or of a GGUF file: chat_template.jinja and the files in
/// additional_chat_templates; else chat_template.json; else tokenizer_config.json. Throws InputError where
/// files are damaged or too large.
TemplateSource read_chat_templates(const std::filesystem::path& folder);

class ChatTemplate {
 public:
  struct Program;  ///< a program, parsed

  /// None: prompts are the text alone.
  ChatTemplate() = default;
  /// A program that cannot be parsed makes a template whose problem() says so, and which renders nothing.
  explicit ChatTemplate(TemplateSource source);
  /// A program alone.
  static ChatTemplate of_program(std::string program);
  /// One of kBuiltInNames; empty for another name.
  ///   special_tokens  of the checkpoint
  static std::optional<ChatTemplate> built_in(
      std::string_view name, nlohmann::ordered_json special_tokens = nlohmann::ordered_json::object());
  static constexpr std::string_view kBuiltInNames = "llada, chatml, nemotron, seed-coder, gemma or none";

  bool is_none() const { return default_ == nullptr; }
  /// One line for the user: "chat_template.jinja", "built-in chatml", "none: M has no chat template".
  std::string description() const;
  /// Why it cannot be used, with the line of the program; empty: it can.
  const std::string& problem() const;
  /// The Jinja program; empty: none.
  const std::string& program() const;
  /// Traits of the program that renders a conversation with or without tools.
  const TemplateTraits& traits(bool has_tools) const;

  /// Sets variables where a request does not. Throws InputError for a name that conversations set.
  void set_keywords(const nlohmann::ordered_json& keywords);
  const nlohmann::ordered_json& keywords() const { return keywords_; }

  /// The text of a prompt, in parts that are the template's own and parts that are the conversation's. Throws
  /// InputError: the sentence of raise_exception, or a problem of the program with its line.
  std::vector<jinja::Piece> pieces(const Conversation& conversation) const;
  /// Tokens that a built-in form cannot do without.
  std::span<const std::string_view> required_tokens() const { return required_tokens_; }

 private:
  const Program& program_for(bool has_tools) const;

  std::shared_ptr<const Program> default_;
  std::shared_ptr<const Program> with_tools_;  // null: the default
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

/// The prompt for an assistant's answer. Special tokens that the template writes are atoms; what the
/// conversation says is encoded as text, so that no message can imitate them. Ids equal those of the whole
/// rendered text, except where a message contains the text of a special token. Without a template one message
/// is taken, whose content is the prompt. Throws InputError as pieces() does, and where the tokenizer lacks a
/// token of a built-in form.
RenderedPrompt render_prompt(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                             const Conversation& conversation);
/// Its tokens, for `messages`.
std::vector<TokenId> render(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                            std::span<const Message> messages);

/// The token that ends a chat turn, by the names under which the supported families know it.
std::optional<TokenId> end_of_turn(const Tokenizer& tokenizer);

}  // namespace lacuna
