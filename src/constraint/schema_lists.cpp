// SchemaCompiler's member functions for arrays.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/budget.h"
#include "constraint/finite_language.h"
#include "constraint/json_texts.h"
#include "constraint/schema_compiler.h"
#include "constraint/schema_negation.h"

namespace lacuna {

using nlohmann::ordered_json;

SchemaCompiler::ItemSchemas SchemaCompiler::item_schemas(const SchemaReader& schema) {
  ItemSchemas items;
  const ordered_json* own = schema.find("items");
  // Before draft 2020-12, "items" could be a list with the meaning of today's "prefixItems".
  const bool is_tuple = own && own->is_array();
  if (is_tuple && schema.has("prefixItems")) schema.refuse("items", "a schema next to \"prefixItems\"");
  for (const SchemaReader& item : schema.schemas(is_tuple ? "items" : "prefixItems"))
    items.first.emplace_back(item);
  items.rest = schema.schema(is_tuple ? "additionalItems" : "items");
  return items;
}

/// "unevaluatedItems" as the schema of all items that neither `schema` nor one within it describes.
SchemaCompiler::ItemSchemas SchemaCompiler::unevaluated_items(const SchemaReader& schema,
                                                              const Schemas& all) {
  ItemSchemas items;
  if (!schema.has("unevaluatedItems")) return items;
  for (const SchemaReader& other : all) {
    if (!other.is_within(schema)) continue;
    const ItemSchemas described = item_schemas(other);
    if (described.rest) return {};
    items.first.resize(std::max(items.first.size(), described.first.size()));
  }
  items.rest = schema.schema("unevaluatedItems");
  return items;
}

Expression SchemaCompiler::item_separator() const {
  return Expression::text(punctuation(options_.layout).item_separator);
}

Expression SchemaCompiler::list(const Schemas& schemas) {
  const auto is_unique = [](const SchemaReader& schema) { return schema.is_true("uniqueItems"); };
  const auto unique_one = std::ranges::find_if(schemas, is_unique);
  const Counts length = counts(schemas, "minItems", "maxItems", kMaxItems);
  const bool needs_unique = unique_one != schemas.end() && length.most.value_or(kMaxItems) > 1;
  if (needs_unique) ++canonical_;
  const std::optional<ListItems> items = list_items(schemas);
  Expression content = Expression::nothing();
  if (items) content = needs_unique ? unique(*items, *unique_one) : in_order(*items);
  for (const SchemaReader& schema : schemas) {
    if (items && !content.is_nothing() && schema.has("contains"))
      content = intersection(content, containing(*items, schema));
  }
  if (needs_unique) --canonical_;
  return json_list(content);
}

/// The items that a list may have; empty if no list can be written.
std::optional<SchemaCompiler::ListItems> SchemaCompiler::list_items(const Schemas& schemas) {
  Counts length = counts(schemas, "minItems", "maxItems", kMaxItems);
  std::vector<ItemSchemas> items;
  size_t num_first = 1;
  for (const SchemaReader& schema : schemas) {
    for (ItemSchemas each : {item_schemas(schema), unevaluated_items(schema, schemas)}) {
      num_first = std::max(num_first, each.first.size());
      items.push_back(std::move(each));
    }
    // in_order() nests these items, so their number is the depth of the expression.
    if (num_first > static_cast<size_t>(kMaxTupleItems))
      schema.refuse(schema.has("prefixItems") ? "prefixItems" : "items",
                    fmt::format("at most {} schemas", kMaxTupleItems));
  }
  const auto item = [&](size_t index) {
    spend_steps(items.size() * kStepsPerPart);
    Schemas of_item;
    for (const ItemSchemas& each : items) {
      if (index < each.first.size()) {
        if (each.first[index]) of_item.push_back(*each.first[index]);
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
  // Without tuples all items have the same schema as the first one.
  const bool has_tuples = std::ranges::any_of(items, [](const auto& each) { return !each.first.empty(); });
  Expression rest = has_tuples && (!length.most || num_first < static_cast<size_t>(*length.most))
                        ? item(num_first)
                    : first.empty() ? Expression::nothing()
                                    : first.back();
  if (rest.is_nothing()) limit_to(std::min(num_first, static_cast<size_t>(length.most.value_or(kMaxItems))));
  if (!length.is_possible()) return std::nullopt;
  return ListItems{std::move(first), std::move(rest), has_tuples, length};
}

/// The items and the separators between them.
Expression SchemaCompiler::in_order(const ListItems& list) {
  const auto& [first, rest, is_tuple, length] = list;
  const Expression separator = item_separator();
  if (!is_tuple) return Expression::repeat(rest, length.least, length.most, separator);
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

/// Lists whose items all differ.
Expression SchemaCompiler::unique(const ListItems& list, const SchemaReader& schema) {
  std::vector<Expression> all = list.first;
  all.push_back(list.rest);
  const Expression item = list.is_tuple ? Expression::choice(all) : list.rest;
  if (item.is_nothing()) return list.length.least == 0 ? Expression::text("") : Expression::nothing();
  const auto values = finite_language(compiled(item), kMaxUniqueValues);
  Expression content = Expression::nothing();
  if (values && values->size() > kMaxPermutedValues) {
    // Lists of distinct values are written in the order of `values` only.
    std::vector<Expression::Member> members;
    for (const std::string& text : *values) members.push_back({Expression::text(text), false});
    content = Expression::members(std::move(members), item_separator(), list.length.least, list.length.most);
  } else {
    content = each_at_most_once(distinct_classes(item, list.length.most), list.length);
  }
  if (list.is_tuple && !content.is_nothing()) content = intersection(content, in_order(list));
  if (content.is_nothing())
    schema.refuse_unsupported("uniqueItems", "so many different items can be written only of an enum");
  return content;
}

/// Disjoint classes of an item's texts: its single values if they are few, else texts by their length modulo
/// the number of classes.
std::vector<Expression> SchemaCompiler::distinct_classes(const Expression& item, std::optional<int> most) {
  std::vector<Expression> classes;
  if (const auto values = finite_language(compiled(item), kMaxPermutedValues)) {
    for (const std::string& text : *values) classes.push_back(Expression::text(text));
    return classes;
  }
  const int count = std::min(most.value_or(kMaxDistinctItems), kMaxDistinctItems);
  const Expression byte = any_byte();
  for (int remainder = 0; remainder < count; ++remainder) {
    const Expression length =
        Expression::sequence({Expression::repeat(byte, remainder, remainder),
                              Expression::repeat(Expression::repeat(byte, count, count), 0, std::nullopt)});
    classes.push_back(intersection(item, length));
  }
  std::erase_if(classes, [](const Expression& each) { return each.is_nothing(); });
  return classes;
}

/// Lists in any order with at most one item of each class.
Expression SchemaCompiler::each_at_most_once(const std::vector<Expression>& classes, const Counts& length) {
  const auto count = static_cast<int>(classes.size());
  const int most = std::min(length.most.value_or(count), count);
  if (length.least > most) return Expression::nothing();
  const Expression separator = item_separator();
  Expression lists = Expression::repeat(Expression::choice(classes), length.least, most, separator);
  for (size_t i = 0; i < classes.size() && most > 1; ++i) {
    std::vector<Expression> others = classes;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const Expression other = Expression::choice(std::move(others));
    const Expression before = Expression::repeat(Expression::sequence({other, separator}), 0, std::nullopt);
    const Expression after = Expression::repeat(Expression::sequence({separator, other}), 0, std::nullopt);
    lists = intersection(lists, Expression::choice({Expression::repeat(other, 0, std::nullopt, separator),
                                                    Expression::sequence({before, classes[i], after})}));
  }
  return lists;
}

/// Lists in which minContains to maxContains items match "contains".
Expression SchemaCompiler::containing(const ListItems& list, const SchemaReader& schema) {
  const SchemaReader contained = *schema.schema("contains");
  const Counts number = [&] {
    Counts counts = SchemaCompiler::counts({schema}, "minContains", "maxContains", kMaxItems);
    if (!schema.has("minContains")) counts.least = 1;
    return counts;
  }();
  if (!number.is_possible()) return Expression::nothing();
  std::vector<Expression> all = list.first;
  all.push_back(list.rest);
  Expression other = Expression::choice(std::move(all));
  const Expression item = value({contained});
  if (number.most) {
    // With an upper bound, the other items must not match.
    other = value({negated(contained)});
  } else if (number.least == 0) {
    return in_order(list);
  }
  const Expression separator = item_separator();
  const auto behind = [&](const Expression& each) { return Expression::sequence({separator, each}); };
  const Expression others = Expression::repeat(behind(other), 0, std::nullopt);
  const auto counted = [&](int used) {
    const int least = std::max(0, number.least - used);
    if (number.most && *number.most < used) return Expression::nothing();
    std::optional<int> most;
    if (number.most) most = *number.most - used;
    return Expression::repeat(Expression::sequence({behind(item), others}), least,
                              number.most ? most : std::optional<int>(least));
  };
  std::vector<Expression> lists{Expression::sequence({other, others, counted(0)}),
                                Expression::sequence({item, others, counted(1)})};
  if (number.least == 0) lists.push_back(Expression::text(""));
  return Expression::choice(std::move(lists));
}

}  // namespace lacuna
