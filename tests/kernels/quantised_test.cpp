// Products with quantised weights, through the table and through multiply().
#include <numeric>

#include "definitions.h"
#include "kernels/matmul.h"

namespace lacuna {
namespace {

using test::Expected;

std::vector<Quantisation> all_quantisations() {
  std::vector<Quantisation> all;
  for (const int32_t bits : {4, 8}) {
    for (const int32_t group : {0, 16, 32}) {
      for (const bool has_minimum : {false, true}) {
        for (const bool wide : {false, true}) all.push_back({bits, group, has_minimum, wide});
      }
    }
  }
  return all;
}

std::string name_of(const Quantisation& quantisation) {
  return std::to_string(quantisation.bits) + " bits, groups of " + std::to_string(quantisation.group) +
         (quantisation.has_minimum ? ", minimums" : "") + (quantisation.wide_scales ? ", f32 scales" : "");
}

/// Random codes and scales, placed element by element as panels.h describes them, and the weights they mean.
class RandomPanels {
 public:
  RandomPanels(const Quantisation& quantisation, int64_t outputs, int64_t inputs)
      : inputs_(inputs), weights_(static_cast<size_t>(outputs * inputs)) {
    const int64_t depth = round_up(inputs, 32);
    const int64_t groups = quantisation.group == 0 ? 1 : depth / quantisation.group;
    const int64_t scale_bytes = quantisation.wide_scales ? 4 : 2;
    const int64_t header = round_up(groups * 16 * scale_bytes * (quantisation.has_minimum ? 2 : 1), 64);
    const int64_t panel_bytes = header + depth * 16 * quantisation.bits / 8;
    memory_.reserve(num_panels(outputs) * panel_bytes);
    view_ = {memory_.data(), DType::kF32, outputs, inputs, panel_bytes, quantisation};
    const RngStream random(7, quantisation.bits, inputs);
    uint64_t draws = 0;
    for (int64_t n = 0; n < outputs; ++n) {
      std::byte* panel = memory_.data() + n / 16 * panel_bytes;
      for (int64_t g = 0; g < groups; ++g) {
        // Halves of whole numbers: f16 and f32 both hold them.
        const float scale = static_cast<float>(1 + random.bits(draws++) % 200) / 128;
        const float minimum = static_cast<float>(static_cast<int64_t>(random.bits(draws++) % 400) - 200) / 16;
        place_scale(quantisation, panel, g * 16 + n % 16, scale);
        if (quantisation.has_minimum) place_scale(quantisation, panel, (groups + g) * 16 + n % 16, minimum);
        const int64_t begin = g * (quantisation.group == 0 ? depth : quantisation.group);
        const int64_t end = quantisation.group == 0 ? inputs : std::min(inputs, begin + quantisation.group);
        for (int64_t k = begin; k < end; ++k) {
          const auto code = static_cast<uint32_t>(random.bits(draws++) % (1U << quantisation.bits));
          const int64_t per_word = 32 / quantisation.bits;
          auto* words = reinterpret_cast<uint32_t*>(panel + header);
          words[k / per_word * 16 + n % 16] |= code << (k % per_word * quantisation.bits);
          const float middle = static_cast<float>(1 << (quantisation.bits - 1));
          weights_[static_cast<size_t>(n * inputs + k)] = quantisation.has_minimum
                                                              ? scale * static_cast<float>(code) + minimum
                                                              : scale * (static_cast<float>(code) - middle);
        }
      }
    }
  }

  const PanelView& view() const { return view_; }
  const float* weights(int64_t n) const { return weights_.data() + n * inputs_; }

 private:
  static void place_scale(const Quantisation& quantisation, std::byte* panel, int64_t index, float value) {
    if (quantisation.wide_scales) {
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
};

class QuantisedProducts : public testing::TestWithParam<KernelTable> {
 protected:
  ThreadPool threads_{2};
  KernelContext context_{GetParam(), threads_};

  std::vector<float> product(ConstMatrix<float> x, std::span<const int32_t> row_list, DType rows_dtype,
                             const PanelView& w) {
    PackedRows rows;
    rows.pack(context_, x, row_list, rows_dtype);
    const int64_t stride = round_up(w.outputs, kPanelWidth);
    std::vector<float> out(static_cast<size_t>(rows.num_rows() * stride));
    multiply(context_, rows, w, nullptr, {out.data(), rows.num_rows(), w.outputs, stride});
    return out;
  }

  /// Whether the table rounds weights to bf16 on their way.
  bool rounds_weights(DType rows_dtype) const {
    return rows_dtype == DType::kBF16 && GetParam().bf16_row_element_bytes == sizeof(bf16);
  }

  Expected dot(DType rows_dtype, const float* x, const float* w, int64_t depth) const {
    Expected expected = test::dot(x, w, depth);
    if (!rounds_weights(rows_dtype)) return expected;
    for (int64_t k = 0; k < depth; ++k) expected.bound += 0x1p-8 * std::abs(double{x[k]} * w[k]);
    return expected;
  }
};

TEST_P(QuantisedProducts, EqualTheDefinitionInEveryFormatAtEveryShape) {
  constexpr int64_t kRows = 13;
  for (const Quantisation& quantisation : all_quantisations()) {
    for (const int64_t inputs : {1, 5, 16, 31, 32, 40, 256, 289}) {
      for (const int64_t outputs : {1, 16, 33, 70}) {
        const RandomPanels w(quantisation, outputs, inputs);
        for (const DType dtype : {DType::kF32, DType::kBF16}) {
          std::vector<float> x = test::random_values(1, kRows * inputs);
          test::round_all(dtype, x);
          std::vector<Expected> expected;
          for (int64_t row = 0; row < kRows; ++row) {
            for (int64_t n = 0; n < outputs; ++n)
              expected.push_back(dot(dtype, x.data() + row * inputs, w.weights(n), inputs));
          }
          const int64_t stride = round_up(outputs, kPanelWidth);
          for (const int64_t rows : {1, 2, 3, 4, 5, 13}) {
            const auto out = product({x.data(), rows, inputs}, {}, dtype, w.view());
            ASSERT_TRUE(test::meets(out.data(), stride, expected.data(), rows, outputs))
                << name_of(quantisation) << ", rows of " << lacuna::name_of(dtype) << ": " << rows << " by "
                << inputs << " inputs, " << outputs << " outputs";
          }
        }
      }
    }
  }
}

TEST_P(QuantisedProducts, GiveARowTheSameBitsAloneAndInAnyBatch) {
  constexpr int64_t kRows = 600;
  constexpr int64_t kInputs = 600;
  constexpr int64_t kOutputs = 50;
  constexpr int64_t kStride = 64;
  const std::vector<float> x = test::random_values(1, kRows * kInputs);
  const ConstMatrix<float> all(x.data(), kRows, kInputs);
  std::vector<int32_t> reversed(kRows);
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  for (const Quantisation& quantisation : {Quantisation{8, 32}, Quantisation{4, 32, true}}) {
    const RandomPanels w(quantisation, kOutputs, kInputs);
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const std::vector<float> batch = product(all, {}, dtype, w.view());
      const auto batch_row = [&](int64_t row) { return batch.data() + row * kStride; };
      const std::vector<float> backwards = product(all, reversed, dtype, w.view());
      for (int64_t row = 0; row < kRows; ++row) {
        ASSERT_TRUE(test::same_bits(backwards.data() + (kRows - 1 - row) * kStride, batch_row(row), kOutputs))
            << "row " << row << " from the end";
      }
      for (const int64_t count : {1, 2, 3, 4, 5, 6, 7, 15, 16, 17, 31, 33, 47, 97}) {
        const std::vector<float> few = product(all.first_rows(count), {}, dtype, w.view());
        for (int64_t row = 0; row < count; ++row) {
          ASSERT_TRUE(test::same_bits(few.data() + row * kStride, batch_row(row), kOutputs))
              << name_of(quantisation) << ": row " << row << " of " << count;
        }
      }
    }
  }
}

TEST_P(QuantisedProducts, OfNoRowsDoNothing) {
  const float unread = 0;
  for (const Quantisation& quantisation : {Quantisation{8, 32}, Quantisation{4, 32, true}}) {
    const RandomPanels w(quantisation, 33, 40);
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      EXPECT_TRUE(product({&unread, 0, 40}, {}, dtype, w.view()).empty());
    }
  }
}

// Where weights stay f32, they are the same numbers on every instruction set.
TEST_P(QuantisedProducts, OfOneInputAreExactlyTheWeights) {
  const float one = 1;
  for (const Quantisation& quantisation : all_quantisations()) {
    const RandomPanels w(quantisation, 64, 1);
    const std::vector<float> out = product({&one, 1, 1}, {}, DType::kF32, w.view());
    for (int64_t n = 0; n < 64; ++n) EXPECT_EQ(out[static_cast<size_t>(n)], *w.weights(n));
  }
}

TEST_P(QuantisedProducts, ContinueFromWhatOutHolds) {
  constexpr int64_t kInputs = 65;
  const RandomPanels w({4, 32}, 16, kInputs);
  const std::vector<float> x = test::random_values(1, 9 * kInputs);
  for (const int64_t rows : {1, 4, 9}) {
    std::vector<float> out(static_cast<size_t>(rows * 16), 3.0F);
    PanelProduct product = test::product_of(x.data(), kInputs, rows, w.view(), out.data(), 16);
    product.accumulate = true;
    GetParam().panel_product_f32_quantised(product);
    std::vector<Expected> expected;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t n = 0; n < 16; ++n)
        expected.push_back(test::dot(x.data() + row * kInputs, w.weights(n), kInputs, 3.0));
    }
    EXPECT_TRUE(test::meets(out.data(), 16, expected.data(), rows, 16)) << rows << " rows";
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTable, QuantisedProducts, testing::ValuesIn(supported_tables()),
                         test::table_name);

}  // namespace
}  // namespace lacuna
