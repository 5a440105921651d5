#include "backend/cuda/kernels/product.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "bench/gpu/device_vectors.h"
#include "orders.h"
#include "product_sum.h"

namespace lacuna::cuda::product_test {
namespace {

using simt::in_every_order;

/// Rows of `depth` numbers of which some are multiplied, in bf16; rows that no list names hold NaN.
struct Operands {
  int64_t outputs = 0;
  int64_t depth = 0;
  std::vector<int32_t> rows;
  std::vector<uint16_t> x;
  std::vector<uint16_t> weights;

  Operands(int64_t num_rows, int64_t num_outputs, int64_t num_inputs)
      : outputs(num_outputs), depth(num_inputs), rows(static_cast<size_t>(num_rows)) {
    std::iota(rows.begin(), rows.end(), 1);
    std::reverse(rows.begin(), rows.end());
    x = to_bits(random_numbers(static_cast<size_t>((num_rows + 2) * depth), 5));
    std::fill_n(x.begin(), depth, kNaNBits);
    std::fill_n(x.end() - depth, depth, kNaNBits);
    weights = to_bits(random_numbers(static_cast<size_t>(outputs * depth), 6));
  }

  ProductSum sum(int32_t row, int64_t output) const {
    return product_sum(x, row, depth, [&](int64_t k) {
      return from_bits(weights[static_cast<size_t>(output * depth + k)]);
    });
  }
  /// Largest error of a sum in f32.
  double bound(const ProductSum& sum) const {
    return static_cast<double>(depth) * 0x1p-24 * sum.magnitude + 1e-30;
  }
};

std::vector<float> stored(const Operands& operands, std::span<const int32_t> rows,
                          const std::vector<float>& bias = {}) {
  Stream stream;
  const DeviceBuffer x = upload(stream, operands.x);
  const DeviceBuffer weights = upload(stream, operands.weights);
  const DeviceBuffer list = upload(stream, std::vector<int32_t>(rows.begin(), rows.end()));
  const DeviceBuffer biases = upload(stream, bias);
  const DeviceBuffer out(rows.size() * static_cast<size_t>(operands.outputs) * sizeof(float));
  product(stream, {.x = x.as<uint16_t>(),
                   .rows = list.as<int32_t>(),
                   .weights = weights.as<uint16_t>(),
                   .bias = bias.empty() ? nullptr : biases.as<float>(),
                   .out_f32 = out.as<float>(),
                   .num_rows = static_cast<int64_t>(rows.size()),
                   .num_outputs = operands.outputs,
                   .depth = operands.depth,
                   .out_stride = operands.outputs});
  return download<float>(stream, out);
}

TEST(ProductKernel, AgreesWithSumsInDoubleAtTheEdgesOfItsTiles) {
  struct Size {
    int64_t rows, outputs, depth;
  };
  for (const Size& size : {Size{1, 1, 64}, Size{15, 16, 128}, Size{17, 63, 192}, Size{33, 65, 256},
                           Size{64, 130, 320}, Size{128, 70, 64}, Size{2, 16, 4096 + 64}}) {
    const Operands operands(size.rows, size.outputs, size.depth);
    const std::vector<float> bias = random_numbers(static_cast<size_t>(size.outputs), 7);
    std::vector<float> first;
    in_every_order([&](const std::string& order) {
      const std::vector<float> got = stored(operands, operands.rows, bias);
      if (first.empty()) first = got;
      ASSERT_EQ(got, first) << order;
    });
    for (size_t r = 0; r < operands.rows.size(); ++r) {
      for (int64_t n = 0; n < size.outputs; ++n) {
        const auto sum = operands.sum(operands.rows[r], n);
        ASSERT_NEAR(first[r * static_cast<size_t>(size.outputs) + static_cast<size_t>(n)],
                    sum.value + bias[static_cast<size_t>(n)], operands.bound(sum) + 1e-7)
            << size.rows << " rows, output " << n;
      }
    }
  }
}

TEST(ProductKernel, GivesARowTheSameBitsAloneAndInAnyCompany) {
  const Operands operands(128, 48, 4096 + 128);
  const std::vector<float> together = stored(operands, operands.rows);
  for (const size_t count : {1U, 16U, 17U, 40U}) {
    const std::vector<float> fewer = stored(operands, std::span(operands.rows).last(count));
    EXPECT_TRUE(std::equal(fewer.begin(), fewer.end(), together.end() - static_cast<int64_t>(fewer.size())))
        << count << " rows";
  }
}

/// Adds the products of three rows to three of five rows.
void expect_added(int64_t outputs, int64_t out_stride) {
  Operands operands(3, outputs, 64);
  Stream stream;
  const DeviceBuffer x = upload(stream, operands.x);
  const DeviceBuffer weights = upload(stream, operands.weights);
  const DeviceBuffer list = upload(stream, operands.rows);
  const std::vector<float> before = random_numbers(static_cast<size_t>(5 * out_stride), 9);
  const DeviceBuffer residual = upload(stream, before);
  product(stream, {.x = x.as<uint16_t>(),
                   .rows = list.as<int32_t>(),
                   .weights = weights.as<uint16_t>(),
                   .out_f32 = residual.as<float>(),
                   .out_rows = list.as<int32_t>(),
                   .num_rows = 3,
                   .num_outputs = outputs,
                   .depth = 64,
                   .out_stride = out_stride,
                   .scale = 0.5F,
                   .epilogue = Epilogue::kAddScaled});
  const auto after = download<float>(stream, residual);
  for (int32_t row = 0; row < 5; ++row) {
    for (int64_t n = 0; n < out_stride; ++n) {
      const auto at = static_cast<size_t>(row * out_stride + n);
      const bool added = row >= 1 && row <= 3 && n < outputs;
      const auto sum = added ? operands.sum(row, n) : ProductSum{};
      ASSERT_NEAR(after[at], before[at] + 0.5 * sum.value, operands.bound(sum) + 1e-6) << row << ", " << n;
      if (!added) {
        EXPECT_EQ(after[at], before[at]) << row << ", " << n;
      }
    }
  }
}

TEST(ProductKernel, AddsToTheResidualStreamOfTheRowsItIsTold) {
  expect_added(20, 20);
}

TEST(ProductKernel, WritesNothingBehindTheLastOutputOfARow) {
  expect_added(19, 20);  // half of a pair
  expect_added(19, 21);  // pairs are not aligned
  expect_added(64, 65);
}

/// The output of a feed-forward layer's first product, rows one after the other.
std::vector<uint16_t> activated(const Operands& operands, Epilogue epilogue, int64_t out_stride) {
  Stream stream;
  const DeviceBuffer x = upload(stream, operands.x);
  const DeviceBuffer weights = upload(stream, operands.weights);
  const DeviceBuffer list = upload(stream, operands.rows);
  const DeviceBuffer out(operands.rows.size() * static_cast<size_t>(out_stride) * sizeof(uint16_t));
  product(stream, {.x = x.as<uint16_t>(),
                   .rows = list.as<int32_t>(),
                   .weights = weights.as<uint16_t>(),
                   .out_bf16 = out.as<uint16_t>(),
                   .num_rows = static_cast<int64_t>(operands.rows.size()),
                   .num_outputs = operands.outputs,
                   .depth = operands.depth,
                   .out_stride = out_stride,
                   .epilogue = epilogue});
  return download<uint16_t>(stream, out);
}

void expect_gated(Epilogue epilogue) {
  const Operands operands(17, 80, 128);
  in_every_order([&](const std::string& order) {
    const auto got = activated(operands, epilogue, 64);
    for (size_t r = 0; r < operands.rows.size(); ++r) {
      for (int64_t n = 0; n < 64; ++n) {
        double expected = 0;
        if (n < 40) {
          const double gate = operands.sum(operands.rows[r], n / 8 * 16 + n % 8).value;
          const double up = operands.sum(operands.rows[r], n / 8 * 16 + 8 + n % 8).value;
          expected = activated_gate(epilogue, gate) * up;
        }
        ASSERT_NEAR(from_bits(got[r * 64 + static_cast<size_t>(n)]), expected,
                    std::abs(expected) * 0.0041 + 1e-5)
            << order << " row " << r << " output " << n;
      }
    }
  });
}

TEST(ProductKernel, MultipliesGateAndUpOfEightOutputsAtATime) {
  expect_gated(Epilogue::kSwiglu);
}

TEST(ProductKernel, GatesByGelu) {
  expect_gated(Epilogue::kGeglu);
}

TEST(ProductKernel, SquaresWhatIsPositive) {
  const Operands operands(3, 24, 64);
  const auto got = activated(operands, Epilogue::kSquaredRelu, 64);
  for (size_t r = 0; r < operands.rows.size(); ++r) {
    for (int64_t n = 0; n < 64; ++n) {
      const double sum = n < 24 ? operands.sum(operands.rows[r], n).value : 0;
      const double expected = sum > 0 ? sum * sum : 0;
      ASSERT_NEAR(from_bits(got[r * 64 + static_cast<size_t>(n)]), expected, expected * 0.0041 + 1e-5);
    }
  }
}

struct Codes {
  CodeFormat format;
  std::vector<uint8_t> codes;
  std::vector<float> scales;

  Codes(CodeFormat of, Operands& operands) : format(of), codes(random_e4m3(operands.weights.size(), 8)) {
    const auto value = [&](uint8_t code) -> float {
      return format == CodeFormat::kE4m3 ? e4m3_value(code) : static_cast<int8_t>(code);
    };
    for (size_t i = 0; i < codes.size(); ++i)
      operands.weights[i] = bf16(value(codes[i])).bits;  // for the definition, without scales
    scales = random_numbers(static_cast<size_t>(operands.outputs), 9, 0.01F);
  }

  std::vector<float> multiply(const Operands& operands, std::span<const int32_t> rows) const {
    Stream stream;
    const DeviceBuffer x = upload(stream, operands.x);
    const DeviceBuffer list = upload(stream, std::vector<int32_t>(rows.begin(), rows.end()));
    const DeviceBuffer on_device = upload(stream, codes);
    const DeviceBuffer scales_on_device = upload(stream, scales);
    const DeviceBuffer out(rows.size() * static_cast<size_t>(operands.outputs) * sizeof(float));
    product(stream, {.x = x.as<uint16_t>(),
                     .rows = list.as<int32_t>(),
                     .codes = on_device.as<uint8_t>(),
                     .code_format = format,
                     .scales = scales_on_device.as<float>(),
                     .out_f32 = out.as<float>(),
                     .num_rows = static_cast<int64_t>(rows.size()),
                     .num_outputs = operands.outputs,
                     .depth = operands.depth,
                     .out_stride = operands.outputs});
    return download<float>(stream, out);
  }
};

void expect_scaled_sums(CodeFormat format) {
  for (const int64_t rows : {1, 15, 17, 65}) {
    Operands operands(rows, 70, 320);
    const Codes codes(format, operands);
    in_every_order([&](const std::string& order) {
      const auto got = codes.multiply(operands, operands.rows);
      for (size_t r = 0; r < operands.rows.size(); ++r) {
        for (int64_t n = 0; n < 70; ++n) {
          const auto sum = operands.sum(operands.rows[r], n);
          const float scale = codes.scales[static_cast<size_t>(n)];
          ASSERT_NEAR(got[r * 70 + static_cast<size_t>(n)], scale * sum.value,
                      std::abs(scale) * operands.bound(sum))
              << order << " row " << r << " of " << rows << " output " << n;
        }
      }
      const auto alone = codes.multiply(operands, std::span(operands.rows).last(1));
      ASSERT_TRUE(std::equal(alone.begin(), alone.end(), got.end() - 70)) << order;
    });
  }
}

TEST(ProductKernel, ScalesSumsOfIntegersOf8Bits) {
  expect_scaled_sums(CodeFormat::kInt8);
}

TEST(ProductKernel, ScalesSumsOfFloatsOf8Bits) {
  expect_scaled_sums(CodeFormat::kE4m3);
}

TEST(ProductKernel, WidensEveryFloatOf8BitsExactly) {
  // A row with a single one picks the weights of its input: every code stands in an output of its own.
  constexpr int64_t kCodes = 256;
  Operands operands(1, kCodes, 64);
  std::fill(operands.x.begin(), operands.x.end(), uint16_t{0});
  operands.x[64 + 5] = bf16(1).bits;
  Codes codes(CodeFormat::kE4m3, operands);
  for (int64_t code = 0; code < kCodes; ++code) {
    const bool is_nan = (code & 0x7f) == 0x7f;  // which no matrix holds
    codes.codes[static_cast<size_t>(code * 64 + 5)] = static_cast<uint8_t>(is_nan ? 0 : code);
  }
  codes.scales.assign(kCodes, 1);
  const auto got = codes.multiply(operands, operands.rows);
  for (int64_t code = 0; code < kCodes; ++code) {
    if ((code & 0x7f) == 0x7f) continue;
    EXPECT_EQ(got[static_cast<size_t>(code)], e4m3_value(static_cast<uint8_t>(code))) << code;
  }
}

TEST(ProductKernel, GivesTheBitsOfBf16ForFloatsOf8BitsWithPowersOfTwoAsScales) {
  for (const int64_t rows : {3, 40}) {
    Operands operands(rows, 70, 4096 + 64);
    Codes codes(CodeFormat::kE4m3, operands);
    for (size_t n = 0; n < codes.scales.size(); ++n)
      codes.scales[n] = std::ldexp(1.0F, static_cast<int>(n % 9) - 12);
    for (size_t i = 0; i < codes.codes.size(); ++i) {
      const float scale = codes.scales[i / static_cast<size_t>(operands.depth)];
      operands.weights[i] = bf16(scale * e4m3_value(codes.codes[i])).bits;
    }
    EXPECT_EQ(codes.multiply(operands, operands.rows), stored(operands, operands.rows));
  }
}

TEST(ProductKernel, ReadsSharedMemoryWithoutConflictsOfBanks) {
  const Operands operands(33, 64, 128);
  const auto counts = simt::bank_counts_of([&] { stored(operands, operands.rows); });
  if (!counts) GTEST_SKIP() << simt::kOnlySimulated;
  EXPECT_GT(counts->phases, 0);
  EXPECT_EQ(counts->conflicts, 0);
}

}  // namespace
}  // namespace lacuna::cuda::product_test
