// GEMM and attention by oneDNN, the baseline of the benchmarks. onednn.cpp needs the library; no_onednn.cpp
// replaces it in builds without.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/dtype.h"

namespace lacuna {

/// x [rows, inputs] times the transpose of weights [outputs, inputs]; both are f32 and rounded to `dtype` for
/// the GEMM.
struct ProductToTime {
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t inputs = 0;
  int64_t outputs = 0;
  const float* x = nullptr;
  const float* weights = nullptr;
  int64_t copies = 1;  ///< copies of the weights that the timing alternates between
};

class OneDnnProduct {
 public:
  virtual ~OneDnnProduct() = default;

  /// oneDNN's name of the implementation; names with "ref" are plain loops.
  virtual std::string implementation() const = 0;
  /// Multiplies with one copy of the weights.
  virtual void run(int64_t copy) = 0;
  /// [rows, outputs] of the last run
  virtual const float* out() const = 0;
};

/// softmax(q K^T * scale) V; all inputs are f32 and rounded to `dtype` for the GEMMs.
struct AttentionToTime {
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t cells = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;  ///< divides num_heads
  int64_t head_dim = 0;
  float scale = 1;
  const float* q = nullptr;       ///< [rows, num_heads, head_dim]
  const float* keys = nullptr;    ///< [num_kv_heads, cells, head_dim]
  const float* values = nullptr;  ///< likewise
};

/// Two batched GEMMs with a softmax between them.
class OneDnnAttention {
 public:
  virtual ~OneDnnAttention() = default;

  /// oneDNN's names of its three implementations; names with "ref" are plain loops.
  virtual std::string implementation() const = 0;
  virtual void run() = 0;
  /// [head_dim] of the last run
  virtual const float* out(int64_t row, int64_t head) const = 0;
};

/// The library's version, or instructions to install it.
std::string onednn_description();

/// Null without oneDNN, or if it does not support `dtype` here. Reorders the weights once into oneDNN's
/// preferred layout.
std::unique_ptr<OneDnnProduct> make_onednn_product(const ProductToTime& product, int threads);

/// Null without oneDNN, or if it does not support `dtype` here. Reorders queries, keys and values once into
/// the layouts of its GEMMs.
std::unique_ptr<OneDnnAttention> make_onednn_attention(const AttentionToTime& work, int threads);

}  // namespace lacuna
