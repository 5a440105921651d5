// Integers that a double, such as a JSON number, holds exactly.
#pragma once

namespace lacuna {

/// 2^53: a double holds every integer up to this one exactly.
inline constexpr double kMaxExactInteger = 9007199254740992.0;

}  // namespace lacuna
