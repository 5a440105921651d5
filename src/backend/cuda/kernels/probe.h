// Kernels that measure a device and do nothing else.
#pragma once

#include <cstdint>

#include "backend/cuda/runtime.h"

namespace lacuna::cuda {

/// One block of one warp that does nothing: what is left is the time of a launch.
void do_nothing(Stream& stream);

struct ReadArguments {
  const uint32_t* words = nullptr;  ///< [num_words], 16-byte aligned
  uint32_t* found = nullptr;        ///< [1], written only if all words of a thread's share are `needle`
  int64_t num_words = 0;            ///< a multiple of 4
  uint32_t needle = 0;
};

/// Reads all words once and keeps nothing.
///   blocks  as many as the device runs at a time
void read_all(Stream& stream, const ReadArguments& arguments, uint32_t blocks);

struct ChainArguments {
  const uint16_t* a = nullptr;  ///< [16, depth] bf16
  const uint16_t* b = nullptr;  ///< [8, depth] bf16
  float* c = nullptr;           ///< [16, 8]: a b^T, one chain of sums in steps of 16 from 0 on
  int64_t depth = 0;            ///< a multiple of 16
};

/// The bits of the device's tensor cores: one warp, one tile.
void multiply_chain(Stream& stream, const ChainArguments& arguments);

}  // namespace lacuna::cuda
