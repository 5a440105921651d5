// Numbers of a JSON Schema: bounds and multiples as expressions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "constraint/byte_automaton.h"
#include "constraint/expression.h"

namespace lacuna {

/// A bound of a number that need not be an integer.
struct DecimalBound {
  double value = 0;
  bool is_excluded = false;
};

/// Decimal numbers without an exponent between two bounds, as json_number() writes them. Read as doubles they
/// are within the bounds, too.
Expression json_number_between(const std::optional<DecimalBound>& lower,
                               const std::optional<DecimalBound>& upper, std::string_view what,
                               AutomatonLimits& limits);

/// Numbers with at most 15 significant digits and without zeros at their ends: no two of them are equal as
/// doubles.
Expression plain_json_number();

inline constexpr int64_t kMaxExactDivisor = 1'000;  ///< the largest of which all multiples are written
inline constexpr int kMaxListedMultiples = 10'000;  ///< of other divisors, those nearest to 0
inline constexpr size_t kMaxListedBytes = 15'000;  ///< of all their texts, so that an automaton can hold them

/// Integers that are multiples of `divisor`, or that are not; in [1, kMaxExactDivisor].
Expression json_multiples(int64_t divisor, bool is_multiple, std::string_view what, AutomatonLimits& limits);

/// Multiples of any divisor above 0 within bounds, those nearest to 0. All of them are multiples as decimal
/// numbers, and divided as doubles they give an integer.
Expression listed_json_multiples(double divisor, double first, double last);

}  // namespace lacuna
