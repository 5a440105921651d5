// Products of rows with packed matrices, shared among threads.
#pragma once

#include <cstddef>
#include <span>

#include "base/buffer.h"
#include "base/matrix.h"
#include "base/threads.h"
#include "kernels/panels.h"
#include "kernels/table.h"

namespace lacuna {

/// What every computation needs beside its operands.
struct KernelContext {
  const KernelTable& kernels;
  ThreadPool& threads;
};

/// Rows laid out for products with matrices of one dtype. Pack once, multiply with several matrices (q, k and
/// v; gate and up). Keeps its memory between uses.
class PackedRows {
 public:
  /// Takes rows[i] of x as row i; all of x's rows in order where `rows` is empty.
  ///   x  [*, depth] f32     rows  indices into x, any order, repeats allowed
  void pack(const KernelContext& context, ConstMatrix<float> x, std::span<const int32_t> rows, DType dtype);

  const void* row(int64_t index) const { return buffer_.data() + index * stride_ * element_bytes_; }
  int64_t num_rows() const { return num_rows_; }
  int64_t stride() const { return stride_; }  ///< elements
  int64_t padded_depth() const { return padded_depth_; }
  int64_t depth() const { return depth_; }
  DType dtype() const { return dtype_; }

 private:
  Buffer<std::byte> buffer_;
  int64_t num_rows_ = 0;
  int64_t depth_ = 0;
  int64_t padded_depth_ = 0;
  int64_t stride_ = 0;
  int64_t element_bytes_ = 0;
  DType dtype_ = DType::kF32;
};

/// out[i, n] = sum over k of rows[i, k] * weights[n, k] + bias[n]
/// Weights have the dtype of the rows, or are quantised.
///   out   [num_rows, outputs] with stride >= outputs rounded up to 16: the padding is written too
///   bias  [outputs] or null
/// The bits of out[i, :] depend on row i alone.
void multiply(const KernelContext& context, const PackedRows& rows, const PanelView& weights,
              const float* bias, Matrix<float> out);

}  // namespace lacuna
