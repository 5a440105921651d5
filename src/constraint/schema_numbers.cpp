#include "constraint/schema_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include "base/budget.h"
#include "constraint/json_texts.h"

namespace lacuna {
namespace {

constexpr int kSignificantDigits = 15;  // different decimals of at most 15 digits differ as doubles

/// A nonnegative decimal number.
struct Decimal {
  int64_t whole = 0;     // at most kLargestInteger
  std::string fraction;  // digits without zeros at the end
};

/// The shortest decimal number that parses as `value`, which is in [0, kLargestInteger].
Decimal decimal_of(double value) {
  std::array<char, 400> digits{};
  const auto end =
      std::to_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::fixed);
  const std::string_view text(digits.data(), static_cast<size_t>(end.ptr - digits.data()));
  const size_t point = std::min(text.find('.'), text.size());
  Decimal decimal;
  std::from_chars(text.data(), text.data() + point, decimal.whole);
  if (point < text.size()) decimal.fraction = text.substr(point + 1);
  while (decimal.fraction.ends_with('0')) decimal.fraction.pop_back();
  return decimal;
}

Expression zeros(int least, int most) {
  if (least > most) return Expression::nothing();
  return Expression::repeat(Expression::text("0"), least, most);
}

/// A bound of a magnitude, truncated to the digits of the numbers compared with it.
struct MagnitudeBound {
  Decimal decimal;
  bool is_excluded;
  int fraction_digits;  // maximum in the compared numbers
};

MagnitudeBound magnitude_bound(double value, bool is_excluded, bool is_lower) {
  MagnitudeBound bound{decimal_of(value), is_excluded, kMaxFractionDigits};
  const auto whole_digits = static_cast<int>(std::to_string(bound.decimal.whole).size());
  if (is_excluded) bound.fraction_digits = std::max(0, kSignificantDigits - whole_digits);
  std::string& fraction = bound.decimal.fraction;
  if (fraction.size() > static_cast<size_t>(bound.fraction_digits)) {
    // A number with at most fraction_digits exceeds the bound exactly if it exceeds the truncated bound.
    fraction.resize(static_cast<size_t>(bound.fraction_digits));
    while (fraction.ends_with('0')) fraction.pop_back();
    bound.is_excluded = is_lower;
  }
  return bound;
}

/// Fractions greater than the bound's, or equal to it unless the bound is excluded.
Expression fractions_above(const MagnitudeBound& bound) {
  const std::string& fraction = bound.decimal.fraction;
  const auto size = static_cast<int>(fraction.size()), most = bound.fraction_digits;
  std::vector<Expression> parts;
  for (int i = 0; i < size; ++i) {
    const auto at = static_cast<size_t>(i);
    parts.push_back(Expression::sequence({Expression::text(fraction.substr(0, at)),
                                          digit_range(static_cast<char>(fraction[at] + 1), '9'),
                                          any_digits(0, most - i - 1)}));
  }
  if (!bound.is_excluded) {
    parts.push_back(
        Expression::sequence({Expression::text(fraction), any_digits(size == 0 ? 1 : 0, most - size)}));
  } else {
    for (int i = 0; i < most - size; ++i) {
      parts.push_back(Expression::sequence({Expression::text(fraction), zeros(i, i), digit_range('1', '9'),
                                            any_digits(0, most - size - i - 1)}));
    }
  }
  return Expression::choice(std::move(parts));
}

Expression fractions_below(const MagnitudeBound& bound) {
  const std::string& fraction = bound.decimal.fraction;
  const auto size = static_cast<int>(fraction.size()), most = bound.fraction_digits;
  std::vector<Expression> parts;
  for (int i = 0; i < size; ++i) {
    const auto at = static_cast<size_t>(i);
    if (i > 0) parts.push_back(Expression::text(fraction.substr(0, at)));
    if (fraction[at] == '0') continue;
    parts.push_back(Expression::sequence({Expression::text(fraction.substr(0, at)),
                                          digit_range('0', static_cast<char>(fraction[at] - 1)),
                                          any_digits(0, most - i - 1)}));
  }
  if (!bound.is_excluded)
    parts.push_back(
        Expression::sequence({Expression::text(fraction), zeros(size == 0 ? 1 : 0, most - size)}));
  return Expression::choice(std::move(parts));
}

Expression with_fraction(const Expression& whole, const Expression& fraction) {
  return Expression::sequence({whole, Expression::text("."), fraction});
}

Expression natural(int64_t first, int64_t last) {
  return first > last ? Expression::nothing() : json_integer(first, last);
}

Expression any_magnitude(int64_t first, int64_t last, int fraction_digits) {
  return Expression::sequence(
      {natural(first, last),
       Expression::optional(Expression::sequence({Expression::text("."), any_digits(1, fraction_digits)}))});
}

Expression at_least(const MagnitudeBound& bound) {
  const int64_t whole = bound.decimal.whole;
  std::vector<Expression> parts{any_magnitude(whole + 1, kLargestInteger, bound.fraction_digits),
                                with_fraction(natural(whole, whole), fractions_above(bound))};
  if (bound.decimal.fraction.empty() && !bound.is_excluded) parts.push_back(natural(whole, whole));
  return Expression::choice(std::move(parts));
}

Expression at_most(const MagnitudeBound& bound) {
  const int64_t whole = bound.decimal.whole;
  std::vector<Expression> parts{any_magnitude(0, whole - 1, bound.fraction_digits),
                                with_fraction(natural(whole, whole), fractions_below(bound))};
  if (!bound.decimal.fraction.empty() || !bound.is_excluded) parts.push_back(natural(whole, whole));
  return Expression::choice(std::move(parts));
}

/// Whether a decimal number divided by `divisor` is an integer in the arithmetic of doubles.
bool divides_exactly(const std::string& text, double divisor) {
  const double quotient = std::strtod(text.c_str(), nullptr) / divisor;
  return std::isfinite(quotient) && quotient == std::trunc(quotient);
}

}  // namespace

Expression json_number_between(const std::optional<DecimalBound>& lower,
                               const std::optional<DecimalBound>& upper, std::string_view what,
                               AutomatonLimits& limits) {
  constexpr auto kLargest = static_cast<double>(kLargestInteger);
  const auto compiled = [&](const Expression& expression) {
    return ByteAutomaton::compile(expression, what, limits);
  };
  // Magnitudes between two bounds; an upper bound above kLargest is ignored.
  const auto magnitudes = [&](std::optional<DecimalBound> first, const std::optional<DecimalBound>& last) {
    if (!first) first = DecimalBound{};
    if ((last && last->value < 0) || first->value > kLargest) return Expression::nothing();
    if (first->value < 0) first = DecimalBound{};
    const Expression above = at_least(magnitude_bound(first->value, first->is_excluded, true));
    if (!last || last->value > kLargest || above.is_nothing()) return above;
    const Expression below = at_most(magnitude_bound(last->value, last->is_excluded, false));
    if (below.is_nothing()) return below;
    return Expression::automaton(ByteAutomaton::intersection(compiled(above), compiled(below), what, limits));
  };
  std::vector<Expression> parts{magnitudes(lower, upper)};
  if (!lower || lower->value < 0) {
    std::optional<DecimalBound> first, last;
    if (upper) first = DecimalBound{-upper->value, upper->is_excluded};
    if (lower) last = DecimalBound{-lower->value, lower->is_excluded};
    if (!first || first->value <= 0) first = DecimalBound{0, true};  // "-0" is not written
    parts.push_back(Expression::sequence({Expression::text("-"), magnitudes(first, last)}));
  }
  return Expression::choice(std::move(parts));
}

Expression plain_json_number() {
  constexpr int kWholeDigits = 9, kFractionDigits = kSignificantDigits - kWholeDigits;
  int64_t largest = 1;
  for (int i = 0; i < kWholeDigits; ++i) largest *= 10;
  const Expression fraction =
      Expression::sequence({any_digits(0, kFractionDigits - 1), digit_range('1', '9')});
  return Expression::choice({json_integer(-kLargestInteger, kLargestInteger),
                             Expression::sequence({Expression::optional(Expression::text("-")),
                                                   with_fraction(natural(0, largest - 1), fraction)})});
}

Expression json_multiples(int64_t divisor, bool is_multiple, std::string_view what, AutomatonLimits& limits) {
  expects(divisor >= 1 && divisor <= kMaxExactDivisor, "all multiples of a small divisor are written");
  constexpr uint16_t kOther = 0, kMinus = 1, kZero = 2, kClasses = 12;
  TransitionTable table;
  table.symbol_classes.assign(kNumSymbols, kOther);
  table.symbol_classes['-'] = kMinus;
  for (uint16_t digit = 0; digit < 10; ++digit) table.symbol_classes[size_t{'0'} + digit] = kZero + digit;
  table.num_classes = kClasses;
  // State 0 is the start, 1 follows a minus, 2 + r follows digits with the remainder r.
  const auto num_states = static_cast<size_t>(divisor) + 2;
  table.next.assign(num_states * kClasses, TransitionTable::kNone);
  table.accepting.assign(num_states, 0);
  table.at(0, kMinus) = 1;
  for (size_t state = 0; state < num_states; ++state) {
    const int64_t remainder = state < 2 ? 0 : static_cast<int64_t>(state) - 2;
    for (int digit = 0; digit < 10; ++digit)
      table.at(state, kZero + digit) = static_cast<int32_t>(2 + (remainder * 10 + digit) % divisor);
    if (state >= 2) table.accepting[state] = (remainder == 0) == is_multiple ? 1 : 0;
  }
  const ByteAutomaton multiples = ByteAutomaton::of_table(std::move(table), what, limits);
  const ByteAutomaton integers =
      ByteAutomaton::compile(json_integer(-kLargestInteger, kLargestInteger), what, limits);
  return Expression::automaton(ByteAutomaton::intersection(multiples, integers, what, limits));
}

Expression listed_json_multiples(double divisor, double first, double last) {
  const Decimal step = decimal_of(divisor);
  const auto scale = static_cast<int>(step.fraction.size());
  constexpr size_t kMaxDigits = 12;  // so that products fit in int64_t
  const std::string digits = std::to_string(step.whole) + step.fraction;
  if (scale > kMaxFractionDigits || digits.size() > kMaxDigits) return Expression::nothing();
  const int64_t unit = std::strtoll(digits.c_str(), nullptr, 10);
  if (unit <= 0) return Expression::nothing();
  int64_t power = 1;
  for (int i = 0; i < scale; ++i) power *= 10;
  std::vector<Expression> texts;
  size_t num_bytes = 0;
  const auto add = [&](int64_t multiple) {  // times the divisor
    const int64_t magnitude = std::abs(multiple) * unit;
    const int64_t whole = magnitude / power;
    std::string fraction =
        scale == 0 ? "" : fmt::format("{:0{}}", magnitude % power, static_cast<size_t>(scale));
    while (fraction.ends_with('0')) fraction.pop_back();
    const std::string text =
        fmt::format("{}{}{}{}", multiple < 0 ? "-" : "", whole, fraction.empty() ? "" : ".", fraction);
    const double value = std::strtod(text.c_str(), nullptr);
    if (whole > kLargestInteger || value < first || value > last || !divides_exactly(text, divisor)) return;
    num_bytes += text.size();
    if (num_bytes <= kMaxListedBytes) texts.push_back(Expression::text(text));
  };
  constexpr double kFarthest = 1e6;  // limit of the first listed multiple, in divisors
  constexpr size_t kSteps = 200;
  spend_steps(kSteps * kMaxListedMultiples);
  const double nearest = std::max(0.0, std::max(first, -last)) / divisor;
  if (nearest > kFarthest) return Expression::nothing();
  const auto begin = static_cast<int64_t>(std::floor(nearest));
  for (int64_t i = begin; i < begin + kMaxListedMultiples && num_bytes < kMaxListedBytes; ++i) {
    if (last >= 0) add(i);
    if (first < 0 && i != 0) add(-i);
  }
  return Expression::choice(std::move(texts));
}

}  // namespace lacuna
