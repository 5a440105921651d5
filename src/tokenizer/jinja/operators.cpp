#include "tokenizer/jinja/operators.h"

#include <algorithm>
#include <cmath>

#include "tokenizer/jinja/loop.h"
#include "tokenizer/jinja/methods.h"

namespace lacuna::jinja {
namespace {

std::optional<int64_t> find_length(const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.is_text()) return value.as_text().length;
  if (value.type() == Value::Type::kSequence) return std::ssize(value.as_sequence().items);
  if (value.is_dict()) return std::ssize(value.as_dict().items);
  if (value.type() == Value::Type::kLoop) return value.as_loop().length();
  return {};
}

}  // namespace

Iterator::Iterator(Runtime& runtime, Value value) : runtime_(&runtime), value_(std::move(value)) {
  if (!is_iterable(value_)) fail("a value of type {} cannot be iterated", type_name(value_));
}

bool Iterator::next(Value& item) {
  switch (value_.type()) {
    case Value::Type::kText: {
      const Text& text = value_.as_text();
      if (position_ >= text.bytes.size()) return false;
      const size_t size = std::max<size_t>(first_character_bytes(text.view().substr(position_)), 1);
      Text character = slice(*runtime_, text, position_, position_ + size);
      character.is_markup = false;
      position_ += size;
      item = Value::text(*runtime_, std::move(character));
      return true;
    }
    case Value::Type::kSequence: {
      const std::vector<Value>& items = value_.as_sequence().items;
      if (position_ >= items.size()) return false;
      item = items[position_++];
      return true;
    }
    case Value::Type::kDict: {
      const auto& items = value_.as_dict().items;
      if (position_ >= items.size()) return false;
      item = items[position_++].first;
      return true;
    }
    case Value::Type::kGenerator:
      runtime_->step();
      return value_.as_generator().next(item);
    default:
      return false;
  }
}

bool is_true(Runtime& /*runtime*/, const Value& value) {
  if (value.is_number()) return value.as_real() != 0;
  const std::optional<int64_t> length = find_length(value);
  return length ? *length != 0 : !value.is_none();
}

int64_t length_of(const Value& value) {
  const std::optional<int64_t> length = find_length(value);
  if (!length) fail("a value of type {} has no length", type_name(value));
  return *length;
}

namespace {

bool numbers_equal(const Value& left, const Value& right) {
  if (left.is_integer() && right.is_integer()) return left.as_integer() == right.as_integer();
  const auto wide = [](const Value& value) {
    return value.is_integer() ? static_cast<long double>(value.as_integer())
                              : static_cast<long double>(value.as_real());
  };
  return wide(left) == wide(right);
}

bool sequences_equal(Runtime& runtime, const Value& left, const Value& right) {
  const Sequence& a = left.as_sequence();
  const Sequence& b = right.as_sequence();
  if (&a == &b) return true;
  const auto is_set = [](const Sequence& sequence) {
    return sequence.kind == Sequence::Kind::kKeys || sequence.kind == Sequence::Kind::kItems;
  };
  if (is_set(a) && is_set(b)) {  // views of a dictionary are sets
    if (a.items.size() != b.items.size()) return false;
    return std::ranges::all_of(a.items, [&](const Value& item) { return is_in(runtime, item, right); });
  }
  if (a.kind != b.kind || a.kind == Sequence::Kind::kValues || a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    if (!equals(runtime, a.items[i], b.items[i])) return false;
  }
  return true;
}

bool dicts_equal(Runtime& runtime, const Dict& left, const Dict& right) {
  if (&left == &right) return true;
  if (left.items.size() != right.items.size()) return false;
  for (const auto& [key, value] : left.items) {
    const Value* other = right.find(runtime, key);
    if (other == nullptr || !equals(runtime, value, *other)) return false;
  }
  return true;
}

}  // namespace

bool equals(Runtime& runtime, const Value& left, const Value& right) {
  runtime.step();
  if (left.is_number() && right.is_number()) return numbers_equal(left, right);
  if (left.type() != right.type()) return false;
  switch (left.type()) {
    case Value::Type::kUndefined:
    case Value::Type::kNone:
      return true;
    case Value::Type::kText:
      if (left.as_text().bytes.size() != right.as_text().bytes.size()) return false;
      runtime.touch(left.as_text().bytes.size());
      return left.as_text().bytes == right.as_text().bytes;
    case Value::Type::kSequence:
      return sequences_equal(runtime, left, right);
    case Value::Type::kDict:
      return dicts_equal(runtime, left.as_dict(), right.as_dict());
    default:
      return left.object() == right.object();
  }
}

std::optional<int> compare(Runtime& runtime, Operator op, const Value& left, const Value& right) {
  runtime.step();
  if (left.is_number() && right.is_number()) {
    if (left.is_integer() && right.is_integer()) {
      return left.as_integer() < right.as_integer() ? -1 : left.as_integer() > right.as_integer() ? 1 : 0;
    }
    const auto a = left.is_integer() ? static_cast<long double>(left.as_integer()) : left.as_real();
    const auto b = right.is_integer() ? static_cast<long double>(right.as_integer()) : right.as_real();
    if (std::isnan(a) || std::isnan(b)) return std::nullopt;
    return a < b ? -1 : a > b ? 1 : 0;
  }
  if (left.is_text() && right.is_text()) {
    runtime.touch(std::min(left.as_text().bytes.size(), right.as_text().bytes.size()));
    const int order =
        left.as_text().bytes.compare(right.as_text().bytes);  // UTF-8 keeps the order of code points
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  if ((left.is_list() && right.is_list()) || (left.is_tuple() && right.is_tuple())) {
    const auto& a = left.as_sequence().items;
    const auto& b = right.as_sequence().items;
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      if (!equals(runtime, a[i], b[i])) return compare(runtime, op, a[i], b[i]);
    }
    return a.size() < b.size() ? -1 : a.size() > b.size() ? 1 : 0;
  }
  expect_defined(left);
  expect_defined(right);
  fail("'{}' does not take {} and {}", symbol_of(op), type_name(left), type_name(right));
}

bool is_in(Runtime& runtime, const Value& item, const Value& container) {
  if (container.is_text()) {
    expect_defined(item);
    if (!item.is_text()) fail("'in' on a str takes a str, not {}", type_name(item));
    return contains(runtime, container.as_text().bytes, item.as_text().bytes);
  }
  if (container.is_dict()) return container.as_dict().find(runtime, item) != nullptr;
  Iterator iterator(runtime, container);
  for (Value each; iterator.next(each);) {
    if (equals(runtime, each, item)) return true;
  }
  return false;
}

namespace {

Value missing_item(const Value& value, const Value& key) {
  if (key.is_text()) {
    return Value::undefined(fmt::format("'{} object' has no attribute '{}'", type_name(value),
                                        key.as_text().view().substr(0, 100)));
  }
  if (key.is_integer()) {
    return Value::undefined(fmt::format("{} object has no element {}", type_name(value), key.as_integer()));
  }
  return Value::undefined(fmt::format("{} object has no such element", type_name(value)));
}

bool is_subscriptable(const Sequence& sequence) {
  return sequence.kind <= Sequence::Kind::kRange;
}

// The item of a container; empty if it is absent, so that an attribute may be meant.
std::optional<Value> find_item(Runtime& runtime, const Value& value, const Value& key) {
  if (value.is_dict()) {
    // An unhashable key raises TypeError in Python, which jinja2 treats as a missing item.
    if (key.is_dict() || (key.type() == Value::Type::kSequence && !key.is_tuple())) return std::nullopt;
    const Value* found = value.as_dict().find(runtime, key);
    if (found != nullptr) return *found;
    return std::nullopt;
  }
  if (!key.is_integer()) return std::nullopt;
  const bool is_sequence = value.type() == Value::Type::kSequence && is_subscriptable(value.as_sequence());
  if (!is_sequence && !value.is_text()) return std::nullopt;
  const int64_t length = length_of(value);
  int64_t index = key.as_integer();
  if (index < 0) index += length;
  if (index < 0 || index >= length) return std::nullopt;
  if (is_sequence) return value.as_sequence().items[static_cast<size_t>(index)];
  const Text& text = value.as_text();
  const size_t begin = byte_of(runtime, text, index);
  const size_t size = std::max<size_t>(first_character_bytes(text.view().substr(begin)), 1);
  return Value::text(runtime, slice(runtime, text, begin, begin + size));
}

// The attribute that Python's getattr() finds.
std::optional<Value> find_attribute(Runtime& runtime, const Value& value, std::string_view name) {
  switch (value.type()) {
    case Value::Type::kNamespace:
      if (const Value* found = value.as_namespace().find(runtime, name)) return *found;
      return std::nullopt;
    case Value::Type::kLoop:
      return value.as_loop().attribute(value, name);
    case Value::Type::kCallable:
      return value.as_callable().attribute(runtime, name);
    default:
      return find_method(runtime, value, name);
  }
}

}  // namespace

Value item_of(Runtime& runtime, const Value& value, const Value& key) {
  expect_defined(value);
  if (auto found = find_item(runtime, value, key)) return *found;
  if (key.is_text()) {
    if (auto found = find_attribute(runtime, value, key.as_text().bytes)) return *found;
  }
  return missing_item(value, key);
}

Value attribute_of(Runtime& runtime, const Value& value, std::string_view name) {
  expect_defined(value);
  if (auto found = find_attribute(runtime, value, name)) return *found;
  if (value.is_dict()) {
    if (const Value* found = value.as_dict().find(name)) return *found;
  }
  return Value::undefined(fmt::format("'{} object' has no attribute '{}'", type_name(value), name));
}

Value slice_of(Runtime& runtime, const Value& value, const Value& start, const Value& stop,
               const Value& step) {
  expect_defined(value);
  const bool is_sequence = value.type() == Value::Type::kSequence && is_subscriptable(value.as_sequence());
  if (!is_sequence && !value.is_text()) fail("a value of type {} cannot be sliced", type_name(value));
  const int64_t stride = step.is_none() ? 1 : integer_of(step, "the step of a slice");
  if (stride == 0) fail("the step of a slice is 0");
  const int64_t length = length_of(value);
  const int64_t low = stride > 0 ? 0 : -1;
  const int64_t high = stride > 0 ? length : length - 1;
  const auto bound = [&](const Value& given, int64_t otherwise) {
    if (given.is_none()) return otherwise;
    int64_t index = integer_of(given, "a bound of a slice");
    if (index < 0) index = std::max(index, -length - 1) + length;
    return std::clamp(index, low, std::max(low, high));
  };
  const int64_t begin = bound(start, stride > 0 ? low : high);
  const int64_t end = bound(stop, stride > 0 ? high : low);
  std::vector<int64_t> indices;
  if (value.is_text() && stride == 1) {
    const Text& text = value.as_text();
    const size_t first = byte_of(runtime, text, begin);
    const size_t last = byte_of(runtime, text, std::max(begin, end));
    return Value::text(runtime, slice(runtime, text, first, last));
  }
  for (int64_t i = begin; stride > 0 ? i < end : i > end;) {
    runtime.step(indices.size() % 16 == 0 ? 1 : 0);
    indices.push_back(i);
    if (__builtin_add_overflow(i, stride, &i)) break;
  }
  if (value.is_text()) return Value::text(runtime, pick(runtime, value.as_text(), indices));
  std::vector<Value> items;
  for (const int64_t index : indices) items.push_back(value.as_sequence().items[static_cast<size_t>(index)]);
  if (value.as_sequence().kind != Sequence::Kind::kRange) {
    return value.is_tuple() ? Value::tuple(runtime, std::move(items))
                            : Value::list(runtime, std::move(items));
  }
  const Sequence& range = value.as_sequence();
  auto part = std::make_shared<Sequence>();
  part->kind = Sequence::Kind::kRange;
  part->start = range.start + begin * range.step;
  part->stop = range.start + end * range.step;
  part->step = range.step * stride;
  part->items = std::move(items);
  return Value::of(std::move(part));
}

}  // namespace lacuna::jinja
