// Numbers of a JSON Schema: bounds and multiples as expressions.
#pragma once

#include <cstdint>
#include <optional>

#include "constraint/byte_automaton.h"
#include "constraint/expression.h"

namespace lacuna {

/// A bound of a number that need not be an integer.
struct DecimalBound {
  double value = 0;
  bool is_excluded = false;
};

/// Decimal numbers without an exponent between two bounds, as json_number() writes them. They are also within
/// the bounds when read as doubles.
Expression json_number_between(const std::optional<DecimalBound>& lower,
                               const std::optional<DecimalBound>& upper, std::string_view what,
                               AutomatonLimits& limits);

/// Numbers with at most 15 significant digits and without trailing zeros in the fraction: no two are equal as
/// doubles.
Expression plain_json_number();

inline constexpr int64_t kMaxExactDivisor = 1'000;  ///< largest divisor of json_multiples()
inline constexpr int kMaxListedMultiples = 10'000;  ///< multiples that listed_json_multiples() tries
inline constexpr size_t kMaxListedBytes = 15'000;   ///< limit on their texts, for the automaton's sake

/// Integers that are multiples of `divisor` (or non-multiples); `divisor` is in [1, kMaxExactDivisor].
Expression json_multiples(int64_t divisor, bool is_multiple, std::string_view what, AutomatonLimits& limits);

/// The multiples nearest to 0 of any divisor above 0, within [first, last]. Each is a multiple both as a
/// decimal number and in double arithmetic (the quotient is an integer).
Expression listed_json_multiples(double divisor, double first, double last);

}  // namespace lacuna
