#include "constraint/schema_compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/budget.h"
#include "base/error.h"
#include "base/json.h"
#include "constraint/json_texts.h"
#include "constraint/regex.h"
#include "constraint/schema_negation.h"
#include "constraint/schema_numbers.h"

namespace lacuna {

using nlohmann::ordered_json;

Expression SchemaCompiler::compile() {
  if (options_.strict && (!root_.value().is_object() || root_.types() != kTypeObject))
    root_.refuse("type", "\"object\" at the root of a strict schema");
  Expression expression = value({root_});
  if (expression.is_nothing()) {
    throw InputError("{}: no text can be written for {}", options_.name,
                     in_quotes(empty_at_.empty() ? root_.path() : empty_at_));
  }
  return expression;
}

Expression SchemaCompiler::value(Schemas schemas) {
  std::reverse(schemas.begin(), schemas.end());
  return conjunction({}, std::move(schemas));
}

///   open  stack of schemas that are not in the conjunction yet
Expression SchemaCompiler::conjunction(Conjunction all, Schemas open) {
  if (++nesting_ > kMaxSchemaNesting)
    throw AutomatonTooLarge("{}: schemas nest deeper than {} levels", options_.name, kMaxSchemaNesting);
  count_visits(all.schemas.size());
  std::vector<const ordered_json*> followed;
  bool is_possible = true;
  const SchemaReader first = open.empty() ? root_ : open.back();
  while (is_possible && !open.empty()) {
    const SchemaReader schema = open.back();
    open.pop_back();
    is_possible = add(schema, all, open, followed);
  }
  // Finds contradictory types before all alternatives of the unions are tried.
  JsonTypes types = kAllTypes;
  for (const SchemaReader& schema : all.schemas) types &= schema.types().value_or(kAllTypes);
  is_possible = is_possible && types != 0;
  Expression result = is_possible ? alternatives(std::move(all)) : Expression::nothing();
  for (const ordered_json* target : followed) --times_open_[target];
  --nesting_;
  if (result.is_nothing() && empty_at_.empty() && !is_cut_) empty_at_ = first.path();
  return result;
}

void SchemaCompiler::count_visits(size_t count) {
  num_visits_ += count;
  spend_steps(count * kStepsPerVisit);
  if (num_visits_ > static_cast<size_t>(kMaxSchemaVisits))
    throw AutomatonTooLarge("{}: more than {} schemas, those that references repeat included", options_.name,
                            kMaxSchemaVisits);
}

/// Adds a schema to a conjunction; returns false if nothing is valid against it.
bool SchemaCompiler::add(const SchemaReader& schema, Conjunction& all, Schemas& open,
                         std::vector<const ordered_json*>& followed) {
  count_visits(1);
  schema.check();
  if (schema.value().is_boolean()) return schema.value().get<bool>();
  if (options_.strict) check_strict(schema);
  all.schemas.push_back(schema);
  const Schemas parts = schema.schemas("allOf");
  open.insert(open.end(), parts.rbegin(), parts.rend());
  if (const auto target = schema.reference()) {
    if (!follow(*target, followed)) return false;
    open.push_back(*target);
  }
  if (const auto target = schema.reference(kNotReference)) {
    if (!follow(*target, followed)) return false;
    open.push_back(negated(*target));
  }
  if (const auto inner = schema.schema("not")) open.push_back(negated(*inner));
  add_unions(schema, all);
  return true;
}

/// Counts the expansion of a reference; returns false if the recursion is cut here.
bool SchemaCompiler::follow(const SchemaReader& target, std::vector<const ordered_json*>& followed) {
  if (times_open_[&target.value()] == recursion_depth_) {
    is_cut_ = true;
    return false;
  }
  ++times_open_[&target.value()];
  followed.push_back(&target.value());
  return true;
}

void SchemaCompiler::add_unions(const SchemaReader& schema, Conjunction& all) {
  const auto add = [&](std::vector<Schemas> lists) {
    all.unions.push_back(std::make_shared<const std::vector<Schemas>>(std::move(lists)));
  };
  if (schema.has("anyOf")) {
    std::vector<Schemas> lists;
    for (const SchemaReader& branch : schema.schemas("anyOf")) lists.push_back({branch});
    add(std::move(lists));
  }
  if (schema.has("oneOf")) {
    // Cached branches have the path of the schema's first visit; the current path replaces it.
    const Schemas own = schema.schemas("oneOf");
    std::vector<Schemas> lists =
        made_once(exclusive_, &schema.value(), [&] { return exclusive_branches(schema); });
    for (size_t i = 0; i < own.size(); ++i) {
      spend_steps(lists[i].size() * kStepsPerPart);
      spend_bytes(lists[i].size() * sizeof(SchemaReader));
      lists[i].front() = own[i];
    }
    add(std::move(lists));
  }
  if (const auto condition = schema.schema("if")) {
    const auto consequence = schema.schema("then"), otherwise = schema.schema("else");
    if (consequence || otherwise) {
      Schemas met{*condition}, unmet{negated(*condition)};
      if (consequence) met.push_back(*consequence);
      if (otherwise) unmet.push_back(*otherwise);
      add({std::move(met), std::move(unmet)});
    }
  }
  for (const char* keyword : {"dependentRequired", "dependentSchemas", "dependencies"}) {
    for (const auto& [name, dependent] : schema.named_schemas(keyword)) {
      const std::string key(name);
      const ordered_json& value = dependent.value();
      const bool is_list = value.is_array();
      const auto without = schema.derived("without " + key, [&] {
        return ordered_json{{"properties", {{key, false}}}};
      });
      const auto with = schema.derived(fmt::format("{} {}", keyword, key), [&] {
        ordered_json required = is_list ? value : ordered_json::array();
        required.push_back(key);
        return ordered_json{{"required", std::move(required)}};
      });
      Schemas present{with};
      if (!is_list) present.push_back(dependent);
      add({{without}, std::move(present)});
    }
  }
}

void SchemaCompiler::check_strict(const SchemaReader& schema) {
  if (!are_strict_.insert(&schema.value()).second) return;
  const auto types = schema.types();
  if (!schema.has("properties") && !(types && (*types & kTypeObject))) return;
  const ordered_json* additional = schema.find("additionalProperties");
  if (!additional || *additional != false) schema.refuse("additionalProperties", "false in a strict schema");
  const TextList& required = schema.texts("required");
  for (const auto& [key, property] : schema.named_schemas("properties")) {
    if (!required.members.contains(key))
      schema.refuse("required", fmt::format("all properties in a strict schema, {} too", in_quotes(key)));
  }
}

/// The branches of "oneOf". A branch that may overlap with others also requires that those do not hold.
std::vector<Schemas> SchemaCompiler::exclusive_branches(const SchemaReader& schema) {
  const Schemas branches = schema.schemas("oneOf");
  std::vector<SchemaOutline> outlines;
  const JsonTypes types = schema.types().value_or(kAllTypes);
  for (const SchemaReader& branch : branches) {
    outlines.push_back(outline(branch));
    outlines.back().types &= types;
  }
  std::vector<Schemas> lists;
  std::vector<std::optional<SchemaReader>> negations(branches.size());
  for (size_t i = 0; i < branches.size(); ++i) {
    lists.push_back({branches[i]});
    for (size_t k = 0; k < branches.size(); ++k) {
      if (i == k || are_disjoint(outlines[i], outlines[k])) continue;
      if (!negations[k]) negations[k] = negated(branches[k]);
      spend_bytes(sizeof(SchemaReader));
      lists[i].push_back(*negations[k]);
    }
  }
  return lists;
}

Expression SchemaCompiler::alternatives(Conjunction all) {
  if (all.unions.empty()) return of_types(all.schemas);
  const auto lists = std::move(all.unions.back());
  all.unions.pop_back();
  std::vector<Expression> parts;
  for (const Schemas& list : *lists) {
    spend_steps((all.schemas.size() + all.unions.size()) * kStepsPerPart);  // cost of the copy
    parts.push_back(conjunction(all, Schemas(list.rbegin(), list.rend())));
  }
  return Expression::choice(std::move(parts));
}

Expression SchemaCompiler::of_types(const Schemas& schemas) {
  JsonTypes types = kAllTypes, described = 0;
  bool is_typed = false, has_values = false;
  for (const SchemaReader& schema : schemas) {
    const auto own = schema.types();
    types &= own.value_or(kAllTypes);
    is_typed = is_typed || own;
    described |= schema.described_types();
    has_values = has_values || schema.values() != nullptr;
  }
  if (has_values) return listed_values(schemas, types, described);
  if (!is_typed && described == 0)
    return canonical_ > 0 ? free_part() : free_json_value(kFreeValueDepth, options_.layout);
  // Without "type" only the types that some keyword describes are written.
  return kinds(schemas, is_typed ? types : described);
}

/// Texts of "enum" and "const". Cached if only one of the schemas lists values.
Expression SchemaCompiler::listed_values(const Schemas& schemas, JsonTypes types, JsonTypes described) {
  const auto has_values = [](const SchemaReader& schema) { return schema.values() != nullptr; };
  const auto first = std::find_if(schemas.begin(), schemas.end(), has_values);
  const bool is_alone = std::find_if(std::next(first), schemas.end(), has_values) == schemas.end();
  const auto write = [&] { return write_values(schemas, types, described); };
  const ListedTexts own =
      is_alone ? made_once(listed_, std::tuple(first->values(), types, described, canonical_ > 0), write)
               : write();
  if (own.described == 0 || own.expression.is_nothing()) return own.expression;
  // Other keywords restrict some of these values.
  return intersection(own.expression, kinds(schemas, types));
}

SchemaCompiler::ListedTexts SchemaCompiler::write_values(const Schemas& schemas, JsonTypes types,
                                                         JsonTypes described) {
  std::unordered_map<std::string_view, size_t> times_listed;
  std::vector<std::pair<std::string_view, const ordered_json*>> candidates;
  size_t num_lists = 0;
  for (const SchemaReader& schema : schemas) {
    const ListedValues* listed = schema.values();
    if (!listed) continue;
    spend_steps(listed->values.size() * 2 * kStepsPerPart);
    std::unordered_set<std::string_view> own;
    for (size_t i = 0; i < listed->values.size(); ++i) {
      const std::string_view text = listed->canonical[i];
      if (!own.insert(text).second) continue;
      ++times_listed[text];
      if (num_lists == 0) candidates.emplace_back(text, listed->values[i]);
    }
    ++num_lists;
  }
  std::vector<Expression> texts;
  JsonTypes described_here = 0;
  for (const auto& [canonical, each] : candidates) {
    if (times_listed[canonical] != num_lists || (json_type(*each) & types) == 0) continue;
    if (canonical_ > 0) {
      texts.push_back(Expression::text(json_text(ordered_json(nlohmann::json(*each)), options_.layout)));
      described_here |= json_type(*each) & described;
      continue;
    }
    texts.push_back(Expression::text(json_text(*each, options_.layout)));
    described_here |= json_type(*each) & described;
  }
  return {Expression::choice(std::move(texts)), described_here};
}

Expression SchemaCompiler::kinds(const Schemas& schemas, JsonTypes types) {
  const bool has_unlisted = std::any_of(schemas.begin(), schemas.end(),
                                        [](const SchemaReader& schema) { return schema.has(kNotListed); });
  if (has_unlisted) return without_listed(schemas, types);
  std::vector<Expression> parts;
  if (types & kTypeString) parts.push_back(string(schemas));
  if (types & kTypeInteger) {
    parts.push_back(number(schemas, (types & kTypeFraction) != 0));
  } else if (types & kTypeFraction) {
    // Canonical numbers that are not integers.
    parts.push_back(difference(intersection(number(schemas, true), plain_json_number()),
                               json_integer(-kLargestInteger, kLargestInteger)));
  }
  if (types & kTypeBoolean)
    parts.push_back(Expression::choice({Expression::text("true"), Expression::text("false")}));
  if (types & kTypeArray) parts.push_back(list(schemas));
  if (types & kTypeObject) parts.push_back(object(schemas));
  if (types & kTypeNull) parts.push_back(Expression::text("null"));
  return Expression::choice(std::move(parts));
}

/// Values of the types, except those that "not" lists.
Expression SchemaCompiler::without_listed(const Schemas& schemas, JsonTypes types) {
  std::vector<Expression> texts;
  Schemas others;
  bool has_number = false;
  for (const SchemaReader& schema : schemas) {
    const ordered_json* values = schema.find(kNotListed);
    if (values == nullptr) {
      others.push_back(schema);
      continue;
    }
    others.push_back(schema.derived("without values", [&] {
      ordered_json rest = schema.value();
      rest.erase(std::string(kNotListed));
      return rest;
    }));
    for (const ordered_json& each : *values) {
      spend_steps(kStepsPerPart);
      has_number = has_number || each.is_number();
      // Nonempty lists and objects have several texts, so the whole type is excluded.
      if (each.is_structured() && !each.empty()) types &= ~json_type(each);
      texts.push_back(Expression::text(json_text(each, options_.layout)));
    }
  }
  std::vector<Expression> parts;
  if ((types & ~kTypeNumber) != 0) parts.push_back(kinds(others, types & ~kTypeNumber));
  if ((types & kTypeNumber) != 0) {
    const Expression numbers = kinds(others, types & kTypeNumber);
    parts.push_back(has_number ? intersection(numbers, plain_json_number()) : numbers);
  }
  return difference(Expression::choice(std::move(parts)), Expression::choice(std::move(texts)));
}

/// An unconstrained item or member.
Expression SchemaCompiler::free_part() const {
  if (canonical_ == 0) return free_json_value(kFreeValueDepth - 1, options_.layout);
  return Expression::choice({json_string(Expression::repeat(json_character(), 0, {})), plain_json_number(),
                             Expression::text("true"), Expression::text("false"), Expression::text("null")});
}

ByteAutomaton SchemaCompiler::compiled(const Expression& expression) {
  return ByteAutomaton::compile(expression, options_.name, limits_);
}

Expression SchemaCompiler::intersection(const Expression& a, const Expression& b) {
  if (a.is_nothing() || b.is_nothing()) return Expression::nothing();
  return product(a, b, ByteAutomaton::intersection);
}

Expression SchemaCompiler::difference(const Expression& a, const Expression& b) {
  if (a.is_nothing() || b.is_nothing()) return a;
  return product(a, b, ByteAutomaton::difference);
}

/// The cached product of two expressions, keyed by their nodes.
Expression SchemaCompiler::product(const Expression& a, const Expression& b, ProductOf make) {
  const auto made = [&] {
    return Product{a, b, Expression::automaton(make(compiled(a), compiled(b), options_.name, limits_))};
  };
  return made_once(products_, std::tuple(&a.node(), &b.node(), make == &ByteAutomaton::difference), made)
      .result;
}

/// `least` to `most` characters of a string.
Expression SchemaCompiler::characters(int least, std::optional<int> most) {
  return made_once(characters_, std::pair(least, most),
                   [&] { return Expression::repeat(json_character(), least, most); });
}

/// Bounds from the keywords `least` and `most`; a larger maximum is clamped to `limit`.
SchemaCompiler::Counts SchemaCompiler::counts(const Schemas& schemas, std::string_view least,
                                              std::string_view most, int limit) {
  Counts counts;
  for (const SchemaReader& schema : schemas) {
    const int64_t own_least = schema.count(least).value_or(0);
    if (own_least > limit) schema.refuse(least, fmt::format("an integer from 0 to {}", limit));
    counts.least = std::max(counts.least, static_cast<int>(own_least));
    if (const auto own_most = schema.count(most)) {
      const auto narrowed = static_cast<int>(std::min<int64_t>(*own_most, limit));
      counts.most = std::min(counts.most.value_or(narrowed), narrowed);
    }
  }
  return counts;
}

/// Texts in which `pattern` matches somewhere.
Expression SchemaCompiler::pattern(const std::string& pattern, TextEncoding encoding,
                                   const SchemaReader& schema, std::string_view keyword) {
  return made_once(patterns_, std::pair(pattern, encoding), [&] {
    return regex_expression(
        pattern, RegexMatch::kSearch, encoding,
        fmt::format("{}: {}", options_.name, in_quotes(fmt::format("{}/{}", schema.path(), keyword))),
        limits_);
  });
}

Expression SchemaCompiler::string(const Schemas& schemas) {
  const Counts length = counts(schemas, "minLength", "maxLength", kMaxStringLength);
  if (!length.is_possible()) return Expression::nothing();
  std::optional<Expression> content;
  const auto narrow = [&](const Expression& other) {
    content = content ? intersection(*content, other) : other;
  };
  for (const SchemaReader& schema : schemas) {
    if (const auto text = schema.text("pattern"))
      narrow(pattern(*text, TextEncoding::kJsonString, schema, "pattern"));
    if (const auto text = schema.text(kNotPattern))
      narrow(difference(characters(0, {}), pattern(*text, TextEncoding::kJsonString, schema, "pattern")));
    const std::string format = schema.text("format").value_or("");
    if (const auto form = format_pattern(format)) {
      narrow(made_once(formats_, format, [&] {
        return regex_expression(*form, RegexMatch::kWhole, TextEncoding::kJsonString, options_.name, limits_);
      }));
    }
  }
  if (!content || length.least > 0 || length.most) narrow(characters(length.least, length.most));
  return json_string(*content);
}

Expression SchemaCompiler::number(const Schemas& schemas, bool may_have_fraction) {
  for (const SchemaReader& schema : schemas) {
    const ordered_json* divisor = schema.number("multipleOf");
    if (divisor == nullptr) continue;
    if (divisor->get<double>() <= 0) schema.refuse("multipleOf", "a number above 0");
    if (divisor->get<double>() == std::trunc(divisor->get<double>())) may_have_fraction = false;
  }
  Expression result = bounded_number(schemas, may_have_fraction);
  for (const SchemaReader& schema : schemas) {
    for (const std::string_view keyword : {std::string_view("multipleOf"), kNotMultipleOf}) {
      if (schema.has(keyword) && !result.is_nothing())
        result = intersection(result, multiples(schema, keyword, may_have_fraction, schemas));
    }
  }
  return canonical_ > 0 && may_have_fraction ? intersection(result, plain_json_number()) : result;
}

namespace {

/// The tightest bounds of several schemas.
struct NumberRange {
  std::optional<DecimalBound> lower, upper;

  explicit NumberRange(const Schemas& schemas) {
    for (const SchemaReader& schema : schemas) {
      add(schema, "minimum", "exclusiveMinimum", true);
      add(schema, "maximum", "exclusiveMaximum", false);
    }
  }

 private:
  void add(const SchemaReader& schema, std::string_view bound, std::string_view excluded, bool is_lower) {
    const ordered_json* exclusive = schema.find(excluded);
    const bool is_flag = exclusive != nullptr && exclusive->is_boolean();  // draft 4
    if (const ordered_json* value = schema.number(bound))
      narrow({value->get<double>(), is_flag && exclusive->get<bool>()}, is_lower);
    if (exclusive != nullptr && !is_flag) narrow({schema.number(excluded)->get<double>(), true}, is_lower);
  }

  void narrow(DecimalBound bound, bool is_lower) {
    std::optional<DecimalBound>& known = is_lower ? lower : upper;
    const bool is_narrower = !known || (is_lower ? bound.value > known->value : bound.value < known->value) ||
                             (bound.value == known->value && bound.is_excluded);
    if (is_narrower) known = bound;
  }
};

}  // namespace

Expression SchemaCompiler::bounded_number(const Schemas& schemas, bool may_have_fraction) {
  constexpr auto kLargest = static_cast<double>(kLargestInteger);
  const NumberRange range(schemas);
  const std::optional<DecimalBound>&lower = range.lower, &upper = range.upper;
  if ((lower && lower->value > kLargest) || (upper && upper->value < -kLargest)) return Expression::nothing();
  const auto is_integer = [](const std::optional<DecimalBound>& bound) {
    return !bound || bound->value == std::trunc(bound->value);
  };
  const std::string key =
      fmt::format("{} {}{} {}{}", may_have_fraction, lower ? lower->value : -HUGE_VAL,
                  lower && lower->is_excluded, upper ? upper->value : HUGE_VAL, upper && upper->is_excluded);
  return made_once(numbers_, key, [&] {
    if (may_have_fraction && !(is_integer(lower) && is_integer(upper)))
      return json_number_between(lower, upper, options_.name, limits_);
    NumberBounds bounds;
    if (lower && lower->value >= -kLargest) {
      bounds.first = static_cast<int64_t>(std::ceil(lower->value));
      bounds.excludes_first = lower->is_excluded && is_integer(lower);
    }
    if (upper && upper->value <= kLargest) {
      bounds.last = static_cast<int64_t>(std::floor(upper->value));
      bounds.excludes_last = upper->is_excluded && is_integer(upper);
    }
    if (bounds.first > bounds.last) return Expression::nothing();
    if (may_have_fraction) return json_number(bounds);
    const int64_t first = bounds.first + (bounds.excludes_first ? 1 : 0);
    const int64_t last = bounds.last - (bounds.excludes_last ? 1 : 0);
    return first > last ? Expression::nothing() : json_integer(first, last);
  });
}

/// Multiples for "multipleOf", or non-multiples for kNotMultipleOf.
Expression SchemaCompiler::multiples(const SchemaReader& schema, std::string_view keyword,
                                     bool may_have_fraction, const Schemas& bounds) {
  const auto divisor = schema.number(keyword)->get<double>();
  const bool is_multiple = keyword != kNotMultipleOf;
  if (divisor == std::trunc(divisor) && divisor <= static_cast<double>(kMaxExactDivisor)) {
    Expression found = json_multiples(static_cast<int64_t>(divisor), is_multiple, options_.name, limits_);
    if (is_multiple || !may_have_fraction) return found;
    return Expression::choice(
        {found, difference(plain_json_number(), json_integer(-kLargestInteger, kLargestInteger))});
  }
  // Non-multiples of other divisors depend on the rounding of each quotient: none is written.
  if (!is_multiple) return Expression::nothing();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double first = -kInfinity, last = kInfinity;
  const NumberRange range(bounds);
  if (range.lower)
    first = range.lower->is_excluded ? std::nextafter(range.lower->value, kInfinity) : range.lower->value;
  if (range.upper)
    last = range.upper->is_excluded ? std::nextafter(range.upper->value, -kInfinity) : range.upper->value;
  Expression listed = listed_json_multiples(divisor, first, last);
  if (listed.is_nothing())
    schema.refuse_unsupported(keyword, "no multiple of it can be written near the bounds");
  return listed;
}

}  // namespace lacuna
