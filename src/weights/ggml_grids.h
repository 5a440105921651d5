// Codebooks of the IQ types of GGUF files. A point has 8 coordinates of 2 bits or 4 of 4 bits, the first one
// lowest. A coordinate is an index into the levels.
#pragma once

#include <array>
#include <cstdint>

namespace lacuna {

// Points of 8 coordinates.
inline constexpr std::array<int8_t, 3> kIq2Levels = {8, 25, 43};
extern const std::array<uint16_t, 256> kIq2XxsPoints;
extern const std::array<uint16_t, 512> kIq2XsPoints;
extern const std::array<uint16_t, 1024> kIq2SPoints;
/// Levels -1, 0 and 1.
extern const std::array<uint16_t, 2048> kIq1Points;

// Points of 4 coordinates.
inline constexpr std::array<int8_t, 8> kIq3XxsLevels = {4, 12, 20, 28, 36, 44, 52, 62};
extern const std::array<uint16_t, 256> kIq3XxsPoints;
/// Levels 1, 3, 5, ... 15.
extern const std::array<uint16_t, 512> kIq3SPoints;

}  // namespace lacuna
