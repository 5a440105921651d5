// Expressions for the parts of JSON texts, to which a schema's keywords are compiled.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "constraint/expression.h"

namespace lacuna {

/// White space of a JSON text. For a given order of keys every value has one text.
enum class JsonLayout {
  kSpaced,   ///< {"a": 1, "b": [2, 3]}
  kCompact,  ///< {"a":1,"b":[2,3]}
};

inline constexpr int kJsonObjectDepth = 5;    ///< nesting in any_json_object, including the outermost
inline constexpr int kMaxIntegerDigits = 15;  ///< digits of an integer, or before a decimal point
inline constexpr int kMaxFractionDigits = 15;

/// Separators between the items of lists and objects, and after a key.
struct JsonPunctuation {
  std::string item_separator, key_separator;
};
JsonPunctuation punctuation(JsonLayout layout);

/// The one text of a value in a layout. Integral numbers are written without a fraction.
std::string json_text(const nlohmann::ordered_json& value, JsonLayout layout);

/// Any character of a string, encoded.
Expression json_character();
/// A string with the given content, which is already escaped.
Expression json_string(const Expression& content);
/// Key, separator and value of an object's member.
Expression json_member(const Expression& key, const Expression& value, JsonLayout layout);
Expression json_object(const Expression& members);
Expression json_list(const Expression& items);

/// A digit from `first` to `last`, and `least` to `most` digits; nothing if there are none.
Expression digit_range(char first, char last);
Expression any_digits(int least, int most);

/// Integers in [first, last], without leading zeros and "-0". Both are within kMaxIntegerDigits digits.
Expression json_integer(int64_t first, int64_t last);
inline constexpr int64_t kLargestInteger = 999'999'999'999'999;  ///< kMaxIntegerDigits nines

/// Integral bounds of a number, with at most kMaxIntegerDigits digits.
struct NumberBounds {
  int64_t first = -kLargestInteger, last = kLargestInteger;
  bool excludes_first = false, excludes_last = false;
};
/// Decimal numbers without an exponent within the bounds. Near an excluded bound they have at most 15
/// significant digits, so that they do not round to the bound when read as doubles.
Expression json_number(const NumberBounds& bounds);

/// Any value whose objects and lists nest at most `depth` levels deep; depth in [0, kJsonObjectDepth].
Expression free_json_value(int depth, JsonLayout layout);
/// Any object whose values nest at most depth - 1 levels deep; keys may repeat.
Expression free_json_object(int depth, JsonLayout layout);

/// A regular expression for JSON Schema's "format"; empty for an unknown format. Every match is valid, but
/// not every valid value matches.
std::optional<std::string> format_pattern(std::string_view format);

}  // namespace lacuna
