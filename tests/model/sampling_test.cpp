#include "model/sampling.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/dispatch.h"

namespace lacuna::sampling_test {
namespace {

using testing::DoubleNear;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kNothing = -std::numeric_limits<double>::infinity();

std::vector<float> random_logits(uint64_t seed, size_t count, double scale = 6) {
  std::vector<float> logits;
  for (size_t i = 0; i < count; ++i) {
    logits.push_back(static_cast<float>((RngStream(seed).uniform(i) - 0.5) * scale));
  }
  return logits;
}

RowStatistics drawn(const SamplingRule& rule, std::vector<float> logits,
                    const RngStream& noise = RngStream(0)) {
  return draw(default_table(), rule, noise, logits);
}

// The published definitions in double, with full sorts.

std::vector<double> softmax(const std::vector<double>& logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p;
  double sum = 0;
  for (const double logit : logits) sum += p.emplace_back(std::exp(logit - max));
  for (double& value : p) value /= sum;
  return p;
}

std::vector<size_t> descending(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] > values[b]; });
  return order;
}

void keep_top_p(double top_p, std::vector<double>& logits) {
  const std::vector<double> p = softmax(logits);
  double before = 0;
  for (const size_t token : descending(logits)) {
    if (before > top_p) logits[token] = kNothing;
    before += p[token];
  }
}

void keep_top_k(size_t k, std::vector<double>& logits) {
  const double kth = logits[descending(logits)[k - 1]];
  for (double& logit : logits) {
    if (logit < kth) logit = kNothing;
  }
}

std::vector<double> filtered(const SamplingRule& rule, const std::vector<float>& logits) {
  std::vector<double> result(logits.begin(), logits.end());
  for (const TokenId token : rule.forbidden) result[static_cast<size_t>(token)] = kNothing;
  if (rule.temperature > 0) {
    for (double& logit : result) logit /= rule.temperature;
  }
  if (rule.top_p < 1) keep_top_p(rule.top_p, result);
  if (rule.top_k > 0) keep_top_k(std::min(static_cast<size_t>(rule.top_k), result.size()), result);
  return result;
}

double plain_confidence(const SamplingRule& rule, const std::vector<float>& logits, TokenId token) {
  SamplingRule raw;
  raw.forbidden = rule.forbidden;
  std::vector<double> measured = filtered(rule.source == ConfidenceSource::kRawLogits ? raw : rule, logits);
  for (const TokenId unsure : rule.unsure) measured[static_cast<size_t>(unsure)] = kNothing;
  const std::vector<double> p = softmax(measured);
  switch (rule.measure) {
    case ConfidenceMeasure::kProbability:
      return p[static_cast<size_t>(token)];
    case ConfidenceMeasure::kMargin: {
      const std::vector<size_t> order = descending(p);
      return p[order[0]] - p[order[1]];
    }
    case ConfidenceMeasure::kNegativeEntropy: {
      double sum = 0;
      for (const double value : p) sum += value > 0 ? value * std::log(value) : 0;
      return sum;
    }
  }
  return 0;
}

std::vector<SamplingRule> many_rules() {
  std::vector<SamplingRule> rules;
  for (const float temperature : {0.0F, 0.4F, 1.0F, 1.7F}) {
    for (const float top_p : {1.0F, 0.95F, 0.5F, 0.05F}) {
      for (const int32_t top_k : {0, 1, 3, 70}) {
        for (const auto measure : {ConfidenceMeasure::kProbability, ConfidenceMeasure::kMargin,
                                   ConfidenceMeasure::kNegativeEntropy}) {
          for (const auto source : {ConfidenceSource::kRawLogits, ConfidenceSource::kSampled}) {
            rules.push_back({temperature, true, top_p, top_k, 0, measure, source, {}, {}, {}, {}, {}});
          }
        }
      }
    }
  }
  return rules;
}

TEST(Draw, AtTemperatureZeroTakesTheBestTokenAndTheLowestOfEquals) {
  EXPECT_EQ(drawn({}, {1, 4, 3, 4, -2}).token, 1);
  EXPECT_EQ(drawn({}, std::vector<float>(200, 0.5F)).token, 0);
  std::vector<float> logits(200, 0.5F);
  logits[133] = logits[199] = 2;
  EXPECT_EQ(drawn({}, logits).token, 133);
}

TEST(Draw, ConfidenceEqualsTheFormulas) {
  for (const KernelTable& kernels : supported_tables()) {
    for (const size_t vocab : {2U, 17U, 97U, 300U}) {
      for (const SamplingRule& rule : many_rules()) {
        const std::vector<float> logits = random_logits(vocab, vocab);
        std::vector<float> overwritten = logits;
        const RowStatistics result = draw(kernels, rule, RngStream(7, vocab), overwritten);
        // Sums of f32 exponentials: relative errors of a few 2^-24 each.
        EXPECT_THAT(result.confidence, DoubleNear(plain_confidence(rule, logits, result.token), 3e-6))
            << kernels.name << " vocab " << vocab << " T " << rule.temperature << " top_p " << rule.top_p
            << " top_k " << rule.top_k << " measure " << static_cast<int>(rule.measure);
      }
    }
  }
}

TEST(Draw, OnlyTokensThatTheFiltersKeepAreDrawn) {
  for (SamplingRule rule : many_rules()) {
    if (rule.temperature == 0) continue;
    rule.forbidden = {4, 5};
    const std::vector<float> logits = random_logits(3, 60);
    const std::vector<double> kept = filtered(rule, logits);
    for (uint64_t i = 0; i < 50; ++i) {
      const TokenId token = drawn(rule, logits, RngStream(1, i)).token;
      EXPECT_GT(kept[static_cast<size_t>(token)], kNothing) << token;
    }
  }
}

TEST(Draw, TopPKeepsTokensUpToTheFirstThatExceedsIt) {
  // Probabilities 1/2, 1/4, 1/8, 1/8.
  const std::vector<float> logits = {std::log(4.0F), std::log(2.0F), 0, 0};
  SamplingRule rule;
  rule.source = ConfidenceSource::kSampled;
  const auto kept_mass = [&](float top_p) {
    rule.top_p = top_p;
    return 0.5 / drawn(rule, logits).confidence;
  };
  EXPECT_NEAR(kept_mass(0.3F), 0.5, 1e-6);
  EXPECT_NEAR(kept_mass(0.6F), 0.75, 1e-6);
  EXPECT_NEAR(kept_mass(0.8F), 0.875, 1e-6);  // among equals the lowest id comes first
  EXPECT_NEAR(kept_mass(0.9F), 1, 1e-6);
}

TEST(Draw, TopKKeepsTiesWithTheLastOne) {
  SamplingRule rule;
  rule.source = ConfidenceSource::kSampled;
  rule.top_k = 2;
  EXPECT_NEAR(drawn(rule, {0, 1, 1, 1, -3}).confidence, 1.0 / 3, 1e-6);
  rule.top_k = 4;
  EXPECT_NEAR(drawn(rule, {1, 1, 1, 1, -30}).confidence, 1.0 / 4, 1e-6);
  rule.top_k = 100;  // more than there are
  EXPECT_NEAR(drawn(rule, {1, 1, 1, 1}).confidence, 1.0 / 4, 1e-6);
}

TEST(Draw, TopKAppliesToWhatTopPLeft) {
  // Flattened by the temperature before the nucleus is cut, and the nucleus is cut before the k best.
  const std::vector<float> logits = {4, 3, 2, 1, 0, -1};
  SamplingRule rule{2.0F, true, 0.8F, 2,  0, ConfidenceMeasure::kNegativeEntropy, ConfidenceSource::kSampled,
                    {},   {},   {},   {}, {}};
  EXPECT_NEAR(drawn(rule, logits).confidence, plain_confidence(rule, logits, 0), 1e-6);
  rule.top_k = 0;
  const double three = drawn(rule, logits).confidence;  // the nucleus holds more than two at this temperature
  rule.top_k = 2;
  EXPECT_LT(three, drawn(rule, logits).confidence - 0.1);
  rule.temperature = 0.25F;  // and one at this
  EXPECT_NEAR(drawn(rule, logits).confidence, 0, 1e-6);
}

TEST(Draw, MinPKeepsTokensAsLikelyAsThatShareOfTheLikeliest) {
  const std::vector<float> logits = random_logits(5, 200);
  for (const double min_p : {0.02, 0.3, 0.9}) {
    SamplingRule rule;
    rule.temperature = 1.5F;
    rule.min_p = static_cast<float>(min_p);
    const float best = *std::max_element(logits.begin(), logits.end());
    std::vector<bool> is_drawn(logits.size());
    for (uint64_t i = 0; i < 3000; ++i) {
      const auto token = static_cast<size_t>(drawn(rule, logits, RngStream(i)).token);
      EXPECT_GE(std::exp((logits[token] - best) / 1.5), min_p * (1 - 1e-5));
      is_drawn[token] = true;
    }
    const auto count = std::count_if(logits.begin(), logits.end(),
                                     [&](float logit) { return std::exp((logit - best) / 1.5) >= min_p; });
    EXPECT_LE(std::count(is_drawn.begin(), is_drawn.end(), true), count);
    if (count > 20) continue;
    EXPECT_EQ(std::count(is_drawn.begin(), is_drawn.end(), true), count);
  }
}

TEST(Draw, AdjustsLogitsBeforeAnythingElse) {
  SamplingRule rule;
  rule.adjusted = {{0, 2, 0}, {1, 2, 0.5F}, {2, 1, -10}};
  std::vector<float> logits{3, -1, 4, 1};
  adjust_logits(rule, logits);
  EXPECT_EQ(logits, (std::vector<float>{1.5F, -1.5F, -6, 1}));
  EXPECT_EQ(drawn(rule, {3, -1, 4, 1}).token, 0);
  rule.forbidden = {0};
  EXPECT_EQ(drawn(rule, {3, -1, 4, 1}).token, 3);
  EXPECT_NEAR(drawn(rule, {3, -1, 4, 1}).confidence,
              std::exp(1.0) / (std::exp(1.0) + std::exp(-1.5) + std::exp(-6.0)), 1e-6);
  EXPECT_FALSE(keeps_logits(rule, 0));
}

TEST(Draw, ForbiddenTokensAreNeitherDrawnNorCounted) {
  SamplingRule rule;
  rule.forbidden = {1};
  const RowStatistics result = drawn(rule, {0, 9, 0, -kInfinity});
  EXPECT_EQ(result.token, 0);
  EXPECT_NEAR(result.confidence, 0.5, 1e-6);
}

TEST(Draw, UndrawnTokensAreCountedThough) {
  const std::vector<float> logits = {0, 3, 0, 0.5F};
  for (const auto source : {ConfidenceSource::kRawLogits, ConfidenceSource::kSampled}) {
    for (const float temperature : {0.0F, 2.0F}) {
      SamplingRule rule;
      rule.undrawn = {1};
      rule.source = source;
      rule.temperature = temperature;
      SamplingRule all = rule;
      all.undrawn.clear();
      for (uint64_t i = 0; i < 100; ++i) {
        const RowStatistics result = drawn(rule, logits, RngStream(1, i));
        EXPECT_NE(result.token, 1);
        EXPECT_NEAR(result.confidence, plain_confidence(all, logits, result.token), 1e-6);
      }
      if (temperature == 0) {
        EXPECT_EQ(drawn(rule, logits).token, 3);
      }
    }
  }
}

TEST(Draw, UnsureTokensAreDrawnWithConfidenceZeroAndLeaveTheSoftmaxOfTheOthers) {
  // LLaDA's confidence_eos_eot_inf: the token stays the answer of its position, committed last.
  SamplingRule rule;
  rule.unsure = {1, 3};
  const RowStatistics sure = drawn(rule, {0, 9, 0, 2});
  EXPECT_EQ(sure.token, 1);
  EXPECT_EQ(sure.confidence, 0);
  const RowStatistics other = drawn(rule, {4, 1, 4, 1});
  EXPECT_EQ(other.token, 0);
  EXPECT_NEAR(other.confidence, 0.5, 1e-6);
}

// Draws.

double chi_square(const std::vector<double>& expected, const std::vector<int>& observed, int count) {
  double sum = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double mean = expected[i] * count;
    if (mean == 0) {
      EXPECT_EQ(observed[i], 0) << i;
      continue;
    }
    sum += (observed[i] - mean) * (observed[i] - mean) / mean;
  }
  return sum;
}

TEST(Draw, FollowsTheSoftmaxAtEveryTemperature) {
  constexpr int kCount = 20'000;
  const std::vector<float> logits = {1.2F, -0.3F, 0.8F, -1.5F, 0, 0.4F, -0.9F, 1.1F};
  for (const float temperature : {0.5F, 1.0F, 2.0F}) {
    for (const float top_p : {1.0F, 0.8F}) {
      for (const auto source : {ConfidenceSource::kRawLogits, ConfidenceSource::kSampled}) {
        SamplingRule rule;
        rule.temperature = temperature;
        rule.top_p = top_p;
        rule.source = source;
        std::vector<int> counts(logits.size());
        for (int i = 0; i < kCount; ++i) {
          ++counts[static_cast<size_t>(drawn(rule, logits, RngStream(11, i)).token)];
        }
        // 7 degrees of freedom: 24.3 is exceeded once in a thousand.
        EXPECT_LT(chi_square(softmax(filtered(rule, logits)), counts, kCount), 24.3)
            << temperature << " " << top_p;
      }
    }
  }
}

TEST(Draw, EqualsAFullEvaluationOfEveryGumbelNumber) {
  for (uint64_t i = 0; i < 300; ++i) {
    const RngStream noise(21, i);
    const std::vector<float> logits = random_logits(i, 1 + 7 * (i % 90), 1 + static_cast<double>(i % 20));
    SamplingRule rule;
    rule.temperature = 0.1F + 0.05F * static_cast<float>(i % 40);
    size_t best = 0;
    double best_value = kNothing;
    for (size_t token = 0; token < logits.size(); ++token) {
      const double value =
          logits[token] / double{rule.temperature} - std::log(-std::log(noise.uniform(token)));
      if (value > best_value) {
        best = token;
        best_value = value;
      }
    }
    EXPECT_EQ(drawn(rule, logits, noise).token, static_cast<TokenId>(best)) << i;
  }
}

TEST(Draw, IsThePublishedExpOverPowerOfLogarithm) {
  // exp(l) / (-ln u)^T orders tokens as l / T - ln(-ln u) does.
  SamplingRule rule;
  rule.temperature = 0.6F;
  for (uint64_t i = 0; i < 100; ++i) {
    const RngStream noise(5, i);
    const std::vector<float> logits = random_logits(i, 50);
    std::vector<double> published;
    for (size_t token = 0; token < logits.size(); ++token) {
      published.push_back(std::exp(double{logits[token]}) /
                          std::pow(-std::log(noise.uniform(token)), double{rule.temperature}));
    }
    EXPECT_EQ(drawn(rule, logits, noise).token, static_cast<TokenId>(descending(published)[0]));
  }
}

TEST(Draw, SurvivesLogitsThatOverflowed) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float most = std::numeric_limits<float>::max();
  const std::vector<std::vector<float>> rows = {{nan, nan, nan},
                                                {kInfinity, 1, 2},
                                                {kInfinity, kInfinity, 0},
                                                {-kInfinity, -kInfinity},
                                                {nan, 1, -kInfinity},
                                                {nan, kInfinity, 0},
                                                {most, -most, most},
                                                {0, nan, 0, nan, 5, nan},
                                                {-kInfinity, -most, nan},
                                                {kInfinity},
                                                {nan},
                                                {-kInfinity}};
  std::vector<SamplingRule> rules = many_rules();
  SamplingRule nothing_allowed;
  nothing_allowed.forbidden = {0};
  nothing_allowed.temperature = 1;
  rules.push_back(nothing_allowed);
  nothing_allowed.unsure = {0};
  rules.push_back(nothing_allowed);
  for (const KernelTable& kernels : supported_tables()) {
    for (const std::vector<float>& row : rows) {
      for (const SamplingRule& rule : rules) {
        for (const size_t repeat : {1U, 40U}) {  // within and beyond one vector register
          std::vector<float> logits;
          for (size_t i = 0; i < repeat; ++i) logits.insert(logits.end(), row.begin(), row.end());
          const auto size = static_cast<TokenId>(logits.size());
          const RowStatistics result = draw(kernels, rule, RngStream(1), logits);
          EXPECT_GE(result.token, 0);
          EXPECT_LT(result.token, size);
          EXPECT_FALSE(std::isnan(result.confidence));
        }
      }
    }
  }
}

TEST(Confidence, AtTheTemperatureOfTheDrawIsNotConcernedByFilters) {
  const std::vector<float> logits = random_logits(4, 50);
  SamplingRule rule;
  rule.temperature = 0.5F;
  rule.top_k = 2;
  rule.source = ConfidenceSource::kTempered;
  rule.undrawn = {7};
  std::vector<double> tempered;
  for (const float logit : logits) tempered.push_back(logit / 0.5);
  const std::vector<double> p = softmax(tempered);
  const RowStatistics result = drawn(rule, logits, RngStream(9));
  EXPECT_THAT(result.confidence, DoubleNear(p[static_cast<size_t>(result.token)], 1e-6));
  SamplingRule sampled = rule;
  sampled.source = ConfidenceSource::kSampled;
  EXPECT_EQ(drawn(sampled, logits, RngStream(9)).token, result.token) << "the draw is the same";
}

TEST(Draw, ListsTheLikeliestTokensOfTheMeasuredDistribution) {
  const std::vector<float> logits = random_logits(11, 50);
  const std::vector<double> p = softmax({logits.begin(), logits.end()});
  const std::vector<size_t> order = descending(p);
  SamplingRule rule;
  std::vector<float> overwritten = logits;
  const RowStatistics plain = draw(default_table(), rule, RngStream(1), overwritten);
  EXPECT_TRUE(plain.likeliest.empty());
  overwritten = logits;
  const RowStatistics result = draw(default_table(), rule, RngStream(1), overwritten, -1, 20);
  EXPECT_EQ(result.token, plain.token);
  ASSERT_EQ(result.likeliest.size(), 20U);
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(result.likeliest[i].first, static_cast<TokenId>(order[i]));
    EXPECT_THAT(result.likeliest[i].second, DoubleNear(std::log(p[order[i]]), 1e-5));
  }
}

TEST(Draw, ListsNoTokenThatCannotBeDrawn) {
  std::vector<float> logits = {1, 5, 3, 3, 4};
  SamplingRule rule;
  rule.forbidden = {1};
  rule.undrawn = {4};
  const RowStatistics result = draw(default_table(), rule, RngStream(1), logits, -1, 20);
  ASSERT_EQ(result.likeliest.size(), 3U);
  EXPECT_EQ(result.likeliest[0].first, 2) << "of equal ones the lowest id";
  EXPECT_EQ(result.likeliest[1].first, 3);
  EXPECT_EQ(result.likeliest[2].first, 0);
}

}  // namespace
}  // namespace lacuna::sampling_test
