#include "backend/cuda/head.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "kernels/drawn_rows.h"
#include "kernels/table.h"
#include "orders.h"

namespace lacuna::cuda::head_test {
namespace {

using simt::in_every_order;

RowStatistics on_device(const SamplingRule& rule, const RngStream& noise, const std::vector<float>& logits,
                        TokenId scored) {
  std::vector<int32_t> tokens;
  const DrawRule of_device = draw_rule(rule, 1, tokens);
  tokens.push_back(0);  // never empty
  const auto rows = drawn(logits, std::ssize(logits), {{noise.key(), 0, 0, scored}}, {of_device}, tokens);
  return to_row_statistics(rule, rows.statistics.front());
}

/// A rule that the device takes, with filters, lists and measures by chance.
SamplingRule random_rule(const RngStream& random, TokenId vocabulary) {
  uint64_t next = 0;
  const auto below = [&](uint64_t count) { return static_cast<int32_t>(random.bits(next++) % count); };
  SamplingRule rule;
  rule.temperature = below(3) == 0 ? 0 : 0.3F + 0.2F * static_cast<float>(below(6));
  rule.draws = below(5) != 0;
  if (below(2) == 0) rule.top_p = 0.1F * static_cast<float>(1 + below(9)) + 0.013F;
  if (below(3) == 0) rule.top_k = 1 + below(static_cast<uint64_t>(vocabulary) + 3);
  if (below(3) == 0) rule.min_p = 0.02F * static_cast<float>(1 + below(20));
  rule.measure = static_cast<ConfidenceMeasure>(below(3));
  rule.source = static_cast<ConfidenceSource>(below(3));
  for (int32_t n = below(3); n > 0 && vocabulary > 4; --n) rule.forbidden.push_back(below(vocabulary / 2));
  for (int32_t n = below(4); n > 0 && vocabulary > 4; --n)
    rule.undrawn.push_back(below(static_cast<uint64_t>(vocabulary)));
  if (rule.undrawn.size() > 1) rule.undrawn.back() = rule.undrawn.front();  // a token that is listed twice
  rule.finds_second = below(2) == 0;
  rule.measures_all = below(2) == 0;
  return rule;
}

/// Logits of which many tie in every third case.
std::vector<float> random_logits(TokenId vocabulary, uint64_t seed) {
  std::vector<float> logits = random_numbers(static_cast<size_t>(vocabulary), seed, 9);
  if (seed % 3 != 0) return logits;
  for (float& logit : logits) logit = std::round(logit);
  return logits;
}

void expect_near(double got, double expected) {
  EXPECT_NEAR(got, expected, 1e-6 * (1 + std::abs(expected)));
}

TEST(DeviceDraw, IsThatOfTheCpuUnderAnyRule) {
  for (const TokenId vocabulary : {7, 700, 9001}) {
    for (uint64_t seed = 0; seed < 60; ++seed) {
      const RngStream random(seed, static_cast<uint64_t>(vocabulary));
      const SamplingRule rule = random_rule(random, vocabulary);
      const auto scored = static_cast<TokenId>(random.bits(1000) % static_cast<uint64_t>(vocabulary));
      std::vector<float> logits = random_logits(vocabulary, seed);
      SCOPED_TRACE(fmt::format("{} tokens, seed {}, top_p {}, top_k {}, min_p {}", vocabulary, seed,
                               rule.top_p, rule.top_k, rule.min_p));
      const RowStatistics got = on_device(rule, random, logits, scored);
      const RowStatistics expected = draw(supported_tables().front(), rule, random, logits, scored);
      EXPECT_EQ(got.token, expected.token);
      EXPECT_EQ(got.best_token, expected.best_token);
      EXPECT_EQ(got.best_logit, expected.best_logit);
      EXPECT_EQ(got.second_token, expected.second_token);
      EXPECT_EQ(got.scored_rank, expected.scored_rank);
      EXPECT_EQ(got.scored_logit, expected.scored_logit);
      EXPECT_TRUE(got.is_finite);
      expect_near(got.confidence, expected.confidence);
      expect_near(got.scored_probability, expected.scored_probability);
      expect_near(got.entropy, expected.entropy);
      expect_near(got.margin, expected.margin);
    }
  }
}

TEST(DeviceDraw, OfFiltersIsTheSameInEveryOrderOfThreads) {
  SamplingRule rule;
  rule.temperature = 0.9F;
  rule.top_p = 0.7F;
  rule.top_k = 40;
  rule.undrawn = {3};
  const std::vector<float> logits = random_logits(5000, 3);
  std::vector<float> copy = logits;
  const RngStream noise(8);
  const RowStatistics expected = draw(supported_tables().front(), rule, noise, copy, 17);
  in_every_order([&](const std::string& order) {
    const RowStatistics got = on_device(rule, noise, logits, 17);
    EXPECT_EQ(got.token, expected.token) << order;
    expect_near(got.confidence, expected.confidence);
  });
}

}  // namespace
}  // namespace lacuna::cuda::head_test
