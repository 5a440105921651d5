#include "backend/cuda/kernels/draw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/drawn_rows.h"
#include "orders.h"

namespace lacuna::cuda::draw_test {
namespace {

using simt::in_every_order;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Expected {
  int32_t best = 0;
  int32_t second = -1;
  double log_sum = 0;
  double negative_entropy = 0;
};

Expected expected_of(const float* logits, int32_t count) {
  Expected e;
  for (int32_t i = 1; i < count; ++i) {
    if (logits[i] > logits[e.best]) e.best = i;
  }
  double sum = 0;
  double weighted = 0;
  for (int32_t i = 0; i < count; ++i) {
    if (i != e.best && (e.second < 0 || logits[i] > logits[e.second])) e.second = i;
    const double below = double{logits[i]} - logits[e.best];
    sum += std::exp(below);
    if (std::exp(below) > 0) weighted += std::exp(below) * below;
  }
  e.log_sum = std::log(sum);
  e.negative_entropy = weighted / sum - e.log_sum;
  return e;
}

TEST(DrawKernel, MeasuresARowAsTheDefinitionDoes) {
  for (const int32_t vocabulary : {1, 255, 256, 257, 1000, 9000}) {
    const auto count = static_cast<size_t>(vocabulary);
    std::vector<float> logits = random_numbers(3 * count, 11, 8);
    if (vocabulary > 200)
      logits[2 * count + 100] = logits[2 * count + 199] = 9;  // a tie: the lower id is the best
    in_every_order([&](const std::string& order) {
      const int32_t scored = vocabulary / 2;
      const auto got = drawn(logits, vocabulary, {{1, 2, 0, scored}, {1, 0, 0, -1}}, {{}}).statistics;
      for (const size_t i : {0U, 1U}) {
        const float* row = logits.data() + (i == 0 ? 2 * count : 0);
        const Expected e = expected_of(row, vocabulary);
        EXPECT_EQ(got[i].best_token, e.best) << order << " of " << vocabulary;
        EXPECT_EQ(got[i].token, e.best);
        EXPECT_EQ(got[i].best_logit, row[e.best]);
        EXPECT_EQ(got[i].second_logit, e.second < 0 ? -kInfinity : row[e.second]);
        EXPECT_NEAR(got[i].log_sum, e.log_sum, 1e-12);
        EXPECT_NEAR(got[i].negative_entropy, e.negative_entropy, 1e-11);
        EXPECT_NEAR(got[i].probability, std::exp(-e.log_sum), 1e-12);
        EXPECT_EQ(got[i].is_finite, 1);
      }
      const float* row = logits.data() + 2 * count;
      int32_t rank = 0;
      for (int32_t i = 0; i < vocabulary; ++i) {
        rank += row[i] > row[scored] || (row[i] == row[scored] && i < scored) ? 1 : 0;
      }
      EXPECT_EQ(got[0].scored_rank, rank);
      EXPECT_EQ(got[0].scored_logit, row[scored]);
    });
  }
}

/// The CPU's draw: argmax of logit / T - ln(-ln u) over all tokens, ties to the lowest.
int32_t gumbel(const float* logits, int32_t count, float temperature, const RngStream& noise) {
  const double inverse = 1.0 / temperature;
  int32_t best = 0;
  double best_value = -std::numeric_limits<double>::infinity();
  for (int32_t i = 0; i < count; ++i) {
    const double value = logits[i] * inverse - std::log(-std::log(noise.uniform(static_cast<uint64_t>(i))));
    if (value > best_value) {
      best = i;
      best_value = value;
    }
  }
  return best;
}

TEST(DrawKernel, DrawsTheTokenThatTheNumbersOfTheCpuDraw) {
  constexpr int32_t kVocabulary = 700;
  constexpr size_t kRows = 24;
  const std::vector<float> logits = random_numbers(kRows * kVocabulary, 12, 3);
  std::vector<DrawRequest> requests;
  for (size_t row = 0; row < kRows; ++row) {
    requests.push_back(
        {RngStream(5, row, 2).key(), static_cast<int32_t>(row), static_cast<int32_t>(row % 2)});
  }
  const std::vector<DrawRule> rules = {{.temperature = 1}, {.temperature = 0.6F}};
  in_every_order([&](const std::string& order) {
    const auto got = drawn(logits, kVocabulary, requests, rules).statistics;
    int32_t others = 0;
    for (size_t row = 0; row < kRows; ++row) {
      const int32_t expected = gumbel(logits.data() + row * kVocabulary, kVocabulary,
                                      rules[row % 2].temperature, RngStream(5, row, 2));
      EXPECT_EQ(got[row].token, expected) << order << " row " << row;
      others += expected != got[row].best_token ? 1 : 0;
    }
    EXPECT_GT(others, 0);
  });
}

TEST(DrawKernel, NeitherDrawsNorCountsForbiddenTokens) {
  std::vector<float> logits = {1, 9, 2, 8, 3};
  const auto got =
      drawn(logits, 5, {{}}, {{.logit_scale = 0.5F, .first_forbidden = 1, .num_forbidden = 2}}, {7, 1, 3});
  EXPECT_EQ(got.statistics[0].token, 4);
  EXPECT_EQ(got.statistics[0].best_logit, 1.5F);
  EXPECT_NEAR(got.statistics[0].log_sum, std::log(1 + std::exp(-0.5) + std::exp(-1.0)), 1e-12);
  EXPECT_EQ(got.logits[1], -kInfinity);
}

TEST(DrawKernel, MeasuresDividedLogitsAndSaysWhatRawOnesWere) {
  constexpr int32_t kVocabulary = 300;
  const std::vector<float> logits = random_numbers(kVocabulary, 14, 6);
  std::vector<float> divided = logits;
  for (float& logit : divided) logit /= 0.7F;
  in_every_order([&](const std::string& order) {
    const auto got = drawn(logits, kVocabulary, {{5, 0, 0, 17}}, {{.temperature = 1, .divisor = 0.7F}});
    const DrawStatistics& row = got.statistics[0];
    const Expected e = expected_of(divided.data(), kVocabulary);
    EXPECT_EQ(got.logits, divided) << order;
    EXPECT_EQ(row.best_logit, logits[static_cast<size_t>(e.best)]);
    EXPECT_EQ(row.scored_logit, logits[17]);
    EXPECT_EQ(row.best_token, e.best);
    EXPECT_EQ(row.likeliest_logit, divided[static_cast<size_t>(e.best)]);
    EXPECT_EQ(row.second_logit, divided[static_cast<size_t>(e.second)]);
    EXPECT_NEAR(row.log_sum, e.log_sum, 1e-12);
    EXPECT_NEAR(row.negative_entropy, e.negative_entropy, 1e-11);
    EXPECT_EQ(row.token, gumbel(divided.data(), kVocabulary, 1, RngStream::from_key(5)));
    EXPECT_NEAR(row.scored_probability,
                std::exp(double{divided[17]} - divided[static_cast<size_t>(e.best)] - e.log_sum), 1e-12);
  });
}

TEST(DrawKernel, SaysWhenLogitsAreNotFinite) {
  std::vector<float> logits = {1, NAN, 2, 3, kInfinity, 3};
  const auto got = drawn(logits, 3, {{1, 0}, {1, 1}}, {{}}).statistics;
  EXPECT_EQ(got[0].is_finite, 0);
  EXPECT_EQ(got[0].best_token, 2);  // NaN never wins
  EXPECT_EQ(got[1].is_finite, 0);
}

TEST(DrawKernel, GivesARowTheSameBitsAloneAndInAnyCompany) {
  constexpr int32_t kVocabulary = 513;
  const std::vector<float> logits = random_numbers(size_t{3} * kVocabulary, 13, 6);
  const std::vector<DrawRule> rules = {{.temperature = 0.8F}};
  const auto together = drawn(logits, kVocabulary, {{4, 0}, {5, 1}, {6, 2}}, rules).statistics;
  const auto alone = drawn(logits, kVocabulary, {{5, 1}}, rules).statistics;
  EXPECT_EQ(alone[0].token, together[1].token);
  EXPECT_EQ(alone[0].log_sum, together[1].log_sum);
  EXPECT_EQ(alone[0].negative_entropy, together[1].negative_entropy);
}

}  // namespace
}  // namespace lacuna::cuda::draw_test
