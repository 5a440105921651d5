// How many threads a launch has, for both compilers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lacuna::simt {

inline constexpr uint32_t kWarpSize = 32;

struct Index3 {
  uint32_t x = 0;
  uint32_t y = 0;
  uint32_t z = 0;
};

struct LaunchShape {
  Index3 grid = {1, 1, 1};
  uint32_t threads = kWarpSize;  ///< of a block, a multiple of kWarpSize
  size_t shared_bytes = 0;       ///< of a block
};

}  // namespace lacuna::simt
