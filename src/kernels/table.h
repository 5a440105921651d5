// One instruction set is one table of functions. scalar/ is the definition; the others agree with it within
// bounds that follow from the inputs (see tests/kernels/).
//
// Promise of every function: the bits of a row's result depend on that row's inputs alone, never on how many
// rows share the call. Each output element of a product is added up over k = 0, 1, 2, ... in one order, which
// an instruction set chooses within every 32 inputs; a sum may be put aside at each multiple of 32 and taken
// up again. Products of rows of whole numbers are exact within each group, or, where the quantisation scales
// sums, within as many inputs as the instruction set chooses; these sums are then added up in order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "kernels/panels.h"

namespace lacuna {

inline constexpr int64_t kRowTile = 16;  // of AMX

/// Where packed rows lie. In elements; element k of row r is at
///   r / 16 * tile + r % 16 * row + k / 32 * step + k % 32
struct RowStrides {
  int64_t row = 0;   ///< from one row to the next of the same sixteen
  int64_t step = 0;  ///< from 32 inputs to the next 32
  int64_t tile = 0;  ///< from sixteen rows to the next

  /// Each row in one piece.
  static constexpr RowStrides in_rows(int64_t stride) { return {stride, kBf16DepthStep, kRowTile * stride}; }

  /// 32 inputs of sixteen rows (of all, where they are fewer) in one piece: a tile of AMX.
  static constexpr RowStrides in_tiles(int64_t num_rows, int64_t padded_depth) {
    // An odd number of what products take at a time lies between sixteen rows and the next: were it a power
    // of two, the same inputs of all rows would fall into the same few sets of the caches.
    constexpr int64_t kSlice = 256;
    const int64_t rows = std::min(num_rows, kRowTile);
    return {kBf16DepthStep, rows * kBf16DepthStep,
            rows * kSlice * ((padded_depth + kSlice - 1) / kSlice | 1)};
  }

  constexpr int64_t offset(int64_t r, int64_t k) const {
    return r / kRowTile * tile + r % kRowTile * row + k / kBf16DepthStep * step + k % kBf16DepthStep;
  }
};

/// out[r, n] = sum over k of a[r, k] * w[n, k], for whole panels of 16 outputs (see panels.h).
struct PanelProduct {
  const void* a = nullptr;    ///< rows [num_rows, depth], packed or as whole numbers; float for f32
  RowStrides a_strides = {};  ///< in rows, or, for bf16 where the table takes them, in tiles
  int64_t num_rows = 0;
  const void* panels = nullptr;
  int64_t panel_stride = 0;  ///< elements, or bytes of quantised panels, from one panel to the next
  int64_t num_panels = 0;
  int64_t depth = 0;     ///< K; for bf16 a multiple of 32; of rows of whole numbers all that they hold
  float* out = nullptr;  ///< [num_rows, out_stride]; 16 * num_panels columns are written
  int64_t out_stride = 0;
  bool accumulate = false;           ///< continue the chains from what out holds instead of from zero; not
                                     ///< of whole numbers, nor where the quantisation scales sums
  Quantisation quantisation = {};    ///< of the panels, for products with quantised weights
  const float* row_sums = nullptr;   ///< [num_rows] of the numbers as they are here, where the quantisation
                                     ///< scales sums
  const float* row_steps = nullptr;  ///< [num_rows, steps_per_row] of rows of whole numbers
  int64_t steps_per_row = 1;
};

/// Rows of bf16 as whole numbers of steps, for products with quantised weights.
struct WholeRows {
  /// Rounds the numbers of a packed row to whole numbers x / step.
  ///   packed  as pack_row_bf16 wrote it and `strides` place it
  ///   out     as many bytes, placed alike; how whole numbers lie there is the table's matter
  ///   steps   [steps_per_row(padded_count)]; no number for inputs that hold infinity or NaN, and so are then
  ///           all the row's outputs
  /// Returns the sum of the numbers that they stand for; no number if a step is none.
  float (*round_row)(const void* packed, const RowStrides& strides, int64_t padded_count, void* out,
                     float* steps) = nullptr;
  void (*panel_product)(const PanelProduct&) = nullptr;
  bool (*takes)(const Quantisation&) = nullptr;  ///< whether there is a product with such weights
  int64_t inputs_per_step = 0;                   ///< a multiple of 32; 0: one step for the row

  explicit operator bool() const { return round_row != nullptr; }
  int64_t steps_per_row(int64_t padded_count) const {
    return inputs_per_step == 0 ? 1 : (padded_count + inputs_per_step - 1) / inputs_per_step;
  }
};

struct MaxIndex {
  float value;
  int64_t index;  ///< the lowest index that holds the largest value
};

/// Sums over e_i = exp(x_i - max).
struct ExpSums {
  double sum;       ///< of e_i
  double weighted;  ///< of e_i * (x_i - max), 0 where e_i is 0
};

struct KernelTable {
  std::string_view name;

  /// Bytes of one element of a bf16-packed row: 2 (bf16) where the hardware multiplies bf16, else 4 (floats
  /// that hold bf16 values).
  int64_t bf16_row_element_bytes;

  bool takes_bf16_rows_in_tiles;  ///< and multiplies them faster than rows in one piece

  /// Rounds x[0, count) to bf16 (nearest even) and fills [count, padded_count) with zeros. Returns the sum of
  /// what it wrote.
  float (*pack_row_bf16)(const float* x, int64_t count, int64_t padded_count, void* out);

  /// Whole numbers of 16 bits, in steps of a power of two. Numbers of at least 1/128 of the row's greatest
  /// keep their value (but the greatest may lose one step of 32,640), unless that is below 2^-112; smaller
  /// ones are rounded to whole steps.
  WholeRows split_rows;
  /// Whole numbers of 8 bits: every 256 inputs have the 127th part of their greatest number as step, or are
  /// zeros where that number is below 2^-112. Faster, and coarser than bf16: only on request.
  WholeRows byte_rows;

  /// What rows of bf16 become for weights with this quantisation; null: they stay as they are packed.
  const WholeRows* whole_rows(const Quantisation& quantisation, bool int8_activations) const {
    if (quantisation.bits == 0) return nullptr;
    if (int8_activations && byte_rows && byte_rows.takes(quantisation)) return &byte_rows;
    return split_rows && split_rows.takes(quantisation) ? &split_rows : nullptr;
  }

  void (*panel_product_f32)(const PanelProduct&);
  /// Products of bf16 values, accumulated in f32.
  void (*panel_product_bf16)(const PanelProduct&);

  /// Products of rows packed for f32, or for bf16, with quantised weights; the panels hold at least `depth`
  /// inputs. Weights are widened to f32, but to bf16 (rounded to nearest even) where the hardware multiplies
  /// bf16 and the rows are bf16. Where the quantisation scales sums, rows are multiplied with values, and the
  /// sums then scaled.
  void (*panel_product_f32_quantised)(const PanelProduct&);
  void (*panel_product_bf16_quantised)(const PanelProduct&);

  /// x[0] + ... + x[count - 1].
  float (*sum)(const float* x, int64_t count);

  /// Softmax numerators of one row of attention scores, in place. Column c is visible to `row` if
  /// first_row[c] <= row. scores[c] = exp(scale * (scores[c] - max)) where visible, else 0; max runs over the
  /// visible columns. count is a multiple of 16; at least one column is visible. Returns the sum.
  float (*softmax_numerators)(float* scores, const int32_t* first_row, int64_t count, int32_t row,
                              float scale);

  /// out[i] = x[i] / sqrt(mean(x^2) + epsilon) * weight[i]. out may be x.
  void (*rms_norm)(const float* x, const float* weight, int64_t count, float epsilon, float* out);

  /// Rotates the pairs (x[j], x[j + half]) by the angles whose cosines and sines are given (half-split
  /// layout).
  void (*rope)(float* x, const float* cosines, const float* sines, int64_t half);

  /// out[i] = silu(gate[i]) * up[i], silu(z) = z / (1 + exp(-z)). out may be gate or up.
  void (*swiglu)(const float* gate, const float* up, int64_t count, float* out);

  /// x[i] = max(x[i], 0)^2.
  void (*squared_relu)(float* x, int64_t count);

  /// x[i] = cap * tanh(scale * x[i] / cap).
  void (*soft_cap)(float* x, int64_t count, float scale, float cap);

  /// x[i] += scale * y[i].
  void (*add_scaled)(float* x, const float* y, float scale, int64_t count);

  /// x[i] *= y[i].
  void (*multiply)(float* x, const float* y, int64_t count);

  /// out[i] = codes[i], as f32 or as bf16, which holds codes of 8 bits exactly.
  void (*widen_codes_f32)(const int8_t* codes, int64_t count, float* out);
  void (*widen_codes_bf16)(const int8_t* codes, int64_t count, bf16* out);

  /// count >= 1; NaN never wins.
  MaxIndex (*max_index)(const float* x, int64_t count);

  ExpSums (*exp_sums)(const float* x, int64_t count, float max);
};

}  // namespace lacuna
