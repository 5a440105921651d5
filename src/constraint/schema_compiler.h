// Compiles JSON Schemas keyword by keyword: the implementation of json_schema.h.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "constraint/byte_automaton.h"
#include "constraint/expression.h"
#include "constraint/json_schema_options.h"
#include "constraint/schema_reader.h"

namespace lacuna {

using Schemas = std::vector<SchemaReader>;

/// Each member function that returns an Expression returns texts that are valid against all given schemas.
class SchemaCompiler {
 public:
  SchemaCompiler(const SchemaReader& root, const JsonSchemaOptions& options, int recursion_depth,
                 AutomatonLimits& limits)
      : root_(root), options_(options), recursion_depth_(recursion_depth), limits_(limits) {}

  Expression compile();

  /// Whether a recursive reference was cut at recursion_depth.
  bool is_cut() const { return is_cut_; }
  size_t num_visits() const { return num_visits_; }

 private:
  // Costs in steps of a Budget.
  static constexpr size_t kStepsPerVisit = 400;  // look-up of a schema's keywords
  static constexpr size_t kStepsPerPart = 20;    // visit of a list of schemas or of a key

  /// Schemas that one value must all satisfy, with $ref and allOf resolved.
  struct Conjunction {
    Schemas schemas;
    /// Each union lists alternatives (anyOf, oneOf, if): all schemas of one alternative must match as well.
    std::vector<std::shared_ptr<const std::vector<Schemas>>> unions;
  };
  /// Bounds of a count: the largest minimum and the smallest maximum of several schemas.
  struct Counts {
    int least = 0;
    std::optional<int> most;
    bool is_possible() const { return !most || least <= *most; }
  };
  /// Schemas of a list's items: one for each of the first items, then one for all others.
  struct ItemSchemas {
    std::vector<std::optional<SchemaReader>> first;
    std::optional<SchemaReader> rest;
  };
  /// The items that a list may have.
  struct ListItems {
    std::vector<Expression> first;
    Expression rest;
    bool is_tuple;
    Counts length;
  };
  /// Texts of "enum" and "const". `described`: types among them that other keywords restrict.
  struct ListedTexts {
    Expression expression;
    JsonTypes described = 0;
  };
  /// Cache key of free_key(): everything that its result depends on.
  struct FreeKey {
    std::vector<std::string> patterns;
    unsigned matched;
    std::vector<const nlohmann::ordered_json*> names;  ///< schemas of "propertyNames"
    std::vector<std::string> keys;                     ///< keys that schemas name
    auto operator<=>(const FreeKey&) const = default;
  };
  /// "additionalProperties" or "unevaluatedProperties": a schema for the properties that no schema in
  /// `namers` describes.
  struct FreeProperties {
    SchemaReader schema;
    Schemas namers;
  };

  using ProductOf = ByteAutomaton (*)(const ByteAutomaton&, const ByteAutomaton&, std::string_view,
                                      AutomatonLimits&);
  struct Product {
    Expression a, b;  ///< kept alive: products_ is keyed by their nodes' addresses
    Expression result;
  };

  // schema_compiler.cpp
  Expression value(Schemas schemas);
  Expression conjunction(Conjunction all, Schemas open);
  void count_visits(size_t count);
  bool add(const SchemaReader& schema, Conjunction& all, Schemas& open,
           std::vector<const nlohmann::ordered_json*>& followed);
  bool follow(const SchemaReader& target, std::vector<const nlohmann::ordered_json*>& followed);
  void add_unions(const SchemaReader& schema, Conjunction& all);
  void check_strict(const SchemaReader& schema);
  static std::vector<Schemas> exclusive_branches(const SchemaReader& schema);
  Expression alternatives(Conjunction all);
  Expression of_types(const Schemas& schemas);
  Expression listed_values(const Schemas& schemas, JsonTypes types, JsonTypes described);
  ListedTexts write_values(const Schemas& schemas, JsonTypes types, JsonTypes described);
  Expression kinds(const Schemas& schemas, JsonTypes types);
  Expression without_listed(const Schemas& schemas, JsonTypes types);
  Expression free_part() const;
  ByteAutomaton compiled(const Expression& expression);
  Expression intersection(const Expression& a, const Expression& b);
  Expression difference(const Expression& a, const Expression& b);
  Expression product(const Expression& a, const Expression& b, ProductOf make);
  Expression characters(int least, std::optional<int> most);
  static Counts counts(const Schemas& schemas, std::string_view least, std::string_view most, int limit);
  Expression pattern(const std::string& pattern, TextEncoding encoding, const SchemaReader& schema,
                     std::string_view keyword);
  Expression string(const Schemas& schemas);
  Expression number(const Schemas& schemas, bool may_have_fraction);
  Expression bounded_number(const Schemas& schemas, bool may_have_fraction);
  Expression multiples(const SchemaReader& schema, std::string_view keyword, bool may_have_fraction,
                       const Schemas& bounds);

  // schema_lists.cpp
  Expression list(const Schemas& schemas);
  static ItemSchemas item_schemas(const SchemaReader& schema);
  static ItemSchemas unevaluated_items(const SchemaReader& schema, const Schemas& all);
  std::optional<ListItems> list_items(const Schemas& schemas);
  Expression in_order(const ListItems& items);
  Expression unique(const ListItems& items, const SchemaReader& schema);
  std::vector<Expression> distinct_classes(const Expression& item, std::optional<int> most);
  Expression each_at_most_once(const std::vector<Expression>& classes, const Counts& length);
  Expression containing(const ListItems& items, const SchemaReader& schema);
  Expression item_separator() const;

  // schema_objects.cpp
  Expression object(const Schemas& schemas);
  std::vector<std::string_view> named_keys(const Schemas& schemas,
                                           std::unordered_set<std::string_view>& required);
  static std::vector<FreeProperties> free_properties(const Schemas& schemas);
  Expression value_of_member(const Schemas& schemas,
                             const std::unordered_set<const nlohmann::ordered_json*>& namers,
                             Schemas of_member);
  Expression property(const Schemas& schemas, std::string_view key);
  bool is_name_allowed(const Schemas& schemas, std::string_view key);
  const ByteAutomaton& names(const SchemaReader& schema);
  bool matches(const std::string& pattern, std::string_view key, const SchemaReader& schema);
  Expression free_members(const Schemas& schemas, const std::vector<std::string_view>& keys);
  Expression free_member_value(const Schemas& schemas, const std::vector<std::string>& patterns,
                               unsigned matched);
  Expression free_key(const Schemas& schemas, const std::vector<std::string_view>& keys,
                      const std::vector<std::string>& patterns, unsigned matched);
  Expression new_free_key(const Schemas& schemas, const std::vector<std::string_view>& keys,
                          const std::vector<std::string>& patterns, unsigned matched);
  Expression distinct_members(const Schemas& schemas, const Counts& count);

  /// Returns the cached value of `key`; the first call creates it with `make`.
  template <typename Made, typename Key, typename Make>
  static const auto& made_once(Made& made, const Key& key, Make&& make) {
    auto known = made.find(key);
    if (known == made.end()) known = made.emplace(key, make()).first;
    return known->second;
  }

  const SchemaReader root_;
  const JsonSchemaOptions& options_;
  const int recursion_depth_;
  AutomatonLimits& limits_;                                  // shared by all compiled parts
  std::map<const nlohmann::ordered_json*, int> times_open_;  // expansions in progress, by target of $ref
  bool is_cut_ = false;
  int nesting_ = 0;
  int canonical_ = 0;  // above 0: each value has one canonical text
  size_t num_visits_ = 0;
  std::unordered_set<const nlohmann::ordered_json*> are_strict_;  // schemas that passed check_strict()
  std::unordered_map<const nlohmann::ordered_json*, std::vector<Schemas>> exclusive_;
  std::map<std::pair<std::string, TextEncoding>, Expression> patterns_;
  std::unordered_map<std::string, Expression> formats_, numbers_;  // numbers by their bounds
  std::map<std::tuple<const ListedValues*, JsonTypes, JsonTypes, bool>, ListedTexts> listed_;
  std::map<std::string, ByteAutomaton> key_patterns_;
  std::map<FreeKey, Expression> free_keys_;
  /// Keyed by the nodes of both operands and whether it is a difference.
  std::map<std::tuple<const Expression::Node*, const Expression::Node*, bool>, Product> products_;
  std::map<std::pair<int, std::optional<int>>, Expression> characters_;  // by the counts
  std::map<const nlohmann::ordered_json*, ByteAutomaton> names_;         // of keys, by schema
  std::string empty_at_;  // path of the first schema for which no text can be written
};

}  // namespace lacuna
