#include "constraint/schema_negation.h"

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/budget.h"

namespace lacuna {
namespace {

using nlohmann::ordered_json;

constexpr size_t kStepsPerCopiedValue = 30, kBytesPerCopiedValue = 96;

/// A copy; its cost is charged to the Budget.
ordered_json copied(const ordered_json& value) {
  const auto charge = [](const auto& self, const ordered_json& part) -> void {
    spend_steps(kStepsPerCopiedValue);
    spend_bytes(kBytesPerCopiedValue + (part.is_string() ? part.get_ref<const std::string&>().size() : 0));
    if (!part.is_structured()) return;
    for (const ordered_json& child : part) self(self, child);
  };
  charge(charge, value);
  return value;
}

ordered_json not_of(const ordered_json& schema) {
  return {{"not", copied(schema)}};
}

ordered_json object_with(std::string_view key, ordered_json schema) {
  return {{"type", "object"},
          {"properties", {{std::string(key), std::move(schema)}}},
          {"required", ordered_json::array({std::string(key)})}};
}

ordered_json object_without(std::string_view key) {
  return {{"type", "object"}, {"properties", {{std::string(key), false}}}};
}

/// Collects the ways in which a value can violate a schema.
class Violations {
 public:
  explicit Violations(const SchemaReader& schema) : schema_(schema) {}

  ordered_json find() {
    types();
    if (const ordered_json* list = schema_.find("enum")) parts_.push_back({{kNotListed, copied(*list)}});
    if (const ordered_json* value = schema_.find("const"))
      parts_.push_back({{kNotListed, ordered_json::array({copied(*value)})}});
    schema_.values();  // checks their form
    strings();
    numbers();
    lists();
    objects();
    dependencies();
    combinations();
    // A "not" within a "not" negates a derived schema.
    if (const ordered_json* values = schema_.find(kNotListed)) parts_.push_back({{"enum", copied(*values)}});
    if (const auto pattern = schema_.text(kNotPattern))
      parts_.push_back({{"type", "string"}, {"pattern", *pattern}});
    if (const ordered_json* divisor = schema_.find(kNotMultipleOf))
      parts_.push_back({{"type", "number"}, {"multipleOf", *divisor}});
    if (const ordered_json* target = schema_.find(kNotReference)) parts_.push_back({{"$ref", *target}});
    return parts_.empty() ? ordered_json(false) : ordered_json{{"anyOf", std::move(parts_)}};
  }

 private:
  void types() {
    const auto own = schema_.types();
    if (!own) return;
    constexpr std::array<std::pair<std::string_view, JsonTypes>, 7> kNames{{{"null", kTypeNull},
                                                                            {"boolean", kTypeBoolean},
                                                                            {"integer", kTypeInteger},
                                                                            {kFractionType, kTypeFraction},
                                                                            {"string", kTypeString},
                                                                            {"array", kTypeArray},
                                                                            {"object", kTypeObject}}};
    ordered_json others = ordered_json::array();
    for (const auto& [name, type] : kNames) {
      if ((*own & type) == 0) others.push_back(name);
    }
    if (!others.empty()) parts_.push_back({{"type", std::move(others)}});
  }

  /// Adds a count below the value of `least` and one above the value of `most`.
  void counts(std::string_view type, std::string_view least, std::string_view most) {
    if (const auto count = schema_.count(least); count && *count > 0)
      parts_.push_back({{"type", type}, {most, *count - 1}});
    if (const auto count = schema_.count(most)) parts_.push_back({{"type", type}, {least, *count + 1}});
  }

  void strings() {
    counts("string", "minLength", "maxLength");
    if (const auto pattern = schema_.text("pattern"))
      parts_.push_back({{"type", "string"}, {kNotPattern, *pattern}});
  }

  void numbers() {
    const auto beyond = [&](const char* bound, const char* excluded, const char* other,
                            const char* other_excluded) {
      const ordered_json* exclusive = schema_.find(excluded);
      const bool is_flag = exclusive != nullptr && exclusive->is_boolean();  // draft 4
      if (const ordered_json* value = schema_.number(bound))
        parts_.push_back(
            {{"type", "number"}, {is_flag && *exclusive == true ? other : other_excluded, *value}});
      if (exclusive == nullptr || is_flag) return;
      parts_.push_back({{"type", "number"}, {other, *schema_.number(excluded)}});
    };
    beyond("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum");
    beyond("maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum");
    const ordered_json* divisor = schema_.number("multipleOf");
    if (divisor != nullptr && divisor->get<double>() <= 0) schema_.refuse("multipleOf", "a number above 0");
    if (divisor != nullptr) parts_.push_back({{"type", "number"}, {kNotMultipleOf, *divisor}});
  }

  void lists() {
    counts("array", "minItems", "maxItems");
    const ordered_json* items = schema_.find("items");
    const bool is_tuple = items != nullptr && items->is_array();
    const ordered_json* first = is_tuple ? items : schema_.find("prefixItems");
    const ordered_json* rest = is_tuple ? schema_.find("additionalItems") : items;
    size_t num_first = 0;
    if (first != nullptr && first->is_array()) {
      num_first = first->size();
      for (size_t i = 0; i < num_first; ++i) {
        if ((*first)[i] == true) continue;
        ordered_json tuple = ordered_json::array();
        for (size_t k = 0; k < i; ++k) tuple.push_back(true);
        tuple.push_back(not_of((*first)[i]));
        parts_.push_back({{"type", "array"}, {"prefixItems", std::move(tuple)}, {"minItems", i + 1}});
      }
    }
    if (rest != nullptr && *rest == false) {
      parts_.push_back({{"type", "array"}, {"minItems", num_first + 1}});
    } else if (rest != nullptr && *rest != true && num_first == 0) {
      parts_.push_back({{"type", "array"}, {"contains", not_of(*rest)}});
    }
    contained();
  }

  void contained() {
    const ordered_json* contains = schema_.find("contains");
    if (contains == nullptr) return;
    const int64_t least = schema_.count("minContains").value_or(1);
    if (least > 0)
      parts_.push_back({{"type", "array"},
                        {"contains", copied(*contains)},
                        {"minContains", 0},
                        {"maxContains", least - 1}});
    if (const auto most = schema_.count("maxContains"))
      parts_.push_back({{"type", "array"}, {"contains", copied(*contains)}, {"minContains", *most + 1}});
  }

  void objects() {
    counts("object", "minProperties", "maxProperties");
    for (const std::string_view key : schema_.texts("required").texts) parts_.push_back(object_without(key));
    for (const auto& [key, property] : schema_.named_schemas("properties")) {
      if (property.value() != true) parts_.push_back(object_with(key, not_of(property.value())));
    }
  }

  void dependencies() {
    for (const char* keyword : {"dependentRequired", "dependentSchemas", "dependencies"}) {
      for (const auto& [key, dependent] : schema_.named_schemas(keyword)) {
        if (!dependent.value().is_array()) {
          ordered_json part = object_with(key, true);
          part["allOf"] = ordered_json::array({not_of(dependent.value())});
          parts_.push_back(std::move(part));
          continue;
        }
        for (const ordered_json& other : dependent.value()) {
          if (!other.is_string()) schema_.refuse(keyword, "lists of texts");
          ordered_json part = object_with(key, true);
          part["properties"][other.get<std::string>()] = false;
          parts_.push_back(std::move(part));
        }
      }
    }
  }

  void combinations() {
    if (const ordered_json* target = schema_.find("$ref")) parts_.push_back({{kNotReference, *target}});
    for (const SchemaReader& part : schema_.schemas("allOf")) parts_.push_back(not_of(part.value()));
    for (const char* keyword : {"anyOf", "oneOf"}) {
      if (!schema_.has(keyword)) continue;
      ordered_json none = ordered_json::array();
      for (const SchemaReader& part : schema_.schemas(keyword)) none.push_back(not_of(part.value()));
      parts_.push_back({{"allOf", std::move(none)}});
    }
    const auto branches = schema_.schemas("oneOf");
    for (size_t i = 0; i < branches.size(); ++i) {
      for (size_t k = 0; k < i; ++k) {
        parts_.push_back(
            {{"allOf", ordered_json::array({copied(branches[k].value()), copied(branches[i].value())})}});
      }
    }
    if (const ordered_json* inner = schema_.find("not"))
      parts_.push_back({{"allOf", ordered_json::array({copied(*inner)})}});
    const ordered_json* condition = schema_.find("if");
    if (condition == nullptr) return;
    if (const ordered_json* consequence = schema_.find("then"))
      parts_.push_back({{"allOf", ordered_json::array({copied(*condition), not_of(*consequence)})}});
    if (const ordered_json* otherwise = schema_.find("else"))
      parts_.push_back({{"allOf", ordered_json::array({not_of(*condition), not_of(*otherwise)})}});
  }

  const SchemaReader& schema_;
  ordered_json parts_ = ordered_json::array();
};

}  // namespace

ordered_json negation(const SchemaReader& schema) {
  schema.check();
  if (schema.value().is_boolean()) return !schema.value().get<bool>();
  return Violations(schema).find();
}

SchemaReader negated(const SchemaReader& schema) {
  return schema.derived_apart("not", [&] { return negation(schema); });
}

}  // namespace lacuna
