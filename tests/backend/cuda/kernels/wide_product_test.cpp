#include "backend/cuda/kernels/wide_product.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "bench/gpu/device_vectors.h"
#include "orders.h"
#include "product_sum.h"

namespace lacuna::cuda::wide_product_test {
namespace {

using simt::in_every_order;

enum class Format : uint8_t { kBf16, kInt8, kFp8, kInt8Group, kInt4Group, kInt4Min };
constexpr Format kFormats[] = {Format::kBf16,      Format::kInt8,      Format::kFp8,
                               Format::kInt8Group, Format::kInt4Group, Format::kInt4Min};

constexpr bool has_groups(Format format) {
  return format >= Format::kInt8Group;
}
constexpr bool has_int4(Format format) {
  return format >= Format::kInt4Group;
}

/// Weights of one format, and rows of which the first and the last are not named and hold NaN.
struct Operands {
  Format format;
  int64_t outputs = 0;
  int64_t depth = 0;
  std::vector<int32_t> rows;
  std::vector<uint16_t> x;
  std::vector<uint16_t> weights;
  std::vector<uint8_t> codes;
  std::vector<float> scales, minimums;

  Operands(Format of, int64_t num_rows, int64_t num_outputs, int64_t num_inputs)
      : format(of), outputs(num_outputs), depth(num_inputs), rows(static_cast<size_t>(num_rows)) {
    std::iota(rows.begin(), rows.end(), 1);
    std::reverse(rows.begin(), rows.end());
    x = random_bf16(static_cast<size_t>((num_rows + 2) * depth), 5);
    std::fill_n(x.begin(), depth, kNaNBits);
    std::fill_n(x.end() - depth, depth, kNaNBits);
    const auto numbers = static_cast<size_t>(outputs * depth);
    const size_t scaled = has_groups(format) ? numbers / kCodeGroup : static_cast<size_t>(outputs);
    if (format == Format::kBf16) weights = random_bf16(numbers, 6);
    if (format != Format::kBf16) scales = random_numbers(scaled, 7, 0.01F);
    if (format == Format::kInt4Min) minimums = random_numbers(scaled, 9, 0.04F);
    if (format == Format::kInt8 || format == Format::kInt8Group) codes = random_bytes(numbers, 8);
    if (format == Format::kFp8) codes = random_e4m3(numbers, 8);
    if (has_int4(format)) codes = random_bytes(numbers / 2, 8);
  }

  double weight(int64_t output, int64_t k) const {
    const auto at = static_cast<size_t>(output * depth + k);
    if (format == Format::kBf16) return from_bits(weights[at]);
    const double scale = scales[has_groups(format) ? at / kCodeGroup : static_cast<size_t>(output)];
    if (!has_int4(format))
      return scale * (format == Format::kFp8 ? e4m3_value(codes[at]) : static_cast<int8_t>(codes[at]));
    const int code = k % 2 == 0 ? codes[at / 2] & 15 : codes[at / 2] >> 4;
    return scale * (code - 8) + (minimums.empty() ? 0 : minimums[at / kCodeGroup]);
  }

  ProductSum sum(int32_t row, int64_t output) const {
    return product_sum(x, row, depth, [&](int64_t k) { return weight(output, k); });
  }
};

enum class Kernel : uint8_t { kNarrow, kSplit, kWide };

/// Results of an epilogue for some rows, one after the other.
///   Out  float or uint16_t
template <typename Out>
std::vector<Out> multiplied(const Operands& operands, Kernel kernel, std::span<const int32_t> rows,
                            Epilogue epilogue, int64_t out_stride) {
  Stream stream;
  const DeviceBuffer x = upload(stream, operands.x);
  const DeviceBuffer weights = upload(stream, operands.weights);
  const DeviceBuffer codes = upload(stream, operands.codes);
  const DeviceBuffer scales = upload(stream, operands.scales);
  const DeviceBuffer minimums = upload(stream, operands.minimums);
  const DeviceBuffer list = upload(stream, std::vector<int32_t>(rows.begin(), rows.end()));
  const DeviceBuffer out = upload(stream, std::vector<Out>(rows.size() * static_cast<size_t>(out_stride), 1));
  ProductArguments a{.x = x.as<uint16_t>(),
                     .rows = list.as<int32_t>(),
                     .num_rows = std::ssize(rows),
                     .num_outputs = operands.outputs,
                     .depth = operands.depth,
                     .out_stride = out_stride,
                     .scale = 0.5F,
                     .epilogue = epilogue};
  if constexpr (std::is_same_v<Out, float>) {
    a.out_f32 = out.as<float>();
  } else {
    a.out_bf16 = out.as<uint16_t>();
  }
  DeviceBuffer partials;
  if (kernel == Kernel::kSplit) {
    EXPECT_GT(num_split(a), 1);
    const auto sums = static_cast<size_t>(num_split(a) * a.num_rows * a.num_outputs);
    partials = upload(stream, std::vector<float>(sums, std::numeric_limits<float>::quiet_NaN()));
    a.partials = partials.as<float>();
  }
  if (operands.format == Format::kBf16) a.weights = weights.as<uint16_t>();
  if (operands.format == Format::kInt8 || operands.format == Format::kFp8) {
    a.codes = codes.as<uint8_t>();
    a.code_format = operands.format == Format::kFp8 ? CodeFormat::kE4m3 : CodeFormat::kInt8;
    a.scales = scales.as<float>();
  }
  if (has_groups(operands.format)) {
    const GroupFormat format = operands.format == Format::kInt8Group   ? GroupFormat::kInt8
                               : operands.format == Format::kInt4Group ? GroupFormat::kInt4
                                                                       : GroupFormat::kInt4Min;
    const QuantizedProductArguments quantized{
        a, {codes.as<uint8_t>(), scales.as<float>(), minimums.as<float>(), format}};
    kernel == Kernel::kWide ? wide_quantized_product(stream, quantized)
                            : quantized_product(stream, quantized);
  } else {
    kernel == Kernel::kWide ? wide_product(stream, a) : product(stream, a);
  }
  return download<Out>(stream, out);
}

std::vector<float> stored(const Operands& operands, Kernel kernel, std::span<const int32_t> rows) {
  return multiplied<float>(operands, kernel, rows, Epilogue::kStore, operands.outputs);
}

TEST(WideProductKernel, AgreesWithSumsInDoubleAtTheEdgesOfItsTiles) {
  struct Size {
    int64_t rows, outputs, depth;
  };
  for (const Format format : kFormats) {
    for (const Size& size : {Size{129, 17, 64}, Size{3, 130, 192}, Size{260, 5, 128}}) {
      const Operands operands(format, size.rows, size.outputs, size.depth);
      std::vector<float> first;
      in_every_order([&](const std::string& order) {
        const std::vector<float> got = stored(operands, Kernel::kWide, operands.rows);
        if (first.empty()) first = got;
        ASSERT_EQ(got, first) << order;
      });
      for (size_t r = 0; r < operands.rows.size(); ++r) {
        for (int64_t n = 0; n < size.outputs; ++n) {
          const auto sum = operands.sum(operands.rows[r], n);
          ASSERT_NEAR(first[r * static_cast<size_t>(size.outputs) + static_cast<size_t>(n)], sum.value,
                      static_cast<double>(size.depth) * 0x1p-24 * sum.magnitude + 1e-30)
              << "format " << static_cast<int>(format) << ", " << size.rows << " rows, output " << n;
        }
      }
    }
  }
}

TEST(WideProductKernel, GivesTheBitsThatTheKernelOfFewRowsGives) {
  for (const Format format : kFormats) {
    const Operands operands(format, 130, 40, 4096 + 128);  // two slices of the inputs
    const std::vector<float> all = stored(operands, Kernel::kWide, operands.rows);
    for (const size_t count : {1U, 17U, 128U}) {
      const auto some = std::span(operands.rows).last(count);
      const std::vector<float> narrow = stored(operands, Kernel::kNarrow, some);
      const std::vector<float> wide = stored(operands, Kernel::kWide, some);
      EXPECT_EQ(wide, narrow) << static_cast<int>(format) << ", " << count;
      EXPECT_TRUE(std::equal(wide.begin(), wide.end(), all.end() - std::ssize(wide)))
          << static_cast<int>(format) << ", " << count;
    }
  }
}

TEST(WideProductKernel, EndsWithEveryEpilogueLikeTheKernelOfFewRows) {
  for (const Format format : kFormats) {
    const Operands operands(format, 128, 144, 64);
    const auto expect_same = [&]<typename Out>(Epilogue epilogue, int64_t stride, Out) {
      EXPECT_EQ(multiplied<Out>(operands, Kernel::kWide, operands.rows, epilogue, stride),
                multiplied<Out>(operands, Kernel::kNarrow, operands.rows, epilogue, stride))
          << static_cast<int>(format) << ", " << static_cast<int>(epilogue);
    };
    expect_same(Epilogue::kAddScaled, 144, float{});
    expect_same(Epilogue::kSwiglu, 128, uint16_t{});
    expect_same(Epilogue::kGeglu, 128, uint16_t{});
    expect_same(Epilogue::kSquaredRelu, 192, uint16_t{});
  }
}

TEST(SplitProduct, GivesTheBitsOfBlocksThatComputeAllInputs) {
  const auto expect_same = [](const Operands& operands, Epilogue epilogue, int64_t stride, auto type) {
    using Out = decltype(type);
    const auto split = multiplied<Out>(operands, Kernel::kSplit, operands.rows, epilogue, stride);
    for (const Kernel kernel : {Kernel::kNarrow, Kernel::kWide})
      EXPECT_EQ(multiplied<Out>(operands, kernel, operands.rows, epilogue, stride), split)
          << static_cast<int>(operands.format) << " " << static_cast<int>(epilogue);
    const std::span<const int32_t> last = std::span(operands.rows).last(1);
    const auto alone = multiplied<Out>(operands, Kernel::kSplit, last, epilogue, stride);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), split.end() - stride));
  };
  for (const Format format : {Format::kBf16, Format::kInt8, Format::kFp8}) {
    for (const int64_t rows : {3, 40}) {
      const Operands operands(format, rows, 70, 2 * kMinDepthSlice + 64);  // the last slice is shorter
      expect_same(operands, Epilogue::kStore, 70, float{});
      expect_same(operands, Epilogue::kAddScaled, 71, float{});
      expect_same(operands, Epilogue::kSquaredRelu, 128, uint16_t{});
    }
  }
}

TEST(SplitProduct, FillsADeviceWithTheMatricesOfPublishedModels) {
  const auto blocks = [](int64_t outputs, int64_t depth) {
    const ProductArguments a{.num_outputs = outputs, .depth = depth};
    return (outputs + kProductOutputs - 1) / kProductOutputs * num_split(a);
  };
  EXPECT_EQ(blocks(12288, 4096), 384);    // q, k and v of LLaDA-8B
  EXPECT_EQ(blocks(4096, 4096), 256);     // o of LLaDA-8B and SDAR-8B
  EXPECT_EQ(blocks(4096, 12288), 256);    // down
  EXPECT_EQ(blocks(6144, 4096), 288);     // q, k and v of SDAR-8B
  EXPECT_EQ(blocks(3072, 2048), 192);     // q, k and v of LLaDA2.0-mini
  EXPECT_EQ(blocks(2048, 2048), 128);     // o of LLaDA2.0-mini: slices have 512 inputs at least
  EXPECT_EQ(blocks(126464, 4096), 1976);  // the head of LLaDA-8B, which is not split
}

TEST(WideProductKernel, ReadsSharedMemoryWithoutConflictsOfBanks) {
  const Operands operands(Format::kBf16, 129, 64, 128);
  const auto counts = simt::bank_counts_of([&] { stored(operands, Kernel::kWide, operands.rows); });
  if (!counts) GTEST_SKIP() << simt::kOnlySimulated;
  EXPECT_GT(counts->phases, 0);
  EXPECT_EQ(counts->conflicts, 0);
}

}  // namespace
}  // namespace lacuna::cuda::wide_product_test
