// Python's operators on values. Each throws RenderError where Python raises an exception, and for integers
// that need more than 64 bits.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tokenizer/jinja/value.h"

namespace lacuna::jinja {

enum class Operator : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn
};

std::string_view symbol_of(Operator op);

Value apply(Runtime& runtime, Operator op, const Value& left, const Value& right);
/// Python's int() of a finite float.
int64_t truncated(double value);
Value negate(const Value& value);
Value plus(const Value& value);

bool equals(Runtime& runtime, const Value& left, const Value& right);
/// Three-way comparison of two numbers, texts, lists or tuples: negative, 0 or positive. Empty for NaN.
std::optional<int> compare(Runtime& runtime, Operator op, const Value& left, const Value& right);
/// `item in container`
bool is_in(Runtime& runtime, const Value& item, const Value& container);

/// `value[key]`; undefined if the key is absent.
Value item_of(Runtime& runtime, const Value& value, const Value& key);
/// `value[start:stop:step]`; bounds may be omitted.
Value slice_of(Runtime& runtime, const Value& value, const Value& start, const Value& stop,
               const Value& step);
/// `value.name`; undefined if it is absent. Names with a leading underscore are found only in dictionaries.
Value attribute_of(Runtime& runtime, const Value& value, std::string_view name);

}  // namespace lacuna::jinja
