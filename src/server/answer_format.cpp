#include "server/answer_format.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "server/api_request.h"

namespace lacuna {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::array<std::string_view, 10> kKeys = {
    "response_format", "structured_outputs", "guided_json", "guided_regex", "guided_choice",
    "guided_grammar",  "json_schema",        "regex",       "ebnf",         "format"};

std::string shown(const ordered_json& value) {
  return in_quotes(value.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
}

/// The value of a key that was given, and not as null.
const ordered_json* find(const ordered_json& object, std::string_view key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string text_of(const ordered_json& value, std::string_view place) {
  if (!value.is_string()) throw InputError("{} is {}; expected a string", place, shown(value));
  return value.get<std::string>();
}

/// A schema, or the text of one.
JsonSchemaConstraint schema_of(const ordered_json& value, std::string_view place) {
  if (value.is_string()) return {value.get<std::string>()};
  if (!value.is_object() && !value.is_boolean())
    throw InputError("{} is {}; expected a JSON schema", place, shown(value));
  return {value.dump()};
}

ChoiceConstraint choices_of(const ordered_json& value, std::string_view place) {
  if (!value.is_array()) throw InputError("{} is {}; expected a list of strings", place, shown(value));
  ChoiceConstraint choices;
  for (const ordered_json& choice : value) choices.choices.push_back(text_of(choice, place));
  return choices;
}

[[noreturn]] void refuse_grammar(std::string_view place) {
  throw InputError("{} is not supported; expected a JSON schema, a regular expression or choices", place);
}

std::optional<Constraint> of_json_schema_format(const ordered_json& format) {
  const ordered_json* wrapper = find(format, "json_schema");
  if (wrapper == nullptr || !wrapper->is_object())
    throw InputError("response_format.json_schema is missing; expected {{\"name\": ..., \"schema\": ...}}");
  const ordered_json* schema = find(*wrapper, "schema");
  if (schema == nullptr) throw InputError("response_format.json_schema.schema is missing");
  JsonSchemaConstraint constraint = schema_of(*schema, "response_format.json_schema.schema");
  if (const ordered_json* strict = find(*wrapper, "strict")) {
    if (!strict->is_boolean())
      throw InputError("response_format.json_schema.strict is {}; expected true or false", shown(*strict));
    constraint.strict = strict->get<bool>();
  }
  return constraint;
}

std::optional<Constraint> of_response_format(const ordered_json& format) {
  const ordered_json* type = format.is_object() ? find(format, "type") : nullptr;
  const std::string name = type != nullptr && type->is_string() ? type->get<std::string>() : "";
  if (name == "text") return {};
  if (name == "json_schema") return of_json_schema_format(format);
  if (name == "json_object") {
    const ordered_json* schema = find(format, "schema");  // llama.cpp
    if (schema != nullptr) return schema_of(*schema, "response_format.schema");
    return JsonObjectConstraint{};
  }
  throw InputError("response_format is {}; expected type text, json_object or json_schema", shown(format));
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
    } else if (key == "grammar" || key == "structural_tag" || key == "whitespace_pattern") {
      refuse_grammar(place);
    }
  }
  if (found.size() != 1)
    throw InputError(
        "structured_outputs names {} constraints; expected one of json, regex, choice and json_object",
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

std::optional<Constraint> of_key(std::string_view key, const ordered_json& value) {
  if (key == "response_format") return of_response_format(value);
  if (key == "structured_outputs") return of_structured_outputs(value);
  if (key == "format") return of_format(value);
  if (key == "guided_choice") return choices_of(value, key);
  if (key == "guided_regex" || key == "regex") return RegexConstraint{text_of(value, key)};
  if (key == "guided_json" || key == "json_schema") return schema_of(value, key);
  refuse_grammar(key);
}

}  // namespace

bool has_answer_format(const json& body) {
  return body.is_object() && std::any_of(kKeys.begin(), kKeys.end(), [&](std::string_view key) {
           const auto found = body.find(key);
           return found != body.end() && !found->is_null();
         });
}

std::optional<AnswerFormat> parse_answer_format(std::string_view text) {
  const ordered_json body = parse_ordered_json(text, "the body", kMostBodyValues);
  std::optional<AnswerFormat> format;
  for (const std::string_view key : kKeys) {
    const ordered_json* value = find(body, key);
    if (value == nullptr) continue;
    std::optional<Constraint> found = of_key(key, *value);
    if (!found) continue;
    if (format) throw InputError("{} and {} are both given; expected one of them", format->key, key);
    format = AnswerFormat{std::move(*found), key};
  }
  return format;
}

}  // namespace lacuna
