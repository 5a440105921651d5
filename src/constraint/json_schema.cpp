#include "constraint/json_schema.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/budget.h"
#include "base/error.h"
#include "base/json.h"
#include "constraint/json_texts.h"
#include "constraint/regex.h"
#include "constraint/schema_reader.h"

namespace lacuna {
namespace {

using nlohmann::ordered_json;
using Schemas = std::vector<SchemaReader>;

/// Schemas that must all hold for one value: references followed, allOf taken apart.
struct Conjunction {
  Schemas schemas;
  std::vector<std::shared_ptr<const Schemas>> unions;  // for each one, one schema must match as well
};

// Steps of a Budget.
constexpr size_t kStepsPerVisit = 400;  // a schema's keywords are looked up
constexpr size_t kStepsPerPart = 20;    // a list of schemas, or a key, is looked at

/// Every member that returns an expression returns texts that are valid against all schemas that it is given.
class SchemaCompiler {
 public:
  SchemaCompiler(const SchemaReader& root, const JsonSchemaOptions& options, int recursion_depth,
                 AutomatonLimits& limits)
      : root_(root), options_(options), recursion_depth_(recursion_depth), limits_(limits) {}

  Expression compile() {
    if (options_.strict && (!root_.value().is_object() || root_.types() != kTypeObject))
      root_.refuse("type", "\"object\" at the root of a strict schema");
    Expression expression = value({root_});
    if (expression.is_nothing()) {
      throw InputError("{}: no text can be written for {}", options_.name,
                       in_quotes(empty_at_.empty() ? root_.path() : empty_at_));
    }
    return expression;
  }

  /// Whether a reference within itself was cut.
  bool is_cut() const { return is_cut_; }
  size_t num_visits() const { return num_visits_; }

 private:
  Expression value(Schemas schemas) {
    std::reverse(schemas.begin(), schemas.end());
    return conjunction({}, std::move(schemas));
  }

  /// `open` are schemas that are not in the conjunction yet, the next one last.
  Expression conjunction(Conjunction all, Schemas open) {
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
    Expression result = is_possible ? alternatives(std::move(all)) : Expression::nothing();
    for (const ordered_json* target : followed) --times_open_[target];
    --nesting_;
    if (result.is_nothing() && empty_at_.empty() && !is_cut_) empty_at_ = first.path();
    return result;
  }

  void count_visits(size_t count) {
    num_visits_ += count;
    spend_steps(count * kStepsPerVisit);
    if (num_visits_ > static_cast<size_t>(kMaxSchemaVisits))
      throw AutomatonTooLarge("{}: more than {} schemas, those that references repeat included",
                              options_.name, kMaxSchemaVisits);
  }

  /// Adds a schema to a conjunction; returns false if nothing is valid against it.
  bool add(const SchemaReader& schema, Conjunction& all, Schemas& open,
           std::vector<const ordered_json*>& followed) {
    count_visits(1);
    schema.check();
    if (schema.value().is_boolean()) return schema.value().get<bool>();
    if (options_.strict) check_strict(schema);
    all.schemas.push_back(schema);
    const Schemas parts = schema.schemas("allOf");
    open.insert(open.end(), parts.rbegin(), parts.rend());
    if (const auto target = schema.reference()) {
      if (times_open_[&target->value()] == recursion_depth_) {
        is_cut_ = true;
        return false;
      }
      ++times_open_[&target->value()];
      followed.push_back(&target->value());
      open.push_back(*target);
    }
    if (schema.has("anyOf")) all.unions.push_back(std::make_shared<Schemas>(schema.schemas("anyOf")));
    if (schema.has("oneOf")) {
      if (!are_disjoint_.contains(&schema.value())) check_disjoint(schema);
      are_disjoint_.insert(&schema.value());
      all.unions.push_back(std::make_shared<Schemas>(schema.schemas("oneOf")));
    }
    return true;
  }

  void check_strict(const SchemaReader& schema) {
    if (!are_strict_.insert(&schema.value()).second) return;
    const auto types = schema.types();
    if (!schema.has("properties") && !(types && (*types & kTypeObject))) return;
    const ordered_json* additional = schema.find("additionalProperties");
    if (!additional || *additional != false)
      schema.refuse("additionalProperties", "false in a strict schema");
    const TextList& required = schema.texts("required");
    for (const auto& [key, property] : schema.named_schemas("properties")) {
      if (!required.members.contains(key))
        schema.refuse("required", fmt::format("all properties in a strict schema, {} too", in_quotes(key)));
    }
  }

  static void check_disjoint(const SchemaReader& schema) {
    std::vector<SchemaOutline> branches;
    const JsonTypes types = schema.types().value_or(kAllTypes);
    for (const SchemaReader& branch : schema.schemas("oneOf")) {
      branches.push_back(outline(branch));
      branches.back().types &= types;
    }
    for (size_t i = 0; i < branches.size(); ++i) {
      for (size_t k = 0; k < i; ++k) {
        if (!are_disjoint(branches[i], branches[k]))
          schema.refuse_unsupported(
              "oneOf", fmt::format("its schemas {} and {} need different types, or a required property "
                                   "with different constants (or use anyOf)",
                                   k, i));
      }
    }
  }

  Expression alternatives(Conjunction all) {
    if (all.unions.empty()) return of_types(all.schemas);
    const std::shared_ptr<const Schemas> branches = std::move(all.unions.back());
    all.unions.pop_back();
    std::vector<Expression> parts;
    for (const SchemaReader& branch : *branches) {
      spend_steps((all.schemas.size() + all.unions.size()) * kStepsPerPart);  // they are copied
      parts.push_back(conjunction(all, {branch}));
    }
    return Expression::choice(std::move(parts));
  }

  Expression of_types(const Schemas& schemas) {
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
    if (!is_typed && described == 0) return free_json_value(kFreeValueDepth, options_.layout);
    // Where no type is given, the types that are described are written.
    return kinds(schemas, is_typed ? types : described);
  }

  /// Returns what `make` makes for a key. Each is made once.
  template <typename Made, typename Key, typename Make>
  static const auto& made_once(Made& made, const Key& key, Make&& make) {
    auto known = made.find(key);
    if (known == made.end()) known = made.emplace(key, make()).first;
    return known->second;
  }

  /// Texts of "enum" and "const" of one schema, and the types of those that other keywords speak of.
  struct ListedTexts {
    Expression expression;
    JsonTypes described = 0;
  };

  /// Texts of "enum" and "const". Those of a single schema are written once, however often it is visited.
  Expression listed_values(const Schemas& schemas, JsonTypes types, JsonTypes described) {
    const auto has_values = [](const SchemaReader& schema) { return schema.values() != nullptr; };
    const auto first = std::find_if(schemas.begin(), schemas.end(), has_values);
    const bool is_alone = std::find_if(std::next(first), schemas.end(), has_values) == schemas.end();
    const auto write = [&] { return write_values(schemas, types, described); };
    const ListedTexts own =
        is_alone ? made_once(listed_, std::tuple(first->values(), types, described), write) : write();
    if (own.described == 0 || own.expression.is_nothing()) return own.expression;
    // Other keywords speak of some of the values: what both languages have is valid.
    return intersection(own.expression, kinds(schemas, types));
  }

  ListedTexts write_values(const Schemas& schemas, JsonTypes types, JsonTypes described) {
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
      texts.push_back(Expression::text(json_text(*each, options_.layout)));
      described_here |= json_type(*each) & described;
    }
    return {Expression::choice(std::move(texts)), described_here};
  }

  Expression kinds(const Schemas& schemas, JsonTypes types) {
    std::vector<Expression> parts;
    if (types & kTypeString) parts.push_back(string(schemas));
    if (types & kTypeInteger) parts.push_back(number(schemas, (types & kTypeFraction) != 0));
    if (types & kTypeBoolean)
      parts.push_back(Expression::choice({Expression::text("true"), Expression::text("false")}));
    if (types & kTypeArray) parts.push_back(list(schemas));
    if (types & kTypeObject) parts.push_back(object(schemas));
    if (types & kTypeNull) parts.push_back(Expression::text("null"));
    return Expression::choice(std::move(parts));
  }

  /// An item or member about which nothing is said.
  Expression free_part() const { return free_json_value(kFreeValueDepth - 1, options_.layout); }

  ByteAutomaton compiled(const Expression& expression) {
    return ByteAutomaton::compile(expression, options_.name, limits_);
  }

  Expression intersection(const Expression& a, const Expression& b) {
    if (a.is_nothing() || b.is_nothing()) return Expression::nothing();
    return Expression::automaton(std::make_shared<const ByteAutomaton>(
        ByteAutomaton::intersection(compiled(a), compiled(b), options_.name, limits_)));
  }

  /// The largest of the least counts and the smallest of the most.
  struct Counts {
    int least = 0;
    std::optional<int> most;
    bool is_possible() const { return !most || least <= *most; }
  };

  /// Larger most counts than `limit` are narrowed to it.
  static Counts counts(const Schemas& schemas, std::string_view least, std::string_view most, int limit) {
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

  Expression string(const Schemas& schemas) {
    const Counts length = counts(schemas, "minLength", "maxLength", kMaxStringLength);
    if (!length.is_possible()) return Expression::nothing();
    std::optional<Expression> content;
    const auto narrow = [&](const Expression& other) {
      content = content ? intersection(*content, other) : other;
    };
    for (const SchemaReader& schema : schemas) {
      if (const auto pattern = schema.text("pattern")) {
        narrow(made_once(patterns_, *pattern, [&] {
          return regex_expression(*pattern, RegexMatch::kSearch, TextEncoding::kJsonString,
                                  fmt::format("{}: {}", options_.name, in_quotes(schema.path() + "/pattern")),
                                  limits_);
        }));
      }
      const std::string format = schema.text("format").value_or("");
      if (const auto pattern = format_pattern(format)) {
        narrow(made_once(formats_, format, [&] {
          return regex_expression(*pattern, RegexMatch::kWhole, TextEncoding::kJsonString, options_.name,
                                  limits_);
        }));
      }
    }
    if (!content || length.least > 0 || length.most)
      narrow(Expression::repeat(json_character(), length.least, length.most));
    return json_string(*content);
  }

  Expression number(const Schemas& schemas, bool may_have_fraction) {
    NumberBounds bounds;
    bool is_possible = true;
    for (const SchemaReader& schema : schemas) {
      if (const ordered_json* divisor = schema.number("multipleOf")) {
        if (divisor->get<double>() != 1) schema.refuse_unsupported("multipleOf", "only 1 is");
        may_have_fraction = false;
      }
    }
    for (const SchemaReader& schema : schemas) {
      for (const char* keyword : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
        if (const ordered_json* bound = schema.number(keyword))
          is_possible =
              add_bound(schema, keyword, bound->get<double>(), may_have_fraction, bounds) && is_possible;
      }
    }
    if (!is_possible || bounds.first > bounds.last) return Expression::nothing();
    const std::tuple key(bounds.first, bounds.last, bounds.excludes_first, bounds.excludes_last,
                         may_have_fraction);
    return made_once(numbers_, key, [&] {
      if (may_have_fraction) return json_number(bounds);
      return json_integer(bounds.first + (bounds.excludes_first ? 1 : 0),
                          bounds.last - (bounds.excludes_last ? 1 : 0));
    });
  }

  /// Returns false if nothing that can be written is within the bound.
  static bool add_bound(const SchemaReader& schema, std::string_view keyword, double value,
                        bool may_have_fraction, NumberBounds& bounds) {
    const bool is_lower = keyword.ends_with("inimum");
    bool excludes = keyword.starts_with("exclusive");
    if (value != std::trunc(value)) {
      if (may_have_fraction) schema.refuse(keyword, "an integer (or \"type\": \"integer\")");
      value = is_lower ? std::ceil(value) : std::floor(value);
      excludes = false;
    }
    constexpr auto kLargest = static_cast<double>(kLargestInteger);
    if (is_lower ? value > kLargest : value < -kLargest) return false;
    if (is_lower ? value < -kLargest : value > kLargest) return true;  // beyond what is written
    const auto bound = static_cast<int64_t>(value);
    int64_t& known = is_lower ? bounds.first : bounds.last;
    bool& known_excludes = is_lower ? bounds.excludes_first : bounds.excludes_last;
    if (is_lower ? bound > known : bound < known) {
      known = bound;
      known_excludes = excludes;
    } else if (bound == known) {
      known_excludes = known_excludes || excludes;
    }
    return true;
  }

  /// Schemas of a list's items: one for each of the first items, then one for all others.
  struct ItemSchemas {
    Schemas first;
    std::optional<SchemaReader> rest;
  };

  static ItemSchemas item_schemas(const SchemaReader& schema) {
    const ordered_json* items = schema.find("items");
    // Before draft 2020-12, "items" could be what "prefixItems" is now.
    if (items && items->is_array()) {
      if (schema.has("prefixItems")) schema.refuse("items", "a schema next to \"prefixItems\"");
      return {schema.schemas("items"), schema.schema("additionalItems")};
    }
    return {schema.schemas("prefixItems"), schema.schema("items")};
  }

  Expression list(const Schemas& schemas) {
    Counts length = counts(schemas, "minItems", "maxItems", kMaxItems);
    std::vector<ItemSchemas> items;
    size_t num_first = 1;
    for (const SchemaReader& schema : schemas) {
      items.push_back(item_schemas(schema));
      num_first = std::max(num_first, items.back().first.size());
      // Each lies within the one before it, so that their number is the depth of the expression.
      if (num_first > static_cast<size_t>(kMaxTupleItems))
        schema.refuse(schema.has("prefixItems") ? "prefixItems" : "items",
                      fmt::format("at most {} schemas", kMaxTupleItems));
    }
    const auto item = [&](size_t index) {
      spend_steps(items.size() * kStepsPerPart);
      Schemas of_item;
      for (const ItemSchemas& each : items) {
        if (index < each.first.size()) {
          of_item.push_back(each.first[index]);
        } else if (each.rest) {
          of_item.push_back(*each.rest);
        }
      }
      return of_item.empty() ? free_part() : value(std::move(of_item));
    };
    std::vector<Expression> first;
    const auto limit_to = [&](size_t most) {
      length.most = std::min(length.most.value_or(kMaxItems), static_cast<int>(most));
    };
    for (size_t i = 0; i < num_first && (!length.most || i < static_cast<size_t>(*length.most)); ++i) {
      first.push_back(item(i));
      if (first.back().is_nothing()) limit_to(i);
    }
    // All items from the last of the first ones on are alike, unless each list has its own.
    const bool has_tuples =
        std::any_of(items.begin(), items.end(), [](const auto& each) { return !each.first.empty(); });
    Expression rest = has_tuples && (!length.most || num_first < static_cast<size_t>(*length.most))
                          ? item(num_first)
                      : first.empty() ? Expression::nothing()
                                      : first.back();
    if (rest.is_nothing())
      limit_to(std::min(num_first, static_cast<size_t>(length.most.value_or(kMaxItems))));
    for (const SchemaReader& schema : schemas) {
      if (schema.is_true("uniqueItems") && (!length.most || *length.most > 1))
        schema.refuse_unsupported("uniqueItems", "only with at most one item");
    }
    if (!length.is_possible()) return Expression::nothing();
    const Expression separator = Expression::text(punctuation(options_.layout).item_separator);
    return json_list(has_tuples ? items_from(first, rest, separator, length)
                                : Expression::separated(rest, separator, length.least, length.most));
  }

  static Expression items_from(const std::vector<Expression>& first, const Expression& rest,
                               const Expression& separator, const Counts& length) {
    const auto num_first = static_cast<int>(first.size());
    const int least_rest = std::max(0, length.least - num_first);
    std::optional<int> most_rest;
    if (length.most) most_rest = std::max(0, *length.most - num_first);
    Expression items = Expression::repeat(Expression::sequence({separator, rest}), least_rest, most_rest);
    for (int i = num_first - 1; i >= 0; --i) {
      if (length.most && i >= *length.most) {
        items = Expression::text("");
        continue;
      }
      std::vector<Expression> parts{first[static_cast<size_t>(i)], items};
      if (i > 0) parts.insert(parts.begin(), separator);
      items = Expression::sequence(std::move(parts));
      if (i >= length.least) items = Expression::optional(items);
    }
    return items;
  }

  Expression object(const Schemas& schemas) {
    std::vector<std::string_view> keys;  // in the order in which schemas name them
    std::unordered_set<std::string_view> required;
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
    if (keys.empty()) return map(schemas);
    check_num_properties(schemas, required.size(), keys.size());
    std::vector<Expression::Member> members;
    for (const std::string_view key : keys) {
      spend_steps(schemas.size() * kStepsPerPart);
      const Expression text = Expression::text(json_text(ordered_json(key), options_.layout));
      const Expression member = json_member(text, property(schemas, key), options_.layout);
      members.push_back({member, required.contains(key)});
    }
    return json_object(Expression::members(std::move(members),
                                           Expression::text(punctuation(options_.layout).item_separator)));
  }

  Expression property(const Schemas& schemas, std::string_view key) {
    Schemas of_property;
    for (const SchemaReader& schema : schemas) {
      if (const auto own = schema.named_schema("properties", key)) {
        of_property.push_back(*own);
      } else if (const auto additional = schema.schema("additionalProperties")) {
        of_property.push_back(*additional);
      }
    }
    return of_property.empty() ? free_part() : value(std::move(of_property));
  }

  static void check_num_properties(const Schemas& schemas, size_t num_required, size_t num_keys) {
    for (const SchemaReader& schema : schemas) {
      if (schema.count("minProperties").value_or(0) > static_cast<int64_t>(num_required))
        schema.refuse_unsupported("minProperties", "name the properties under \"required\"");
      const auto most = schema.count("maxProperties");
      if (most && *most < static_cast<int64_t>(num_keys))
        schema.refuse_unsupported("maxProperties", "it is below the number of properties");
    }
  }

  /// An object about whose keys nothing is said.
  Expression map(const Schemas& schemas) {
    Schemas of_member;
    std::optional<int> most;
    for (const SchemaReader& schema : schemas) {
      if (const auto additional = schema.schema("additionalProperties")) of_member.push_back(*additional);
      if (schema.count("minProperties").value_or(0) > 0)
        schema.refuse_unsupported("minProperties", "name the properties under \"required\"");
      if (const auto own = schema.count("maxProperties")) {
        const auto narrowed = static_cast<int>(std::min<int64_t>(*own, kMaxItems));
        most = std::min(most.value_or(narrowed), narrowed);
      }
    }
    const Expression content = of_member.empty() ? free_part() : value(std::move(of_member));
    const Expression key = json_string(Expression::repeat(json_character(), 0, {}));
    return json_object(Expression::separated(json_member(key, content, options_.layout),
                                             Expression::text(punctuation(options_.layout).item_separator), 0,
                                             most));
  }

  const SchemaReader root_;
  const JsonSchemaOptions& options_;
  const int recursion_depth_;
  AutomatonLimits& limits_;                        // shared by all patterns and intersections
  std::map<const ordered_json*, int> times_open_;  // references to each schema that are being followed
  bool is_cut_ = false;
  int nesting_ = 0;
  size_t num_visits_ = 0;
  std::unordered_set<const ordered_json*> are_strict_, are_disjoint_;  // schemas that were checked
  std::unordered_map<std::string, Expression> patterns_, formats_;
  std::map<std::tuple<const ListedValues*, JsonTypes, JsonTypes>, ListedTexts> listed_;
  std::map<std::tuple<int64_t, int64_t, bool, bool, bool>, Expression> numbers_;  // bounds, with fractions
  std::string empty_at_;  // path of the first schema for which no text can be written
};

/// Work that one attempt to compile a schema may take.
struct WorkBudget {
  AutomatonLimits patterns, whole;

  explicit WorkBudget(const JsonSchemaOptions& options) : shared_(options.shared_work) {
    if (shared_ == nullptr) return;
    if (*shared_ <= 0)
      throw AutomatonTooLarge("{}: it and the schemas before it are too large", options.name);
    patterns.work = std::min(patterns.work, *shared_);
    whole.work = std::min(whole.work, *shared_);
    given_ = patterns.work + whole.work;
  }

  void subtract(size_t schema_visits) const {
    constexpr int64_t kVisitWork = 1'000;  // a visited schema takes as long as this many visited states
    if (shared_ == nullptr) return;
    *shared_ -= given_ - patterns.work - whole.work + static_cast<int64_t>(schema_visits) * kVisitWork;
  }

 private:
  int64_t* shared_;
  int64_t given_ = 0;
};

}  // namespace

Expression json_schema_expression(const ordered_json& schema, const JsonSchemaOptions& options) {
  const SchemaReader root(schema, options.name);
  for (int depth = kRecursionDepth;; --depth) {
    WorkBudget budget(options);
    const BytesMark mark;
    SchemaCompiler compiler(root, options, depth, budget.patterns);
    try {
      Expression expression = compiler.compile();
      if (compiler.is_cut()) {
        expression = Expression::automaton(std::make_shared<const ByteAutomaton>(
            ByteAutomaton::compile(expression, options.name, budget.whole)));
      }
      budget.subtract(compiler.num_visits());
      return expression;
    } catch (const AutomatonTooLarge&) {
      budget.subtract(compiler.num_visits());
      if (!compiler.is_cut() || depth == 1) throw;
    }
    mark.give_back();
  }
}

ByteAutomaton compile_json_schema(const ordered_json& schema, const JsonSchemaOptions& options) {
  ByteAutomaton automaton = ByteAutomaton::compile(json_schema_expression(schema, options), options.name);
  if (automaton.is_empty()) throw InputError("{}: no text can be written for it", options.name);
  return automaton;
}

Expression any_json_object(JsonLayout layout) {
  return free_json_object(kJsonObjectDepth, layout);
}

}  // namespace lacuna
