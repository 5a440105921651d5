// GEMM of packed rows with packed weights, shared among threads.
#pragma once

#include <cstddef>
#include <span>

#include "base/buffer.h"
#include "base/matrix.h"
#include "base/threads.h"
#include "kernels/panels.h"
#include "kernels/table.h"

namespace lacuna {

/// Kernels, threads and settings that every computation takes.
struct KernelContext {
  const KernelTable& kernels;
  ThreadPool& threads;
  /// For multiply(): quantizes activations to int8 if KernelTable::int8_activations takes the weights. A
  /// Model uses its own setting instead.
  bool int8_activations = false;
};

/// Activations packed for matmuls with weights of one dtype. Pack once, multiply with several matrices (q, k
/// and v; gate and up). Keeps its memory between uses.
class PackedRows {
 public:
  /// Packs rows[i] of x as row i, or all rows of x in order if `rows` is empty.
  ///   x  [*, depth] f32     rows  indices into x, any order, repeats allowed
  void pack(const KernelContext& context, ConstMatrix<float> x, std::span<const int32_t> rows, DType dtype);

  /// Packs num_rows rows from a callback. row_of(i, float* space) returns a pointer to the `depth` values of
  /// row i, which it may compute into `space` to keep them in the cache. Several threads call it; it must not
  /// pack rows itself.
  template <typename RowOf>
  void pack_each(const KernelContext& context, int64_t num_rows, int64_t depth, DType dtype, RowOf&& row_of) {
    resize(context.kernels, num_rows, depth, dtype);
    context.threads.parallel_for((num_rows + kRowTile - 1) / kRowTile, [&](int64_t tile, int) {
      thread_local Buffer<float> space;
      space.reserve(depth);
      const RowsOfTile rows = rows_of_tile(tile);
      for (int64_t i = 0; i < rows.count; ++i) {
        const int64_t row = tile * kRowTile + i;
        packed_.sums.data()[row] =
            pack_row(context.kernels, row_of(row, space.data()), rows.data + i * rows.row_bytes);
      }
      if (in_tiles_) lay_out_tile(tile, rows);
    });
  }

  /// Bytes of `num_rows` packed rows.
  static int64_t bytes_for(const KernelTable& kernels, int64_t num_rows, int64_t depth, DType dtype);
  /// Bytes allocated so far, for packed and for quantized rows.
  int64_t bytes() const { return packed_.data.size() + int16_.data.size() + int8_.data.size(); }

  /// One representation of the rows, as kernels read it.
  struct Form {
    Buffer<std::byte> data;  ///< laid out by strides()
    Buffer<float> sums;      ///< [num_rows], sum of each row as represented
    Buffer<float> scales;    ///< [num_rows, scales_per_row], only for integer rows
  };
  const Form& packed() const { return packed_; }
  /// The packed bf16 rows quantized to integers, at the first call.
  ///   activations  member of the kernel table that packed the rows
  const Form& as_integers(const KernelContext& context, const IntegerActivations& activations);
  const RowStrides& strides() const { return strides_; }
  int64_t element_bytes() const { return element_bytes_; }
  /// Byte offset of `row`.
  int64_t offset_bytes(int64_t row) const { return strides_.offset(row, 0) * element_bytes_; }
  int64_t num_rows() const { return num_rows_; }
  int64_t padded_depth() const { return padded_depth_; }
  int64_t depth() const { return depth_; }
  DType dtype() const { return dtype_; }

 private:
  /// Up to sixteen rows, each contiguous.
  struct RowsOfTile {
    std::byte* data;
    int64_t row_bytes;  // from one row to the next
    int64_t count;
  };

  void lay_out(const KernelTable& kernels, int64_t num_rows, int64_t depth, DType dtype);
  void resize(const KernelTable& kernels, int64_t num_rows, int64_t depth, DType dtype);
  /// Rows of a tile: in the buffer, or in thread-local scratch memory if the buffer is in tiles.
  RowsOfTile rows_of_tile(int64_t tile);
  /// Packs one row. Returns the sum of its packed values.
  float pack_row(const KernelTable& kernels, const float* source, std::byte* packed) const;
  void lay_out_tile(int64_t tile, const RowsOfTile& rows);

  struct IntegerForm : Form {
    bool is_made = false;
  };

  Form packed_;
  IntegerForm int16_;
  IntegerForm int8_;
  int64_t num_rows_ = 0;
  int64_t depth_ = 0;
  int64_t padded_depth_ = 0;
  RowStrides strides_;
  int64_t element_bytes_ = 0;
  int64_t data_bytes_ = 0;
  bool in_tiles_ = false;
  DType dtype_ = DType::kF32;
};

/// out[i, n] = sum over k of rows[i, k] * weights[n, k] + bias[n]
/// Weights have the dtype of the rows, or are quantized.
///   rows  quantized where the table has integer kernels for such weights; the packed form is kept
///   out   [num_rows, outputs] with stride >= outputs rounded up to 16: the padding is written too
///   bias  [outputs] or null
/// The bits of out[i, :] depend on row i alone.
void multiply(const KernelContext& context, PackedRows& rows, const PanelView& weights, const float* bias,
              Matrix<float> out);

}  // namespace lacuna
