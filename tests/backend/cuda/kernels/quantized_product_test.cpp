#include "backend/cuda/kernels/quantized_product.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <type_traits>

#include "bench/gpu/device_vectors.h"
#include "orders.h"
#include "product_sum.h"

namespace lacuna::cuda::quantized_product_test {
namespace {

using simt::in_every_order;

constexpr GroupFormat kFormats[] = {GroupFormat::kInt4, GroupFormat::kInt4Min, GroupFormat::kInt8};

/// Codes with their scales, and rows of which the first and the last are not named and hold NaN.
struct Codes {
  GroupFormat format = GroupFormat::kInt4;
  int64_t outputs = 0;
  int64_t depth = 0;
  std::vector<int32_t> rows;
  std::vector<uint16_t> x;
  std::vector<uint8_t> codes;
  std::vector<float> scales, minimums;

  Codes(GroupFormat of, int64_t num_rows, int64_t num_outputs, int64_t num_inputs)
      : format(of),
        outputs(num_outputs),
        depth(num_inputs),
        rows(static_cast<size_t>(num_rows)),
        x(to_bits(random_numbers(static_cast<size_t>((num_rows + 2) * depth), 5))),
        codes(random_bytes(static_cast<size_t>(outputs * depth * bits_of(format) / 8), 6)),
        scales(random_numbers(static_cast<size_t>(outputs * groups()), 7)) {
    if (format == GroupFormat::kInt4Min) minimums = random_numbers(scales.size(), 8, 4);
    std::iota(rows.begin(), rows.end(), 1);
    std::reverse(rows.begin(), rows.end());
    std::fill_n(x.begin(), depth, kNaNBits);
    std::fill_n(x.end() - depth, depth, kNaNBits);
  }

  int64_t groups() const { return depth / kCodeGroup; }
  double weight(int64_t output, int64_t k) const {
    const auto at = static_cast<size_t>(output * depth + k);
    const auto group = static_cast<size_t>(output * groups() + k / kCodeGroup);
    const double minimum = minimums.empty() ? 0 : minimums[group];
    if (format == GroupFormat::kInt8) return double{scales[group]} * static_cast<int8_t>(codes[at]);
    const int code = k % 2 == 0 ? codes[at / 2] & 15 : codes[at / 2] >> 4;
    return double{scales[group]} * (code - 8) + minimum;
  }

  ProductSum sum(int32_t row, int64_t output) const {
    return product_sum(x, row, depth, [&](int64_t k) { return weight(output, k); });
  }

  /// Results of an epilogue for the rows that are named.
  ///   Out  float or uint16_t
  template <typename Out>
  std::vector<Out> multiplied(std::span<const int32_t> named, Epilogue epilogue, int64_t out_stride) const {
    Stream stream;
    const DeviceBuffer device_x = upload(stream, x);
    const DeviceBuffer device_codes = upload(stream, codes);
    const DeviceBuffer device_scales = upload(stream, scales);
    const DeviceBuffer device_minimums = upload(stream, minimums);
    const DeviceBuffer list = upload(stream, std::vector<int32_t>(named.begin(), named.end()));
    const DeviceBuffer out(named.size() * static_cast<size_t>(out_stride) * sizeof(Out));
    QuantizedProductArguments a{.product = {.x = device_x.as<uint16_t>(),
                                            .rows = list.as<int32_t>(),
                                            .num_rows = std::ssize(named),
                                            .num_outputs = outputs,
                                            .depth = depth,
                                            .out_stride = out_stride,
                                            .epilogue = epilogue},
                                .codes = {.values = device_codes.as<uint8_t>(),
                                          .scales = device_scales.as<float>(),
                                          .minimums = device_minimums.as<float>(),
                                          .format = format}};
    if constexpr (std::is_same_v<Out, float>) {
      a.product.out_f32 = out.as<float>();
    } else {
      a.product.out_bf16 = out.as<uint16_t>();
    }
    quantized_product(stream, a);
    return download<Out>(stream, out);
  }

  std::vector<float> stored(std::span<const int32_t> named) const {
    return multiplied<float>(named, Epilogue::kStore, outputs);
  }
};

TEST(QuantizedProductKernel, AgreesWithSumsInDoubleAtTheEdgesOfItsTiles) {
  struct Size {
    int64_t rows, outputs, depth;
  };
  for (const GroupFormat format : kFormats) {
    for (const Size& size : {Size{1, 1, 64}, Size{15, 16, 128}, Size{17, 63, 192}, Size{33, 65, 256},
                             Size{65, 70, 320}, Size{2, 16, 4096 + 64}}) {
      const Codes codes(format, size.rows, size.outputs, size.depth);
      std::vector<float> first;
      in_every_order([&](const std::string& order) {
        const std::vector<float> got = codes.stored(codes.rows);
        if (first.empty()) first = got;
        ASSERT_EQ(got, first) << order;
      });
      for (size_t r = 0; r < codes.rows.size(); ++r) {
        for (int64_t n = 0; n < size.outputs; ++n) {
          const auto sum = codes.sum(codes.rows[r], n);
          ASSERT_NEAR(first[r * static_cast<size_t>(size.outputs) + static_cast<size_t>(n)], sum.value,
                      static_cast<double>(size.depth) * 0x1p-24 * sum.magnitude + 1e-30)
              << "format " << static_cast<int>(format) << ", " << size.rows << " rows, output " << n;
        }
      }
    }
  }
}

TEST(QuantizedProductKernel, GivesARowTheSameBitsAloneAndInAnyCompany) {
  for (const GroupFormat format : kFormats) {
    const Codes codes(format, 70, 48, 4096 + 128);
    const std::vector<float> together = codes.stored(codes.rows);
    for (const size_t count : {1U, 16U, 17U, 40U}) {
      const std::vector<float> fewer = codes.stored(std::span(codes.rows).last(count));
      EXPECT_TRUE(std::equal(fewer.begin(), fewer.end(), together.end() - static_cast<int64_t>(fewer.size())))
          << "format " << static_cast<int>(format) << ", " << count << " rows";
    }
  }
}

TEST(QuantizedProductKernel, MultipliesGateAndUp) {
  for (const GroupFormat format : kFormats) {
    Codes codes(format, 3, 48, 64);
    const float smaller = format == GroupFormat::kInt8 ? 0.001F : 0.02F;
    for (float& scale : codes.scales) scale *= smaller;
    for (float& minimum : codes.minimums) minimum *= smaller;
    const auto got = codes.multiplied<uint16_t>(codes.rows, Epilogue::kSwiglu, 64);
    for (size_t r = 0; r < 3; ++r) {
      for (int64_t n = 0; n < 64; ++n) {
        double expected = 0;
        if (n < 24) {
          const double gate = codes.sum(codes.rows[r], n / 8 * 16 + n % 8).value;
          expected = gate / (1 + std::exp(-gate)) * codes.sum(codes.rows[r], n / 8 * 16 + 8 + n % 8).value;
        }
        ASSERT_NEAR(from_bits(got[r * 64 + static_cast<size_t>(n)]), expected,
                    std::abs(expected) * 0.0041 + 1e-5)
            << "format " << static_cast<int>(format) << ", row " << r << ", output " << n;
      }
    }
  }
}

}  // namespace
}  // namespace lacuna::cuda::quantized_product_test
