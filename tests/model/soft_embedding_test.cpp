#include "model/soft_embedding.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "base/rng.h"
#include "kernels/dispatch.h"

namespace lacuna::soft_embedding_test {
namespace {

using testing::Each;

/// Weights of a distribution whose probabilities fall by `decades` powers of ten from the first token of a
/// random order to the last.
std::vector<float> random_weights(uint64_t seed, size_t vocab, double decades) {
  std::vector<float> weights;
  for (size_t token = 0; token < vocab; ++token) {
    const double place = RngStream(seed, 1).uniform(token);
    weights.push_back(static_cast<float>(std::pow(10.0, -decades * place)));
  }
  return weights;
}

double sum_of(const std::vector<float>& weights) {
  return std::accumulate(weights.begin(), weights.end(), 0.0);
}

TEST(LeaveOutLeastLikely, LeavesOutNoMoreThanItMayAndTheLeastLikelyAlone) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (const double slack : {1e-9, 1e-6, 1e-3, 0.1, 0.7, 1.0}) {
      const std::vector<float> before = random_weights(seed, 500, 12);
      std::vector<float> after = before;
      EXPECT_EQ(leave_out_least_likely(after, slack), sum_of(before));
      double left_out = 0;
      float largest_left_out = 0;
      float smallest_kept = std::numeric_limits<float>::infinity();
      for (size_t token = 0; token < before.size(); ++token) {
        if (after[token] == 0) {
          left_out += before[token];
          largest_left_out = std::max(largest_left_out, before[token]);
        } else {
          EXPECT_EQ(after[token], before[token]);
          smallest_kept = std::min(smallest_kept, before[token]);
        }
      }
      EXPECT_LE(left_out, slack * sum_of(before) * (1 + 1e-12)) << slack;
      EXPECT_LT(largest_left_out, smallest_kept);
      EXPECT_GT(left_out, 0) << slack << ": of so many tokens some are that unlikely";
    }
  }
}

TEST(LeaveOutLeastLikely, LeavesOutMostTokensOfAPeakedDistribution) {
  std::vector<float> weights(1000, 1e-12F);
  weights[17] = 1;
  leave_out_least_likely(weights, 1e-6);
  EXPECT_EQ(std::count(weights.begin(), weights.end(), 0.0F), 999);
  EXPECT_EQ(weights[17], 1);
}

TEST(LeaveOutLeastLikely, LeavesNothingOutWithASlackOfNothing) {
  std::vector<float> weights = random_weights(3, 300, 30);
  weights[5] = 0;
  weights[6] = std::numeric_limits<float>::denorm_min();
  weights[7] = std::numeric_limits<float>::min();
  const std::vector<float> before = weights;
  EXPECT_EQ(leave_out_least_likely(weights, 0), sum_of(before));
  EXPECT_EQ(weights, before);
}

TEST(LeaveOutLeastLikely, KeepsAUniformDistributionWhole) {
  std::vector<float> weights(64, 0.25F);
  EXPECT_EQ(leave_out_least_likely(weights, 0.9), 16);
  EXPECT_THAT(weights, Each(0.25F)) << "none is less likely than another";
}

constexpr int64_t kVocab = 70;
constexpr int64_t kHidden = 37;

PackedMatrix embedding(const WeightFormat& format = DType::kF32) {
  ThreadPool threads(1);
  return {threads, format, kVocab, kHidden, [](int64_t token, float* row) {
            for (int64_t d = 0; d < kHidden; ++d)
              row[d] = static_cast<float>(RngStream(9, token).uniform(static_cast<uint64_t>(d)) * 2 - 1);
          }};
}

struct Rows {
  explicit Rows(size_t count) : factors(count), out(count) {
    for (size_t row = 0; row < count; ++row) {
      std::vector<float> of_row = random_weights(row, kVocab, 3);
      for (size_t token = 0; token < of_row.size(); token += 1 + row % 3) of_row[token] = 0;
      weights.insert(weights.end(), of_row.begin(), of_row.end());
      factors[row] = 0.5F + static_cast<float>(row);
      out[row].assign(kHidden, 1e30F);  // as left by another pass
    }
  }

  /// For the rows in `which`, in one call.
  void compute(const std::vector<size_t>& which, const KernelTable& kernels, int num_threads,
               const PackedMatrix& matrix, const std::vector<size_t>& without = {}) {
    std::vector<float> given;
    std::vector<float> given_factors;
    std::vector<float*> given_out;
    for (const size_t row : which) {
      const auto begin = weights.begin() + static_cast<std::ptrdiff_t>(row * kVocab);
      given.insert(given.end(), begin, begin + kVocab);
      given_factors.push_back(factors[row]);
      const bool is_left_out = std::find(without.begin(), without.end(), row) != without.end();
      given_out.push_back(is_left_out ? nullptr : out[row].data());
    }
    ThreadPool threads(num_threads);
    mean_embeddings({kernels, threads}, matrix, {given.data(), static_cast<int64_t>(which.size()), kVocab},
                    given_factors, given_out);
  }

  std::vector<float> weights;  // [rows, vocab]
  std::vector<float> factors;
  std::vector<std::vector<float>> out;
};

std::vector<size_t> all(size_t count) {
  std::vector<size_t> rows(count);
  std::iota(rows.begin(), rows.end(), 0U);
  return rows;
}

TEST(MeanEmbeddings, AreTheSumOfEachTokensShare) {
  for (const WeightFormat& format : {WeightFormat(DType::kF32), WeightFormat(DType::kBF16)}) {
    const PackedMatrix matrix = embedding(format);
    for (const KernelTable& kernels : supported_tables()) {
      Rows rows(9);
      rows.compute(all(9), kernels, 2, matrix);
      std::vector<float> token_embedding(kHidden);
      for (size_t row = 0; row < 9; ++row) {
        std::vector<double> expected(kHidden);
        std::vector<double> magnitude(kHidden);
        for (size_t token = 0; token < kVocab; ++token) {
          matrix.read_row(static_cast<int64_t>(token), token_embedding.data());
          for (size_t d = 0; d < kHidden; ++d) {
            const double term =
                double{rows.factors[row]} * rows.weights[row * kVocab + token] * token_embedding[d];
            expected[d] += term;
            magnitude[d] += std::abs(term);
          }
        }
        for (size_t d = 0; d < kHidden; ++d)
          EXPECT_NEAR(rows.out[row][d], expected[d], magnitude[d] * 72 * 0x1p-24) << kernels.name << ' ' << d;
      }
    }
  }
}

TEST(MeanEmbeddings, HaveTheSameBitsWhateverTheThreadsAndTheOtherRows) {
  const PackedMatrix matrix = embedding();
  for (const KernelTable& kernels : supported_tables()) {
    Rows together(11);
    together.compute(all(11), kernels, 1, matrix);
    for (const int num_threads : {2, 3, 16}) {
      Rows others(11);
      others.compute(all(11), kernels, num_threads, matrix);
      EXPECT_EQ(others.out, together.out) << kernels.name << ", " << num_threads << " threads";
    }
    Rows reordered(11);
    reordered.compute({7, 2, 10}, kernels, 2, matrix);
    for (const size_t row : {7U, 2U, 10U}) EXPECT_EQ(reordered.out[row], together.out[row]) << row;
    Rows alone(11);
    alone.compute({4}, kernels, 3, matrix);
    EXPECT_EQ(alone.out[4], together.out[4]);
  }
}

TEST(MeanEmbeddings, LeaveRowsOutThatHaveNoPlace) {
  const PackedMatrix matrix = embedding();
  Rows whole(5);
  whole.compute(all(5), default_table(), 2, matrix);
  Rows partial(5);
  partial.compute(all(5), default_table(), 2, matrix, {1, 2, 4});
  EXPECT_EQ(partial.out[0], whole.out[0]);
  EXPECT_EQ(partial.out[3], whole.out[3]);
  for (const size_t row : {1U, 2U, 4U}) EXPECT_THAT(partial.out[row], Each(1e30F));
}

TEST(MeanEmbeddings, AreZerosWhereNoTokenHasAWeight) {
  const PackedMatrix matrix = embedding();
  Rows rows(2);
  std::fill_n(rows.weights.begin(), kVocab, 0.0F);
  rows.compute(all(2), default_table(), 1, matrix);
  EXPECT_THAT(rows.out[0], Each(0.0F));
  EXPECT_THAT(rows.out[1], testing::Not(Each(0.0F)));
  rows.compute({}, default_table(), 2, matrix);  // none at all
}

}  // namespace
}  // namespace lacuna::soft_embedding_test
