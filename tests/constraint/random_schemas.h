// Random JSON schemas, and a validator of its own for them.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace lacuna {

/// Schemas of the keywords that are honoured. "$defs" are at the root and refer to each other, themselves
/// included.
class RandomSchemas {
 public:
  using Json = nlohmann::ordered_json;

  explicit RandomSchemas(unsigned seed) : random_(seed) {}

  Json next() {
    Json root = schema(3);
    if (!root.is_object()) root = Json::object();
    root["$defs"] = {{"p", schema(1)}, {"q", schema(1)}};
    return root;
  }

 private:
  unsigned below(unsigned count) { return static_cast<unsigned>(random_() % count); }
  bool one_in(unsigned count) { return below(count) == 0; }
  int between(int first, int last) {
    return first + static_cast<int>(below(static_cast<unsigned>(last - first + 1)));
  }

  Json scalar() {
    switch (below(7)) {
      case 0:
        return nullptr;
      case 1:
        return one_in(2);
      case 2:
        return between(-12, 120);
      case 3:
        return between(-5, 5) / 4.0;
      case 4:
        return "";
      case 5:
        return "a \"quoted\"\n\\line";
      default:
        return std::string(1, "xyz"[below(3)]);
    }
  }

  /// A schema of items or members; others must not refer to themselves.
  Json part(int depth) {
    if (one_in(8)) return {{"$ref", one_in(3) ? "#" : one_in(2) ? "#/$defs/p" : "#/$defs/q"}};
    return schema(depth);
  }

  Json schema(int depth) {
    switch (below(depth > 0 ? 12 : 8)) {
      case 0:
        return one_in(2) ? Json::object() : Json(true);
      case 1:
        return {{"type", one_in(2) ? Json("boolean") : Json({"null", "boolean", "string"})}};
      case 2:
        return {{"enum", {scalar(), scalar(), scalar(), Json({{"k", scalar()}, {"l", {1, 2}}})}}};
      case 3:
        return {{"const", scalar()}};
      case 4:
      case 5:
        return string();
      case 6:
      case 7:
        return number();
      case 8:
        return list(depth);
      case 9:
        return combination(depth);
      default:
        return object(depth);
    }
  }

  Json string() {
    Json schema{{"type", "string"}};
    if (one_in(3)) schema["minLength"] = between(0, 4);
    if (one_in(2)) schema["maxLength"] = between(2, 6);
    if (one_in(3))
      schema["pattern"] =
          std::vector<std::string>{"^[a-c]*$", "x", "^(ab|ba)+", "[0-9]{2}$", "^a?b?c?$", "\\\\"}[below(6)];
    if (one_in(8)) schema["enum"] = {"ab", "abc", "x", "abab", "12"};
    return schema;
  }

  Json number() {
    Json schema{{"type", one_in(2) ? "integer" : "number"}};
    if (one_in(2)) schema[one_in(2) ? "minimum" : "exclusiveMinimum"] = between(-110, 5);
    if (one_in(2)) schema[one_in(2) ? "maximum" : "exclusiveMaximum"] = between(6, 1200);
    if (one_in(6)) schema["multipleOf"] = 1;
    return schema;
  }

  Json list(int depth) {
    Json schema{{"type", "array"}};
    if (!one_in(4)) schema["items"] = one_in(6) ? Json(false) : part(depth - 1);
    if (one_in(3)) schema["prefixItems"] = {part(depth - 1), part(depth - 1)};
    if (one_in(3)) schema["minItems"] = between(0, 2);
    if (one_in(2)) schema["maxItems"] = between(2, 4);
    return schema;
  }

  Json object(int depth) {
    Json schema{{"type", "object"}};
    for (int i = between(0, 4); i > 0; --i) {
      const std::string key = std::vector<std::string>{"a", "b", "c", "d\"e", "_"}[below(5)];
      schema["properties"][key] = part(depth - 1);
      if (one_in(2)) add_required(schema, key);
    }
    if (one_in(6)) add_required(schema, "extra");
    if (one_in(2)) schema["additionalProperties"] = one_in(3) ? Json(false) : part(depth - 1);
    if (one_in(8)) schema["maxProperties"] = between(3, 6);
    return schema;
  }

  static void add_required(Json& schema, const std::string& key) {
    Json& required = schema["required"];
    if (std::find(required.begin(), required.end(), key) == required.end()) required.push_back(key);
  }

  Json combination(int depth) {
    switch (below(4)) {
      case 0:
        return {{"anyOf", {schema(depth - 1), schema(depth - 1)}}};
      case 1:
        return {{"allOf", {object(depth), object(depth)}}};
      case 2: {
        Json schema = object(depth);
        schema["anyOf"] = {object(depth), this->schema(0)};
        return schema;
      }
      default: {
        Json one = object(depth), other = object(depth);
        one["properties"]["kind"] = {{"const", "one"}};
        other["properties"]["kind"] = {{"enum", {"two", "three"}}};
        add_required(one, "kind");
        add_required(other, "kind");
        return {{"oneOf", {one, other, {{"type", "string"}}}}};
      }
    }
  }

  std::mt19937 random_;
};

/// Validates against draft 2020-12, for the keywords of RandomSchemas.
class Validator {
 public:
  using Json = nlohmann::json;

  explicit Validator(Json root) : root_(std::move(root)) {}

  bool is_valid(const Json& value) const { return is_valid(value, root_); }

 private:
  static bool is_type(const Json& value, const std::string& type) {
    if (type == "integer")
      return value.is_number() && value.get<double>() == static_cast<double>(value.get<int64_t>());
    if (type == "number") return value.is_number();
    if (type == "null") return value.is_null();
    if (type == "boolean") return value.is_boolean();
    if (type == "string") return value.is_string();
    if (type == "array") return value.is_array();
    return value.is_object();
  }

  bool is_valid(const Json& value, const Json& schema) const {
    if (schema.is_boolean()) return schema.get<bool>();
    if (schema.contains("$ref")) {
      const std::string pointer = schema["$ref"].get<std::string>().substr(1);
      if (!is_valid(value, root_.at(Json::json_pointer(pointer)))) return false;
    }
    if (schema.contains("type")) {
      const Json& type = schema["type"];
      const bool has_type = type.is_string() ? is_type(value, type)
                                             : std::any_of(type.begin(), type.end(),
                                                           [&](const Json& t) { return is_type(value, t); });
      if (!has_type) return false;
    }
    if (schema.contains("const") && value != schema["const"]) return false;
    if (schema.contains("enum") &&
        std::find(schema["enum"].begin(), schema["enum"].end(), value) == schema["enum"].end())
      return false;
    return is_valid_combination(value, schema) && (!value.is_string() || is_valid_string(value, schema)) &&
           (!value.is_number() || is_valid_number(value, schema)) &&
           (!value.is_array() || is_valid_list(value, schema)) &&
           (!value.is_object() || is_valid_object(value, schema));
  }

  bool is_valid_combination(const Json& value, const Json& schema) const {
    const auto count = [&](const char* keyword) {
      const Json& branches = schema[keyword];
      return std::count_if(branches.begin(), branches.end(),
                           [&](const Json& branch) { return is_valid(value, branch); });
    };
    if (schema.contains("allOf") && count("allOf") != static_cast<std::ptrdiff_t>(schema["allOf"].size()))
      return false;
    if (schema.contains("anyOf") && count("anyOf") == 0) return false;
    return !schema.contains("oneOf") || count("oneOf") == 1;
  }

  static bool is_valid_string(const Json& value, const Json& schema) {
    const auto& text = value.get_ref<const std::string&>();
    const auto length = std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
    if (schema.contains("minLength") && length < schema["minLength"].get<int>()) return false;
    if (schema.contains("maxLength") && length > schema["maxLength"].get<int>()) return false;
    return !schema.contains("pattern") ||
           std::regex_search(text, std::regex(schema["pattern"].get<std::string>()));
  }

  static bool is_valid_number(const Json& value, const Json& schema) {
    const double number = value.get<double>();
    if (schema.contains("minimum") && number < schema["minimum"].get<double>()) return false;
    if (schema.contains("maximum") && number > schema["maximum"].get<double>()) return false;
    if (schema.contains("exclusiveMinimum") && number <= schema["exclusiveMinimum"].get<double>())
      return false;
    if (schema.contains("exclusiveMaximum") && number >= schema["exclusiveMaximum"].get<double>())
      return false;
    return !schema.contains("multipleOf") || is_type(value, "integer");
  }

  bool is_valid_list(const Json& value, const Json& schema) const {
    if (schema.contains("minItems") && value.size() < schema["minItems"].get<size_t>()) return false;
    if (schema.contains("maxItems") && value.size() > schema["maxItems"].get<size_t>()) return false;
    const size_t num_first = schema.contains("prefixItems") ? schema["prefixItems"].size() : 0;
    for (size_t i = 0; i < value.size(); ++i) {
      if (i < num_first && !is_valid(value[i], schema["prefixItems"][i])) return false;
      if (i >= num_first && schema.contains("items") && !is_valid(value[i], schema["items"])) return false;
    }
    return true;
  }

  bool is_valid_object(const Json& value, const Json& schema) const {
    if (schema.contains("maxProperties") && value.size() > schema["maxProperties"].get<size_t>())
      return false;
    if (schema.contains("required")) {
      for (const Json& key : schema["required"]) {
        if (!value.contains(key.get<std::string>())) return false;
      }
    }
    for (const auto& [key, member] : value.items()) {
      if (schema.contains("properties") && schema["properties"].contains(key)) {
        if (!is_valid(member, schema["properties"][key])) return false;
      } else if (schema.contains("additionalProperties") &&
                 !is_valid(member, schema["additionalProperties"])) {
        return false;
      }
    }
    return true;
  }

  Json root_;
};

}  // namespace lacuna
