#include "constraint/schema_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "constraint/json_texts.h"

namespace lacuna {
namespace {

using nlohmann::ordered_json;

constexpr int kOutlineDepth = 8;

std::string shown(const ordered_json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  if (value.is_string()) return in_quotes(value.get_ref<const std::string&>());
  return value.dump();
}

/// A key as a part of a JSON pointer.
std::string escaped(std::string_view key) {
  std::string part;
  for (const char c : key) part += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return part;
}

/// The key that a part of a JSON pointer in a URI names.
std::string unescaped(std::string_view part) {
  std::string bytes;
  for (size_t i = 0; i < part.size(); ++i) {
    unsigned value = 0;
    if (part[i] == '%' && i + 2 < part.size() &&
        std::from_chars(part.data() + i + 1, part.data() + i + 3, value, 16).ptr == part.data() + i + 3) {
      bytes += static_cast<char>(value);
      i += 2;
    } else {
      bytes += part[i];
    }
  }
  std::string key;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const bool is_escape =
        bytes[i] == '~' && i + 1 < bytes.size() && (bytes[i + 1] == '0' || bytes[i + 1] == '1');
    key += is_escape ? (bytes[i + 1] == '0' ? '~' : '/') : bytes[i];
    if (is_escape) ++i;
  }
  return key;
}

/// Resolves one reference token of a JSON pointer: the member or item; null if it does not exist.
const ordered_json* child(const ordered_json& value, const std::string& key) {
  if (value.is_object()) {
    const auto found = value.find(key);
    return found == value.end() ? nullptr : &*found;
  }
  size_t index = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
  if (!value.is_array() || error != std::errc() || end != key.data() + key.size() || index >= value.size())
    return nullptr;
  return &value[index];
}

std::set<std::string> canonical(const std::vector<const ordered_json*>& values) {
  std::set<std::string> texts;
  for (const ordered_json* value : values) texts.insert(canonical_json(*value));
  return texts;
}

/// Whether all numbers are known exactly. Integers beyond 64 bits are read as doubles.
bool is_exact(const ordered_json& value) {
  constexpr double kLimit = 9007199254740992.0;  // 2^53
  if (value.is_number_float()) return std::abs(value.get<double>()) < kLimit;
  if (!value.is_structured()) return true;
  return std::all_of(value.begin(), value.end(), [](const ordered_json& part) { return is_exact(part); });
}

bool have_common(const std::set<std::string>& a, const std::set<std::string>& b) {
  return std::any_of(a.begin(), a.end(), [&](const std::string& text) { return b.contains(text); });
}

void narrow(std::optional<std::set<std::string>>& values, std::set<std::string> others) {
  if (values) std::erase_if(others, [&](const std::string& text) { return !values->contains(text); });
  values = std::move(others);
}

void add_to(SchemaOutline& outline, const SchemaReader& schema, int depth) {
  if (depth == 0 || !schema.value().is_object()) return;
  if (const auto types = schema.types()) outline.types &= *types;
  if (const auto values = schema.values()) {
    JsonTypes types = 0;
    for (const ordered_json* value : *values) types |= json_type(*value);
    outline.types &= types;
    narrow(outline.values, canonical(*values));
  }
  const std::vector<std::string> required = schema.texts("required");
  const std::set<std::string> is_required(required.begin(), required.end());
  for (const auto& [key, property] : schema.named_schemas("properties")) {
    if (!is_required.contains(key)) continue;
    SchemaOutline of_property;
    add_to(of_property, property, depth - 1);
    if (of_property.values) outline.tags[key] = *of_property.values;
  }
  if (const auto target = schema.reference()) add_to(outline, *target, depth - 1);
  for (const SchemaReader& part : schema.schemas("allOf")) add_to(outline, part, depth - 1);
}

}  // namespace

JsonTypes json_type(const ordered_json& value) {
  switch (value.type()) {
    case ordered_json::value_t::null:
      return kTypeNull;
    case ordered_json::value_t::boolean:
      return kTypeBoolean;
    case ordered_json::value_t::string:
      return kTypeString;
    case ordered_json::value_t::array:
      return kTypeArray;
    case ordered_json::value_t::object:
      return kTypeObject;
    case ordered_json::value_t::number_float:
      return value.get<double>() == std::trunc(value.get<double>()) ? kTypeInteger : kTypeFraction;
    default:
      return kTypeInteger;
  }
}

std::string canonical_json(const ordered_json& value) {
  const nlohmann::json sorted = value;
  return json_text(ordered_json(sorted), JsonLayout::kCompact);
}

SchemaReader SchemaReader::at(const ordered_json& value, const std::string& path) const {
  SchemaReader reader = *this;
  reader.value_ = &value;
  reader.path_ = path;
  return reader;
}

std::string SchemaReader::path_of(std::string_view keyword) const {
  return path_ + "/" + escaped(keyword);
}

const ordered_json* SchemaReader::find(std::string_view keyword) const {
  if (!value_->is_object()) return nullptr;
  const auto found = value_->find(keyword);
  return found == value_->end() ? nullptr : &*found;
}

void SchemaReader::refuse(std::string_view keyword, std::string_view expected) const {
  const ordered_json* value = find(keyword);
  throw InputError("{}: {} is {}; expected {}", *name_, in_quotes(path_of(keyword)),
                   value ? shown(*value) : "missing", expected);
}

void SchemaReader::refuse_unsupported(std::string_view keyword, std::string_view instead) const {
  throw InputError("{}: {} is not supported{}{}", *name_, in_quotes(path_of(keyword)),
                   instead.empty() ? "" : "; ", instead);
}

namespace {

/// Whether a schema of keys says no more than that they are strings, as schema libraries write it.
bool takes_any_string(const ordered_json& schema) {
  if (!schema.is_object()) return schema == true;
  constexpr std::array<std::string_view, 4> kNotes = {"title", "description", "$comment", "$schema"};
  for (const auto& [keyword, value] : schema.items()) {
    const bool is_string = value == "string" || (value.is_array() && std::find(value.begin(), value.end(),
                                                                               "string") != value.end());
    const bool is_note = std::find(kNotes.begin(), kNotes.end(), keyword) != kNotes.end();
    const bool is_least = keyword == "minLength" && value == 0;
    if (!is_note && !is_least && !(keyword == "type" && is_string)) return false;
  }
  return true;
}

}  // namespace

void SchemaReader::check() const {
  if (!value_->is_object() && !value_->is_boolean())
    throw InputError("{}: {} is {}; expected an object, true or false", *name_, in_quotes(path_),
                     shown(*value_));
  constexpr std::array<std::string_view, 13> kUnsupported{"not",
                                                          "if",
                                                          "dependentRequired",
                                                          "dependentSchemas",
                                                          "dependencies",
                                                          "contains",
                                                          "patternProperties",
                                                          "propertyNames",
                                                          "unevaluatedProperties",
                                                          "unevaluatedItems",
                                                          "$dynamicRef",
                                                          "$recursiveRef",
                                                          "extends"};
  for (const std::string_view keyword : kUnsupported) {
    const ordered_json* value = find(keyword);
    if (!value) continue;
    const bool says_nothing = (keyword.starts_with("unevaluated") && *value == true) ||
                              (keyword == "propertyNames" && takes_any_string(*value));
    const bool is_empty = (keyword.starts_with("depend") || keyword == "patternProperties") &&
                          value->is_object() && value->empty();
    if (!says_nothing && !is_empty) refuse_unsupported(keyword);
  }
  // A base of its own changes what the references below it mean.
  if (value_ != document_ && has("$id")) refuse_unsupported("$id", "only the root may have one");
}

std::optional<int64_t> SchemaReader::count(std::string_view keyword) const {
  constexpr double kLargest = 2147483648.0;
  const ordered_json* value = number(keyword);
  if (!value) return std::nullopt;
  const double number = value->get<double>();
  if (number < 0 || number != std::trunc(number)) refuse(keyword, "an integer of at least 0");
  return static_cast<int64_t>(std::min(number, kLargest));
}

std::optional<std::string> SchemaReader::text(std::string_view keyword) const {
  const ordered_json* value = find(keyword);
  if (!value) return std::nullopt;
  if (!value->is_string()) refuse(keyword, "text");
  return value->get<std::string>();
}

std::vector<std::string> SchemaReader::texts(std::string_view keyword) const {
  const ordered_json* value = find(keyword);
  if (!value) return {};
  if (!value->is_array()) refuse(keyword, "a list of texts");
  std::vector<std::string> texts;
  for (const ordered_json& item : *value) {
    if (!item.is_string()) refuse(keyword, "a list of texts");
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

std::optional<SchemaReader> SchemaReader::schema(std::string_view keyword) const {
  const ordered_json* value = find(keyword);
  if (!value) return std::nullopt;
  return at(*value, path_of(keyword));
}

std::vector<SchemaReader> SchemaReader::schemas(std::string_view keyword) const {
  const ordered_json* value = find(keyword);
  if (!value) return {};
  if (!value->is_array()) refuse(keyword, "a list of schemas");
  std::vector<SchemaReader> schemas;
  for (size_t i = 0; i < value->size(); ++i) {
    schemas.push_back(at((*value)[i], fmt::format("{}/{}", path_of(keyword), i)));
  }
  return schemas;
}

std::vector<std::pair<std::string, SchemaReader>> SchemaReader::named_schemas(
    std::string_view keyword) const {
  const ordered_json* value = find(keyword);
  if (!value) return {};
  if (!value->is_object()) refuse(keyword, "an object of schemas");
  std::vector<std::pair<std::string, SchemaReader>> schemas;
  for (const auto& [key, schema] : value->items()) {
    schemas.emplace_back(key, at(schema, path_of(keyword) + "/" + escaped(key)));
  }
  return schemas;
}

bool SchemaReader::is_true(std::string_view keyword) const {
  const ordered_json* value = find(keyword);
  if (!value) return false;
  if (!value->is_boolean()) refuse(keyword, "true or false");
  return value->get<bool>();
}

const ordered_json* SchemaReader::number(std::string_view keyword) const {
  const ordered_json* value = find(keyword);
  if (value && !value->is_number()) refuse(keyword, "a number");
  return value;
}

std::optional<JsonTypes> SchemaReader::types() const {
  constexpr std::array<std::pair<std::string_view, JsonTypes>, 7> kNames{
      {{"null", kTypeNull},
       {"boolean", kTypeBoolean},
       {"integer", kTypeInteger},
       {"number", kTypeInteger | kTypeFraction},
       {"string", kTypeString},
       {"array", kTypeArray},
       {"object", kTypeObject}}};
  const ordered_json* value = find("type");
  if (!value) return std::nullopt;
  JsonTypes types = 0;
  const auto add = [&](const ordered_json& name) {
    const auto* known = std::find_if(kNames.begin(), kNames.end(), [&](const auto& entry) {
      return name.is_string() && entry.first == name.get_ref<const std::string&>();
    });
    if (known == kNames.end())
      refuse("type", "null, boolean, integer, number, string, array, object, or a list of them");
    types |= known->second;
  };
  if (value->is_array()) {
    for (const ordered_json& name : *value) add(name);
  } else {
    add(*value);
  }
  return types;
}

JsonTypes SchemaReader::described_types() const {
  struct Keyword {
    std::string_view name;
    JsonTypes types;
  };
  constexpr JsonTypes kNumbers = kTypeInteger | kTypeFraction;
  constexpr std::array<Keyword, 20> kKeywords{
      {{"minLength", kTypeString},     {"maxLength", kTypeString},     {"pattern", kTypeString},
       {"format", kTypeString},        {"minimum", kNumbers},          {"maximum", kNumbers},
       {"exclusiveMinimum", kNumbers}, {"exclusiveMaximum", kNumbers}, {"multipleOf", kNumbers},
       {"items", kTypeArray},          {"prefixItems", kTypeArray},    {"additionalItems", kTypeArray},
       {"minItems", kTypeArray},       {"maxItems", kTypeArray},       {"uniqueItems", kTypeArray},
       {"properties", kTypeObject},    {"required", kTypeObject},      {"additionalProperties", kTypeObject},
       {"minProperties", kTypeObject}, {"maxProperties", kTypeObject}}};
  JsonTypes types = 0;
  for (const Keyword& keyword : kKeywords) {
    if (has(keyword.name)) types |= keyword.types;
  }
  return types;
}

std::optional<std::vector<const ordered_json*>> SchemaReader::values() const {
  std::optional<std::vector<const ordered_json*>> values;
  if (const ordered_json* list = find("enum")) {
    if (!list->is_array()) refuse("enum", "a list of values");
    values.emplace();
    for (const ordered_json& value : *list) values->push_back(&value);
    if (!is_exact(*list)) refuse("enum", "numbers that 64 bits hold exactly");
  }
  if (const ordered_json* constant = find("const")) {
    if (!is_exact(*constant)) refuse("const", "numbers that 64 bits hold exactly");
    const bool is_listed =
        !values || std::any_of(values->begin(), values->end(), [&](const ordered_json* value) {
          return canonical_json(*value) == canonical_json(*constant);
        });
    values.emplace();
    if (is_listed) values->push_back(constant);
  }
  return values;
}

std::optional<SchemaReader> SchemaReader::reference() const {
  const std::optional<std::string> target = text("$ref");
  if (!target) return std::nullopt;
  if (!target->starts_with("#") || (target->size() > 1 && (*target)[1] != '/'))
    refuse("$ref", "a JSON pointer into the same schema (\"#/$defs/...\")");
  const ordered_json* value = document_;
  std::string_view rest = std::string_view(*target).substr(1);
  while (!rest.empty()) {
    rest.remove_prefix(1);  // "/"
    const size_t end = std::min(rest.find('/'), rest.size());
    value = child(*value, unescaped(rest.substr(0, end)));
    if (!value) refuse("$ref", "the place of a schema in the same document");
    rest.remove_prefix(end);
    if (!rest.empty() && value->is_object() && value->contains("$id"))
      refuse("$ref", "a place that is not within a schema with an \"$id\" of its own");
  }
  return at(*value, *target);
}

SchemaOutline outline(const SchemaReader& schema) {
  SchemaOutline outline;
  add_to(outline, schema, kOutlineDepth);
  return outline;
}

bool are_disjoint(const SchemaOutline& a, const SchemaOutline& b) {
  const JsonTypes common = a.types & b.types;
  if (common == 0) return true;
  if (a.values && b.values && !have_common(*a.values, *b.values)) return true;
  if (common != kTypeObject) return false;
  return std::any_of(a.tags.begin(), a.tags.end(), [&](const auto& tag) {
    const auto other = b.tags.find(tag.first);
    return other != b.tags.end() && !have_common(tag.second, other->second);
  });
}

}  // namespace lacuna
