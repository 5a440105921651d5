// Numbers of JSON that are read as doubles.
#pragma once

namespace lacuna {

/// 2^53: doubles are exact integers up to this one.
inline constexpr double kMaxExactInteger = 9007199254740992.0;

}  // namespace lacuna
