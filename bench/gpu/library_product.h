// Products by cuBLASLt, the yardstick: opened when the program runs, because its library has half a gigabyte.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lacuna::cuda {

class Stream;

/// x [rows, inputs] times the transpose of weights [outputs, inputs], bf16, sums in f32; the result in bf16.
struct LibraryProduct {
  int64_t rows = 0;
  int64_t outputs = 0;
  int64_t inputs = 0;
  const uint16_t* x = nullptr;
  std::vector<const uint16_t*> weights;  ///< copies, used in turn
  uint16_t* out = nullptr;               ///< [rows, outputs]
};

struct LibraryTime {
  double seconds = 0;   ///< of one product, as seconds_of_call() measures
  std::string why_not;  ///< a sentence; empty where there is a time
};

LibraryTime time_of_library(Stream& stream, const LibraryProduct& product, int count, int repeat);

}  // namespace lacuna::cuda
