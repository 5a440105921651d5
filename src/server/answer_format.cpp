#include "server/answer_format.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "server/api_error.h"
#include "server/request_fields.h"

namespace lacuna {
namespace {

using nlohmann::ordered_json;

std::string text_of(const ordered_json& value, std::string_view place) {
  if (!value.is_string()) throw InputError("{} is {}; expected a string", place, shown(value));
  return value.get<std::string>();
}

std::string text_member(const ordered_json& object, const char* key, std::string_view place) {
  const ordered_json* value = find_value(object, key);
  if (value == nullptr) throw InputError("{}.{} is missing; expected a string", place, key);
  return text_of(*value, fmt::format("{}.{}", place, key));
}

/// A JSON schema, given as JSON or as its text.
JsonSchemaConstraint schema_of(const ordered_json& value, std::string_view place) {
  if (value.is_string()) return {value.get<std::string>()};
  if (!value.is_object() && !value.is_boolean())
    throw InputError("{} is {}; expected a JSON schema", place, shown(value));
  return {value.dump()};
}

void read_strict(const ordered_json& object, std::string_view place, JsonSchemaConstraint& constraint) {
  const ordered_json* strict = find_value(object, "strict");
  if (strict == nullptr) return;
  if (!strict->is_boolean())
    throw InputError("{}.strict is {}; expected true or false", place, shown(*strict));
  constraint.strict = strict->get<bool>();
}

ChoiceConstraint choices_of(const ordered_json& value, std::string_view place) {
  if (!value.is_array()) throw InputError("{} is {}; expected a list of strings", place, shown(value));
  ChoiceConstraint choices;
  for (const ordered_json& choice : value) choices.choices.push_back(text_of(choice, place));
  return choices;
}

[[noreturn]] void refuse_form(std::string_view place) {
  throw InputError("{} is not supported; expected a JSON schema, a regular expression, a grammar or choices",
                   place);
}

std::optional<Constraint> of_flat_format(const ordered_json& format, const std::string& place);

std::optional<Constraint> of_json_schema_format(const ordered_json& format) {
  const ordered_json* wrapper = find_value(format, "json_schema");
  if (wrapper == nullptr && find_value(format, "schema") != nullptr)
    return of_flat_format(format, "response_format");
  if (wrapper == nullptr || !wrapper->is_object())
    throw InputError("response_format.json_schema is missing; expected {{\"name\": ..., \"schema\": ...}}");
  const ordered_json* schema = find_value(*wrapper, "schema");
  if (schema == nullptr) throw InputError("response_format.json_schema.schema is missing");
  JsonSchemaConstraint constraint = schema_of(*schema, "response_format.json_schema.schema");
  read_strict(*wrapper, "response_format.json_schema", constraint);
  return constraint;
}

std::optional<Constraint> of_response_format(const ordered_json& format) {
  const ordered_json* type = find_value(format, "type");
  const std::string name = type != nullptr && type->is_string() ? type->get<std::string>() : "";
  if (name == "text") return {};
  if (name == "json_schema") return of_json_schema_format(format);
  if (name == "json_object") {
    const ordered_json* schema = find_value(format, "schema");  // llama.cpp
    if (schema != nullptr) return schema_of(*schema, "response_format.schema");
    return JsonObjectConstraint{};
  }
  if (name == "regex") return RegexConstraint{text_member(format, "pattern", "response_format")};
  if (name == "grammar") return GrammarConstraint{text_member(format, "grammar", "response_format")};
  throw InputError("response_format is {}; expected type text, json_object, json_schema, regex or grammar",
                   shown(format));
}

std::optional<Constraint> of_structured_outputs(const ordered_json& outputs) {
  if (!outputs.is_object()) throw InputError("structured_outputs is {}; expected an object", shown(outputs));
  std::vector<Constraint> found;
  for (const auto& [key, value] : outputs.items()) {
    const std::string place = "structured_outputs." + key;
    if (value.is_null() || value == ordered_json(false)) continue;
    if (key == "json") {
      found.emplace_back(schema_of(value, place));
    } else if (key == "regex") {
      found.emplace_back(RegexConstraint{text_of(value, place)});
    } else if (key == "choice") {
      found.emplace_back(choices_of(value, place));
    } else if (key == "json_object") {
      if (!value.is_boolean()) throw InputError("{} is {}; expected true or false", place, shown(value));
      found.emplace_back(JsonObjectConstraint{});
    } else if (key == "grammar") {
      found.emplace_back(GrammarConstraint{text_of(value, place)});
    } else if (key == "structural_tag" || key == "whitespace_pattern") {
      refuse_form(place);
    }
  }
  if (found.size() != 1)
    throw InputError(
        "structured_outputs names {} constraints; expected one of json, regex, choice, grammar and "
        "json_object",
        found.size());
  return found.front();
}

std::optional<Constraint> of_format(const ordered_json& format) {
  if (format == ordered_json("")) return {};
  if (format == ordered_json("json")) return JsonObjectConstraint{};
  if (!format.is_object())
    throw InputError("format is {}; expected \"json\" or a JSON schema", shown(format));
  return schema_of(format, "format");
}

/// Parses {"type": "json_schema", "schema": ...} of OpenAI's Responses ("text.format") and Anthropic
/// ("output_format").
std::optional<Constraint> of_flat_format(const ordered_json& format, const std::string& place) {
  const ordered_json* type = find_value(format, "type");
  if (type != nullptr && *type == "text") return {};
  if (type != nullptr && *type == "json_object") return JsonObjectConstraint{};
  if (type == nullptr || *type != "json_schema") {
    throw InputError("{} is {}; expected type text, json_object or json_schema", place, shown(format));
  }
  const ordered_json* schema = find_value(format, "schema");
  if (schema == nullptr) throw InputError("{}.schema is missing", place);
  JsonSchemaConstraint constraint = schema_of(*schema, place + ".schema");
  read_strict(format, place, constraint);
  return constraint;
}

/// Parses the member "format" of an object as of_flat_format() does.
std::optional<Constraint> of_format_within(const ordered_json& object, std::string_view place) {
  if (!object.is_object()) throw InputError("{} is {}; expected an object", place, shown(object));
  const ordered_json* format = find_value(object, "format");
  return format == nullptr ? std::nullopt : of_flat_format(*format, std::string(place) + ".format");
}

std::optional<Constraint> of_key(std::string_view key, const ordered_json& value) {
  if (key == "text" || key == "output_config") return of_format_within(value, key);
  if (key == "output_format") return of_flat_format(value, std::string(key));
  if (key == "response_format") return of_response_format(value);
  if (key == "structured_outputs") return of_structured_outputs(value);
  if (key == "format") return of_format(value);
  if (key == "guided_choice") return choices_of(value, key);
  if (key == "guided_regex" || key == "regex") return RegexConstraint{text_of(value, key)};
  if (key == "guided_json" || key == "json_schema") return schema_of(value, key);
  if (value == "") return {};  // llama.cpp's clients send "" for no grammar
  return GrammarConstraint{text_of(value, key)};
}

}  // namespace

std::optional<AnswerFormat> parse_answer_format(const ordered_json& body,
                                                std::span<const std::string_view> keys) {
  std::optional<AnswerFormat> format;
  for (const std::string_view key : keys) {
    const ordered_json* value = find_value(body, key);
    if (value == nullptr) continue;
    std::optional<Constraint> found = in_field(key, [&] { return of_key(key, *value); });
    if (!found) continue;
    if (format)
      throw FieldError(std::string(key),
                       fmt::format("{} and {} are both given; expected one of them", format->key, key));
    const bool is_within = key == "text" || key == "output_config";
    format = AnswerFormat{std::move(*found), is_within ? std::string(key) + ".format" : std::string(key)};
  }
  return format;
}

}  // namespace lacuna
