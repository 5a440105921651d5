#include "model/token_classes.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/dispatch.h"
#include "model/tiny_models.h"

namespace lacuna::token_classes_test {
namespace {

constexpr size_t kVocab = 40;

TokenClasses thirds() {
  TokenClasses classes;
  classes.count = 3;
  for (size_t token = 0; token < kVocab; ++token)
    classes.of_token.push_back(static_cast<uint16_t>(token % 3));
  return classes;
}

std::vector<float> logits_of(uint64_t seed) {
  const RngStream noise(seed);
  std::vector<float> logits;
  for (size_t token = 0; token < kVocab; ++token) {
    logits.push_back(static_cast<float>(8 * noise.uniform(token) - 4));
  }
  return logits;
}

SamplingRule rule_at(float temperature) {
  SamplingRule rule;
  rule.temperature = temperature;
  return rule;
}

std::vector<ClassStatistics> reduce(const SamplingRule& rule, std::vector<float> logits, uint64_t seed = 1) {
  const TokenClasses classes = thirds();
  std::vector<ClassStatistics> values(3);
  const RngStream noise(seed);
  reduce_by_class(default_table(), rule, &noise, classes, logits, values);
  return values;
}

TEST(TokenClasses, FindTheBestTokenOfEachClass) {
  std::vector<float> logits(kVocab, 0.0F);
  logits[4] = 2;
  logits[7] = 2;  // same class, equally likely, larger id
  logits[5] = 1;
  const std::vector<ClassStatistics> values = reduce({}, logits);
  EXPECT_EQ(values[0].token, 0);
  EXPECT_EQ(values[1].token, 4);
  EXPECT_EQ(values[1].logit, 2);
  EXPECT_EQ(values[2].token, 5);
}

TEST(TokenClasses, AddUpToTheWholeRow) {
  for (const float temperature : {0.0F, 0.5F, 2.0F}) {
    const std::vector<float> logits = logits_of(5);
    const double inverse = temperature > 0 ? 1 / double{temperature} : 1;
    std::vector<double> sums(3);
    for (size_t token = 0; token < kVocab; ++token) sums[token % 3] += std::exp(logits[token] * inverse);
    const std::vector<ClassStatistics> values = reduce(rule_at(temperature), logits);
    for (size_t each = 0; each < 3; ++each) {
      EXPECT_NEAR(values[each].log_sum, std::log(sums[each]), 1e-5) << temperature;
    }
  }
}

TEST(TokenClasses, WithoutATokenThatMayBeDrawnHaveNone) {
  SamplingRule rule;
  for (TokenId token = 1; token < TokenId{kVocab}; token += 3) rule.forbidden.push_back(token);
  const std::vector<ClassStatistics> values = reduce(rule, logits_of(6));
  EXPECT_EQ(values[1].token, -1);
  EXPECT_EQ(values[1].log_sum, -std::numeric_limits<double>::infinity());
  EXPECT_GE(values[0].token, 0);
}

TEST(TokenClasses, AndTheirTokensAreASampleOfTheRow) {
  // A class by its weight, then its token: the frequencies are those of the row.
  const std::vector<float> logits = logits_of(7);
  double total = 0;
  for (const float logit : logits) total += std::exp(double{logit});
  constexpr int kSamples = 20000;
  std::vector<int> counts(kVocab);
  for (int i = 0; i < kSamples; ++i) {
    const std::vector<ClassStatistics> values = reduce(rule_at(1), logits, static_cast<uint64_t>(i) + 100);
    const double coin = RngStream(9, i).uniform(0) * total;
    double below = 0;
    size_t chosen = 0;
    for (; chosen < 2; ++chosen) {
      below += std::exp(values[chosen].log_sum);
      if (coin < below) break;
    }
    ++counts[static_cast<size_t>(values[chosen].token)];
  }
  double chi_square = 0;
  for (size_t token = 0; token < kVocab; ++token) {
    const double expected = kSamples * std::exp(double{logits[token]}) / total;
    chi_square += (counts[token] - expected) * (counts[token] - expected) / expected;
  }
  EXPECT_LT(chi_square, 80);  // 39 degrees of freedom: 99.99% lie below 81
}

/// Rows whose logits a pass's samples left in memory are read from there, the others by the head once more.
TEST(TokenClasses, AreTheSameFromLogitsThatWereKept) {
  ThreadPool threads(1);
  const KernelContext context{default_table(), threads};
  for (const ConfidenceSource source : {ConfidenceSource::kRawLogits, ConfidenceSource::kTempered}) {
    for (const float temperature : {0.0F, 0.7F}) {
      const auto model = tiny_model(tiny_configs()[0]);
      StepPlan plan = canvas_plan(random_tokens(3, 6, 60), OwnRows::kBidirectional);
      plan.rules[0].temperature = temperature;
      plan.rules[0].source = source;
      plan.rules[0].undrawn = {5};
      plan.rules[0].forbidden = {7, 8};
      TokenClasses classes{{}, 3};
      for (int64_t id = 0; id < model->config().vocab_size; ++id)
        classes.of_token.push_back(static_cast<uint16_t>(id % 3));
      KvCache cache = model->make_cache(6);
      KvCache* caches[] = {&cache};
      Workspace workspace;
      std::vector<ClassRow> rows;
      for (const size_t row : {4, 1}) rows.push_back({plan.logits[row], &classes});
      const auto read = [&](bool keeps) {
        model->forward(context, plan, caches, workspace);
        const bool is_kept = !workspace.kept_logits.empty() && workspace.kept_logits[1].row == 1;
        EXPECT_EQ(is_kept, source == ConfidenceSource::kRawLogits || temperature == 0);
        if (!keeps) workspace.kept_logits.clear();
        const auto found = model->follow_up(context, plan, {.classes = rows}, {}, workspace).classes;
        return std::vector<ClassStatistics>(found.begin(), found.end());
      };
      EXPECT_EQ(read(true), read(false));
    }
  }
}

}  // namespace
}  // namespace lacuna::token_classes_test
