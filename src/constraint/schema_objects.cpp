// SchemaCompiler's member functions for objects.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/budget.h"
#include "base/json.h"
#include "constraint/finite_language.h"
#include "constraint/json_texts.h"
#include "constraint/schema_compiler.h"

namespace lacuna {

using nlohmann::ordered_json;

Expression SchemaCompiler::object(const Schemas& schemas) {
  std::unordered_set<std::string_view> required;
  const std::vector<std::string_view> keys = named_keys(schemas, required);
  const Counts count = counts(schemas, "minProperties", "maxProperties", kMaxItems);
  if (!count.is_possible()) return Expression::nothing();
  std::vector<Expression::Member> members;
  for (const std::string_view key : keys) {
    spend_steps(schemas.size() * kStepsPerPart);
    const bool is_required = required.contains(key);
    if (!is_name_allowed(schemas, key)) {
      if (is_required) return Expression::nothing();
      continue;
    }
    const Expression text = Expression::text(json_text(ordered_json(key), options_.layout));
    members.push_back({json_member(text, property(schemas, key), options_.layout), is_required});
  }
  if (keys.empty() && count.least > 1) return distinct_members(schemas, count);
  // Canonical objects with named keys have no free members.
  const Expression free =
      canonical_ > 0 && !keys.empty() ? Expression::nothing() : free_members(schemas, keys);
  if (!free.is_nothing()) {
    // Keys of free members may repeat, so several free members may count as one property.
    const bool needs_one = count.least > static_cast<int>(required.size());
    const std::optional<int> most = canonical_ > 0 ? std::optional<int>(1) : count.most;
    if (keys.empty()) return json_object(Expression::repeat(free, count.least, most, item_separator()));
    if (!most) {
      members.push_back({Expression::repeat(free, 1, std::nullopt, item_separator()), false});
    } else {
      for (int i = 0; i < (needs_one ? 1 : *most); ++i) members.push_back({free, false});
    }
  }
  return json_object(Expression::members(std::move(members), item_separator(), count.least, count.most));
}

/// Keys in the order in which the schemas name them; collects the required ones in `required`.
std::vector<std::string_view> SchemaCompiler::named_keys(const Schemas& schemas,
                                                         std::unordered_set<std::string_view>& required) {
  std::vector<std::string_view> keys;
  std::unordered_set<std::string_view> known;
  const auto add_key = [&](std::string_view key) {
    if (known.insert(key).second) keys.push_back(key);
  };
  for (const SchemaReader& schema : schemas) {
    for (const auto& [key, property] : schema.named_schemas("properties")) add_key(key);
  }
  for (const SchemaReader& schema : schemas) {
    const TextList& own = schema.texts("required");
    spend_steps(own.texts.size() * kStepsPerPart);
    for (const std::string_view key : own.texts) {
      add_key(key);
      required.insert(key);
    }
  }
  // Names that "propertyNames" lists count as properties.
  for (const SchemaReader& schema : schemas) {
    const auto names = schema.schema("propertyNames");
    if (!names || !names->value().is_object()) continue;
    const ListedValues* values = names->values();
    if (values == nullptr) continue;
    spend_steps(values->values.size() * kStepsPerPart);
    for (const ordered_json* value : values->values) {
      if (value->is_string()) add_key(value->get_ref<const std::string&>());
    }
  }
  // A canonical text needs one order of keys.
  if (canonical_ > 0) std::ranges::sort(keys);
  return keys;
}

std::vector<SchemaCompiler::FreeProperties> SchemaCompiler::free_properties(const Schemas& schemas) {
  std::vector<FreeProperties> found;
  for (const SchemaReader& schema : schemas) {
    if (const auto additional = schema.schema("additionalProperties"))
      found.push_back({*additional, {schema}});
    const auto unevaluated = schema.schema("unevaluatedProperties");
    if (!unevaluated) continue;
    FreeProperties free{*unevaluated, {}};
    bool describes_all = false;
    for (const SchemaReader& other : schemas) {
      if (!other.is_within(schema)) continue;
      free.namers.push_back(other);
      describes_all = describes_all || other.has("additionalProperties");
    }
    if (!describes_all) found.push_back(std::move(free));
  }
  return found;
}

bool SchemaCompiler::matches(const std::string& text, std::string_view key, const SchemaReader& schema) {
  const ByteAutomaton& keys = made_once(key_patterns_, text, [&] {
    return compiled(pattern(text, TextEncoding::kUtf8, schema, "patternProperties"));
  });
  spend_steps(key.size() * kStepsPerPart);
  return keys.accepts(key);
}

/// The value of a member: valid against `of_member` and against each free_properties() schema that applies.
///   namers  schemas that describe the member
Expression SchemaCompiler::value_of_member(const Schemas& schemas,
                                           const std::unordered_set<const ordered_json*>& namers,
                                           Schemas of_member) {
  for (const FreeProperties& free : free_properties(schemas)) {
    const bool is_named = std::ranges::any_of(
        free.namers, [&](const SchemaReader& each) { return namers.contains(&each.value()); });
    if (!is_named) of_member.push_back(free.schema);
  }
  return of_member.empty() ? free_part() : value(std::move(of_member));
}

Expression SchemaCompiler::property(const Schemas& schemas, std::string_view key) {
  Schemas of_property;
  std::unordered_set<const ordered_json*> namers;  // schemas that describe the key
  for (const SchemaReader& schema : schemas) {
    if (const auto own = schema.named_schema("properties", key)) {
      of_property.push_back(*own);
      namers.insert(&schema.value());
    }
    for (const auto& [text, own] : schema.named_schemas("patternProperties")) {
      if (!matches(std::string(text), key, schema)) continue;
      of_property.push_back(own);
      namers.insert(&schema.value());
    }
  }
  return value_of_member(schemas, namers, std::move(of_property));
}

/// Keys that a schema of "propertyNames" allows, as JSON texts.
const ByteAutomaton& SchemaCompiler::names(const SchemaReader& schema) {
  return made_once(names_, &schema.value(), [&] { return compiled(value({schema})); });
}

bool SchemaCompiler::is_name_allowed(const Schemas& schemas, std::string_view key) {
  return std::ranges::all_of(schemas, [&](const SchemaReader& schema) {
    const auto own = schema.schema("propertyNames");
    spend_steps(key.size() * kStepsPerPart);
    return !own || names(*own).accepts(json_text(ordered_json(key), options_.layout));
  });
}

/// A member whose key is not in `keys`. If `keys` is not empty, some "patternProperties" must match the key.
Expression SchemaCompiler::free_members(const Schemas& schemas, const std::vector<std::string_view>& keys) {
  constexpr size_t kMaxPatterns = 5;
  std::vector<std::string> patterns;
  for (const SchemaReader& schema : schemas) {
    for (const auto& [text, property] : schema.named_schemas("patternProperties")) {
      if (std::ranges::find(patterns, text) == patterns.end()) patterns.emplace_back(text);
      if (patterns.size() > kMaxPatterns)
        schema.refuse_unsupported("patternProperties",
                                  fmt::format("at most {} patterns in one object are", kMaxPatterns));
    }
  }
  std::vector<Expression> members;
  for (unsigned matched = 0; matched < 1U << patterns.size(); ++matched) {
    if (matched == 0 && !keys.empty()) continue;
    const Expression key = free_key(schemas, keys, patterns, matched);
    if (key.is_nothing()) continue;
    const Expression content = free_member_value(schemas, patterns, matched);
    members.push_back(json_member(key, content, options_.layout));
  }
  return Expression::choice(std::move(members));
}

/// Keys not in `keys` that match pattern i exactly if bit i of `matched` is set.
Expression SchemaCompiler::free_key(const Schemas& schemas, const std::vector<std::string_view>& keys,
                                    const std::vector<std::string>& patterns, unsigned matched) {
  FreeKey made_of{patterns, matched, {}, {keys.begin(), keys.end()}};
  for (const SchemaReader& schema : schemas) {
    if (const auto own = schema.schema("propertyNames")) made_of.names.push_back(&own->value());
  }
  spend_steps((keys.size() + schemas.size()) * kStepsPerPart);
  return made_once(free_keys_, made_of, [&] { return new_free_key(schemas, keys, patterns, matched); });
}

Expression SchemaCompiler::new_free_key(const Schemas& schemas, const std::vector<std::string_view>& keys,
                                        const std::vector<std::string>& patterns, unsigned matched) {
  Expression content = characters(0, {});
  for (size_t i = 0; i < patterns.size(); ++i) {
    const Expression match =
        pattern(patterns[i], TextEncoding::kJsonString, schemas.front(), "patternProperties");
    content = (matched >> i & 1U) != 0 ? intersection(content, match) : difference(content, match);
  }
  Expression key = json_string(content);
  for (const SchemaReader& schema : schemas) {
    if (const auto own = schema.schema("propertyNames"))
      key = intersection(key, Expression::automaton(names(*own)));
  }
  std::vector<Expression> named;
  for (const std::string_view each : keys)
    named.push_back(Expression::text(json_text(ordered_json(each), options_.layout)));
  return difference(key, Expression::choice(std::move(named)));
}

Expression SchemaCompiler::free_member_value(const Schemas& schemas, const std::vector<std::string>& patterns,
                                             unsigned matched) {
  const auto is_matched = [&](std::string_view text) {
    const auto at = std::ranges::find(patterns, text) - patterns.begin();
    return (matched >> at & 1U) != 0;
  };
  Schemas of_member;
  std::unordered_set<const ordered_json*> namers;
  for (const SchemaReader& schema : schemas) {
    for (const auto& [text, property] : schema.named_schemas("patternProperties")) {
      if (!is_matched(text)) continue;
      of_member.push_back(property);
      namers.insert(&schema.value());
    }
  }
  return value_of_member(schemas, namers, std::move(of_member));
}

/// Objects with any keys and at least count.least members. The first count.least keys have different lengths
/// modulo count.least, so that they are distinct.
Expression SchemaCompiler::distinct_members(const Schemas& schemas, const Counts& count) {
  constexpr int kMaxDistinctMembers = 4;
  if (count.least > kMaxDistinctMembers || canonical_ > 0)
    schemas.front().refuse_unsupported("minProperties", "name the properties under \"required\"");
  const Expression member = free_members(schemas, {});
  if (member.is_nothing()) return Expression::nothing();
  const Expression end = Expression::text(punctuation(options_.layout).key_separator);
  // A member's class depends only on the length of its key, so that the keys are distinct.
  std::vector<Expression> classes;
  const Expression byte = any_byte();
  for (int remainder = 0; remainder < count.least; ++remainder) {
    const Expression of_length = json_string(Expression::sequence(
        {Expression::repeat(byte, remainder, remainder),
         Expression::repeat(Expression::repeat(byte, count.least, count.least), 0, std::nullopt)}));
    const Expression key = intersection(of_length, json_string(characters(0, {})));
    const Expression rest = Expression::repeat(byte, 0, std::nullopt);
    classes.push_back(intersection(member, Expression::sequence({key, end, rest})));
  }
  const Expression first = each_at_most_once(classes, {count.least, count.least});
  std::optional<int> more;
  if (count.most) more = *count.most - count.least;
  return json_object(Expression::sequence(
      {first, Expression::repeat(Expression::sequence({item_separator(), member}), 0, more)}));
}

}  // namespace lacuna
