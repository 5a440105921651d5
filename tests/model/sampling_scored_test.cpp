#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/dispatch.h"
#include "model/sampling.h"
#include "tiny_models.h"

namespace lacuna::sampling_scored_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

RowStatistics drawn(const SamplingRule& rule, std::vector<float> logits, TokenId scored = -1) {
  return draw(default_table(), rule, RngStream(8), logits, scored);
}

TEST(ScoredToken, RankCountsTheLargerLogits) {
  const std::vector<float> logits = {1, 4, -2, 3};
  for (const auto& [token, rank] : {std::pair(1, 0), std::pair(3, 1), std::pair(0, 2), std::pair(2, 3)}) {
    const RowStatistics result = drawn({}, logits, token);
    EXPECT_EQ(result.scored_rank, rank);
    EXPECT_EQ(result.scored_logit, logits[static_cast<size_t>(token)]);
    EXPECT_EQ(result.token, 1);
    EXPECT_EQ(result.best_logit, 4);
  }
}

TEST(ScoredToken, OfEqualLogitsTheLowestIdComesFirst) {
  const std::vector<float> logits = {2, 5, 2, 5, 2};
  EXPECT_EQ(drawn({}, logits, 1).scored_rank, 0);
  EXPECT_EQ(drawn({}, logits, 3).scored_rank, 1);
  EXPECT_EQ(drawn({}, logits, 0).scored_rank, 2);
  EXPECT_EQ(drawn({}, logits, 2).scored_rank, 3);
  EXPECT_EQ(drawn({}, logits, 4).scored_rank, 4);
}

TEST(ScoredToken, WithoutOneThereIsNoScore) {
  const RowStatistics result = drawn({}, {1, 4, -2});
  EXPECT_EQ(result.scored_rank, 0);
  EXPECT_EQ(result.scored_logit, 0);
  EXPECT_EQ(result.best_logit, 4);
}

TEST(ScoredToken, TokensThatMayNotBeDrawnDoNotCount) {
  const std::vector<float> logits = {9, 1, 8, 3, 2};
  SamplingRule rule;
  rule.forbidden = {0};
  EXPECT_EQ(drawn(rule, logits, 3).scored_rank, 1);
  EXPECT_EQ(drawn(rule, logits, 3).best_logit, 8);
  rule.undrawn = {2};
  EXPECT_EQ(drawn(rule, logits, 3).scored_rank, 0);
  EXPECT_EQ(drawn(rule, logits, 4).scored_rank, 1);
  EXPECT_EQ(drawn(rule, logits, 4).scored_logit, 2);
  EXPECT_EQ(drawn(rule, logits, 4).best_logit, 3);
}

TEST(ScoredToken, TokensThatAreOnlyUnsureCountAsTheyAre) {
  SamplingRule rule;
  rule.unsure = {0};
  const RowStatistics result = drawn(rule, {9, 1, 3}, 2);
  EXPECT_EQ(result.best_logit, 9);
  EXPECT_EQ(result.scored_rank, 1);
}

TEST(ScoredToken, LogitsAreThoseBeforeTemperatureAndFilters) {
  SamplingRule rule;
  rule.temperature = 0.5F;
  rule.top_k = 1;
  for (const ConfidenceSource source : {ConfidenceSource::kRawLogits, ConfidenceSource::kSampled}) {
    rule.source = source;
    const RowStatistics result = drawn(rule, {3, 1, 2}, 2);
    EXPECT_EQ(result.best_logit, 3);
    EXPECT_EQ(result.scored_logit, 2);
    EXPECT_EQ(result.scored_rank, 1);
  }
}

TEST(ScoredToken, LogitsOfNegativeInfinityRankLast) {
  const std::vector<float> logits = {-kInfinity, 1, 2};
  EXPECT_EQ(drawn({}, logits, 0).scored_rank, 2);
  EXPECT_EQ(drawn({}, logits, 0).scored_logit, -kInfinity);
}

TEST(ScoredToken, ScoringChangesNothingElse) {
  SamplingRule rule;
  rule.temperature = 0.8F;
  rule.top_p = 0.9F;
  rule.forbidden = {3};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<float> logits;
    for (size_t i = 0; i < 300; ++i) logits.push_back(static_cast<float>(RngStream(seed).uniform(i) * 8));
    const RowStatistics plain = drawn(rule, logits);
    const RowStatistics scored = drawn(rule, logits, 17);
    EXPECT_EQ(scored.token, plain.token);
    EXPECT_EQ(scored.confidence, plain.confidence);
    EXPECT_EQ(scored.best_logit, plain.best_logit);
  }
}

TEST(ScoredToken, RanksAreThePlacesOfASort) {
  std::vector<float> logits;  // coarse, so that many are equal
  for (size_t i = 0; i < 500; ++i) logits.push_back(static_cast<float>(RngStream(6).below(i, 40)));
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  for (size_t place = 0; place < order.size(); ++place) {
    EXPECT_EQ(drawn({}, logits, order[place]).scored_rank, static_cast<int32_t>(place));
  }
}

TEST(ScoredToken, AForwardPassScoresWhatItsPlanNames) {
  const ModelConfig config = tiny_configs()[5];
  Runner runner(tiny_model(config), default_table(), 1);
  StepPlan plan = canvas_plan(random_tokens(3, 6, config.vocab_size), OwnRows::kCausal);
  const std::vector<float> logits = runner.logits(plan);
  const auto vocab = static_cast<size_t>(config.vocab_size);
  for (size_t i = 0; i < plan.logits.size(); ++i) plan.logits[i].scored = static_cast<TokenId>(10 + 7 * i);
  plan.logits[4].scored = -1;
  const std::vector<RowStatistics> draws = runner.draws(plan);
  for (size_t i = 0; i < draws.size(); ++i) {
    const auto row = logits.begin() + static_cast<std::ptrdiff_t>(i * vocab);
    const float scored = i == 4 ? 0 : row[static_cast<std::ptrdiff_t>(10 + 7 * i)];
    EXPECT_EQ(draws[i].scored_logit, scored);
    EXPECT_EQ(draws[i].best_logit, *std::max_element(row, row + static_cast<std::ptrdiff_t>(vocab)));
    const auto before = std::count_if(row, row + static_cast<std::ptrdiff_t>(vocab),
                                      [&](float logit) { return logit > scored; });
    EXPECT_EQ(draws[i].scored_rank, i == 4 ? 0 : before);
  }
}

TEST(ScoredToken, TokensThatMayNotBeDrawnNeverComeBeforeIt) {
  SamplingRule rule;
  rule.forbidden = {0, 2};
  std::vector<float> logits = {9, 1, 8, 3};
  EXPECT_EQ(draw(default_table(), rule, RngStream(1), logits, 2).scored_rank, 2);
}

TEST(ScoredToken, ComesLastWhereItsLogitIsNoNumber) {
  std::vector<float> logits = {1, std::numeric_limits<float>::quiet_NaN(), 3};
  EXPECT_EQ(draw(default_table(), {}, RngStream(1), logits, 1).scored_rank, 2);
}

TEST(ListedTokens, HaveLogProbabilitiesOfTheDistributionThatTheConfidenceIsMeasuredIn) {
  const std::vector<float> logits = {1, 4, -2, 3, -kInfinity};
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  SamplingRule rule;
  rule.listed = {3, 0, 4, 3};
  const RowStatistics result = drawn(rule, logits);
  ASSERT_EQ(result.listed_logprobs.size(), 4);
  EXPECT_NEAR(result.listed_logprobs[0], 3 - std::log(sum), 1e-6);
  EXPECT_NEAR(result.listed_logprobs[1], 1 - std::log(sum), 1e-6);
  EXPECT_EQ(result.listed_logprobs[2], -kInfinity);
  EXPECT_EQ(result.listed_logprobs[3], result.listed_logprobs[0]);
  rule.forbidden = {1};
  EXPECT_NEAR(drawn(rule, logits).listed_logprobs[0], 3 - std::log(sum - std::exp(4.0)), 1e-6);
  EXPECT_TRUE(drawn({}, logits).listed_logprobs.empty());
}

}  // namespace
}  // namespace lacuna::sampling_scored_test
