// Filters of whole sequences.
#include <algorithm>
#include <array>
#include <unordered_set>

#include "tokenizer/jinja/format.h"
#include "tokenizer/jinja/library.h"
#include "tokenizer/jinja/methods.h"
#include "tokenizer/jinja/operators.h"

namespace lacuna::jinja {
namespace {

bool is_set(Runtime& runtime, const Value* option) {
  return option != nullptr && is_true(runtime, *option);
}

Value without_case(Runtime& runtime, const Value& value, bool is_case_sensitive) {
  if (is_case_sensitive || !value.is_text()) return value;
  return Value::text(runtime, to_lower(runtime, value.as_text()));
}

Value filter_length(Runtime& /*runtime*/, const Value& value, const Arguments& arguments) {
  arguments.bind("length", {});
  return Value::integer(length_of(value));
}

Value filter_first(Runtime& runtime, const Value& value, const Arguments& arguments) {
  arguments.bind("first", {});
  Value item;
  if (Iterator(runtime, value).next(item)) return item;
  return Value::undefined("'first' of a sequence that is empty");
}

// Items in reverse order; empty for values that can only be read forwards.
std::optional<std::vector<Value>> reversed(Runtime& runtime, const Value& value) {
  if (value.type() == Value::Type::kGenerator || !is_iterable(value)) return std::nullopt;
  std::vector<Value> items = items_of(runtime, value);
  std::reverse(items.begin(), items.end());
  return items;
}

Value filter_last(Runtime& runtime, const Value& value, const Arguments& arguments) {
  arguments.bind("last", {});
  if (value.is_text() || value.type() == Value::Type::kSequence) {
    const int64_t length = length_of(value);
    if (length == 0) return Value::undefined("'last' of a sequence that is empty");
    if (value.type() == Value::Type::kSequence) return value.as_sequence().items.back();
    return item_of(runtime, value, Value::integer(length - 1));
  }
  const auto items = reversed(runtime, value);
  if (!items.has_value()) fail("'last' does not take a value of type {}", type_name(value));
  return items->empty() ? Value::undefined("'last' of a sequence that is empty") : items->front();
}

Value generator_of(const Value& list) {
  return make_generator(list, [list, at = size_t{0}](Value& item) mutable {
    const std::vector<Value>& items = list.as_sequence().items;
    if (at >= items.size()) return false;
    item = items[at++];
    return true;
  });
}

Value filter_reverse(Runtime& runtime, const Value& value, const Arguments& arguments) {
  arguments.bind("reverse", {});
  if (value.is_text()) return slice_of(runtime, value, {}, {}, Value::integer(-1));
  if (auto items = reversed(runtime, value)) return generator_of(Value::list(runtime, std::move(*items)));
  std::vector<Value> items = items_of(runtime, value);
  std::reverse(items.begin(), items.end());
  return Value::list(runtime, std::move(items));
}

Value filter_list(Runtime& runtime, const Value& value, const Arguments& arguments) {
  arguments.bind("list", {});
  return Value::list(runtime, items_of(runtime, value));
}

Value filter_join(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto bound = arguments.bind("join", {"d", "attribute"});
  const Attribute attribute(runtime, bound[1]);
  const Value separator = bound[0] == nullptr ? Value::literal("") : to_text(runtime, *bound[0]);
  TextBuilder builder(runtime);
  Iterator iterator(runtime, value);
  bool is_first = true;
  for (Value item; iterator.next(item); is_first = false) {
    runtime.step();
    if (!is_first) builder.append(separator.as_text());
    builder.append(to_text(runtime, attribute.of(runtime, item)).as_text());
  }
  return Value::text(runtime, builder.take());
}

// Sorts by keys like Python's sorted(). Throws RenderError for keys without an order.
std::vector<Value> sorted(Runtime& runtime, std::vector<Value> items, const std::vector<Value>& keys,
                          bool is_reverse) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t left, size_t right) {
    if (is_reverse) std::swap(left, right);
    return compare(runtime, Operator::kLess, keys[left], keys[right]).value_or(0) < 0;
  });
  std::vector<Value> result;
  result.reserve(items.size());
  for (const size_t index : order) result.push_back(items[index]);
  return result;
}

Value filter_sort(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto bound = arguments.bind("sort", {"reverse", "case_sensitive", "attribute"});
  const bool is_case_sensitive = is_set(runtime, bound[1]);
  std::vector<Attribute> attributes;
  if (bound[2] != nullptr && bound[2]->is_text()) {
    const Value comma = Value::literal(",");
    for (Text& part : split(runtime, bound[2]->as_text(), &comma.as_text(), -1)) {
      const Value path = Value::text(runtime, std::move(part));
      attributes.emplace_back(runtime, &path);
    }
  } else {
    attributes.emplace_back(runtime, bound[2]);
  }
  std::vector<Value> items = items_of(runtime, value);
  std::vector<Value> keys;
  for (const Value& item : items) {
    std::vector<Value> key;
    for (const Attribute& attribute : attributes) {
      key.push_back(without_case(runtime, attribute.of(runtime, item), is_case_sensitive));
    }
    keys.push_back(Value::list(runtime, std::move(key)));
  }
  return Value::list(runtime, sorted(runtime, std::move(items), keys, is_set(runtime, bound[0])));
}

Value filter_dictsort(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto bound = arguments.bind("dictsort", {"case_sensitive", "by", "reverse"});
  expect_defined(value);
  std::string_view by = "key";
  if (bound[1] != nullptr) by = text_of(*bound[1], "'by' of dictsort").bytes;
  if (by != "key" && by != "value") fail("dictsort: 'by' is '{}'; it must be 'key' or 'value'", by);
  if (!value.is_dict()) fail("dictsort does not take a value of type {}", type_name(value));
  std::vector<Value> items, keys;
  for (const auto& [key, item] : value.as_dict().items) {
    items.push_back(Value::tuple(runtime, {key, item}));
    keys.push_back(without_case(runtime, by == "key" ? key : item, is_set(runtime, bound[0])));
  }
  return Value::list(runtime, sorted(runtime, std::move(items), keys, is_set(runtime, bound[2])));
}

Value filter_unique(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto bound = arguments.bind("unique", {"case_sensitive", "attribute"});
  const bool is_case_sensitive = is_set(runtime, bound[0]);
  const auto seen = std::make_shared<std::unordered_set<std::string>>();
  const auto iterator = std::make_shared<std::optional<Iterator>>();
  return make_generator(value, [&runtime, value, iterator, seen, is_case_sensitive,
                                attribute = Attribute(runtime, bound[1])](Value& item) {
    if (!iterator->has_value()) iterator->emplace(runtime, value);
    while ((*iterator)->next(item)) {
      const Value key = without_case(runtime, attribute.of(runtime, item), is_case_sensitive);
      if (seen->insert(key_text(runtime, key)).second) return true;
    }
    return false;
  });
}

template <Operator kOperator>
Value best(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto bound = arguments.bind("min and max", {"case_sensitive", "attribute"});
  const bool is_case_sensitive = is_set(runtime, bound[0]);
  const Attribute attribute(runtime, bound[1]);
  Iterator iterator(runtime, value);
  Value chosen, chosen_key;
  bool has_one = false;
  for (Value item; iterator.next(item);) {
    const Value key = without_case(runtime, attribute.of(runtime, item), is_case_sensitive);
    if (!has_one || is_true(runtime, apply(runtime, kOperator, key, chosen_key))) {
      chosen = item;
      chosen_key = key;
    }
    has_one = true;
  }
  return has_one ? chosen : Value::undefined("'min' or 'max' of a sequence that is empty");
}

Value filter_sum(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto bound = arguments.bind("sum", {"attribute", "start"});
  const Attribute attribute(runtime, bound[0]);
  Value total = bound[1] == nullptr ? Value::integer(0) : *bound[1];
  if (total.is_text()) fail("sum: 'start' is a str; 'join' adds texts");
  Iterator iterator(runtime, value);
  for (Value item; iterator.next(item);) {
    runtime.step();
    total = apply(runtime, Operator::kAdd, total, attribute.of(runtime, item));
  }
  return total;
}

Value filter_items(Runtime& runtime, const Value& value, const Arguments& arguments) {
  arguments.bind("items", {});
  return make_generator(value, [&runtime, value, at = size_t{0}](Value& item) mutable {
    if (value.is_undefined()) return false;
    if (!value.is_dict()) fail("'items' does not take a value of type {}", type_name(value));
    const auto& items = value.as_dict().items;
    if (at >= items.size()) return false;
    item = Value::tuple(runtime, {items[at].first, items[at].second});
    ++at;
    return true;
  });
}

Value filter_batch(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto bound = arguments.bind("batch", {"linecount", "fill_with"}, 1);
  const int64_t size = integer_of(*bound[0], "'linecount' of batch");
  const Value fill = bound[1] == nullptr ? Value() : *bound[1];
  std::vector<Value> batches, batch;
  for (const Value& item : items_of(runtime, value)) {
    if (static_cast<int64_t>(batch.size()) == size)
      batches.push_back(Value::list(runtime, std::exchange(batch, {})));
    batch.push_back(item);
  }
  if (!batch.empty()) {
    while (!fill.is_none() && static_cast<int64_t>(batch.size()) < size) {
      runtime.step();
      batch.push_back(fill);
    }
    batches.push_back(Value::list(runtime, std::move(batch)));
  }
  return generator_of(Value::list(runtime, std::move(batches)));
}

constexpr std::array kSequenceFilters = {
    NamedFilter{"batch", filter_batch},        NamedFilter{"count", filter_length},
    NamedFilter{"dictsort", filter_dictsort},  NamedFilter{"first", filter_first},
    NamedFilter{"items", filter_items},        NamedFilter{"join", filter_join},
    NamedFilter{"last", filter_last},          NamedFilter{"length", filter_length},
    NamedFilter{"list", filter_list},          NamedFilter{"max", best<Operator::kGreater>},
    NamedFilter{"min", best<Operator::kLess>}, NamedFilter{"reverse", filter_reverse},
    NamedFilter{"sort", filter_sort},          NamedFilter{"sum", filter_sum},
    NamedFilter{"unique", filter_unique},
};

}  // namespace

std::span<const NamedFilter> sequence_filters() {
  return kSequenceFilters;
}

}  // namespace lacuna::jinja
