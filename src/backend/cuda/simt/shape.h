// Grid and block sizes of a launch, for nvcc and the host compiler.
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
  uint32_t threads = kWarpSize;  ///< threads per block, a multiple of kWarpSize
  size_t shared_bytes = 0;       ///< shared memory per block
};

}  // namespace lacuna::simt
