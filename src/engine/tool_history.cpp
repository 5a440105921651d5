#include "engine/tool_history.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "constraint/json_texts.h"

namespace lacuna {
namespace {

constexpr size_t kMostArgumentValues = size_t{1} << 18;  // values in the JSON, at every level

std::string arguments_text(const std::string& arguments, const std::string& place) {
  if (arguments.empty()) return "{}";  // as some clients send them for functions without parameters
  const nlohmann::ordered_json value = parse_ordered_json(arguments, place, kMostArgumentValues);
  if (!value.is_object())
    throw InputError("{} is {}; expected the JSON text of an object", place, in_quotes(arguments));
  return json_text(value, JsonLayout::kSpaced);
}

}  // namespace

void expect_call_id(const std::string& id, std::string_view place) {
  if (id.empty() || id.size() > kMostCallIdBytes)
    throw InputError("{} is {}; expected 1 to {} bytes", place, in_quotes(id), kMostCallIdBytes);
}

ToolCall checked_call(const std::string& name, std::string_view name_place, const std::string& arguments,
                      std::string_view arguments_place) {
  if (!is_function_name(name))
    throw InputError("{} is {}; expected 1 to {} letters, digits, underscores and hyphens", name_place,
                     in_quotes(name), kMaxFunctionName);
  return {name, arguments_text(arguments, std::string(arguments_place))};
}

ToolCall ToolHistory::call(const std::string& id, std::string_view id_place, const std::string& name,
                           std::string_view name_place, const std::string& arguments,
                           std::string_view arguments_place) {
  expect_call_id(id, id_place);
  ToolCall call = checked_call(name, name_place, arguments, arguments_place);
  ids_.insert(id);
  return call;
}

void ToolHistory::add_result(const std::string& id, std::string_view id_place, const std::string& content,
                             std::vector<Message>& messages) {
  if (!ids_.contains(id))
    throw InputError("{} is {}; expected the id of a call in an earlier message", id_place, in_quotes(id));
  add_result(content, messages);
}

void ToolHistory::add_result(const std::string& content, std::vector<Message>& messages) {
  if (behind_results_ > 0 && behind_results_ == messages.size()) {
    messages.back().content += "\n" + tool_response(content);
    return;
  }
  messages.push_back({"user", tool_response(content)});
  behind_results_ = messages.size();
}

}  // namespace lacuna
