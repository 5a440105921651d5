#include "tokenizer/jinja/format_spec.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tokenizer/jinja/format.h"

namespace lacuna::jinja {
namespace {

std::string sign_of(bool is_negative, const FormatSpec& spec) {
  if (is_negative) return "-";
  return spec.sign == '-' ? "" : std::string(1, spec.sign);
}

// Inserts `separator` between groups of `size` digits before the decimal point.
std::string group(const std::string& digits, char separator, size_t size) {
  if (separator == 0) return digits;
  const size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  std::string grouped;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % size == 0) grouped += separator;
    grouped += digits[i];
  }
  return grouped + digits.substr(whole);
}

void append_fill(Runtime& runtime, TextBuilder& builder, const FormatSpec& spec, int64_t count) {
  if (count <= 0) return;
  runtime.check_size(static_cast<size_t>(count));
  runtime.touch(static_cast<size_t>(count) * 16);
  for (int64_t i = 0; i < count; ++i) builder.append(spec.fill, false);
}

}  // namespace

Digits integer_digits(int64_t value, const FormatSpec& spec) {
  const uint64_t magnitude = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  Digits digits{sign_of(value < 0, spec), {}};
  switch (spec.type) {
    case 'x':
      digits.text = fmt::format("{:x}", magnitude);
      break;
    case 'X':
      digits.text = fmt::format("{:X}", magnitude);
      break;
    case 'o':
      digits.text = fmt::format("{:o}", magnitude);
      break;
    case 'b':
      digits.text = fmt::format("{:b}", magnitude);
      break;
    default:
      digits.text = std::to_string(magnitude);
  }
  const bool is_decimal =
      spec.type == 0 || std::string_view("diun").find(spec.type) != std::string_view::npos;
  if (spec.is_alternate && !is_decimal) digits.sign += std::string("0") + spec.type;
  if (spec.grouping == ',' && !is_decimal) fail("',' does not go with the format '{}'", spec.type);
  digits.text = group(digits.text, spec.grouping, is_decimal ? 3 : 4);
  return digits;
}

Digits real_digits(double value, const FormatSpec& spec) {
  if (spec.precision > kMaxPrecision) fail("a precision of {} is above {}", spec.precision, kMaxPrecision);
  Digits digits{sign_of(std::signbit(value) && !std::isnan(value), spec), {}};
  const double magnitude = std::abs(value) * (spec.type == '%' ? 100 : 1);
  if (!std::isfinite(magnitude)) {
    digits.text = std::isnan(magnitude) ? "nan" : "inf";
  } else if (spec.type == 0 && spec.precision < 0) {
    digits.text = format_real(magnitude);
  } else {
    const char type = spec.type == '%' ? 'f' : spec.type == 0 || spec.type == 'n' ? 'g' : spec.type;
    const std::string pattern = std::string(spec.is_alternate ? "%#.*" : "%.*") + type;
    const int precision = static_cast<int>(spec.precision < 0 ? 6 : spec.precision);
    std::string text(static_cast<size_t>(precision) + 340, '\0');
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    text.resize(
        static_cast<size_t>(std::snprintf(text.data(), text.size(), pattern.c_str(), precision, magnitude)));
#pragma GCC diagnostic pop
    if (spec.type == 0 && text.find_first_of(".e") == std::string::npos) text += ".0";
    digits.text = text;
  }
  if (spec.type == 'E' || spec.type == 'F' || spec.type == 'G') {
    std::transform(digits.text.begin(), digits.text.end(), digits.text.begin(), [](char each) {
      return each >= 'a' && each <= 'z' ? static_cast<char>(each - 32) : each;
    });
  }
  if (std::isfinite(magnitude)) digits.text = group(digits.text, spec.grouping, 3);
  if (spec.type == '%') digits.text += '%';
  return digits;
}

void append_padded(Runtime& runtime, TextBuilder& builder, const Text& text, const FormatSpec& spec) {
  const int64_t length = spec.precision < 0 ? text.length : std::min(text.length, spec.precision);
  const int64_t padding = std::max<int64_t>(spec.width - length, 0);
  const int64_t before = spec.align == '>' ? padding : spec.align == '^' ? padding / 2 : 0;
  append_fill(runtime, builder, spec, before);
  builder.append(text, 0, byte_of(runtime, text, length));
  append_fill(runtime, builder, spec, padding - before);
}

void append_padded(Runtime& runtime, TextBuilder& builder, const Digits& digits, const FormatSpec& spec,
                   bool is_input) {
  const auto length = static_cast<int64_t>(digits.sign.size() + digits.text.size());
  const int64_t padding = std::max<int64_t>(spec.width - length, 0);
  const int64_t before = spec.align == '<' || spec.align == '=' ? 0
                         : spec.align == '^'                    ? padding / 2
                                                                : padding;
  append_fill(runtime, builder, spec, before);
  builder.append(digits.sign, is_input);
  if (spec.align == '=') append_fill(runtime, builder, spec, padding);
  builder.append(digits.text, is_input);
  if (spec.align == '<' || spec.align == '^') append_fill(runtime, builder, spec, padding - before);
}

}  // namespace lacuna::jinja
