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
  /// Rows of KernelTable::byte_rows for weights that it takes. Of multiply(): a Model has a setting of its
  /// own.
  bool int8_activations = false;
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
  /// threads; it must not pack rows itself.
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

  /// Memory of so many rows once packed.
  static int64_t bytes_for(const KernelTable& kernels, int64_t num_rows, int64_t depth, DType dtype);
  /// Memory that uses so far have left, of packed rows and of whole numbers.
  int64_t bytes() const { return packed_.data.size() + split_.data.size() + bytes_.data.size(); }

  /// What products read of the rows.
  struct Form {
    Buffer<std::byte> data;  ///< laid out by strides()
    Buffer<float> sums;      ///< of the numbers of each row, as they are here
    Buffer<float> steps;     ///< of whole numbers, [num_rows, steps of a row]
  };
  const Form& packed() const { return packed_; }
  /// The packed rows, which are bf16, as whole numbers; made when they are first asked for.
  ///   whole_rows  of the kernels that the rows were packed for
  const Form& as_whole_numbers(const KernelContext& context, const WholeRows& whole_rows);
  const RowStrides& strides() const { return strides_; }
  /// From the begin of the first row to that of `row`.
  int64_t offset_bytes(int64_t row) const { return strides_.offset(row, 0) * element_bytes_; }
  int64_t num_rows() const { return num_rows_; }
  int64_t padded_depth() const { return padded_depth_; }
  int64_t depth() const { return depth_; }
  DType dtype() const { return dtype_; }

 private:
  /// Sixteen rows, or the last ones, each in one piece.
  struct RowsOfTile {
    std::byte* data;
    int64_t row_bytes;  // from one to the next
    int64_t count;
  };

  void lay_out(const KernelTable& kernels, int64_t num_rows, int64_t depth, DType dtype);
  void resize(const KernelTable& kernels, int64_t num_rows, int64_t depth, DType dtype);
  /// Where they lie at last, or, if that is in tiles, space of this thread.
  RowsOfTile rows_of_tile(int64_t tile);
  /// Returns the sum of the packed numbers.
  float pack_row(const KernelTable& kernels, const float* source, std::byte* packed) const;
  void lay_out_tile(int64_t tile, const RowsOfTile& rows);

  struct WholeForm : Form {
    bool is_made = false;
  };

  Form packed_;
  WholeForm split_;
  WholeForm bytes_;
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
/// Weights have the dtype of the rows, or are quantised.
///   rows  become whole numbers where the table wants that for such weights; their packed form stays
///   out   [num_rows, outputs] with stride >= outputs rounded up to 16: the padding is written too
///   bias  [outputs] or null
/// The bits of out[i, :] depend on row i alone.
void multiply(const KernelContext& context, PackedRows& rows, const PanelView& weights, const float* bias,
              Matrix<float> out);

}  // namespace lacuna
