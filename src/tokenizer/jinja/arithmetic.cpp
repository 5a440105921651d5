// operators.h: arithmetic.
#include <algorithm>
#include <cmath>

#include "tokenizer/jinja/format.h"
#include "tokenizer/jinja/operators.h"

namespace lacuna::jinja {
namespace {

[[noreturn]] void fail_types(Operator op, const Value& left, const Value& right) {
  expect_defined(left);
  expect_defined(right);
  fail("'{}' does not take {} and {}", symbol_of(op), type_name(left), type_name(right));
}

[[noreturn]] void fail_range(Operator op) {
  fail("the result of '{}' needs more than 64 bits", symbol_of(op));
}

int64_t floor_divide(int64_t left, int64_t right) {
  const int64_t quotient = left / right;
  return quotient - ((left % right != 0 && (left < 0) != (right < 0)) ? 1 : 0);
}

// Python's %: the remainder has the divisor's sign.
double modulo(double left, double right) {
  double rest = std::fmod(left, right);
  if (rest == 0) return std::copysign(0.0, right);
  if ((rest < 0) != (right < 0)) rest += right;
  return rest;
}

double floor_divide(double left, double right) {
  const double rest = std::fmod(left, right);
  double quotient = (left - rest) / right;  // rounded before the subtraction of 1, as in Python
  if (rest != 0 && (rest < 0) != (right < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, left / right);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

int64_t integer_power(int64_t base, int64_t exponent) {
  int64_t power = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(power, base, &power)) fail_range(Operator::kPower);
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) fail_range(Operator::kPower);
  }
  return power;
}

double real_power(double base, double exponent) {
  if (base == 0 && exponent < 0) fail("0 cannot be raised to a negative power");
  if (base < 0 && exponent != std::floor(exponent) && std::isfinite(exponent) && std::isfinite(base)) {
    fail("a negative number cannot be raised to a fraction");
  }
  const double power = std::pow(base, exponent);
  if (std::isinf(power) && std::isfinite(base) && std::isfinite(exponent))
    fail("the result of '**' is too large");
  return power;
}

Value integer_result(Operator op, int64_t left, int64_t right, bool is_input) {
  int64_t result = 0;
  bool overflows = false;
  switch (op) {
    case Operator::kAdd:
      overflows = __builtin_add_overflow(left, right, &result);
      break;
    case Operator::kSubtract:
      overflows = __builtin_sub_overflow(left, right, &result);
      break;
    case Operator::kMultiply:
      overflows = __builtin_mul_overflow(left, right, &result);
      break;
    case Operator::kFloorDivide:
    case Operator::kModulo:
      if (right == 0) fail("division by zero");
      if (right == -1) {
        overflows = op == Operator::kFloorDivide && __builtin_sub_overflow(0, left, &result);
      } else {
        const int64_t quotient = floor_divide(left, right);
        result = op == Operator::kFloorDivide ? quotient : left - quotient * right;
      }
      break;
    case Operator::kPower:
      if (right < 0)
        return Value::real(real_power(static_cast<double>(left), static_cast<double>(right)), is_input);
      result = left == 0 || left == 1 ? (right == 0 ? 1 : left)
               : left == -1           ? (right % 2 == 0 ? 1 : -1)
                                      : integer_power(left, right);
      break;
    default:
      break;
  }
  if (overflows) fail_range(op);
  return Value::integer(result, is_input);
}

Value real_result(Operator op, double left, double right, bool is_input) {
  switch (op) {
    case Operator::kAdd:
      return Value::real(left + right, is_input);
    case Operator::kSubtract:
      return Value::real(left - right, is_input);
    case Operator::kMultiply:
      return Value::real(left * right, is_input);
    case Operator::kPower:
      return Value::real(real_power(left, right), is_input);
    default:
      break;
  }
  if (right == 0) fail("division by zero");
  if (op == Operator::kDivide) return Value::real(left / right, is_input);
  return Value::real(op == Operator::kModulo ? modulo(left, right) : floor_divide(left, right), is_input);
}

Value numbers(Operator op, const Value& left, const Value& right) {
  const bool is_input = left.is_input() || right.is_input();
  if (op != Operator::kDivide && left.is_integer() && right.is_integer()) {
    return integer_result(op, left.as_integer(), right.as_integer(), is_input);
  }
  return real_result(op, left.as_real(), right.as_real(), is_input);
}

Value concatenate(Runtime& runtime, const Value& left, const Value& right) {
  if (left.is_text() && right.is_text()) {
    const bool is_markup = left.as_text().is_markup || right.as_text().is_markup;
    TextBuilder builder(runtime);
    builder.append(is_markup ? escape(runtime, left.as_text()) : left.as_text());
    builder.append(is_markup ? escape(runtime, right.as_text()) : right.as_text());
    return Value::text(runtime, builder.take(is_markup));
  }
  if ((left.is_list() && right.is_list()) || (left.is_tuple() && right.is_tuple())) {
    runtime.step(left.as_sequence().items.size() + right.as_sequence().items.size());
    std::vector<Value> items = left.as_sequence().items;
    items.insert(items.end(), right.as_sequence().items.begin(), right.as_sequence().items.end());
    return left.is_list() ? Value::list(runtime, std::move(items)) : Value::tuple(runtime, std::move(items));
  }
  fail_types(Operator::kAdd, left, right);
}

Value repeat(Runtime& runtime, const Value& left, const Value& right) {
  const bool counts_left = left.is_integer();
  const Value& repeated = counts_left ? right : left;
  const Value& times = counts_left ? left : right;
  if (!times.is_integer()) fail_types(Operator::kMultiply, left, right);
  const int64_t count = std::max<int64_t>(times.as_integer(), 0);
  if (repeated.is_text()) {
    const Text& text = repeated.as_text();
    TextBuilder builder(runtime);
    for (int64_t i = 0; i < count && !text.bytes.empty(); ++i) {
      runtime.touch(text.inputs.size() * 16 + 16);
      builder.append(text);
    }
    return Value::text(runtime, builder.take(text.is_markup));
  }
  if (!repeated.is_list() && !repeated.is_tuple()) fail_types(Operator::kMultiply, left, right);
  std::vector<Value> items;
  const std::vector<Value>& once = repeated.as_sequence().items;
  for (int64_t i = 0; i < count && !once.empty(); ++i) {
    runtime.step(once.size());
    items.insert(items.end(), once.begin(), once.end());
  }
  return repeated.is_list() ? Value::list(runtime, std::move(items))
                            : Value::tuple(runtime, std::move(items));
}

}  // namespace

std::string_view symbol_of(Operator op) {
  constexpr std::string_view kSymbols[] = {
      "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};
  return kSymbols[static_cast<size_t>(op)];
}

Value apply(Runtime& runtime, Operator op, const Value& left, const Value& right) {
  switch (op) {
    case Operator::kEqual:
      return Value::boolean(equals(runtime, left, right));
    case Operator::kNotEqual:
      return Value::boolean(!equals(runtime, left, right));
    case Operator::kIn:
      return Value::boolean(is_in(runtime, left, right));
    case Operator::kNotIn:
      return Value::boolean(!is_in(runtime, left, right));
    case Operator::kLess:
    case Operator::kLessEqual:
    case Operator::kGreater:
    case Operator::kGreaterEqual: {
      const std::optional<int> order = compare(runtime, op, left, right);
      if (!order.has_value()) return Value::boolean(false);
      return Value::boolean(op == Operator::kLess        ? *order < 0
                            : op == Operator::kLessEqual ? *order <= 0
                            : op == Operator::kGreater   ? *order > 0
                                                         : *order >= 0);
    }
    default:
      break;
  }
  if (left.is_number() && right.is_number()) return numbers(op, left, right);
  if (op == Operator::kAdd) return concatenate(runtime, left, right);
  if (op == Operator::kMultiply) return repeat(runtime, left, right);
  if (op == Operator::kModulo && left.is_text()) return percent_format(runtime, left.as_text(), right);
  fail_types(op, left, right);
}

int64_t truncated(double value) {
  if (std::isnan(value) || value >= 9223372036854775808.0 || value < -9223372036854775808.0) {
    fail("{} is no int of 64 bits", value);
  }
  return static_cast<int64_t>(value);
}

Value negate(const Value& value) {
  expect_defined(value);
  if (value.type() == Value::Type::kFloat) return Value::real(-value.as_real(), value.is_input());
  int64_t result = 0;
  if (__builtin_sub_overflow(0, integer_of(value, "the operand of '-'"), &result))
    fail_range(Operator::kSubtract);
  return Value::integer(result, value.is_input());
}

Value plus(const Value& value) {
  expect_defined(value);
  if (value.type() == Value::Type::kFloat) return value;
  return Value::integer(integer_of(value, "the operand of '+'"), value.is_input());
}

}  // namespace lacuna::jinja
