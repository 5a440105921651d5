#include "kernels/matmul.h"

#include <cstring>
#include <numeric>

#include "definitions.h"

namespace lacuna::matmul_test {
namespace {

using test::Expected;
using test::Panels;

class Multiply : public testing::TestWithParam<KernelTable> {
 protected:
  ThreadPool threads_{2};
  KernelContext context_{GetParam(), threads_};

  /// Packs rows of x [*, inputs] and multiplies; returns [rows, outputs rounded up to 16].
  std::vector<float> product(ConstMatrix<float> x, std::span<const int32_t> row_list, const PanelView& w,
                             const float* bias = nullptr) const {
    return product(context_, x, row_list, w, bias);
  }
  static std::vector<float> product(const KernelContext& context, ConstMatrix<float> x,
                                    std::span<const int32_t> row_list, const PanelView& w,
                                    const float* bias) {
    PackedRows rows;
    rows.pack(context, x, row_list, w.dtype);
    const int64_t stride = round_up(w.outputs, kPanelWidth);
    std::vector<float> out(static_cast<size_t>(rows.num_rows() * stride));
    multiply(context, rows, w, bias, {out.data(), rows.num_rows(), w.outputs, stride});
    return out;
  }
};

TEST_P(Multiply, EqualsTheDefinitionForAnyNumberOfOutputsAndInputs) {
  constexpr int64_t kRows = 27;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t inputs : {1, 2, 7, 31, 32, 33, 64, 255, 256, 257, 513}) {
      std::vector<float> x = test::random_values(1, kRows * inputs);
      test::round_all(dtype, x);
      for (const int64_t outputs : {1, 15, 16, 17, 31, 32, 33, 48, 100}) {
        std::vector<float> w = test::random_values(2, outputs * inputs);
        test::round_all(dtype, w);
        const std::vector<float> bias = test::random_values(3, outputs);
        std::vector<Expected> expected;
        std::vector<Expected> with_bias;
        for (int64_t row = 0; row < kRows; ++row) {
          for (int64_t n = 0; n < outputs; ++n) {
            const float* a = x.data() + row * inputs;
            const float* b = w.data() + n * inputs;
            expected.push_back(test::dot(a, b, inputs));
            with_bias.push_back(test::dot(a, b, inputs, bias[static_cast<size_t>(n)]));
          }
        }
        const Panels packed(dtype, w, outputs, inputs);
        const int64_t stride = round_up(outputs, kPanelWidth);
        const ConstMatrix<float> all(x.data(), kRows, inputs);
        EXPECT_TRUE(
            test::meets(product(all, {}, packed.view()).data(), stride, expected.data(), kRows, outputs))
            << name_of(dtype) << ' ' << inputs << " inputs, " << outputs << " outputs";
        EXPECT_TRUE(test::meets(product(all, {}, packed.view(), bias.data()).data(), stride, with_bias.data(),
                                kRows, outputs))
            << name_of(dtype) << ' ' << inputs << " inputs, " << outputs << " outputs, with bias";
      }
    }
  }
}

TEST_P(Multiply, TakesRowsInAnyOrderWithRepeatsFromStridedRows) {
  constexpr int64_t kRows = 40;
  constexpr int64_t kInputs = 70;
  constexpr int64_t kOutputs = 33;
  constexpr int64_t kStride = 75;
  const std::vector<int32_t> list = {39, 0, 7, 7, 7, 38, 1, 0, 20, 21, 22, 39};
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    std::vector<float> x = test::random_values(1, kRows * kStride + 1);
    test::round_all(dtype, x);
    std::vector<float> w = test::random_values(2, kOutputs * kInputs);
    test::round_all(dtype, w);
    std::vector<Expected> expected;
    for (const int32_t row : list) {
      for (int64_t n = 0; n < kOutputs; ++n) {
        expected.push_back(test::dot(x.data() + 1 + row * kStride, w.data() + n * kInputs, kInputs));
      }
    }
    const Panels packed(dtype, w, kOutputs, kInputs);
    const std::vector<float> out = product({x.data() + 1, kRows, kInputs, kStride}, list, packed.view());
    EXPECT_TRUE(test::meets(out.data(), 48, expected.data(), static_cast<int64_t>(list.size()), kOutputs))
        << name_of(dtype);
  }
}

TEST_P(Multiply, PacksRowsComputedOnTheFlyLikeRowsInMemory) {
  constexpr int64_t kRows = 37;
  constexpr int64_t kInputs = 45;
  const std::vector<float> x = test::random_values(15, kRows * kInputs);
  std::vector<float> twice = x;
  for (float& value : twice) value *= 2;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    PackedRows from_memory, on_the_way;
    from_memory.pack(context_, {twice.data(), kRows, kInputs}, {}, dtype);
    on_the_way.pack_each(context_, kRows, kInputs, dtype, [&](int64_t row, float* space) -> const float* {
      const float* source = x.data() + row * kInputs;
      if (row % 3 == 0) return twice.data() + row * kInputs;
      for (int64_t k = 0; k < kInputs; ++k) space[k] = 2 * source[k];
      return space;
    });
    ASSERT_EQ(on_the_way.num_rows(), kRows);
    ASSERT_EQ(on_the_way.depth(), kInputs);
    const int64_t element_bytes = dtype == DType::kF32 ? 4 : GetParam().bf16_row_element_bytes;
    const auto element = [&](const PackedRows& rows, int64_t row, int64_t k) {
      return rows.packed().data.data() + rows.strides().offset(row, k) * element_bytes;
    };
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t k = 0; k < padded_depth(dtype, kInputs); ++k) {
        EXPECT_EQ(std::memcmp(element(on_the_way, row, k), element(from_memory, row, k),
                              static_cast<size_t>(element_bytes)),
                  0)
            << name_of(dtype) << ", row " << row << ", input " << k;
      }
    }
  }
}

TEST_P(Multiply, RoundsRowsToBf16) {
  const std::vector<float> x = test::random_values(1, 3 * 50);
  std::vector<float> rounded = x;
  test::round_all(DType::kBF16, rounded);
  const Panels w(DType::kBF16, test::random_values(2, 20 * 50), 20, 50);
  EXPECT_EQ(product({x.data(), 3, 50}, {}, w.view()), product({rounded.data(), 3, 50}, {}, w.view()));
}

TEST_P(Multiply, GivesARowTheSameBitsAloneInALargeBatchAndAtAnyPlaceInIt) {
  constexpr int64_t kRows = 2048;
  constexpr int64_t kInputs = 600;
  constexpr int64_t kOutputs = 100;
  constexpr int64_t kStride = 112;
  const std::vector<float> x = test::random_values(1, kRows * kInputs);
  const ConstMatrix<float> all(x.data(), kRows, kInputs);
  std::vector<int32_t> reversed(kRows);
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  const std::vector<float> bias = test::random_values(3, kOutputs);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Panels w(dtype, test::random_values(2, kOutputs * kInputs), kOutputs, kInputs);
    const std::vector<float> batch = product(all, {}, w.view(), bias.data());
    const auto batch_row = [&](int64_t row) { return batch.data() + row * kStride; };

    for (int32_t row = 0; row < 100; ++row) {
      const std::vector<float> alone = product(all, std::span(&row, 1), w.view(), bias.data());
      ASSERT_TRUE(test::same_bits(alone.data(), batch_row(row), kOutputs)) << "row " << row << " alone";
    }
    const std::vector<float> backwards = product(all, reversed, w.view(), bias.data());
    for (int64_t row = 0; row < kRows; ++row) {
      ASSERT_TRUE(test::same_bits(backwards.data() + (kRows - 1 - row) * kStride, batch_row(row), kOutputs))
          << "row " << row << " from the end";
    }
    for (int64_t count = 2; count <= 70; ++count) {
      const std::vector<float> few = product(all.first_rows(count), {}, w.view(), bias.data());
      for (int64_t row = 0; row < count; ++row) {
        ASSERT_TRUE(test::same_bits(few.data() + row * kStride, batch_row(row), kOutputs))
            << "row " << row << " of " << count;
      }
    }
  }
}

TEST_P(Multiply, GivesTheSameBitsWithAnyNumberOfThreads) {
  constexpr int64_t kRows = 37;
  constexpr int64_t kInputs = 300;
  constexpr int64_t kOutputs = 700;
  const std::vector<float> x = test::random_values(1, kRows * kInputs);
  const ConstMatrix<float> all(x.data(), kRows, kInputs);
  const std::vector<float> bias = test::random_values(3, kOutputs);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Panels w(dtype, test::random_values(2, kOutputs * kInputs), kOutputs, kInputs);
    ThreadPool one(1);
    const auto expected = product({GetParam(), one}, all, {}, w.view(), bias.data());
    for (const int threads : {2, 3}) {
      ThreadPool pool(threads);
      EXPECT_EQ(product({GetParam(), pool}, all, {}, w.view(), bias.data()), expected)
          << threads << " threads";
    }
  }
}

TEST_P(Multiply, OfZeroRowsDoesNothing) {
  const Panels w(DType::kF32, test::random_values(2, 16), 16, 1);
  EXPECT_TRUE(product({nullptr, 0, 1}, {}, w.view()).empty());
}

TEST_P(Multiply, RefusesMismatchedShapes) {
  const std::vector<float> x = test::random_values(1, 4 * 10);
  const Panels w(DType::kF32, test::random_values(2, 17 * 10), 17, 10);
  const Panels deeper(DType::kF32, test::random_values(2, 17 * 11), 17, 11);
  const Panels rounded(DType::kBF16, test::random_values(2, 17 * 10), 17, 10);
  PackedRows rows;
  rows.pack(context_, {x.data(), 4, 10}, {}, DType::kF32);
  std::vector<float> out(4 * 32);
  EXPECT_THROW(multiply(context_, rows, deeper.view(), nullptr, {out.data(), 4, 17, 32}), std::logic_error);
  EXPECT_THROW(multiply(context_, rows, rounded.view(), nullptr, {out.data(), 4, 17, 32}), std::logic_error);
  EXPECT_THROW(multiply(context_, rows, w.view(), nullptr, {out.data(), 4, 17, 17}), std::logic_error);
  EXPECT_THROW(multiply(context_, rows, w.view(), nullptr, {out.data(), 3, 17, 32}), std::logic_error);
  EXPECT_NO_THROW(multiply(context_, rows, w.view(), nullptr, {out.data(), 4, 17, 32}));
}

INSTANTIATE_TEST_SUITE_P(EveryTable, Multiply, testing::ValuesIn(supported_tables()), test::table_name);

}  // namespace
}  // namespace lacuna::matmul_test
