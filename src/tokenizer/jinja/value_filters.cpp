// Filters of single values: defaults, numbers and JSON.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "tokenizer/jinja/format.h"
#include "tokenizer/jinja/library.h"
#include "tokenizer/jinja/methods.h"
#include "tokenizer/jinja/operators.h"

namespace lacuna::jinja {
namespace {

Value filter_default(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto bound = arguments.bind("default", {"default_value", "boolean"});
  const bool is_boolean = bound[1] != nullptr && is_true(runtime, *bound[1]);
  if (!value.is_undefined() && (!is_boolean || is_true(runtime, value))) return value;
  return bound[0] == nullptr ? Value::literal("") : *bound[0];
}

// Removes single underscores between digits, as in Python's numbers; empty if others remain.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string result;
  const auto is_letter_or_digit = [](char byte) {
    return std::isalnum(static_cast<unsigned char>(byte)) != 0;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      result += text[i];
    } else if (i == 0 || i + 1 == text.size() || !is_letter_or_digit(text[i - 1]) ||
               !is_letter_or_digit(text[i + 1])) {
      return std::nullopt;
    }
  }
  return result;
}

std::string_view trimmed(const Text& text) {
  return trim_as_python(text.bytes);
}

// Python's int(text, base); empty if it raises ValueError.
std::optional<int64_t> parse_integer(const Text& text, int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  const auto plain = without_underscores(trimmed(text));
  if (!plain.has_value()) return std::nullopt;
  std::string_view digits = *plain;
  const bool is_negative = digits.starts_with('-');
  if (is_negative || digits.starts_with('+')) digits.remove_prefix(1);
  const auto prefixed = [&](char letter, int64_t of) {
    if ((base != 0 && base != of) || digits.size() < 3 || digits[0] != '0' || (digits[1] | 0x20) != letter)
      return false;
    digits.remove_prefix(2);
    base = of;
    return true;
  };
  if (!prefixed('x', 16) && !prefixed('o', 8) && !prefixed('b', 2) && base == 0) {
    const bool is_zero = digits.find_first_not_of('0') == std::string_view::npos;
    if (digits.starts_with('0') && !is_zero) return std::nullopt;
    base = 10;
  }
  int64_t value = 0;
  const std::string signed_digits = (is_negative ? "-" : "") + std::string(digits);
  if (digits.empty() || digits.front() == '-' || digits.front() == '+') return std::nullopt;
  const auto read = std::from_chars(signed_digits.data(), signed_digits.data() + signed_digits.size(), value,
                                    static_cast<int>(base));
  if (read.ec == std::errc::invalid_argument || read.ptr != signed_digits.data() + signed_digits.size()) {
    return std::nullopt;
  }
  if (read.ec != std::errc()) fail("an int needs more than 64 bits");
  return value;
}

// Python's float(text); empty if it raises ValueError.
std::optional<double> parse_real(const Text& text) {
  const auto plain = without_underscores(trimmed(text));
  if (!plain.has_value() || plain->empty()) return std::nullopt;
  std::string lower = *plain;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char byte) { return byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte + 32) : byte; });
  std::string_view digits = lower;
  if (digits.starts_with('-') || digits.starts_with('+')) digits.remove_prefix(1);
  const double sign = lower.front() == '-' ? -1.0 : 1.0;
  if (digits == "inf" || digits == "infinity") return sign * HUGE_VAL;
  if (digits == "nan") return std::nan("");
  if (digits.find_first_not_of("0123456789.e+-") != std::string_view::npos) return std::nullopt;
  if (digits.empty() || digits.front() == '-' || digits.front() == '+') return std::nullopt;
  double value = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (read.ptr != digits.data() + digits.size() || read.ec == std::errc::invalid_argument)
    return std::nullopt;
  if (read.ec == std::errc::result_out_of_range) value = std::strtod(std::string(digits).c_str(), nullptr);
  return sign * value;
}

Value filter_int(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto bound = arguments.bind("int", {"default", "base"});
  const Value otherwise = bound[0] == nullptr ? Value::integer(0) : *bound[0];
  const int64_t base = bound[1] == nullptr ? 10 : integer_of(*bound[1], "'base' of int");
  expect_defined(value);
  if (value.is_integer()) return Value::integer(value.as_integer(), value.is_input());
  if (value.type() == Value::Type::kFloat) {
    if (std::isinf(value.as_real())) fail("infinity is no int");
    if (std::isnan(value.as_real())) return otherwise;
    return Value::integer(truncated(value.as_real()), value.is_input());
  }
  if (!value.is_text()) return otherwise;
  runtime.touch(value.as_text().bytes.size() * 16);
  const bool is_input = value.as_text().has_input();
  if (const auto integer = parse_integer(value.as_text(), base)) return Value::integer(*integer, is_input);
  const auto real = parse_real(value.as_text());
  if (!real.has_value() || !std::isfinite(*real)) return otherwise;
  return Value::integer(truncated(*real), is_input);
}

Value filter_float(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto bound = arguments.bind("float", {"default"});
  expect_defined(value);
  if (value.is_number()) return Value::real(value.as_real(), value.is_input());
  if (value.is_text()) {
    runtime.touch(value.as_text().bytes.size() * 16);
    if (const auto real = parse_real(value.as_text())) return Value::real(*real, value.as_text().has_input());
  }
  return bound[0] == nullptr ? Value::real(0) : *bound[0];
}

Value filter_abs(Runtime& /*runtime*/, const Value& value, const Arguments& arguments) {
  arguments.bind("abs", {});
  expect_defined(value);
  if (!value.is_number()) fail("abs does not take a value of type {}", type_name(value));
  if (!value.is_integer()) return Value::real(std::abs(value.as_real()), value.is_input());
  return value.as_integer() < 0 ? negate(value) : plus(value);
}

// Python's round() of a float: the nearest decimal, ties to even.
double rounded(double value, int64_t precision) {
  if (!std::isfinite(value) || precision > 330) return value;
  if (precision < -330) return std::copysign(0.0, value);
  if (precision < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-precision));
    return std::nearbyint(value / unit) * unit;
  }
  return std::strtod(fmt::format("{:.{}f}", value, precision).c_str(), nullptr);
}

// Python's round() of an int, whose effect begins at negative precisions.
int64_t rounded(int64_t value, int64_t precision) {
  if (precision >= 0) return value;
  if (precision < -18) return 0;
  int64_t unit = 1;
  for (int64_t i = 0; i < -precision; ++i) unit *= 10;
  int64_t rest = value % unit;
  if (rest < 0) rest += unit;
  const int64_t low = value - rest;
  const bool goes_up = rest * 2 > unit || (rest * 2 == unit && (low / unit) % 2 != 0);
  int64_t result = low;
  if (goes_up && __builtin_add_overflow(low, unit, &result)) fail("an int needs more than 64 bits");
  return result;
}

Value filter_round(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto bound = arguments.bind("round", {"precision", "method"});
  const Value precision = bound[0] == nullptr ? Value::integer(0) : *bound[0];
  std::string_view method = "common";
  if (bound[1] != nullptr) method = text_of(*bound[1], "'method' of round").bytes;
  if (method != "common" && method != "ceil" && method != "floor") {
    fail("round: 'method' is '{}'; it must be 'common', 'ceil' or 'floor'", method);
  }
  expect_defined(value);
  if (!value.is_number()) fail("round does not take a value of type {}", type_name(value));
  const int64_t places = integer_of(precision, "'precision' of round");
  if (method == "common") {
    if (value.is_integer()) return Value::integer(rounded(value.as_integer(), places), value.is_input());
    return Value::real(rounded(value.as_real(), places), value.is_input());
  }
  const Value unit = apply(runtime, Operator::kPower, Value::integer(10), precision);
  Value scaled = apply(runtime, Operator::kMultiply, value, unit);
  if (!scaled.is_integer()) {
    const double whole = method == "ceil" ? std::ceil(scaled.as_real()) : std::floor(scaled.as_real());
    if (!std::isfinite(whole)) fail("round: the number is not finite");
    scaled = Value::integer(truncated(whole), value.is_input());
  }
  return apply(runtime, Operator::kDivide, scaled, unit);
}

void read_separators(const Value& value, JsonStyle& style) {
  if (!value.is_tuple() && !value.is_list()) fail("tojson: 'separators' is no pair of texts");
  const std::vector<Value>& pair = value.as_sequence().items;
  if (pair.size() != 2) fail("tojson: 'separators' has {} items; it must have 2", pair.size());
  style.item_separator = text_of(pair[0], "a separator of tojson").bytes;
  style.key_separator = text_of(pair[1], "a separator of tojson").bytes;
}

Value filter_tojson(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto bound = arguments.bind("tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.is_ascii = bound[0] != nullptr && is_true(runtime, *bound[0]);
  style.sorts_keys = bound[3] != nullptr && is_true(runtime, *bound[3]);
  if (bound[1] != nullptr && !bound[1]->is_none()) {
    style.has_indent = true;
    style.item_separator = ",";
    if (bound[1]->is_text()) {
      style.indent = bound[1]->as_text().bytes;
    } else {
      const int64_t width = std::max<int64_t>(integer_of(*bound[1], "'indent' of tojson"), 0);
      runtime.check_size(static_cast<size_t>(width));
      runtime.touch(static_cast<size_t>(width));
      style.indent.assign(static_cast<size_t>(width), ' ');
    }
  }
  if (bound[2] != nullptr && !bound[2]->is_none()) read_separators(*bound[2], style);
  return Value::text(runtime, to_json(runtime, value, style));
}

constexpr std::array kValueFilters = {
    NamedFilter{"abs", filter_abs},         NamedFilter{"d", filter_default},
    NamedFilter{"default", filter_default}, NamedFilter{"float", filter_float},
    NamedFilter{"int", filter_int},         NamedFilter{"round", filter_round},
    NamedFilter{"tojson", filter_tojson},
};

}  // namespace

std::span<const NamedFilter> value_filters() {
  return kValueFilters;
}

}  // namespace lacuna::jinja
