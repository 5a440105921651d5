#include "backend/cuda/kernels/soft_embedding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "bench/gpu/device_vectors.h"
#include "model/soft_embedding.h"
#include "orders.h"

namespace lacuna::cuda::soft_embedding_test {
namespace {

using simt::in_every_order;

constexpr int64_t kVocabulary = 300;
constexpr int64_t kStride = 320;

struct Weighed {
  std::vector<float> weights;  // [rows, kStride]
  std::vector<float> factors;
};

/// The rows of the logits that requests name, in f32 or, rounded, in bf16.
Weighed weighed(const std::vector<float>& logits, const std::vector<SoftRequest>& requests, bool in_f32) {
  Stream stream;
  const DeviceBuffer rows = upload(stream, logits);
  const DeviceBuffer asked = upload(stream, requests);
  const size_t count = requests.size() * kStride;
  const DeviceBuffer out(count * (in_f32 ? sizeof(float) : sizeof(uint16_t)));
  const DeviceBuffer factors(requests.size() * sizeof(float));
  weigh_tokens(stream,
               {.logits = rows.as<float>(),
                .requests = asked.as<SoftRequest>(),
                .out = in_f32 ? nullptr : out.as<uint16_t>(),
                .out_f32 = in_f32 ? out.as<float>() : nullptr,
                .factors = factors.as<float>(),
                .vocabulary = kVocabulary,
                .stride = kVocabulary,
                .out_stride = kStride,
                .scale = 3},
               static_cast<uint32_t>(requests.size()));
  Weighed made{{}, download<float>(stream, factors)};
  if (in_f32) {
    made.weights = download<float>(stream, out);
  } else {
    for (const uint16_t bits : download<uint16_t>(stream, out)) made.weights.push_back(from_bits(bits));
  }
  return made;
}

std::vector<float> random_logits(size_t rows) {
  std::vector<float> logits = random_numbers(rows * kVocabulary, 61, 12);
  logits[5] = -std::numeric_limits<float>::infinity();  // a token that may not be drawn
  return logits;
}

TEST(WeighTokensKernel, LeavesOutWhatTheCpuLeavesOut) {
  const std::vector<float> logits = random_logits(3);
  for (const float slack : {0.0F, 1e-6F, 0.05F, 0.5F, 0.9F}) {
    std::vector<float> expected(logits.begin() + 2 * kVocabulary, logits.end());
    const float largest = *std::max_element(expected.begin(), expected.end());
    for (float& logit : expected) logit = std::exp(logit - largest);
    const double sum = leave_out_least_likely(expected, double{slack});
    expected.resize(kStride, 0);
    in_every_order([&](const std::string& order) {
      const Weighed got = weighed(logits, {{nullptr, 2, slack}}, true);
      EXPECT_NEAR(got.factors[0], 3 / sum, 1e-6 * 3 / sum) << order;
      for (size_t i = 0; i < kStride; ++i)
        ASSERT_NEAR(got.weights[i], expected[i], 1e-6) << order << ", slack " << slack << ", token " << i;
    });
  }
}

TEST(WeighTokensKernel, GivesARowTheSameBitsAloneAndInAnyCompanyInBothTypes) {
  const std::vector<float> logits = random_logits(3);
  for (const bool in_f32 : {false, true}) {
    const Weighed together =
        weighed(logits, {{nullptr, 1, 0.1F}, {nullptr, 0, 0}, {nullptr, 2, 0.1F}}, in_f32);
    const Weighed alone = weighed(logits, {{nullptr, 2, 0.1F}}, in_f32);
    EXPECT_TRUE(
        std::equal(alone.weights.begin(), alone.weights.end(), together.weights.begin() + 2 * kStride));
    EXPECT_EQ(alone.factors[0], together.factors[2]);
    EXPECT_EQ(together.weights[kStride + 5], 0) << "a logit of -infinity";
  }
}

TEST(KeepMeansKernel, WritesScaledRowsToWhereTheyAreKept) {
  constexpr size_t kHidden = 300;
  Stream stream;
  const std::vector<float> means = random_numbers(2 * kHidden, 62);
  const DeviceBuffer on_device = upload(stream, means);
  const DeviceBuffer factors = upload(stream, std::vector<float>{2, 0.5F});
  const DeviceBuffer kept = upload(stream, std::vector<float>(3 * kHidden, -7));
  const std::vector<SoftRequest> requests = {{kept.as<float>() + 2 * kHidden, 9, 0},
                                             {kept.as<float>(), 4, 0}};
  const DeviceBuffer asked = upload(stream, requests);
  keep_means(stream, {on_device.as<float>(), factors.as<float>(), asked.as<SoftRequest>(), kHidden}, 2);
  const auto got = download<float>(stream, kept);
  for (size_t i = 0; i < kHidden; ++i) {
    EXPECT_EQ(got[2 * kHidden + i], 2 * means[i]);
    EXPECT_EQ(got[i], 0.5F * means[kHidden + i]);
    EXPECT_EQ(got[kHidden + i], -7);
  }
}

template <typename Number>
void expect_transposed(const std::vector<Number>& numbers, int64_t rows, int64_t columns, int64_t stride) {
  in_every_order([&](const std::string& order) {
    Stream stream;
    const DeviceBuffer from = upload(stream, numbers);
    const DeviceBuffer to(static_cast<size_t>(columns * stride) * sizeof(Number));
    TransposeArguments arguments{.rows = rows, .columns = columns, .stride = stride};
    if constexpr (sizeof(Number) == sizeof(float)) {
      arguments.from_f32 = from.as<float>();
      arguments.to_f32 = to.as<float>();
    } else {
      arguments.from = from.as<uint16_t>();
      arguments.to = to.as<uint16_t>();
    }
    transpose(stream, arguments);
    const auto got = download<Number>(stream, to);
    for (int64_t column = 0; column < columns; ++column) {
      for (int64_t row = 0; row < stride; ++row) {
        const Number expected = row < rows ? numbers[static_cast<size_t>(row * columns + column)] : Number{0};
        ASSERT_EQ(got[static_cast<size_t>(column * stride + row)], expected) << order;
      }
    }
  });
}

TEST(TransposeKernel, ExchangesRowsAndColumnsAndClearsThePadding) {
  expect_transposed(random_numbers(70 * 33, 63), 70, 33, 128);
  expect_transposed(random_bf16(32 * 40, 64), 32, 40, 64);
}

}  // namespace
}  // namespace lacuna::cuda::soft_embedding_test
