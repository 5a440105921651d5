#include "constraint/json_texts.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/budget.h"
#include "base/error.h"
#include "base/json.h"

namespace lacuna {
namespace {

using nlohmann::ordered_json;

bool consists_of(std::string_view text, char c) {
  return std::all_of(text.begin(), text.end(), [&](char each) { return each == c; });
}

/// Numerals from `first` to `last`, which have the same length.
Expression numerals_between(std::string_view first, std::string_view last) {
  const int length = static_cast<int>(first.size());
  if (consists_of(first, '0') && consists_of(last, '9')) return any_digits(length, length);
  const std::string_view first_rest = first.substr(1), last_rest = last.substr(1);
  if (first[0] == last[0])
    return Expression::sequence(
        {Expression::text(first.substr(0, 1)), numerals_between(first_rest, last_rest)});
  const std::string nines(first_rest.size(), '9'), zeros(first_rest.size(), '0');
  std::vector<Expression> parts{
      Expression::sequence({Expression::text(first.substr(0, 1)), numerals_between(first_rest, nines)}),
      Expression::sequence({Expression::text(last.substr(0, 1)), numerals_between(zeros, last_rest)})};
  if (first[0] + 1 < last[0]) {
    parts.push_back(
        Expression::sequence({digit_range(static_cast<char>(first[0] + 1), static_cast<char>(last[0] - 1)),
                              any_digits(length - 1, length - 1)}));
  }
  return Expression::choice(std::move(parts));
}

/// Integers in [first, last] without a sign; 0 <= first.
Expression natural_numbers(int64_t first, int64_t last) {
  if (first > last) return Expression::nothing();
  const std::string least = std::to_string(first), most = std::to_string(last);
  if (least.size() == most.size()) return numerals_between(least, most);
  const auto shortest = static_cast<int>(least.size()), longest = static_cast<int>(most.size());
  std::vector<Expression> parts{numerals_between(least, std::string(least.size(), '9')),
                                numerals_between("1" + std::string(most.size() - 1, '0'), most)};
  if (shortest + 1 < longest) {  // all numerals of intermediate lengths
    parts.push_back(Expression::sequence({digit_range('1', '9'), any_digits(shortest, longest - 2)}));
  }
  return Expression::choice(std::move(parts));
}

/// Up to `most` digits after the decimal point, at least one of them not 0.
Expression nonzero_fraction(int most) {
  std::vector<Expression> by_zeros;
  by_zeros.reserve(static_cast<size_t>(most));
  for (int zeros = 0; zeros < most; ++zeros) {
    by_zeros.push_back(Expression::sequence({Expression::text(std::string(static_cast<size_t>(zeros), '0')),
                                             digit_range('1', '9'), any_digits(0, most - 1 - zeros)}));
  }
  return Expression::choice(std::move(by_zeros));
}

/// Numbers without a sign; 0 <= bounds.first.
Expression magnitudes(const NumberBounds& bounds, int fraction_digits) {
  const auto [first, last, excludes_first, excludes_last] = bounds;
  if (first > last) return Expression::nothing();
  const Expression point = Expression::text(".");
  const Expression any = fraction_digits > 0 ? any_digits(1, fraction_digits) : Expression::nothing();
  const bool is_bounded = last < kLargestInteger;
  if (!is_bounded && !excludes_first) {
    return Expression::sequence(
        {natural_numbers(first, last), Expression::optional(Expression::sequence({point, any}))});
  }
  std::vector<Expression> parts{
      natural_numbers(first + (excludes_first ? 1 : 0), last - (excludes_last ? 1 : 0))};
  if (first < last) {
    const Expression near_first = excludes_first ? nonzero_fraction(fraction_digits) : any;
    parts.push_back(Expression::sequence({natural_numbers(first, first), point, near_first}));
    parts.push_back(
        Expression::sequence({natural_numbers(first + 1, is_bounded ? last - 1 : last), point, any}));
  }
  return Expression::choice(std::move(parts));
}

int num_digits(int64_t value) {
  return static_cast<int>(std::to_string(std::abs(value)).size());
}

/// Objects with any keys.
Expression object_of(const Expression& value, JsonLayout layout) {
  const Expression key = json_string(Expression::repeat(json_character(), 0, {}));
  return json_object(Expression::repeat(json_member(key, value, layout), 0, {},
                                        Expression::text(punctuation(layout).item_separator)));
}

/// Element d: values whose objects and lists nest at most d levels deep; d in [0, kJsonObjectDepth].
std::vector<Expression> free_values(JsonLayout layout) {
  const std::vector<Expression> scalars{json_string(Expression::repeat(json_character(), 0, {})),
                                        json_number({}), Expression::text("true"), Expression::text("false"),
                                        Expression::text("null")};
  const Expression separator = Expression::text(punctuation(layout).item_separator);
  std::vector<Expression> values{Expression::choice(scalars)};
  for (int depth = 1; depth <= kJsonObjectDepth; ++depth) {
    const Expression inner = values.back();
    std::vector<Expression> kinds = scalars;
    kinds.push_back(json_list(Expression::repeat(inner, 0, {}, separator)));
    kinds.push_back(object_of(inner, layout));
    values.push_back(Expression::choice(std::move(kinds)));
  }
  return values;
}

/// Whether a float is integral and fits 64 bits: 3.0, not 1e300.
bool is_integer(const ordered_json& value) {
  if (!value.is_number_float()) return false;
  const auto number = value.get<double>();
  return number == std::trunc(number) && std::abs(number) < 0x1p63;
}

void write(const ordered_json& value, const JsonPunctuation& marks, std::string& text) {
  auto separate = [&, is_first = true]() mutable {
    if (!std::exchange(is_first, false)) text += marks.item_separator;
  };
  if (value.is_object()) {
    text += '{';
    for (const auto& [key, member] : value.items()) {
      separate();
      write(ordered_json(key), marks, text);
      text += marks.key_separator;
      write(member, marks, text);
    }
    text += '}';
  } else if (value.is_array()) {
    text += '[';
    for (const ordered_json& item : value) {
      separate();
      write(item, marks, text);
    }
    text += ']';
  } else if (is_integer(value)) {
    text += std::to_string(static_cast<int64_t>(value.get<double>()));
  } else {
    text += dump_json(value);
  }
}

}  // namespace

JsonPunctuation punctuation(JsonLayout layout) {
  return layout == JsonLayout::kSpaced ? JsonPunctuation{", ", ": "} : JsonPunctuation{",", ":"};
}

std::string json_text(const ordered_json& value, JsonLayout layout) {
  std::string text;
  write(value, punctuation(layout), text);
  spend_steps(text.size());
  return text;
}

Expression digit_range(char first, char last) {
  if (first > last) return Expression::nothing();
  return Expression::code_points(CodePointSet({{static_cast<uint32_t>(first), static_cast<uint32_t>(last)}}),
                                 TextEncoding::kUtf8);
}

Expression any_digits(int least, int most) {
  if (least > most) return Expression::nothing();
  return Expression::repeat(digit_range('0', '9'), least, most);
}

Expression json_character() {
  static const Expression kCharacter =
      Expression::code_points(CodePointSet::all(), TextEncoding::kJsonString);
  return kCharacter;
}

Expression json_string(const Expression& content) {
  return Expression::sequence({Expression::text("\""), content, Expression::text("\"")});
}

Expression json_member(const Expression& key, const Expression& value, JsonLayout layout) {
  return Expression::sequence({key, Expression::text(punctuation(layout).key_separator), value});
}

Expression json_object(const Expression& members) {
  return Expression::sequence({Expression::text("{"), members, Expression::text("}")});
}

Expression json_list(const Expression& items) {
  return Expression::sequence({Expression::text("["), items, Expression::text("]")});
}

Expression json_integer(int64_t first, int64_t last) {
  expects(first >= -kLargestInteger && last <= kLargestInteger,
          "integers are within kMaxIntegerDigits digits");
  std::vector<Expression> parts{natural_numbers(std::max<int64_t>(first, 0), last)};
  if (first < 0) {
    parts.push_back(
        Expression::sequence({Expression::text("-"), natural_numbers(std::max<int64_t>(1, -last), -first)}));
  }
  return Expression::choice(std::move(parts));
}

Expression json_number(const NumberBounds& bounds) {
  int fraction_digits = kMaxFractionDigits;
  if (bounds.excludes_first) fraction_digits = std::min(fraction_digits, 15 - num_digits(bounds.first));
  if (bounds.excludes_last) fraction_digits = std::min(fraction_digits, 15 - num_digits(bounds.last));
  NumberBounds positive = bounds;
  if (positive.first < 0) positive.first = 0, positive.excludes_first = false;
  std::vector<Expression> parts{magnitudes(positive, fraction_digits)};
  if (bounds.first < 0) {
    NumberBounds negative{-bounds.last, -bounds.first, bounds.excludes_last, bounds.excludes_first};
    // "-0" and "-0.0" are not written.
    if (negative.first <= 0) negative.first = 0, negative.excludes_first = true;
    parts.push_back(Expression::sequence({Expression::text("-"), magnitudes(negative, fraction_digits)}));
  }
  return Expression::choice(std::move(parts));
}

Expression free_json_value(int depth, JsonLayout layout) {
  expects(depth >= 0 && depth <= kJsonObjectDepth, "free values nest up to kJsonObjectDepth");
  // Cached, because schemas use many free values.
  static const auto kSpacedValues = free_values(JsonLayout::kSpaced);
  static const auto kCompactValues = free_values(JsonLayout::kCompact);
  return (layout == JsonLayout::kSpaced ? kSpacedValues : kCompactValues)[static_cast<size_t>(depth)];
}

Expression free_json_object(int depth, JsonLayout layout) {
  return object_of(free_json_value(depth - 1, layout), layout);
}

namespace {

/// Durations of RFC 3339, appendix A, with up to 4 digits per number.
std::string duration_pattern() {
  const std::string n = "[0-9]{1,4}";
  const std::string date = "(" + n + "D|" + n + "M(" + n + "D)?|" + n + "Y(" + n + "M(" + n + "D)?)?)";
  const std::string time = "T(" + n + "S|" + n + "M(" + n + "S)?|" + n + "H(" + n + "M(" + n + "S)?)?)";
  return "P(" + n + "W|" + date + "(" + time + ")?|" + time + ")";
}

/// IPv6 addresses of RFC 4291 without embedded IPv4.
std::string ipv6_pattern() {
  const std::string group = "[0-9a-f]{1,4}";
  std::string pattern = "((" + group + ":){7}" + group + "|::(" + group + "(:" + group + "){0,5})?";
  for (int before = 1; before <= 6; ++before) {
    const std::string head = "(" + group + ":){" + std::to_string(before) + "}";
    pattern += "|" + head + ":";
    if (before < 6) pattern += "|" + head + "(:" + group + "){1," + std::to_string(6 - before) + "}";
  }
  return pattern + ")";
}

}  // namespace

std::optional<std::string> format_pattern(std::string_view format) {
  const std::string year = "[12][0-9]{3}";
  const std::string leap_year = "([12][0-9](0[48]|[2468][048]|[13579][26])|(1[26]|2[048])00)";
  const std::string date = "(" + year + "-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])|" + year +
                           "-(0[13-9]|1[0-2])-(29|30)|" + year + "-(0[13578]|1[02])-31|" + leap_year +
                           "-02-29)";
  const std::string hours_minutes = "([01][0-9]|2[0-3]):[0-5][0-9]";
  const std::string time = hours_minutes + ":[0-5][0-9](\\.[0-9]{1,6})?(Z|[+\\-]" + hours_minutes + ")";
  const std::string byte = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
  // Below RFC 5321's limits: at most 61 characters before the "@", four labels of at most 31 after it.
  const std::string label = "[a-zA-Z0-9](-?[a-zA-Z0-9]){0,15}";
  const std::string host = label + "(\\." + label + "){0,3}";
  const std::string path = "(/([a-zA-Z0-9._~\\-]|%[0-9A-F]{2})*)*";
  const std::string uri = "[a-z][a-z0-9]{1,9}://" + host + "(:[1-9][0-9]{1,3})?" + path +
                          "(\\?[a-zA-Z0-9._~=&\\-]*)?(#[a-zA-Z0-9._~\\-]*)?";
  if (format == "date") return date;
  if (format == "time") return time;
  if (format == "date-time") return date + "T" + time;
  if (format == "duration") return duration_pattern();
  if (format == "uuid") return "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}";
  if (format == "ipv4") return byte + "(\\." + byte + "){3}";
  if (format == "ipv6") return ipv6_pattern();
  if (format == "email" || format == "idn-email")
    return "[a-zA-Z0-9_+](\\.?[a-zA-Z0-9_+\\-]){0,30}@" + label + "(\\." + label + "){1,3}";
  if (format == "hostname" || format == "idn-hostname") return host;
  if (format == "uri" || format == "url" || format == "uri-reference" || format == "iri") return uri;
  if (format == "json-pointer") return "(/([^/~]|~[01])*)*";
  return std::nullopt;
}

}  // namespace lacuna
