// Kernels for device measurements.
#pragma once

#include <cstdint>

#include "backend/cuda/runtime.h"

namespace lacuna::cuda {

/// Launches one empty warp, to measure launch overhead.
void do_nothing(Stream& stream);

struct ReadArguments {
  const uint32_t* words = nullptr;  ///< [num_words], 16-byte aligned
  uint32_t* found = nullptr;        ///< [1], written only if all words of a thread's share are `needle`
  int64_t num_words = 0;            ///< a multiple of 4
  uint32_t needle = 0;
};

/// Reads all words once, to measure memory bandwidth.
///   blocks  number of blocks that the device runs concurrently
void read_all(Stream& stream, const ReadArguments& arguments, uint32_t blocks);

struct ChainArguments {
  const uint16_t* a = nullptr;  ///< [16, depth] bf16
  const uint16_t* b = nullptr;  ///< [8, depth] bf16
  float* c = nullptr;           ///< [16, 8]: a b^T, accumulated from 0 in steps of 16 inputs
  int64_t depth = 0;            ///< a multiple of 16
};

/// Multiplies one tile on the tensor cores with one warp, to examine their rounding.
void multiply_chain(Stream& stream, const ChainArguments& arguments);

}  // namespace lacuna::cuda
