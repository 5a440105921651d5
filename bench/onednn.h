// The same matrix product by oneDNN, the yardstick of the matmul bench. onednn.cpp needs the library;
// no_onednn.cpp is its twin for builds without.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/dtype.h"

namespace lacuna {

/// x [rows, inputs] times weights [outputs, inputs], both f32 and rounded to `dtype` for the product.
struct ProductToTime {
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t inputs = 0;
  int64_t outputs = 0;
  const float* x = nullptr;
  const float* weights = nullptr;
  int64_t copies = 1;  ///< of the weights, to rotate over
};

class OneDnnProduct {
 public:
  virtual ~OneDnnProduct() = default;

  /// oneDNN's name for the code it chose; names with "ref" are plain loops.
  virtual std::string implementation() const = 0;
  /// Multiplies with one copy of the weights.
  virtual void run(int64_t copy) = 0;
  /// [rows, outputs] of the last run
  virtual const float* out() const = 0;
};

/// The library's version, or how to get it.
std::string onednn_description();

/// Null where there is no oneDNN or it cannot multiply `dtype`. Weights are reordered here, once, into the
/// layout that oneDNN prefers.
std::unique_ptr<OneDnnProduct> make_onednn_product(const ProductToTime& product, int threads);

}  // namespace lacuna
