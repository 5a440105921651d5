// Format of one field (sign, width, precision, type), shared by the % operator and str.format().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tokenizer/jinja/value.h"

namespace lacuna::jinja {

struct FormatSpec {
  std::string fill = " ";  ///< one character
  char align = 0;          ///< '<', '>', '^' or '=' (between sign and digits); 0 for the type's own
  char sign = '-';         ///< '+', ' ' or '-' (only for negative numbers)
  bool is_alternate = false;
  int64_t width = 0;
  char grouping = 0;       ///< ',' or '_' between groups of three digits
  int64_t precision = -1;  ///< -1 for none
  char type = 0;
};

/// Largest supported precision of a number.
inline constexpr int64_t kMaxPrecision = 1000;

/// Sign and digits of `value`, without padding.
struct Digits {
  std::string sign;  ///< with the prefix, such as "0x"
  std::string text;
};
Digits integer_digits(int64_t value, const FormatSpec& spec);
Digits real_digits(double value, const FormatSpec& spec);

/// Appends `text`, cut to the precision and padded to the width.
void append_padded(Runtime& runtime, TextBuilder& builder, const Text& text, const FormatSpec& spec);
void append_padded(Runtime& runtime, TextBuilder& builder, const Digits& digits, const FormatSpec& spec,
                   bool is_input);

}  // namespace lacuna::jinja
