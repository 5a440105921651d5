// Plain definitions to compare the kernels with, and helpers that several tests share.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/dtype.h"
#include "base/rng.h"
#include "kernels/dispatch.h"
#include "kernels/panels.h"
#include "kernels/table.h"

namespace lacuna {

inline void PrintTo(const KernelTable& table, std::ostream* out) {
  *out << table.name;
}

namespace test {

inline constexpr double kEpsilon = std::numeric_limits<float>::epsilon();

/// The table's name as GoogleTest takes it: neon_i8mm.
inline std::string name_of(const KernelTable& table) {
  std::string name(table.name);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

inline std::string table_name(const testing::TestParamInfo<KernelTable>& info) {
  return name_of(info.param);
}

/// Uniform in (-scale, scale).
inline std::vector<float> random_values(uint64_t seed, int64_t count, double scale = 1) {
  const RngStream stream(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((2 * stream.uniform(i) - 1) * scale);
  return values;
}

/// `value` rounded to `dtype`.
inline float rounded(DType dtype, float value) {
  return dtype == DType::kBF16 ? static_cast<float>(bf16(value)) : value;
}

inline void round_all(DType dtype, std::vector<float>& values) {
  for (float& value : values) value = rounded(dtype, value);
}

/// The PanelProduct of `num_rows` rows with all panels of `weights`.
inline PanelProduct product_of(const void* rows, int64_t row_stride, int64_t num_rows,
                               const PanelView& weights, float* out, int64_t out_stride) {
  PanelProduct product;
  product.a = rows;
  product.a_strides = RowStrides::in_rows(row_stride);
  product.num_rows = num_rows;
  product.panels = weights.data;
  product.panel_stride = weights.panel_stride;
  product.num_panels = num_panels(weights.outputs);
  product.depth = weights.is_quantized() ? weights.inputs : padded_depth(weights.dtype, weights.inputs);
  product.out = out;
  product.out_stride = out_stride;
  product.quantization = weights.quantization;
  return product;
}

/// A row-major matrix [outputs, inputs] in panels, placed element by element as panels.h describes them.
class Panels {
 public:
  Panels(DType dtype, const std::vector<float>& values, int64_t outputs, int64_t inputs,
         int64_t unused_per_panel = 0) {
    const int64_t stride = padded_depth(dtype, inputs) * kPanelWidth + unused_per_panel;
    memory_.reserve(num_panels(outputs) * stride * static_cast<int64_t>(size_of(dtype)));
    view_ = {memory_.data(), dtype, outputs, inputs, stride};
    for (int64_t n = 0; n < outputs; ++n) {
      for (int64_t k = 0; k < inputs; ++k) {
        place(memory_.data(), dtype, n / 16 * stride, n % 16, k, values[static_cast<size_t>(n * inputs + k)]);
      }
    }
  }

  static void place(std::byte* memory, DType dtype, int64_t panel_begin, int64_t lane, int64_t k,
                    float value) {
    if (dtype == DType::kBF16) {
      reinterpret_cast<bf16*>(memory)[panel_begin + k / 2 * 32 + lane * 2 + k % 2] = bf16(value);
    } else {
      reinterpret_cast<float*>(memory)[panel_begin + k * 16 + lane] = value;
    }
  }

  const PanelView& view() const { return view_; }

 private:
  Buffer<std::byte> memory_;
  PanelView view_;
};

/// An exact value, and the largest error that a computation may have.
struct Expected {
  double value = 0;
  double bound = 0;
};

/// sum over k of a[k] * b[k], with the rounding of that number of f32 additions in any order.
inline Expected dot(const float* a, const float* b, int64_t depth, double initial = 0) {
  double sum = initial;
  double absolute = std::abs(initial);
  for (int64_t k = 0; k < depth; ++k) {
    const double product = static_cast<double>(a[k]) * b[k];
    sum += product;
    absolute += std::abs(product);
  }
  return {sum, static_cast<double>(depth + 1) * kEpsilon * absolute};
}

/// Whether actual[row * stride + column] meets expected[row * num_cols + column].
inline testing::AssertionResult meets(const float* actual, int64_t stride, const Expected* expected,
                                      int64_t num_rows, int64_t num_cols) {
  for (int64_t row = 0; row < num_rows; ++row) {
    for (int64_t column = 0; column < num_cols; ++column) {
      const Expected& e = expected[row * num_cols + column];
      const double value = actual[row * stride + column];
      if (std::abs(value - e.value) <= e.bound) continue;  // false for NaN
      return testing::AssertionFailure() << "at row " << row << ", column " << column << ": expected "
                                         << e.value << ", got " << value << ", bound " << e.bound;
    }
  }
  return testing::AssertionSuccess();
}

/// Whether two arrays hold the same bits.
inline testing::AssertionResult same_bits(const float* actual, const float* expected, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (std::bit_cast<uint32_t>(actual[i]) == std::bit_cast<uint32_t>(expected[i])) continue;
    return testing::AssertionFailure()
           << "at index " << i << ": expected " << std::hexfloat << expected[i] << ", got " << actual[i];
  }
  return testing::AssertionSuccess();
}

}  // namespace test
}  // namespace lacuna
