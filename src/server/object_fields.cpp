#include "server/object_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "base/name_list.h"
#include "server/generation_request.h"

namespace lacuna {
namespace {

using nlohmann::ordered_json;

// Chats, completions and infills. The chat template gets messages unchanged.
constexpr ObjectFields kOpenAi[] = {
    {"stream_options", "", "include_usage", "include_obfuscation continuous_usage_stats"},
    {"response_format", "text", "type"},
    {"response_format", "json_object", "type schema"},
    {"response_format", "json_schema", "type json_schema schema strict name", "description"},
    {"response_format", "regex", "type pattern"},
    {"response_format", "grammar", "type grammar"},
    {"response_format.json_schema", "", "name schema strict", "description"},
    {"structured_outputs", "", "json regex choice grammar json_object structural_tag whitespace_pattern",
     "disable_fallback disable_any_whitespace disable_additional_properties"},
    {"tools.*", "function ?", "type function", "cache_control defer_loading"},
    {"tools.*.function", "", "name description parameters strict", "cache_control"},
    {"tool_choice", "allowed_tools", "type allowed_tools"},
    {"tool_choice", "", "type function"},
    {"tool_choice.function", "", "name"},
    {"tool_choice.allowed_tools", "", "mode tools"},
    {"tool_choice.allowed_tools.tools.*", "", "type function"},
    {"tool_choice.allowed_tools.tools.*.function", "", "name"},
    {"messages.*", "", "role content tool_call_id tool_calls function_call prefix",
     "name refusal audio annotations reasoning reasoning_content reasoning_details thinking thinking_blocks "
     "parsed weight cache_control provider_specific_fields"},
    {"messages.*.content.*", "text", "type text", "cache_control annotations citations"},
    {"messages.*.content.*", "refusal", "type refusal"},
    {"messages.*.tool_calls.*", "custom", "id type custom", "index"},
    {"messages.*.tool_calls.*", "", "id type function", "index extra_content cache_control"},
    {"messages.*.tool_calls.*.custom", "", "name input"},
    {"messages.*.tool_calls.*.function", "", "name arguments", "parsed_arguments"},
    {"prompt", "", "prompt_string multimodal_data"},
    {"prompt.*", "", "prompt_string multimodal_data"},
    {"input.*", "", "hole tokens"},
    {"input.*.hole", "", "min max"},
};

constexpr std::string_view kTextTypes = "input_text output_text text";
constexpr ObjectFields kResponses[] = {
    {"text", "", "format", "verbosity"},
    {"reasoning", "", "effort", "summary generate_summary"},
    {"stream_options", "", "include_obfuscation"},
    {"text.format", "text json_object", "type"},
    {"text.format", "json_schema", "type name schema strict", "description"},
    {"tools.*", "function ?", "type name description parameters strict",
     "defer_loading allowed_callers output_schema cache_control"},
    {"tool_choice", "allowed_tools", "type mode tools"},
    {"tool_choice", "", "type name"},
    {"tool_choice.tools.*", "", "type name"},
    {"input.*", "message ?", "type role content id status", "phase name"},
    {"input.*", "function_call", "type call_id name arguments id status",
     "namespace caller created_by parsed_arguments"},
    {"input.*", "function_call_output", "type call_id output id status", "name caller created_by"},
    {"input.*.content.*", kTextTypes, "type text", "annotations logprobs cache_control"},
    {"input.*.content.*", "refusal", "type refusal"},
    {"input.*.output.*", kTextTypes, "type text", "annotations logprobs cache_control"},
};

constexpr ObjectFields kMessages[] = {
    {"system.*", "", "type text", "cache_control citations"},
    {"messages.*", "", "role content"},
    {"messages.*.content.*", "text", "type text", "cache_control citations"},
    {"messages.*.content.*", "document", "type source", "cache_control title context citations"},
    {"messages.*.content.*", "search_result", "type content", "cache_control title source citations"},
    {"messages.*.content.*", "tool_use", "type id name input", "cache_control caller"},
    {"messages.*.content.*", "tool_result", "type tool_use_id content", "cache_control is_error"},
    {"messages.*.content.*.source", "text", "type media_type data"},
    {"messages.*.content.*.source", "content", "type content"},
    {"messages.*.content.*.source.content.*", "text", "type text", "cache_control citations"},
    {"messages.*.content.*.content.*", "text", "type text", "cache_control citations"},
    {"messages.*.content.*.content.*", "document", "type source", "cache_control title context citations"},
    {"messages.*.content.*.content.*", "search_result", "type content",
     "cache_control title source citations"},
    {"messages.*.content.*.content.*.source", "text", "type media_type data"},
    {"messages.*.content.*.content.*.source", "content", "type content"},
    {"messages.*.content.*.content.*.source.content.*", "text", "type text", "cache_control citations"},
    {"messages.*.content.*.content.*.content.*", "text", "type text", "cache_control citations"},
    {"tools.*", "custom ?", "type name description input_schema strict",
     "cache_control defer_loading allowed_callers input_examples eager_input_streaming"},
    {"tool_choice", "", "type name disable_parallel_tool_use"},
    {"thinking", "", "type budget_tokens display"},
    {"output_config", "", "format", "effort task_budget"},
    {"output_config.format", "", "type schema strict", "name description"},
    {"output_format", "", "type schema strict", "name description"},
};

// The members of "options" have their own list of fields.
constexpr ObjectFields kOllama[] = {
    {"messages.*", "", "role content tool_calls tool_name tool_call_id images", "thinking name"},
    {"messages.*.content.*", "", "type text"},
    {"messages.*.tool_calls.*", "", "id type function", "index"},
    {"messages.*.tool_calls.*.function", "", "name arguments", "index"},
    {"tools.*", "function ?", "type function", "items"},
    {"tools.*.function", "", "name description parameters strict"},
};

/// Visits the objects at one path and reports their members.
class Walk {
 public:
  Walk(std::span<const ObjectFields> rows, const std::function<bool(std::string_view)>& is_shown,
       GenerationRequest& request)
      : rows_(rows), is_shown_(rows.front().path == "messages.*" ? &is_shown : nullptr), request_(request) {}

  ///   rest  rest of the path: "*.function"
  void at(const ordered_json& value, std::string_view rest, const std::string& place) {
    if (rest.empty()) return name_members(value, place);
    const std::string_view step = rest.substr(0, rest.find('.'));
    rest.remove_prefix(std::min(step.size() + 1, rest.size()));
    if (step == "*") {
      if (!value.is_array()) return;
      for (size_t i = 0; i < value.size(); ++i) at(value[i], rest, fmt::format("{}.{}", place, i));
    } else if (value.is_object()) {
      const ordered_json* member = find_value(value, step);
      if (member != nullptr)
        at(*member, rest, place.empty() ? std::string(step) : fmt::format("{}.{}", place, step));
    }
  }

 private:
  void name_members(const ordered_json& object, const std::string& place) {
    if (!object.is_object()) return;
    const ordered_json* type = find_value(object, "type");
    const std::string_view word =
        type != nullptr && type->is_string() ? std::string_view(type->get_ref<const std::string&>()) : "?";
    const auto row = std::ranges::find_if(
        rows_, [&](const ObjectFields& each) { return each.types.empty() || has_name(each.types, word); });
    if (row == rows_.end()) return;
    for (const auto& [key, value] : object.items()) {
      if (value.is_null() || has_name(row->names, key)) continue;
      const bool is_hint = has_name(row->hints, key);
      if (is_hint && asks_for_nothing(value)) continue;
      if (named_.contains(key)) continue;
      if (is_shown_ != nullptr && *is_shown_ && (*is_shown_)(key)) continue;
      if (named_.size() < kMaxNames) named_.insert(key);
      const bool is_listed = row->path.find('*') != std::string_view::npos;
      std::string name = is_hint && is_listed ? key : fmt::format("{}.{}", place, key);
      is_hint ? leave_out(std::move(name), request_) : add_unknown(std::move(name), request_);
    }
  }

  static constexpr size_t kMaxNames = 1'024;
  std::span<const ObjectFields> rows_;
  const std::function<bool(std::string_view)>* is_shown_;
  GenerationRequest& request_;
  std::set<std::string> named_;  // members that were already reported
};

}  // namespace

constinit const std::span<const ObjectFields> kOpenAiObjects = kOpenAi, kResponsesObjects = kResponses,
                                              kMessagesObjects = kMessages, kOllamaObjects = kOllama;

void note_object_fields(const ordered_json& body, std::span<const ObjectFields> objects, RequestFields fields,
                        const std::function<bool(std::string_view)>& is_shown, GenerationRequest& request) {
  while (!objects.empty()) {
    const std::string_view path = objects.front().path;
    const auto end = std::ranges::find_if(objects, [&](const ObjectFields& row) { return row.path != path; });
    const std::string_view first = path.substr(0, path.find('.'));
    const auto rows = objects.first(static_cast<size_t>(end - objects.begin()));
    if (has_field(fields, first)) Walk(rows, is_shown, request).at(body, path, "");
    objects = objects.subspan(rows.size());
  }
}

}  // namespace lacuna
