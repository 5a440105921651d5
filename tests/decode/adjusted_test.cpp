#include "decode/adjusted.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "decode/masked_diffusion.h"
#include "fake_model.h"

namespace lacuna::adjusted_test {
namespace {

constexpr TokenId kMask = 2, kEnd = 4;

MaskedDiffusion settings(int32_t gen_length, int32_t steps) {
  MaskedDiffusion options;
  options.mask_id = kMask;
  options.end_ids = {kEnd};
  options.gen_length = gen_length;
  options.steps = steps;
  options.block_length = gen_length;
  options.unmask.count = EvenSplit{};
  return options;
}

std::vector<TokenId> decode(const FakeModel& model, const LogitAdjustments& adjustments,
                            const std::vector<TokenId>& prompt, int32_t gen_length, int32_t steps,
                            std::vector<StepPlan>* plans = nullptr) {
  AdjustedDecoder decoder(std::make_unique<MaskedDiffusionDecoder>(settings(gen_length, steps), prompt),
                          adjustments, {kEnd, kMask});
  model.run(decoder, [&](const StepPlan& plan, const StepReport&) {
    if (plans != nullptr) plans->push_back(plan);
  });
  return {decoder.canvas().begin(), decoder.canvas().end()};
}

/// LLaDA's sampler at temperature 0, one position a step, with docs/methods/sampling.md's rules over all
/// logits in double.
std::vector<TokenId> reference(const FakeModel& model, const LogitAdjustments& asked,
                               const std::vector<TokenId>& prompt, int32_t gen_length) {
  std::vector<TokenId> canvas = prompt;
  canvas.resize(prompt.size() + static_cast<size_t>(gen_length), kMask);
  for (int32_t step = 0; step < gen_length; ++step) {
    std::map<TokenId, int> answer;
    std::set<TokenId> all(prompt.begin(), prompt.end());
    for (size_t i = prompt.size(); i < canvas.size(); ++i) {
      if (canvas[i] == kMask || canvas[i] == kEnd) continue;
      ++answer[canvas[i]];
      all.insert(canvas[i]);
    }
    all.erase(kMask);
    all.erase(kEnd);
    double best_confidence = -1;
    size_t best_position = 0;
    TokenId best_token = 0;
    for (size_t position = prompt.size(); position < canvas.size(); ++position) {
      if (canvas[position] != kMask) continue;
      const std::vector<float> raw = model.logits(canvas, static_cast<int64_t>(position));
      std::vector<double> logits(raw.begin(), raw.end());
      for (const TokenId token : all) {
        double& logit = logits[static_cast<size_t>(token)];
        logit = logit > 0 ? logit / asked.repeat_penalty : logit * asked.repeat_penalty;
      }
      for (const auto& [token, count] : answer)
        logits[static_cast<size_t>(token)] -= asked.presence_penalty + asked.frequency_penalty * count;
      for (const auto& [token, bias] : asked.biases) logits[static_cast<size_t>(token)] += bias;
      const auto best = std::max_element(logits.begin(), logits.end());
      double sum = 0;
      for (const double logit : logits) sum += std::exp(logit - *best);
      if (1 / sum <= best_confidence) continue;
      best_confidence = 1 / sum;
      best_position = position;
      best_token = static_cast<TokenId>(best - logits.begin());
    }
    canvas[best_position] = best_token;
  }
  return canvas;
}

TEST(AdjustedDecoder, EqualsTheRulesOverAllLogits) {
  FakeModel model;
  model.vocab = 12;             // so that tokens repeat
  model.favour = {0, 0, -100};  // never the mask
  const std::vector<TokenId> prompt{5, 6, 7, 6};
  const std::vector<TokenId> plain = reference(model, {}, prompt, 10);
  std::set<std::vector<TokenId>> different{plain};
  for (const LogitAdjustments& asked :
       {LogitAdjustments{.presence_penalty = 2.5}, LogitAdjustments{.frequency_penalty = 1.5},
        LogitAdjustments{.repeat_penalty = 1.8}, LogitAdjustments{.repeat_penalty = 0.5},
        LogitAdjustments{.biases = {{9, 3}, {plain[5], -6}}},
        LogitAdjustments{
            .presence_penalty = -1, .frequency_penalty = 0.5, .repeat_penalty = 1.3, .biases = {{3, 1}}}}) {
    const std::vector<TokenId> expected = reference(model, asked, prompt, 10);
    EXPECT_EQ(decode(model, asked, prompt, 10, 10), expected);
    different.insert(expected);
  }
  EXPECT_GT(different.size(), 4U);
}

TEST(AdjustedDecoder, ChangesNothingWithoutSettings) {
  FakeModel model;
  MaskedDiffusionDecoder alone(settings(8, 4), {5, 6});
  model.run(alone);
  EXPECT_EQ(decode(model, {}, {5, 6}, 8, 4),
            std::vector<TokenId>(alone.canvas().begin(), alone.canvas().end()));
}

TEST(AdjustedDecoder, CountsWhatEarlierPassesCommitted) {
  FakeModel model;
  std::vector<StepPlan> plans;
  const std::vector<TokenId> canvas =
      decode(model, {.frequency_penalty = 0.25, .biases = {{kEnd, 2}}}, {5}, 8, 4, &plans);
  ASSERT_EQ(plans.size(), 4U);
  const LogitAdjustment end{.token = kEnd, .offset = 2};
  EXPECT_THAT(plans[0].rules[0].adjusted, testing::ElementsAre(end));
  double sum = 0;
  for (const LogitAdjustment& each : plans[3].rules[0].adjusted) {
    if (each.token != kEnd) sum += each.offset;
  }
  const auto num_ends = std::count_if(canvas.begin() + 1, canvas.end(), [](TokenId t) { return t == kEnd; });
  EXPECT_LE(sum, 0);
  EXPECT_GE(sum, -0.25 * 6);  // six tokens are committed before the last pass
  EXPECT_NEAR(std::fmod(-sum, 0.25), 0, 1e-6);
  EXPECT_LE(-sum / 0.25 + static_cast<double>(num_ends), 8);
}

}  // namespace
}  // namespace lacuna::adjusted_test
