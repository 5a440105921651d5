// GEMM by cuBLASLt, the baseline. The library is opened at run time, because it has half a gigabyte.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lacuna::cuda {

class Stream;

/// x [rows, inputs] times the transpose of weights [outputs, inputs]: bf16 with f32 accumulators.
struct LibraryProduct {
  int64_t rows = 0;
  int64_t outputs = 0;
  int64_t inputs = 0;
  const uint16_t* x = nullptr;
  std::vector<const uint16_t*> weights;  ///< copies over which timed calls rotate
  uint16_t* out = nullptr;               ///< [rows, outputs]
};

struct LibraryTime {
  double seconds = 0;   ///< seconds_of_call() of one GEMM
  std::string why_not;  ///< a sentence on why it was not timed; empty if it was
};

LibraryTime time_of_library(Stream& stream, const LibraryProduct& product, int count, int repeat);

}  // namespace lacuna::cuda
