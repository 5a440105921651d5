#include "server/prompts.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/api_error.h"

namespace lacuna {
namespace {

using nlohmann::ordered_json;

bool has_any(const ordered_json& list, bool (ordered_json::*is_kind)() const noexcept) {
  return std::any_of(list.begin(), list.end(), [&](const ordered_json& each) { return (each.*is_kind)(); });
}

Prompt read_prompt(const FieldValue& field) {
  const ordered_json& value = field.value;
  if (value.is_string()) return field.text();
  if (find_value(value, "prompt_string") != nullptr) {
    GenerationRequest unused;
    if (find_value(value, "multimodal_data") != nullptr) refuse_field(field.at("multimodal_data"), unused);
    return read_prompt(field.at("prompt_string"));
  }
  if (!value.is_array() || !has_any(value, &ordered_json::is_string)) return parse_tokens(value, field.place);
  MixedPrompt mixed;
  for (size_t i = 0; i < value.size(); ++i) {
    if (value[i].is_string()) {
      mixed.parts.emplace_back(value[i].get<std::string>());
    } else {
      const std::string place = fmt::format("{}.{}", field.place, i);
      mixed.parts.emplace_back(parse_tokens(ordered_json::array({value[i]}), place).front());
    }
  }
  return mixed;
}

}  // namespace

void read_prompts(const FieldValue& field, GenerationRequest& request) {
  const ordered_json& value = field.value;
  const bool is_list = value.is_array() && !value.empty() && !has_any(value, &ordered_json::is_number);
  if (!is_list) {
    request.prompts.push_back(read_prompt(field));
    return;
  }
  for (size_t i = 0; i < value.size(); ++i)
    request.prompts.push_back(read_prompt({fmt::format("{}.{}", field.place, i), value[i]}));
}

void read_num_choices(const FieldValue& field, GenerationRequest& request) {
  const auto count = static_cast<int32_t>(field.integer(1, kMaxRequestChoices));
  const auto before = request.keys.find("num_choices");
  if (before != request.keys.end() && request.num_choices != count)
    refuse_contradiction(before->second, field.place);
  request.num_choices = count;
  request.keys["num_choices"] = field.place;
}

void check_num_answers(const GenerationRequest& request) {
  const auto check = [&](const char* key, int32_t count) {
    if (request.prompts.size() * static_cast<size_t>(count) <= size_t{kMaxRequestChoices}) return;
    throw FieldError(key, fmt::format("{} is {} for {} prompts; expected at most {} answers in all", key,
                                      count, request.prompts.size(), kMaxRequestChoices));
  };
  check("best_of", request.num_candidates);
  const auto key = request.keys.find("num_choices");
  check(key == request.keys.end() ? "n" : key->second.c_str(), request.num_choices);
}

void continue_last_message(const std::string& place, Conversation& conversation) {
  nlohmann::ordered_json& messages = conversation.messages;
  const auto refuse = [&](std::string_view sentence) {
    throw FieldError(place, fmt::format("{}: {}", place, sentence));
  };
  if (messages.empty() || messages.back().value("role", "") != "assistant")
    refuse("the answer can continue the assistant's message alone, and the last one is another's");
  if (messages.back().contains("tool_calls"))
    refuse("the assistant's last message has calls; expected their results after it");
  if (messages.size() == 1) refuse("the assistant's is the only message; expected the user's before it");
  conversation.continuation = content_text(messages.back());
  conversation.add_generation_prompt = true;
  messages.erase(messages.size() - 1);
}

}  // namespace lacuna
