// GEMM with quantized weights, through the table and through multiply().
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "definitions.h"
#include "kernels/matmul.h"

namespace lacuna::quantized_test {
namespace {

using test::Expected;

constexpr Quantization kTwoLevels{.bits = 4, .group = 32, .has_minimum = true, .two_levels = true};

std::vector<Quantization> all_quantizations() {
  std::vector<Quantization> all;
  for (const int32_t bits : {4, 8}) {
    for (const int32_t group : {0, 16, 32}) {
      for (const bool has_minimum : {false, true}) {
        for (const bool wide : {false, true}) all.push_back({bits, group, has_minimum, wide, false});
      }
    }
  }
  all.push_back(kTwoLevels);
  return all;
}

std::string name_of(const Quantization& quantization) {
  return std::to_string(quantization.bits) + " bits, groups of " + std::to_string(quantization.group) +
         (quantization.has_minimum ? ", minimums" : "") + (quantization.wide_scales ? ", f32 scales" : "") +
         (quantization.two_levels ? ", two levels" : "");
}

/// Random quantized values and scales, placed element by element as panels.h describes them, and the weights
/// that they stand for.
class RandomPanels {
 public:
  RandomPanels(const Quantization& quantization, int64_t outputs, int64_t inputs)
      : inputs_(inputs), weights_(static_cast<size_t>(outputs * inputs)) {
    const int64_t depth = round_up(inputs, 32);
    const int64_t groups = quantization.group == 0 ? 1 : depth / quantization.group;
    const int64_t scale_bytes = quantization.two_levels ? 1 : quantization.wide_scales ? 4 : 2;
    const int64_t of_outputs = quantization.two_levels ? 128 : 0;
    const int64_t header =
        round_up(of_outputs + groups * 16 * scale_bytes * (quantization.has_minimum ? 2 : 1), 64);
    const int64_t panel_bytes = header + depth * 16 * quantization.bits / 8;
    memory_.reserve(num_panels(outputs) * panel_bytes);
    view_ = {memory_.data(), DType::kF32, outputs, inputs, panel_bytes, quantization};
    const RngStream random(7, quantization.bits, inputs);
    uint64_t draws = 0;
    for (int64_t n = 0; n < outputs; ++n) {
      std::byte* panel = memory_.data() + n / 16 * panel_bytes;
      const auto one_of = [&](uint64_t count) { return static_cast<int64_t>(random.bits(draws++) % count); };
      const float output_scale = static_cast<float>(1 + one_of(200)) / 128;
      const float output_minimum = static_cast<float>(one_of(400) - 600) / 16;
      if (quantization.two_levels) {
        auto* floats = reinterpret_cast<float*>(panel);
        floats[n % 16] = output_scale;
        floats[16 + n % 16] = output_minimum;
      }
      double largest_scale = output_scale;
      double largest_minimum = 0;
      for (int64_t g = 0; g < groups; ++g) {
        // Multiples of 1/16 and 1/128: f16 and f32 both hold them.
        float scale = static_cast<float>(1 + one_of(200)) / 128;
        float minimum = static_cast<float>(one_of(400) - 200) / 16;
        if (quantization.two_levels) {
          const int64_t integer_scale = one_of(18);  // 0 is valid as well
          scale = static_cast<float>(integer_scale);
          minimum = static_cast<float>(one_of(static_cast<uint64_t>(256 - 15 * integer_scale)));
        }
        if (!quantization.two_levels) largest_scale = std::max<double>(largest_scale, scale);
        if (!quantization.two_levels && quantization.has_minimum)
          largest_minimum = std::max<double>(largest_minimum, std::abs(minimum));
        place_scale(quantization, panel + of_outputs, g * 16 + n % 16, scale);
        if (quantization.has_minimum)
          place_scale(quantization, panel + of_outputs, (groups + g) * 16 + n % 16, minimum);
        const int64_t begin = g * (quantization.group == 0 ? depth : quantization.group);
        const int64_t end = quantization.group == 0 ? inputs : std::min(inputs, begin + quantization.group);
        for (int64_t k = begin; k < end; ++k) {
          const auto code = static_cast<uint32_t>(random.bits(draws++) % (1U << quantization.bits));
          const int64_t per_word = 32 / quantization.bits;
          auto* words = reinterpret_cast<uint32_t*>(panel + header);
          // The bytes of a word are inputs 0, 2, 1, 3; their upper halves 4, 6, 5, 7.
          constexpr std::array kPlaces = {0, 16, 8, 24, 4, 20, 12, 28};
          words[k / per_word * 16 + n % 16] |= code << kPlaces[static_cast<size_t>(k % per_word)];
          const float middle = static_cast<float>(1 << (quantization.bits - 1));
          float weight = quantization.has_minimum ? scale * static_cast<float>(code) + minimum
                                                  : scale * (static_cast<float>(code) - middle);
          if (quantization.two_levels) weight = output_scale * weight + output_minimum;
          weights_[static_cast<size_t>(n * inputs + k)] = weight;
        }
      }
      const double greatest_code = quantization.bits == 4 && !quantization.two_levels ? 15 : 255;
      largest_parts_.push_back(greatest_code * largest_scale + largest_minimum);
    }
  }

  const PanelView& view() const { return view_; }
  const float* weights(int64_t n) const { return weights_.data() + n * inputs_; }
  /// Largest magnitude of the scaled quantized value and of the minimum in a weight; the two may cancel.
  double largest_part(int64_t n) const { return largest_parts_[static_cast<size_t>(n)]; }

 private:
  static void place_scale(const Quantization& quantization, std::byte* panel, int64_t index, float value) {
    if (quantization.two_levels) {
      panel[index] = static_cast<std::byte>(value);
      return;
    }
    if (quantization.wide_scales) {
      reinterpret_cast<float*>(panel)[index] = value;
      return;
    }
    // Normal numbers with few digits: only the exponent's bias differs.
    const auto word = std::bit_cast<uint32_t>(value);
    const uint32_t magnitude = word & 0x7fffffffU;
    const uint32_t narrow = magnitude == 0 ? 0 : (magnitude - (112U << 23)) >> 13;
    reinterpret_cast<uint16_t*>(panel)[index] = static_cast<uint16_t>((word >> 16 & 0x8000U) | narrow);
  }

  int64_t inputs_;
  Buffer<std::byte> memory_;
  PanelView view_;
  std::vector<float> weights_;
  std::vector<double> largest_parts_;
};

struct TableAndRows {
  KernelTable table;
  bool int8_activations;
};

class QuantizedMatmul : public testing::TestWithParam<TableAndRows> {
 protected:
  const KernelTable& table_ = GetParam().table;
  ThreadPool threads_{2};
  KernelContext context_{table_, threads_, GetParam().int8_activations};

  std::vector<float> product(ConstMatrix<float> x, std::span<const int32_t> row_list, DType rows_dtype,
                             const PanelView& w) {
    PackedRows rows;
    rows.pack(context_, x, row_list, rows_dtype);
    const int64_t stride = round_up(w.outputs, kPanelWidth);
    std::vector<float> out(static_cast<size_t>(rows.num_rows() * stride));
    multiply(context_, rows, w, nullptr, {out.data(), rows.num_rows(), w.outputs, stride});
    return out;
  }

  /// Quantization of activations for such weights, or null.
  const IntegerActivations* activations(DType dtype, const Quantization& quantization) const {
    return dtype == DType::kBF16 ? table_.integer_activations(quantization, GetParam().int8_activations)
                                 : nullptr;
  }

  /// Whether the table rounds dequantized weights to bf16.
  bool rounds_weights(DType rows_dtype) const {
    return rows_dtype == DType::kBF16 && table_.bf16_row_element_bytes == sizeof(bf16);
  }

  /// The values of a row (which the dtype holds) after quantization of activations for such weights.
  std::vector<float> seen(DType rows_dtype, const Quantization& quantization, const float* x,
                          int64_t depth) const {
    std::vector<float> row(x, x + depth);
    const IntegerActivations* const whole = activations(rows_dtype, quantization);
    if (whole == nullptr) return row;
    const int64_t run = whole->inputs_per_scale == 0 ? depth : whole->inputs_per_scale;
    for (int64_t begin = 0; begin < depth; begin += run) {
      const std::span<float> numbers(row.data() + begin, static_cast<size_t>(std::min(run, depth - begin)));
      float maximum = 0;
      for (const float value : numbers) maximum = std::max(maximum, std::abs(value));
      const bool is_byte = whole == &table_.int8_activations;
      const float scale = is_byte ? maximum / 127 : std::ldexp(1.0F, std::ilogb(maximum) - 14);
      const float inverse = is_byte ? 127 / maximum : 1 / scale;
      for (float& value : numbers)
        value = std::min(std::nearbyint(value * inverse), is_byte ? 127.0F : 32639.0F) * scale;
    }
    return row;
  }

  Expected dot(DType rows_dtype, const float* x, const RandomPanels& panels, int64_t n) const {
    const int64_t depth = panels.view().inputs;
    const float* w = panels.weights(n);
    Expected expected = test::dot(x, w, depth);
    const bool scales_sums = panels.view().quantization.scales_sums();
    const bool is_integer = activations(rows_dtype, panels.view().quantization) != nullptr;
    // Accumulators of integer activations are exact over a group, or over at least 256 inputs; each is
    // converted to f32, scaled, and added with its minimum.
    const int64_t exact = scales_sums ? 256 : panels.view().quantization.group;
    const int64_t roundings = is_integer ? 4 + 3 * (depth / exact + 1) : depth + 2;
    for (int64_t k = 0; k < depth; ++k) {
      // Accumulators of rows times 8-bit values are exact, but these values may be larger than weights.
      if (scales_sums || is_integer) {
        expected.bound +=
            static_cast<double>(roundings) * test::kEpsilon * std::abs(x[k]) * panels.largest_part(n);
      }
      if (rounds_weights(rows_dtype) && !scales_sums && !is_integer)
        expected.bound += 0x1p-8 * std::abs(double{x[k]} * w[k]);
    }
    return expected;
  }
};

TEST_P(QuantizedMatmul, EqualTheDefinitionInEveryFormatAtEveryShape) {
  constexpr int64_t kRows = 13;
  for (const Quantization& quantization : all_quantizations()) {
    for (const int64_t inputs : {1, 5, 16, 31, 32, 40, 256, 289, 800}) {
      for (const int64_t outputs : {1, 16, 33, 70}) {
        const RandomPanels w(quantization, outputs, inputs);
        for (const DType dtype : {DType::kF32, DType::kBF16}) {
          std::vector<float> x = test::random_values(1, kRows * inputs);
          test::round_all(dtype, x);
          std::vector<Expected> expected;
          for (int64_t row = 0; row < kRows; ++row) {
            const std::vector<float> of_row = seen(dtype, quantization, x.data() + row * inputs, inputs);
            for (int64_t n = 0; n < outputs; ++n) expected.push_back(dot(dtype, of_row.data(), w, n));
          }
          const int64_t stride = round_up(outputs, kPanelWidth);
          for (const int64_t rows : {1, 2, 3, 4, 5, 13}) {
            const auto out = product({x.data(), rows, inputs}, {}, dtype, w.view());
            ASSERT_TRUE(test::meets(out.data(), stride, expected.data(), rows, outputs))
                << name_of(quantization) << ", rows of " << lacuna::name_of(dtype) << ": " << rows << " by "
                << inputs << " inputs, " << outputs << " outputs";
          }
        }
      }
    }
  }
}

TEST_P(QuantizedMatmul, GiveARowTheSameBitsAloneAndInAnyBatch) {
  constexpr int64_t kRows = 600;
  constexpr int64_t kInputs = 800;
  constexpr int64_t kOutputs = 50;
  constexpr int64_t kStride = 64;
  const std::vector<float> x = test::random_values(1, kRows * kInputs);
  const ConstMatrix<float> all(x.data(), kRows, kInputs);
  std::vector<int32_t> reversed(kRows);
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  for (const Quantization& quantization :
       {Quantization{8, 32}, Quantization{4, 32, true}, Quantization{8, 16, true, true}, Quantization{4, 16},
        Quantization{8, 0}, Quantization{4, 0}, kTwoLevels}) {
    const RandomPanels w(quantization, kOutputs, kInputs);
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const std::vector<float> batch = product(all, {}, dtype, w.view());
      const auto batch_row = [&](int64_t row) { return batch.data() + row * kStride; };
      const std::vector<float> backwards = product(all, reversed, dtype, w.view());
      for (int64_t row = 0; row < kRows; ++row) {
        ASSERT_TRUE(test::same_bits(backwards.data() + (kRows - 1 - row) * kStride, batch_row(row), kOutputs))
            << "row " << row << " from the end";
      }
      for (const int64_t count : {1, 2, 3, 4, 5, 6, 7, 15, 16, 17, 31, 33, 47, 97, 225, 226}) {
        const std::vector<float> few = product(all.first_rows(count), {}, dtype, w.view());
        for (int64_t row = 0; row < count; ++row) {
          ASSERT_TRUE(test::same_bits(few.data() + row * kStride, batch_row(row), kOutputs))
              << name_of(quantization) << ": row " << row << " of " << count;
        }
      }
    }
  }
}

/// Panels with scale 1 and minimum 0 per output channel: every 8-bit value, or every integer scale of two
/// levels with every 4-bit value.
TEST_P(QuantizedMatmul, MultiplyEveryQuantizedValueExactly) {
  for (const Quantization& quantization : {Quantization{8, 0, true, true}, kTwoLevels}) {
    const int64_t inputs = quantization.two_levels ? 18 * 32 : 256;
    const QuantizedLayout layout(quantization, inputs);
    Buffer<std::byte> panel(layout.bytes());
    std::vector<float> values;
    for (int64_t lane = 0; lane < kPanelWidth; ++lane) {
      *reinterpret_cast<float*>(panel.data() + QuantizedLayout::output_scale(lane)) = 1;
      for (int64_t k = 0; k < inputs; ++k) {
        const int64_t group = k / 32;
        const int64_t code = quantization.two_levels ? k % 16 : k;
        const int64_t offset = 255 - group * 15;
        if (quantization.two_levels) {
          panel.data()[layout.scale(lane, group)] = static_cast<std::byte>(group);
          panel.data()[layout.minimum(lane, group)] = static_cast<std::byte>(offset);
        }
        auto* word = reinterpret_cast<uint32_t*>(panel.data() + layout.word(lane, k));
        *word |= static_cast<uint32_t>(code)
                 << code_shift(quantization.bits, static_cast<int>(k % layout.codes_per_word()));
        if (lane == 0)
          values.push_back(static_cast<float>(quantization.two_levels ? offset + group * code : code));
      }
    }
    std::vector<float> unit_rows(static_cast<size_t>(inputs * inputs));
    for (int64_t k = 0; k < inputs; ++k) unit_rows[static_cast<size_t>(k * inputs + k)] = 1;
    const PanelView view{panel.data(), DType::kF32, kPanelWidth, inputs, layout.bytes(), quantization};
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const int64_t rows : {int64_t{1}, int64_t{20}, inputs}) {
        const auto out = product({unit_rows.data(), rows, inputs}, {}, dtype, view);
        // In int8, 1 is 127 times a scale that is not quite 1/127.
        const bool has_power_of_two_scale = activations(dtype, quantization) != &table_.int8_activations;
        for (int64_t k = 0; k < rows; ++k) {
          const float value = values[static_cast<size_t>(k)];
          ASSERT_NEAR(out[static_cast<size_t>(k * kPanelWidth + 5)], value,
                      has_power_of_two_scale ? 0 : 2 * test::kEpsilon * value)
              << name_of(quantization) << ", input " << k << " of " << rows << " rows";
        }
      }
    }
  }
}

TEST_P(QuantizedMatmul, DoNotOverflowAtTheLargestValues) {
  constexpr int64_t kInputs = 1600;
  for (const Quantization& quantization :
       {Quantization{8, 0, true, true}, Quantization{8, 16, true, true}, Quantization{8, 32, true, true},
        Quantization{4, 0, true, true}, Quantization{4, 16, true, true}, Quantization{4, 32, true, true},
        kTwoLevels}) {
    const QuantizedLayout layout(quantization, kInputs);
    Buffer<std::byte> panel(layout.bytes());
    std::fill(panel.data() + layout.word(0, 0), panel.data() + layout.bytes(), std::byte{255});
    const float one = 1;
    for (int64_t lane = 0; lane < kPanelWidth; ++lane) {
      for (int64_t group = 0; group < layout.groups(); ++group) {
        std::byte* const scale = panel.data() + layout.scale(lane, group);
        if (quantization.two_levels) {
          *scale = std::byte{17};
        } else {
          std::memcpy(scale, &one, sizeof one);
        }
      }
      if (quantization.two_levels)
        std::memcpy(panel.data() + QuantizedLayout::output_scale(lane), &one, sizeof one);
    }
    const int value = quantization.bits == 4 && !quantization.two_levels ? 15 : 255;
    const PanelView view{panel.data(), DType::kF32, kPanelWidth, kInputs, layout.bytes(), quantization};
    // The most negative value of an integer row, and the largest below the one that loses a step.
    for (const float number : {-1.9921875F, 1.984375F}) {
      const std::vector<float> x(5 * kInputs, number);
      for (const int64_t rows : {1, 2, 5}) {
        const std::vector<float> out = product({x.data(), rows, kInputs}, {}, DType::kBF16, view);
        const double expected = double{number} * value * kInputs;
        for (const float sum : out)
          ASSERT_NEAR(sum, expected, kInputs * test::kEpsilon * std::abs(expected))
              << name_of(quantization) << ", " << rows;
      }
    }
  }
}

// All panels in one call, so that slices follow each other in every way: from pair to pair, to a single
// panel, and back to the first for the next pass.
TEST_P(QuantizedMatmul, GiveARowTheSameBitsInEveryOrderOfSlices) {
  constexpr int64_t kOutputs = 5 * kPanelWidth;
  for (const Quantization& quantization :
       {Quantization{8, 32}, Quantization{4, 32}, Quantization{8, 16, true, true}, Quantization{4, 16},
        Quantization{8, 0}, Quantization{4, 0}, kTwoLevels}) {
    for (const int64_t inputs : {32, 288, 544, 1600}) {
      const RandomPanels w(quantization, kOutputs, inputs);
      for (const int64_t num_rows : {33, 47, 545}) {
        const std::vector<float> x = test::random_values(3, num_rows * inputs);
        const ConstMatrix<float> all(x.data(), num_rows, inputs);
        PackedRows rows;
        rows.pack(context_, all, {}, DType::kBF16);
        std::vector<float> out(static_cast<size_t>(num_rows * kOutputs));
        const IntegerActivations* const activations = this->activations(DType::kBF16, quantization);
        const PackedRows::Form& form =
            activations != nullptr ? rows.as_integers(context_, *activations) : rows.packed();
        PanelProduct whole = test::product_of(form.data.data(), 0, num_rows, w.view(), out.data(), kOutputs);
        whole.a_strides = rows.strides();
        whole.a_element_bytes = rows.element_bytes();
        whole.row_sums = form.sums.data();
        whole.row_scales = form.scales.data();
        whole.scales_per_row = activations != nullptr ? activations->scales_per_row(inputs) : 1;
        (activations != nullptr ? activations->panel_product : table_.panel_product_bf16_quantized)(whole);
        for (int64_t row = 0; row < num_rows; row += num_rows < 50 ? 1 : 17) {
          const std::vector<float> alone =
              product({x.data() + row * inputs, 1, inputs}, {}, DType::kBF16, w.view());
          ASSERT_TRUE(test::same_bits(out.data() + row * kOutputs, alone.data(), kOutputs))
              << name_of(quantization) << ": row " << row << " of " << num_rows << ", " << inputs
              << " inputs";
        }
      }
    }
  }
}

// q, k and v may have different formats, and their rows are packed once.
TEST_P(QuantizedMatmul, ReuseRowsPackedForOtherWeights) {
  constexpr int64_t kInputs = 70;
  constexpr int64_t kOutputs = 40;
  const std::vector<float> x = test::random_values(5, 9 * kInputs);
  const RandomPanels of_8_bits({8, 0}, kOutputs, kInputs);
  const RandomPanels of_4_bits({4, 32}, kOutputs, kInputs);
  const test::Panels dense(DType::kBF16, test::random_values(6, kOutputs * kInputs), kOutputs, kInputs);
  const auto take = [&](PackedRows& rows, const PanelView& w) {
    std::vector<float> out(static_cast<size_t>(rows.num_rows() * 48));
    multiply(context_, rows, w, nullptr, {out.data(), rows.num_rows(), w.outputs, 48});
    return out;
  };
  PackedRows rows;
  for (const int64_t count : {9, 4}) {  // the second time with the memory of the first
    const ConstMatrix<float> some(x.data() + (9 - count) * kInputs, count, kInputs);
    rows.pack(context_, some, {}, DType::kBF16);
    PackedRows fresh;
    fresh.pack(context_, some, {}, DType::kBF16);
    const std::vector<float> of_dense = take(fresh, dense.view());
    for (const RandomPanels* const coded : {&of_8_bits, &of_4_bits, &of_8_bits}) {
      const std::vector<float> of_codes = take(rows, coded->view());
      EXPECT_EQ(take(rows, dense.view()), of_dense);
      EXPECT_EQ(take(rows, coded->view()), of_codes);
      EXPECT_EQ(product(some, {}, DType::kBF16, coded->view()), of_codes);
    }
  }
}

TEST_P(QuantizedMatmul, OfRowsWithInfinityOrNanAreNan) {
  constexpr int64_t kInputs = 64;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> x = test::random_values(5, 3 * kInputs);
  std::fill_n(x.begin(), kInputs, std::numeric_limits<float>::quiet_NaN());
  for (size_t k = kInputs; k < 2 * kInputs; ++k) x[k] = std::array{kInfinity, -kInfinity, -3e38F}[k % 3];
  for (const Quantization& quantization : all_quantizations()) {
    const RandomPanels w(quantization, 16, kInputs);
    const auto out = product({x.data(), 3, kInputs}, {}, DType::kBF16, w.view());
    for (size_t i = 0; i < 32; ++i) EXPECT_FALSE(std::isfinite(out[i])) << name_of(quantization) << ", " << i;
    const auto alone = product({x.data() + 2 * kInputs, 1, kInputs}, {}, DType::kBF16, w.view());
    EXPECT_TRUE(test::same_bits(out.data() + 32, alone.data(), 16)) << name_of(quantization);
  }
}

TEST_P(QuantizedMatmul, OfZeroRowsDoNothing) {
  const float unread = 0;
  for (const Quantization& quantization : {Quantization{8, 32}, Quantization{4, 32, true}}) {
    const RandomPanels w(quantization, 33, 40);
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      EXPECT_TRUE(product({&unread, 0, 40}, {}, dtype, w.view()).empty());
    }
  }
}

// Where weights are dequantized to f32, they have the same values on every instruction set.
TEST_P(QuantizedMatmul, OfOneInputAreExactlyTheWeights) {
  const float one = 1;
  for (const Quantization& quantization : all_quantizations()) {
    const RandomPanels w(quantization, 64, 1);
    const std::vector<float> out = product({&one, 1, 1}, {}, DType::kF32, w.view());
    for (int64_t n = 0; n < 64; ++n) {
      const float weight = *w.weights(n);
      if (quantization.scales_sums()) {  // their minimum is rounded separately
        EXPECT_NEAR(out[static_cast<size_t>(n)], weight, test::kEpsilon * w.largest_part(n));
      } else {
        EXPECT_EQ(out[static_cast<size_t>(n)], weight);
      }
    }
  }
}

TEST_P(QuantizedMatmul, ContinueFromWhatOutHolds) {
  constexpr int64_t kInputs = 65;
  const RandomPanels w({4, 32}, 16, kInputs);
  const std::vector<float> x = test::random_values(1, 9 * kInputs);
  for (const int64_t rows : {1, 4, 9}) {
    std::vector<float> out(static_cast<size_t>(rows * 16), 3.0F);
    PanelProduct product = test::product_of(x.data(), kInputs, rows, w.view(), out.data(), 16);
    product.accumulate = true;
    table_.panel_product_f32_quantized(product);
    std::vector<Expected> expected;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t n = 0; n < 16; ++n)
        expected.push_back(test::dot(x.data() + row * kInputs, w.weights(n), kInputs, 3.0));
    }
    EXPECT_TRUE(test::meets(out.data(), 16, expected.data(), rows, 16)) << rows << " rows";
  }
}

/// Every table, and again with int8 activations where it has them.
std::vector<TableAndRows> tables_and_rows() {
  std::vector<TableAndRows> all;
  for (const KernelTable& table : supported_tables()) {
    all.push_back({table, false});
    if (table.int8_activations) all.push_back({table, true});
  }
  return all;
}

std::string name_of_table_and_rows(const testing::TestParamInfo<TableAndRows>& info) {
  return test::name_of(info.param.table) + (info.param.int8_activations ? "WithRowsOfBytes" : "");
}

INSTANTIATE_TEST_SUITE_P(EveryTable, QuantizedMatmul, testing::ValuesIn(tables_and_rows()),
                         name_of_table_and_rows);

}  // namespace
}  // namespace lacuna::quantized_test
