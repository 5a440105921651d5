#include "tokenizer/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "tokenizer/builtin_templates.h"
#include "tokenizer/jinja.h"

namespace lacuna {
namespace {

using nlohmann::ordered_json;

/// Variables that conversations set and keywords must not set.
constexpr std::array<std::string_view, 4> kReserved = {"messages", "tools", "documents",
                                                       "add_generation_prompt"};

/// Variables of a program: the conversation's values, whose texts count as input, and the checkpoint's own.
struct TemplateValues {
  ordered_json values, trusted;
};

TemplateValues values_of(const Conversation& conversation, const ordered_json& special_tokens,
                         const ordered_json& keywords) {
  TemplateValues made{keywords, special_tokens};
  made.values.update(conversation.keywords);
  for (const auto& item : made.values.items()) made.trusted.erase(item.key());
  made.values["messages"] = conversation.messages;
  made.values["tools"] = conversation.tools;
  made.values["documents"] = conversation.documents;
  made.values["add_generation_prompt"] = conversation.add_generation_prompt;
  return made;
}

/// Renders small conversations to detect whether a template renders a part: the output contains the needle.
class Probe {
 public:
  explicit Probe(const jinja::Template& program, const ordered_json& special_tokens)
      : program_(program), special_tokens_(special_tokens) {}

  /// The rendered text; empty if the template fails for the conversation.
  std::string text_of(const Conversation& conversation) const {
    constexpr jinja::Limits kLimits{.max_steps = 100'000, .max_output_bytes = 1 << 20};
    const TemplateValues made = values_of(conversation, special_tokens_, ordered_json::object());
    try {
      return jinja::text_of(program_.render(made.values, made.trusted, 0, kLimits));
    } catch (const InputError&) {
      return {};
    }
  }
  bool shows_needle(const Conversation& conversation) const {
    return text_of(conversation).find(kNeedle) != std::string::npos;
  }

  /// The needle with the text around it; empty if the text does not contain it.
  std::string around_needle(const Conversation& conversation) const {
    constexpr size_t kAround = 64;
    const std::string text = text_of(conversation);
    const size_t at = text.find(kNeedle);
    if (at == std::string::npos) return {};
    const size_t begin = at - std::min(at, kAround);
    return text.substr(begin, at - begin + kNeedle.size() + kAround);
  }

  static constexpr std::string_view kNeedle = TemplateTraits::kShownFunction;

 private:
  const jinja::Template& program_;
  const ordered_json& special_tokens_;
};

Conversation with_call(const ordered_json& arguments, std::string_view function, std::string_view result) {
  Conversation conversation;
  conversation.add("user", "a");
  const ordered_json call{{"id", "call00001"},
                          {"type", "function"},
                          {"function", {{"name", function}, {"arguments", arguments}}}};
  conversation.add("assistant", "")["tool_calls"] = ordered_json::array({call});
  ordered_json& answer = conversation.add("tool", result);
  answer["name"] = function;
  answer["tool_call_id"] = "call00001";
  return conversation;
}

Conversation with_content(const ordered_json& content) {
  Conversation conversation;
  conversation.add("user", "")["content"] = content;
  return conversation;
}

TemplateTraits find_traits(const jinja::Template& program, const ordered_json& special_tokens) {
  const Probe probe(program, special_tokens);
  const std::string needle(Probe::kNeedle);
  TemplateTraits traits;
  Conversation tools = with_content("a");
  const ordered_json function{
      {"name", needle},
      {"description", "a"},
      {"parameters",
       {{"type", "object"}, {"properties", ordered_json::object()}, {"required", ordered_json::array()}}}};
  tools.tools = ordered_json::array({{{"type", "function"}, {"function", function}}});
  traits.shows_tools = probe.shows_needle(tools);
  const ordered_json object = ordered_json::object();
  traits.shows_calls = probe.shows_needle(with_call(object, needle, "b"));
  if (!traits.shows_calls && probe.shows_needle(with_call("{}", needle, "b")))
    traits.shows_calls = traits.takes_text_arguments = true;
  const ordered_json arguments = traits.takes_text_arguments ? ordered_json("{}") : object;
  traits.shown_call = probe.around_needle(with_call(arguments, needle, "b"));
  traits.shows_results = traits.shows_calls && probe.shows_needle(with_call(arguments, "f", needle));
  Conversation developer;
  developer.add("developer", needle);
  developer.add("user", "a");
  traits.shows_developer = probe.shows_needle(developer);
  const std::string text = probe.text_of(with_content(needle));
  const std::string list =
      probe.text_of(with_content(ordered_json::array({{{"type", "text"}, {"text", needle}}})));
  traits.takes_lists = !list.empty() && list == text;
  traits.takes_lists_alone = text.find(needle) == std::string::npos && list.find(needle) != std::string::npos;
  traits.takes_lists = traits.takes_lists || traits.takes_lists_alone;
  return traits;
}

}  // namespace

void check_template_keywords(const ordered_json& keywords) {
  constexpr size_t kMaxKeywords = 256;  // look-ups are linear
  if (keywords.size() > kMaxKeywords)
    throw InputError("chat_template_kwargs has {} variables; expected at most {}", keywords.size(),
                     kMaxKeywords);
  for (const auto& item : keywords.items()) {
    for (const std::string_view name : kReserved) {
      if (item.key() == name)
        throw InputError(
            "chat_template_kwargs.{} has no effect here; expected other variables of the template", name);
    }
  }
}

struct ChatTemplate::Program {
  std::string text;
  std::string place;    ///< file and key
  std::string problem;  ///< why it cannot be parsed
  std::optional<jinja::Template> parsed;
  TemplateTraits traits;
};

namespace {

std::shared_ptr<ChatTemplate::Program> parse_program(std::string text, std::string place,
                                                     const ordered_json& special_tokens) {
  auto program = std::make_shared<ChatTemplate::Program>();
  program->text = std::move(text);
  program->place = std::move(place);
  try {
    program->parsed = jinja::Template::parse(program->text, program->place);
    program->traits = find_traits(*program->parsed, special_tokens);
  } catch (const InputError& error) {
    program->problem = error.what();
  }
  return program;
}

}  // namespace

ChatTemplate::ChatTemplate(TemplateSource source)
    : special_tokens_(std::move(source.special_tokens)),
      keywords_(std::move(source.keywords)),
      reason_(std::move(source.reason)) {
  const auto use = [&](std::string_view name, std::shared_ptr<const Program>& program) {
    for (size_t i = 0; i < source.programs.size(); ++i) {
      auto& [own, text] = source.programs[i];
      if (own == name) program = parse_program(std::move(text), std::move(source.places[i]), special_tokens_);
    }
  };
  use(kDefaultTemplate, default_);
  if (default_ == nullptr) {
    if (!source.programs.empty())
      reason_ = fmt::format("there is no template called \"default\"; --chat-template NAME chooses one");
    return;
  }
  use(kToolTemplate, with_tools_);
}

std::optional<ChatTemplate> ChatTemplate::built_in(std::string_view name, ordered_json special_tokens) {
  if (name == "none") return ChatTemplate();
  const BuiltInTemplate* const found = find_built_in_template(name);
  if (found == nullptr) return {};
  ChatTemplate made({.programs = {{std::string(kDefaultTemplate), std::string(found->program)}},
                     .places = {fmt::format("built-in {}", name)},
                     .special_tokens = std::move(special_tokens)});
  made.required_tokens_ = found->required_tokens;
  return made;
}

std::string ChatTemplate::description() const {
  if (default_ != nullptr) return default_->place;
  return reason_.empty() ? "none" : fmt::format("none: {}", reason_);
}

const std::string& ChatTemplate::problem() const {
  static const std::string kNothing;
  return default_ != nullptr ? default_->problem : kNothing;
}

const std::string& ChatTemplate::program() const {
  static const std::string kNothing;
  return default_ != nullptr ? default_->text : kNothing;
}

const ChatTemplate::Program& ChatTemplate::program_for(bool has_tools) const {
  expects(!is_none(), "there is a template");
  return has_tools && with_tools_ != nullptr ? *with_tools_ : *default_;
}

const TemplateTraits& ChatTemplate::traits(bool has_tools) const {
  return program_for(has_tools).traits;
}

void ChatTemplate::set_keywords(const ordered_json& keywords) {
  check_template_keywords(keywords);
  keywords_.update(keywords);
}

namespace {

/// Adapts messages to a template: contents as text or lists of parts; the role "developer" as "system".
ordered_json arranged(const TemplateTraits& traits, ordered_json messages) {
  for (ordered_json& message : messages) {
    ordered_json& content = message["content"];
    if (content.is_null()) {
      content = "";
    } else if (content.is_array() && !traits.takes_lists) {
      content = content_text(message);
    } else if (content.is_string() && traits.takes_lists_alone) {
      content = ordered_json::array({{{"type", "text"}, {"text", content.get<std::string>()}}});
    }
    if (!traits.shows_developer && message.value("role", "") == "developer") message["role"] = "system";
  }
  return messages;
}

}  // namespace

std::vector<jinja::Piece> ChatTemplate::pieces(const Conversation& conversation) const {
  const Program& program = program_for(!conversation.tools.is_null());
  if (!program.parsed) throw InputError("the chat template cannot be used: {}", program.problem);
  check_template_keywords(conversation.keywords);
  TemplateValues made = values_of(conversation, special_tokens_, keywords_);
  made.values["messages"] = arranged(program.traits, std::move(made.values["messages"]));
  std::vector<jinja::Piece> pieces = program.parsed->render(made.values, made.trusted, std::time(nullptr));
  if (!conversation.continuation.empty()) pieces.push_back({conversation.continuation, true});
  return pieces;
}

ChatTemplate load_chat_template(const std::filesystem::path& folder) {
  return ChatTemplate(read_chat_templates(folder));
}

namespace {

RenderedPrompt without_template(const Tokenizer& tokenizer, const Conversation& conversation) {
  if (conversation.messages.size() != 1)
    throw InputError("without a chat template there is one message, not {}", conversation.messages.size());
  std::string text = content_text(conversation.messages.front()) + conversation.continuation;
  std::vector<TokenId> tokens = tokenizer.encode(text, SpecialTokens::kAsText);
  return {std::move(text), std::move(tokens)};
}

}  // namespace

RenderedPrompt render_prompt(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                             const Conversation& conversation) {
  if (chat_template.is_none()) return without_template(tokenizer, conversation);
  for (const std::string_view token : chat_template.required_tokens()) {
    if (!tokenizer.id_of(token))
      throw InputError("the chat template needs the token '{}', which the tokenizer lacks", token);
  }
  RenderedPrompt prompt;
  std::vector<TextRange> literal;
  for (const jinja::Piece& piece : chat_template.pieces(conversation)) {
    const size_t begin = prompt.text.size();
    prompt.text += piece.text;
    if (piece.is_input) literal.push_back({begin, prompt.text.size()});
  }
  prompt.tokens = tokenizer.encode(prompt.text, literal);
  return prompt;
}

std::vector<TokenId> render(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                            std::span<const Message> messages) {
  return render_prompt(chat_template, tokenizer, Conversation(messages)).tokens;
}

std::optional<TokenId> end_of_turn(const Tokenizer& tokenizer) {
  for (const std::string_view name : {"<|eot_id|>", "<|im_end|>", "<|role_end|>", "<turn|>"}) {
    if (const std::optional<TokenId> id = tokenizer.id_of(name)) return id;
  }
  return std::nullopt;
}

}  // namespace lacuna
