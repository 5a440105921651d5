#include "backend/cuda/kernels/drift.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "bench/gpu/device_vectors.h"
#include "orders.h"

namespace lacuna::cuda::drift_test {
namespace {

using simt::in_every_order;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<double> drifts(const std::vector<float>& now, const std::vector<float>& before,
                           int64_t vocabulary) {
  Stream stream;
  const DeviceBuffer a = upload(stream, now);
  const DeviceBuffer b = upload(stream, before);
  const size_t rows = now.size() / static_cast<size_t>(vocabulary);
  const DeviceBuffer out(rows * 2 * sizeof(double));
  measure_drift(stream, {a.as<float>(), b.as<float>(), out.as<double>(), vocabulary, vocabulary},
                static_cast<uint32_t>(rows));
  return download<double>(stream, out);
}

TEST(DriftKernel, AgreesWithTheDefinition) {
  constexpr size_t kVocabulary = 300;
  const std::vector<float> now = random_numbers(2 * kVocabulary, 21, 4);
  std::vector<float> before = random_numbers(2 * kVocabulary, 22, 4);
  std::copy_n(now.begin(), kVocabulary, before.begin());
  in_every_order([&](const std::string& order) {
    const std::vector<double> got = drifts(now, before, kVocabulary);
    EXPECT_EQ(got[0], 0) << order;
    EXPECT_EQ(got[1], 0) << order;
    double now_sum = 0, before_sum = 0;
    for (size_t i = kVocabulary; i < 2 * kVocabulary; ++i) {
      now_sum += std::exp(double{now[i]});
      before_sum += std::exp(double{before[i]});
    }
    double kl = 0, most = 0;
    for (size_t i = kVocabulary; i < 2 * kVocabulary; ++i) {
      const double change = double{now[i]} - std::log(now_sum) - (double{before[i]} - std::log(before_sum));
      kl += std::exp(double{now[i]}) / now_sum * change;
      most = std::max(most, std::abs(change));
    }
    EXPECT_NEAR(got[2], kl, 1e-5) << order;
    EXPECT_NEAR(got[3], most, 1e-5) << order;
  });
}

TEST(DriftKernel, IsInfiniteWhereLogitsAreNotFinite) {
  EXPECT_EQ(drifts({1, kInfinity}, {1, 2}, 2)[0], std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace lacuna::cuda::drift_test
