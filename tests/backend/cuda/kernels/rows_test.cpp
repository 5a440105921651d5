#include "backend/cuda/kernels/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "bench/gpu/device_vectors.h"
#include "orders.h"

namespace lacuna::cuda::rows_test {
namespace {

using simt::in_every_order;

TEST(EmbedKernel, CopiesAndScalesRowsOfTheTable) {
  constexpr int64_t kHidden = 300;
  Stream stream;
  const std::vector<uint16_t> table = to_bits(random_numbers(5 * kHidden, 1));
  const DeviceBuffer on_device = upload(stream, table);
  const std::vector<int32_t> tokens = {4, 0, 4};
  const DeviceBuffer ids = upload(stream, tokens);
  in_every_order([&](const std::string& order) {
    const DeviceBuffer out(3 * kHidden * sizeof(float));
    embed(stream, {ids.as<int32_t>(), on_device.as<uint16_t>(), out.as<float>(), kHidden, 1.5F}, 3);
    const auto got = download<float>(stream, out);
    for (size_t row = 0; row < 3; ++row) {
      for (size_t i = 0; i < kHidden; ++i) {
        ASSERT_EQ(got[row * kHidden + i],
                  1.5F * from_bits(table[static_cast<size_t>(tokens[row]) * kHidden + i]))
            << order;
      }
    }
  });
}

struct NormCase {
  int64_t hidden;
  int64_t stride;
};

/// The residual's rows in `rows`, normed.
std::vector<uint16_t> normed(Stream& stream, const NormCase& size, const std::vector<float>& x,
                             const std::vector<float>& weight, const std::vector<int32_t>& rows) {
  const DeviceBuffer residual = upload(stream, x);
  const DeviceBuffer weights = upload(stream, weight);
  const DeviceBuffer list = upload(stream, rows);
  const DeviceBuffer out(rows.size() * static_cast<size_t>(size.stride) * sizeof(uint16_t));
  rms_norm(stream,
           {.residual = residual.as<float>(),
            .rows = list.as<int32_t>(),
            .weight = weights.as<float>(),
            .out = out.as<uint16_t>(),
            .hidden = size.hidden,
            .stride = size.stride,
            .epsilon = 1e-5F},
           static_cast<uint32_t>(rows.size()));
  return download<uint16_t>(stream, out);
}

TEST(NormKernel, AgreesWithTheDefinitionAndWithARowAlone) {
  for (const NormCase& size : {NormCase{1, 64}, NormCase{257, 320}, NormCase{512, 512}}) {
    const auto hidden = static_cast<size_t>(size.hidden);
    const auto stride = static_cast<size_t>(size.stride);
    std::vector<float> x = random_numbers(4 * hidden, 2, 3);
    std::fill_n(x.begin() + static_cast<int64_t>(hidden), hidden, NAN);  // a row that is not in the list
    const std::vector<float> weight = random_numbers(hidden, 3);
    in_every_order([&](const std::string& order) {
      Stream stream;
      const std::vector<int32_t> rows = {3, 0, 2};
      const auto together = normed(stream, size, x, weight, rows);
      for (size_t r = 0; r < rows.size(); ++r) {
        const float* row = x.data() + static_cast<size_t>(rows[r]) * hidden;
        double squares = 0;
        for (size_t i = 0; i < hidden; ++i) squares += double{row[i]} * row[i];
        const double scale = 1 / std::sqrt(squares / static_cast<double>(hidden) + 1e-5);
        const auto alone = normed(stream, size, x, weight, {rows[r]});
        for (size_t i = 0; i < stride; ++i) {
          const double expected = i < hidden ? row[i] * scale * weight[i] : 0;
          const uint16_t got = together[r * stride + i];
          ASSERT_NEAR(from_bits(got), expected, std::abs(expected) * 0.0041) << order << " " << i;
          ASSERT_EQ(got, alone[i]) << order;
        }
      }
    });
  }
}

}  // namespace
}  // namespace lacuna::cuda::rows_test
