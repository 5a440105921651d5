// Times as text.
#pragma once

#include <fmt/chrono.h>

#include <chrono>
#include <cstdint>
#include <ctime>
#include <string>

namespace lacuna {

/// "2026-11-26T08:16:20.123Z"
inline std::string utc_time(std::chrono::system_clock::time_point time) {
  const auto milliseconds = std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch()).count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(std::time_t{milliseconds / 1000}),
                     milliseconds % 1000);
}

/// "2026-11-26" from seconds since 1970.
inline std::string utc_date(int64_t seconds) {
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

}  // namespace lacuna
