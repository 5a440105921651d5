// Times as text.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace lacuna {

/// "2026-11-26T08:16:20.123Z"
std::string utc_time(std::chrono::system_clock::time_point time);
/// "2026-11-26" from seconds since 1970.
std::string utc_date(int64_t seconds);

}  // namespace lacuna
