// Canvases whose tokens are sampled from the posterior of uniform noise. Expectations are written from
// docs/methods/canvas_diffusion.md, section 9.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "decode/canvas_diffusion.h"
#include "decode/make_decoder.h"
#include "model/random_spec.h"

namespace lacuna::ancestral_canvas_test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr int32_t kLength = 8;
constexpr TokenId kEnd = 4;

CanvasDiffusion settings(int32_t steps = 3, int32_t gen_length = kLength) {
  CanvasDiffusion options;
  options.vocab_size = 10'000;  // noise hardly ever meets a token of a script
  options.forbidden = {10'000, 10'001};
  options.end_ids = {kEnd};
  options.gen_length = gen_length;
  options.max_positions = 100'000;
  options.canvas_length = kLength;
  options.steps = steps + 1;
  options.seed = 7;
  options.ancestral = AncestralSteps{.count = steps};
  return options;
}

struct Pass {
  StepPlan plan;
  std::vector<TokenId> inputs, after;
};

/// Each pass predicts token 100 + step everywhere, and gives what it holds this probability.
std::vector<Pass> run(const CanvasDiffusion& options, const std::function<double(size_t)>& probability) {
  CanvasDiffusionDecoder decoder(options, {600, 601, 602});
  std::vector<Pass> passes;
  while (!decoder.done()) {
    Pass pass{decoder.plan(), {}, {}};
    std::vector<RowStatistics> samples;
    for (const LogitRow& logit : pass.plan.logits) {
      pass.inputs.push_back(pass.plan.tokens[static_cast<size_t>(logit.row)]);
      EXPECT_EQ(logit.scored, pass.inputs.back());
      RowStatistics row;
      row.token = 100 + static_cast<TokenId>(passes.size());
      row.best_token = 200 + static_cast<TokenId>(passes.size());
      row.scored_probability = probability(passes.size());
      samples.push_back(row);
    }
    decoder.apply({samples});
    pass.after.assign(decoder.canvas().begin() + 3, decoder.canvas().end());
    passes.push_back(pass);
  }
  return passes;
}

double never(size_t /*pass*/) {
  return 0;
}

TEST(AncestralCanvas, TakesOnePassMoreThanStepsAtFallingNoiseLevels) {
  const std::vector<Pass> passes = run(settings(3), never);
  ASSERT_THAT(passes, SizeIs(4));
  const auto level = [&](size_t i) { return double{passes[i].plan.groups.back().noise_level}; };
  const auto of_time = [](double left) {
    return -std::log(1 - 0.999 * (0.001 + 0.999 * std::pow(left, 0.3)));
  };
  EXPECT_NEAR(level(0), std::log(1000), 1e-4);
  EXPECT_NEAR(level(1), of_time(2.0 / 3), 1e-6);
  EXPECT_NEAR(level(2), of_time(1.0 / 3), 1e-6);
  EXPECT_NEAR(level(3), 0.7, 1e-6) << "at least the level of the last pass";
}

TEST(AncestralCanvas, CoolsDownToTheLastTemperatureAndReadsOutAtIt) {
  const std::vector<Pass> passes = run(settings(3), never);
  const auto temperature = [&](size_t i) { return passes[i].plan.rules[0].temperature; };
  EXPECT_FLOAT_EQ(temperature(0), 0.8F);
  EXPECT_FLOAT_EQ(temperature(1), 0.6F);
  EXPECT_FLOAT_EQ(temperature(2), 0.4F);
  EXPECT_FLOAT_EQ(temperature(3), 0.4F);
  EXPECT_FLOAT_EQ(run(settings(1), never)[0].plan.rules[0].temperature, 0.8F);
}

TEST(AncestralCanvas, ConditionsEachPassButTheFirstAndReadsTheTextBeforeAsClean) {
  const std::vector<Pass> passes = run(settings(1, 2 * kLength), never);
  ASSERT_THAT(passes, SizeIs(4));
  const auto& groups = passes[2].plan.groups;
  ASSERT_THAT(groups, SizeIs(2));
  EXPECT_EQ(groups[0].noise_level, 0);
  EXPECT_EQ(groups[0].own_rows, OwnRows::kCausal);
  EXPECT_EQ(groups[1].canvas, CanvasRows::kFresh);
  EXPECT_EQ(passes[3].plan.groups.back().canvas, CanvasRows::kConditioned);
  EXPECT_EQ(passes[2].plan.logits[0].soft_embedding_slack, 1e-6F);
  EXPECT_EQ(passes[3].plan.logits[0].soft_embedding_slack, -1);
  EXPECT_THAT(passes[2].plan.rules[0].forbidden, ElementsAre(10'000, 10'001));
}

TEST(AncestralCanvas, ReadsOutWhatIsPredictedWhereTheTokenItHoldsIsImpossible) {
  EXPECT_THAT(run(settings(2), never).back().after, Each(102));
}

TEST(AncestralCanvas, KeepsATokenThatIsPredicted) {
  const std::vector<Pass> passes = run(settings(2), [](size_t) { return 1.0; });
  // With 10,000 tokens a step replaces one in some 10,000, and in the first step one in ten.
  EXPECT_EQ(passes[2].after, passes[2].inputs);
}

TEST(AncestralCanvas, SamplesTheThreePartsOfThePosterior) {
  CanvasDiffusion options = settings(1, 1024);
  options.canvas_length = 1024;
  options.end_ids = {};
  constexpr double kHeld = 2e-3;
  const std::vector<Pass> passes = run(options, [](size_t) { return kHeld; });
  const double before = AncestralSteps{.count = 1}.signal(0), after = AncestralSteps{.count = 1}.signal(1);
  const double norm = before * 10'000 * kHeld + 1 - before;
  double stayed = 0, predicted = 0;
  for (size_t i = 0; i < 1024; ++i) {
    stayed += passes[1].inputs[i] == passes[0].inputs[i] ? 1 : 0;
    predicted += passes[1].inputs[i] == 100 ? 1 : 0;
  }
  EXPECT_NEAR(stayed / 1024, (before * 10'000 * kHeld + before / after - before) / norm, 0.02);
  EXPECT_NEAR(predicted / 1024, (after - before) / norm, 0.02);
}

TEST(AncestralCanvas, TakesTheBestTokensWithoutDraws) {
  CanvasDiffusion options = settings(2);
  options.draws = false;
  const std::vector<Pass> passes = run(options, never);
  EXPECT_THAT(passes[1].inputs, Each(200));
  EXPECT_THAT(passes[2].after, Each(202));
}

TEST(AncestralCanvas, RefusesWhatItsStepsWouldIgnoreAndFollowsThePublishedSettings) {
  const ModelConfig config = parse_random_spec("random:lfm2.5-350m-diffusion");
  CanvasStrategy bounded, stopping;
  bounded.entropy_bound = 1;
  stopping.stop_entropy = 1;
  EXPECT_THAT(validate(bounded, config), testing::Contains(testing::Field(&Problem::field, "unmask")));
  EXPECT_THAT(validate(stopping, config), testing::Contains(testing::Field(&Problem::field, "stop_entropy")));
  CanvasStrategy few;
  few.steps = 4;
  const auto decoder = make_decoder(config, few, {.prompt = {5}});
  EXPECT_EQ(decoder->measurements().planned_steps() % 5, 0);
  const StepPlan& plan = decoder->plan();
  EXPECT_EQ(plan.rules[0].forbidden.front(), 64400);
  EXPECT_THAT(plan.rules[0].forbidden, SizeIs(65536 - 64400));
  for (const LogitRow& logit : plan.logits) EXPECT_LT(plan.tokens[static_cast<size_t>(logit.row)], 64400);
}

}  // namespace
}  // namespace lacuna::ancestral_canvas_test
