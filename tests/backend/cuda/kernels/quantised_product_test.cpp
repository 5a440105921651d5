#include "backend/cuda/kernels/quantised_product.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "bench/gpu/device_vectors.h"
#include "orders.h"
#include "product_sum.h"

namespace lacuna::cuda::quantised_product_test {
namespace {

using simt::in_every_order;

/// Codes with their scales, and rows of which the first and the last are not named and hold NaN.
struct Codes {
  int64_t outputs = 0;
  int64_t depth = 0;
  std::vector<int32_t> rows;
  std::vector<uint16_t> x;
  std::vector<uint8_t> codes;
  std::vector<float> scales;

  Codes(int64_t num_rows, int64_t num_outputs, int64_t num_inputs)
      : outputs(num_outputs),
        depth(num_inputs),
        rows(static_cast<size_t>(num_rows)),
        x(to_bits(random_numbers(static_cast<size_t>((num_rows + 2) * depth), 5))),
        codes(static_cast<size_t>(outputs * depth / 2)),
        scales(random_numbers(static_cast<size_t>(outputs * groups()), 7)) {
    std::iota(rows.begin(), rows.end(), 1);
    std::reverse(rows.begin(), rows.end());
    std::fill_n(x.begin(), depth, kNaNBits);
    std::fill_n(x.end() - depth, depth, kNaNBits);
    const RngStream random(6);
    for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(random.below(i, 256));
  }

  int64_t groups() const { return depth / kCodeGroup; }
  double weight(int64_t output, int64_t k) const {
    const auto at = static_cast<size_t>(output * depth + k);
    const int code = k % 2 == 0 ? codes[at / 2] & 15 : codes[at / 2] >> 4;
    return double{scales[static_cast<size_t>(output * groups() + k / kCodeGroup)]} * (code - 8);
  }

  ProductSum sum(int32_t row, int64_t output) const {
    return product_sum(x, row, depth, [&](int64_t k) { return weight(output, k); });
  }

  QuantisedProductArguments arguments(const DeviceBuffer& device_x, const DeviceBuffer& device_codes,
                                      const DeviceBuffer& device_scales, const DeviceBuffer& list) const {
    return {.product = {.x = device_x.as<uint16_t>(),
                        .rows = list.as<int32_t>(),
                        .num_rows = static_cast<int64_t>(list.bytes() / sizeof(int32_t)),
                        .num_outputs = outputs,
                        .depth = depth,
                        .out_stride = outputs},
            .codes = device_codes.as<uint8_t>(),
            .scales = device_scales.as<float>()};
  }

  std::vector<float> stored(std::span<const int32_t> named) const {
    Stream stream;
    const DeviceBuffer device_x = upload(stream, x);
    const DeviceBuffer device_codes = upload(stream, codes);
    const DeviceBuffer device_scales = upload(stream, scales);
    const DeviceBuffer list = upload(stream, std::vector<int32_t>(named.begin(), named.end()));
    const DeviceBuffer out(named.size() * static_cast<size_t>(outputs) * sizeof(float));
    QuantisedProductArguments a = arguments(device_x, device_codes, device_scales, list);
    a.product.out_f32 = out.as<float>();
    quantised_product(stream, a);
    return download<float>(stream, out);
  }
};

TEST(QuantisedProductKernel, AgreesWithSumsInDoubleAtTheEdgesOfItsTiles) {
  struct Size {
    int64_t rows, outputs, depth;
  };
  for (const Size& size : {Size{1, 1, 64}, Size{15, 16, 128}, Size{17, 63, 192}, Size{33, 65, 256},
                           Size{65, 70, 320}, Size{2, 16, 4096 + 64}}) {
    const Codes codes(size.rows, size.outputs, size.depth);
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
            << size.rows << " rows, output " << n;
      }
    }
  }
}

TEST(QuantisedProductKernel, GivesARowTheSameBitsAloneAndInAnyCompany) {
  const Codes codes(70, 48, 4096 + 128);
  const std::vector<float> together = codes.stored(codes.rows);
  for (const size_t count : {1U, 16U, 17U, 40U}) {
    const std::vector<float> fewer = codes.stored(std::span(codes.rows).last(count));
    EXPECT_TRUE(std::equal(fewer.begin(), fewer.end(), together.end() - static_cast<int64_t>(fewer.size())))
        << count << " rows";
  }
}

TEST(QuantisedProductKernel, MultipliesGateAndUp) {
  Codes codes(3, 48, 64);
  for (float& scale : codes.scales) scale *= 0.02F;
  Stream stream;
  const DeviceBuffer x = upload(stream, codes.x);
  const DeviceBuffer device_codes = upload(stream, codes.codes);
  const DeviceBuffer scales = upload(stream, codes.scales);
  const DeviceBuffer list = upload(stream, codes.rows);
  const DeviceBuffer out(size_t{3} * 64 * sizeof(uint16_t));
  QuantisedProductArguments a = codes.arguments(x, device_codes, scales, list);
  a.product.out_bf16 = out.as<uint16_t>();
  a.product.out_stride = 64;
  a.product.epilogue = Epilogue::kSwiglu;
  quantised_product(stream, a);
  const auto got = download<uint16_t>(stream, out);
  for (size_t r = 0; r < 3; ++r) {
    for (int64_t n = 0; n < 64; ++n) {
      double expected = 0;
      if (n < 24) {
        const double gate = codes.sum(codes.rows[r], n / 8 * 16 + n % 8).value;
        expected = gate / (1 + std::exp(-gate)) * codes.sum(codes.rows[r], n / 8 * 16 + 8 + n % 8).value;
      }
      ASSERT_NEAR(from_bits(got[r * 64 + static_cast<size_t>(n)]), expected,
                  std::abs(expected) * 0.0041 + 1e-5)
          << "row " << r << ", output " << n;
    }
  }
}

}  // namespace
}  // namespace lacuna::cuda::quantised_product_test
