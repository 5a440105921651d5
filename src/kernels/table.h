// Kernels of one instruction set, as a table of functions. scalar/ is the reference implementation; the
// others agree with it within bounds that depend on the inputs (tests/kernels/).
//
// Batch invariance: the bits of a row's result depend on that row's inputs alone, never on how many rows
// share the call. Each output of a GEMM is accumulated over k = 0, 1, 2, ... in one order, which an
// instruction set chooses within every 32 inputs; a partial sum may be spilled and reloaded at multiples of
// 32. Accumulators of integer activations are exact within each group or, with one scale per output channel,
// within a number of inputs that the instruction set chooses; they are then added in order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "kernels/panels.h"

namespace lacuna {

inline constexpr int64_t kRowTile = 16;  // rows of an AMX tile

/// Layout of packed rows, in elements. Element k of row r is at
///   r / 16 * tile + r % 16 * row + k / 32 * k_step + k % 32
struct RowStrides {
  int64_t row = 0;     ///< from one row to the next within a tile of 16
  int64_t k_step = 0;  ///< from 32 inputs to the next 32
  int64_t tile = 0;    ///< from one tile of 16 rows to the next

  /// Each row is contiguous.
  static constexpr RowStrides in_rows(int64_t stride) { return {stride, kBf16DepthStep, kRowTile * stride}; }

  /// 32 inputs of 16 rows (or of all, if there are fewer) are contiguous: an AMX tile.
  static constexpr RowStrides in_tiles(int64_t num_rows, int64_t padded_depth) {
    // An odd number of slices lies between one tile of rows and the next: with a power of two, the same
    // inputs of all rows would map to a few cache sets.
    constexpr int64_t kSlice = 256;
    const int64_t rows = std::min(num_rows, kRowTile);
    return {kBf16DepthStep, rows * kBf16DepthStep,
            rows * kSlice * ((padded_depth + kSlice - 1) / kSlice | 1)};
  }

  constexpr int64_t offset(int64_t r, int64_t k) const {
    return r / kRowTile * tile + r % kRowTile * row + k / kBf16DepthStep * k_step + k % kBf16DepthStep;
  }
};

/// out[r, n] = sum over k of a[r, k] * w[n, k], for whole panels of 16 outputs (see panels.h).
struct PanelProduct {
  const void* a = nullptr;      ///< rows [num_rows, depth], packed or as integers; float for f32
  RowStrides a_strides = {};    ///< in rows or, for bf16 if the table takes them, in tiles
  int64_t a_element_bytes = 0;  ///< bytes of one a_strides element, also for integer rows
  int64_t num_rows = 0;
  const void* panels = nullptr;
  int64_t panel_stride = 0;  ///< elements, or bytes of quantized panels, from one panel to the next
  int64_t num_panels = 0;
  int64_t depth = 0;     ///< K; a multiple of 32 for bf16; the padded K for integer rows
  float* out = nullptr;  ///< [num_rows, out_stride]; 16 * num_panels columns are written
  int64_t out_stride = 0;
  bool accumulate = false;            ///< start from the values of `out` instead of zero; not for integer
                                      ///< rows or with one scale per output channel
  Quantization quantization = {};     ///< format of quantized panels
  const float* row_sums = nullptr;    ///< [num_rows] sum of each row as represented, with one scale per
                                      ///< output channel
  const float* row_scales = nullptr;  ///< [num_rows, scales_per_row], only for integer rows
  int64_t scales_per_row = 1;
};

/// Dynamic activation quantization: bf16 rows as integers, with one scale per row or group of inputs, and the
/// GEMM of such rows with quantized weights.
struct IntegerActivations {
  /// Rounds the values of a packed row to integers x / scale.
  ///   packed  row written by pack_row_bf16, in the layout of `strides`
  ///   out     same size and layout; the order of integers within it depends on the instruction set
  ///   scales  [scales_per_row(padded_count)]; NaN for inputs that hold infinity or NaN, which makes all
  ///           outputs of the row NaN
  /// Returns the sum of the dequantized values; NaN if a scale is NaN.
  float (*quantize_row)(const void* packed, const RowStrides& strides, int64_t padded_count, void* out,
                        float* scales) = nullptr;
  void (*panel_product)(const PanelProduct&) = nullptr;
  bool (*takes)(const Quantization&) = nullptr;  ///< whether there is a GEMM for such weights
  int64_t inputs_per_scale = 0;                  ///< a multiple of 32; 0: one scale per row

  explicit operator bool() const { return quantize_row != nullptr; }
  int64_t scales_per_row(int64_t padded_count) const {
    return inputs_per_scale == 0 ? 1 : (padded_count + inputs_per_scale - 1) / inputs_per_scale;
  }
};

struct MaxIndex {
  float value;
  int64_t index;  ///< lowest index of the largest value
};

/// Sums over e_i = exp(x_i - max), for softmax statistics.
struct ExpSums {
  double sum;       ///< sum of the numerators e_i
  double weighted;  ///< sum of e_i * (x_i - max), 0 where e_i is 0
};

struct KernelTable {
  std::string_view name;

  /// Bytes of one element of a bf16-packed row: 2 (bf16) where the hardware multiplies bf16, else 4 (floats
  /// that hold bf16 values).
  int64_t bf16_row_element_bytes;

  bool takes_bf16_rows_in_tiles;  ///< whether GEMMs take bf16 rows in tiles, faster than contiguous rows

  /// Rounds x[0, count) to bf16 (nearest even) and fills [count, padded_count) with zeros. Returns the sum of
  /// what it wrote.
  float (*pack_row_bf16)(const float* x, int64_t count, int64_t padded_count, void* out);

  /// int16 activations, with a power-of-two scale per row. Exact for values of at least 1/128 of the row
  /// maximum (except that the maximum may be off by one unit of 32,640), unless the maximum is below 2^-112;
  /// smaller values are rounded to multiples of the scale.
  IntegerActivations int16_activations;
  /// int8 activations: every 256 inputs have the scale max / 127, or are zero if the maximum is below 2^-112.
  /// Faster, and coarser than bf16: only on request.
  IntegerActivations int8_activations;

  /// Quantization of bf16 rows for weights of this format; null: rows stay bf16.
  const IntegerActivations* integer_activations(const Quantization& quantization, bool use_int8) const {
    if (quantization.bits == 0) return nullptr;
    if (use_int8 && int8_activations && int8_activations.takes(quantization)) return &int8_activations;
    return int16_activations && int16_activations.takes(quantization) ? &int16_activations : nullptr;
  }

  void (*panel_product_f32)(const PanelProduct&);
  /// GEMM of bf16 values, accumulated in f32.
  void (*panel_product_bf16)(const PanelProduct&);

  /// GEMM of rows packed for f32, or for bf16, with quantized weights; the panels hold at least `depth`
  /// inputs. Weights are dequantized to f32, or to bf16 (rounded to nearest even) if the hardware multiplies
  /// bf16 and the rows are bf16. With one scale per output channel, rows are multiplied with 8-bit values,
  /// and accumulators are scaled.
  void (*panel_product_f32_quantized)(const PanelProduct&);
  void (*panel_product_bf16_quantized)(const PanelProduct&);

  /// x[0] + ... + x[count - 1].
  float (*sum)(const float* x, int64_t count);

  /// Softmax numerators of one row of attention scores, in place. Column c is visible to `row` if
  /// first_row[c] <= row. scores[c] = exp(scale * (scores[c] - max)) where visible, else 0; max runs over the
  /// visible columns. count is a multiple of 16; at least one column is visible. Returns the sum.
  float (*softmax_numerators)(float* scores, const int32_t* first_row, int64_t count, int32_t row,
                              float scale);

  /// out[i] = x[i] / sqrt(mean(x^2) + epsilon) * weight[i]. out may be x.
  void (*rms_norm)(const float* x, const float* weight, int64_t count, float epsilon, float* out);

  /// RoPE: rotates the pairs (x[j], x[j + half]) by the angles with these cosines and sines.
  void (*rope)(float* x, const float* cosines, const float* sines, int64_t half);

  /// out[i] = silu(gate[i]) * up[i], silu(z) = z / (1 + exp(-z)). out may be gate or up.
  void (*swiglu)(const float* gate, const float* up, int64_t count, float* out);

  /// out[i] = gelu(gate[i]) * up[i], gelu(z) = z (1 + tanh(sqrt(2 / pi) (z + 0.044715 z^3))) / 2. out may be
  /// gate or up.
  void (*geglu)(const float* gate, const float* up, int64_t count, float* out);

  /// x[i] = max(x[i], 0)^2.
  void (*squared_relu)(float* x, int64_t count);

  /// x[i] = cap * tanh(scale * x[i] / cap).
  void (*soft_cap)(float* x, int64_t count, float scale, float cap);

  /// x[i] += scale * y[i].
  void (*add_scaled)(float* x, const float* y, float scale, int64_t count);

  /// x[i] *= y[i].
  void (*multiply)(float* x, const float* y, int64_t count);

  /// Dequantizes int8 without a scale: out[i] = codes[i], as f32 or as bf16, which holds 8-bit values
  /// exactly.
  void (*widen_codes_f32)(const int8_t* codes, int64_t count, float* out);
  void (*widen_codes_bf16)(const int8_t* codes, int64_t count, bf16* out);

  /// The largest of count >= 1 values. NaNs are ignored.
  MaxIndex (*max_index)(const float* x, int64_t count);

  ExpSums (*exp_sums)(const float* x, int64_t count, float max);
};

}  // namespace lacuna
