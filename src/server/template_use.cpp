#include "server/template_use.h"

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>

#include "base/error.h"
#include "base/name_list.h"
#include "server/api_error.h"
#include "server/generation_request.h"

namespace lacuna {
namespace {

/// Common template variables, which clients send even if a template does not read them.
constexpr std::string_view kVariables =
    "enable_thinking thinking reasoning_effort thinking_budget reasoning_budget preserve_thinking "
    "clear_thinking keep_past_thinking add_vision_id date_string strftime_now";

bool is_of_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

class TemplateUse {
 public:
  /// Both must outlive this object. If the prompt is not a conversation, no member is shown.
  TemplateUse(const ChatTemplate& chat_template, const Prompt& prompt)
      : template_(chat_template), conversation_(std::get_if<Conversation>(&prompt)) {}

  bool shows_member(std::string_view name);
  void note_variables(const nlohmann::ordered_json& body, GenerationRequest& request) const;

 private:
  bool has_word(std::string_view name) const;
  std::string text_of(const Conversation& conversation) const;

  const ChatTemplate& template_;
  const Conversation* conversation_;
  std::map<std::string, bool, std::less<>> shown_;  // by tried name
};

bool TemplateUse::has_word(std::string_view name) const {
  const std::string_view program = template_.program();
  for (size_t at = program.find(name); at != program.npos && !name.empty(); at = program.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at == 0 || !is_of_word(program[at - 1])) && (end == program.size() || !is_of_word(program[end])))
      return true;
  }
  return false;
}

std::string TemplateUse::text_of(const Conversation& conversation) const {
  std::string text;
  for (const jinja::Piece& piece : template_.pieces(conversation)) text += piece.text;
  return text;
}

bool TemplateUse::shows_member(std::string_view name) {
  constexpr size_t kMaxTried = 4;
  if (conversation_ == nullptr || !has_word(name)) return false;
  const auto known = shown_.find(name);
  if (known != shown_.end()) return known->second;
  if (shown_.size() == kMaxTried) return true;
  bool& is_shown = shown_[std::string(name)];
  try {
    Conversation without = *conversation_;
    for (nlohmann::ordered_json& message : without.messages) {
      if (message.value("role", "") != "tool") message.erase(std::string(name));  // part of the call
    }
    is_shown = text_of(*conversation_) != text_of(without);
  } catch (const InputError&) {  // rendering the prompt reports the error
    is_shown = true;
  }
  return is_shown;
}

void TemplateUse::note_variables(const nlohmann::ordered_json& body, GenerationRequest& request) const {
  if (conversation_ == nullptr) return;
  for (const auto& [key, value] : conversation_->keywords.items()) {
    const bool asks_for_none = key == "reasoning_effort" && value == "none";  // sets enable_thinking, too
    if (has_word(key) || value.is_null() || asks_for_none) continue;
    const bool is_field = find_value(body, key) != nullptr;
    const bool is_effort = key == "reasoning_effort" && find_value(body, "chat_template_kwargs") == nullptr;
    std::string place = is_field ? key : is_effort ? "reasoning.effort" : "chat_template_kwargs." + key;
    if (!is_field && !has_name(kVariables, key)) {
      add_unknown(std::move(place), request);
    } else if (!asks_for_nothing(value)) {
      leave_out(std::move(place), request);
    }
  }
  if (!conversation_->documents.empty() && !has_word("documents"))
    throw FieldError("documents", "documents: the chat template shows none; put their texts into a message");
}

}  // namespace

void note_members(const Dialect& dialect, const nlohmann::ordered_json& body,
                  const ChatTemplate& chat_template, GenerationRequest& request) {
  std::function<bool(std::string_view)> is_shown;
  if (request.prompts.empty())
    return note_object_fields(body, dialect.objects, dialect.fields(), {}, request);
  TemplateUse use(chat_template, request.prompts.front());
  use.note_variables(body, request);
  if (&dialect == &kOpenAiChat) is_shown = [&](std::string_view name) { return use.shows_member(name); };
  note_object_fields(body, dialect.objects, dialect.fields(), is_shown, request);
}

}  // namespace lacuna
