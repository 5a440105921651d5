// Products of rows with packed matrices, shared among threads.
#pragma once

#include <algorithm>
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

  /// Takes num_rows rows that row_of(i, float* space) gives: a pointer to the `depth` numbers of row i, which
  /// it may compute into `space`, so that what it computes never passes through memory. Called from several
  /// threads.
  template <typename RowOf>
  void pack_each(const KernelContext& context, int64_t num_rows, int64_t depth, DType dtype, RowOf&& row_of) {
    resize(context.kernels, num_rows, depth, dtype);
    constexpr int64_t kRowsPerTask = 8;
    context.threads.parallel_for((num_rows + kRowsPerTask - 1) / kRowsPerTask, [&](int64_t task, int) {
      thread_local Buffer<float> space;
      space.reserve(depth);
      const int64_t end = std::min(num_rows, (task + 1) * kRowsPerTask);
      for (int64_t i = task * kRowsPerTask; i < end; ++i) {
        pack_row(context.kernels, i, row_of(i, space.data()));
      }
    });
  }

  const void* data() const { return buffer_.data(); }
  const RowStrides& strides() const { return strides_; }
  int64_t num_rows() const { return num_rows_; }
  int64_t padded_depth() const { return padded_depth_; }
  int64_t depth() const { return depth_; }
  DType dtype() const { return dtype_; }

 private:
  void resize(const KernelTable& kernels, int64_t num_rows, int64_t depth, DType dtype);
  void pack_row(const KernelTable& kernels, int64_t index, const float* source);

  Buffer<std::byte> buffer_;
  int64_t num_rows_ = 0;
  int64_t depth_ = 0;
  int64_t padded_depth_ = 0;
  RowStrides strides_;
  int64_t element_bytes_ = 0;
  bool in_tiles_ = false;
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
