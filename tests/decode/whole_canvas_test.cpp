// Section 6 of docs/methods/uniform_diffusion.md: Sumi's canvas, all of which is denoised at once.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>
#include <vector>

#include "decode/uniform_diffusion.h"

namespace lacuna::whole_canvas_test {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

constexpr TokenId kEnd = 4;
constexpr TokenId kBegin = 3;
constexpr int32_t kPrompt = 3;
constexpr int32_t kAnswer = 5;
constexpr int32_t kCanvas = 16;
constexpr int32_t kClosing = kPrompt + kAnswer;  // where the two tokens after the answer stand

UniformDiffusion settings() {
  UniformDiffusion options;
  options.noise = {1000, -9, 9, WholeCanvas()};
  options.vocab_size = 23;
  options.end_ids = {kEnd};
  options.closing = {kEnd, kBegin};
  options.context = kCanvas;
  options.gen_length = options.block_length = kAnswer;
  options.steps = 6;
  options.sampler = UniformSampler::kGreedy;
  options.seed = 5;
  return options;
}

/// The best token of each position in the n-th pass.
using Script = std::function<TokenId(int32_t position, size_t pass)>;

const Script kSettled = [](int32_t position, size_t) { return 9 + position % 3; };
const Script kRestless = [](int32_t, size_t pass) { return 9 + static_cast<TokenId>(pass % 2); };

struct Decoded {
  std::vector<StepPlan> plans;
  std::vector<StepReport> reports;
  std::vector<TokenId> first, last;  // the canvas
};

std::vector<int32_t> positions_of_logits(const StepPlan& plan) {
  std::vector<int32_t> positions;
  for (const LogitRow& logit : plan.logits)
    positions.push_back(plan.positions.at(static_cast<size_t>(logit.row)));
  return positions;
}

Decoded run(const UniformDiffusion& options, const Script& script) {
  UniformDiffusionDecoder decoder(options, std::vector<TokenId>(kPrompt, 7));
  Decoded result;
  result.first.assign(decoder.context().begin(), decoder.context().end());
  while (!decoder.done()) {
    result.plans.push_back(decoder.plan());
    std::vector<RowStatistics> samples;
    for (const int32_t position : positions_of_logits(result.plans.back())) {
      RowStatistics row;
      row.token = row.best_token = script(position, result.plans.size() - 1);
      row.confidence = 0.9;
      const bool holds = decoder.context()[static_cast<size_t>(position)] == row.token;
      row.scored_probability = holds ? 0.9 : 0.05;
      samples.push_back(row);
    }
    result.reports.push_back(decoder.apply({samples}));
    EXPECT_TRUE(decoder.follow_up().empty());
  }
  result.last.assign(decoder.context().begin(), decoder.context().end());
  EXPECT_THAT(decoder.canvas(), SizeIs(kClosing)) << "the prompt and the answer";
  return result;
}

std::vector<int32_t> range(int32_t begin, int32_t end) {
  std::vector<int32_t> result(static_cast<size_t>(end - begin));
  std::iota(result.begin(), result.end(), begin);
  return result;
}

/// All that is denoised: what is after the prompt, without the two fixed tokens.
std::vector<int32_t> free_positions() {
  std::vector<int32_t> result = range(kPrompt, kClosing);
  const std::vector<int32_t> rest = range(kClosing + 2, kCanvas);
  result.insert(result.end(), rest.begin(), rest.end());
  return result;
}

std::vector<size_t> rows_of(const Decoded& run) {
  std::vector<size_t> rows;
  for (const StepPlan& plan : run.plans) rows.push_back(plan.positions.size());
  return rows;
}

TEST(WholeCanvas, BeginsAsNoiseOverAllTokensWithTheAnswerClosed) {
  const Decoded done = run(settings(), kRestless);
  for (int32_t position = 0; position < kCanvas; ++position) {
    const TokenId token = done.first[static_cast<size_t>(position)];
    if (position < kPrompt) {
      EXPECT_EQ(token, 7);
    } else if (position == kClosing) {
      EXPECT_EQ(token, kEnd);
    } else if (position == kClosing + 1) {
      EXPECT_EQ(token, kBegin);
    } else {
      EXPECT_EQ(token, static_cast<TokenId>(RngStream(5, 16, position).below(1, 23))) << position;
    }
  }
}

TEST(WholeCanvas, EveryRowSeesEveryRowAndAllButTheClosingTokensAreDenoised) {
  const Decoded done = run(settings(), kRestless);
  ASSERT_THAT(done.plans, SizeIs(6));
  for (const StepPlan& plan : done.plans) {
    EXPECT_EQ(plan.positions, range(0, kCanvas));
    EXPECT_EQ(positions_of_logits(plan), free_positions());
    ASSERT_THAT(plan.groups, SizeIs(2));
    EXPECT_EQ(plan.groups[0].rows, (IndexRange{0, kPrompt}));
    EXPECT_TRUE(plan.groups[0].only_kv);
    for (const RowGroup& group : plan.groups) EXPECT_THAT(group.visible, ElementsAre(IndexRange{0, kCanvas}));
    for (const SamplingRule& rule : plan.rules)
      EXPECT_THAT(rule.forbidden, testing::AnyOf(testing::IsEmpty(), ElementsAre(kEnd))) << "no mask";
  }
  EXPECT_EQ(done.last[kClosing], kEnd);
  EXPECT_EQ(done.last[kClosing + 1], kBegin);
}

TEST(WholeCanvas, GreedyGivesEveryPositionItsBestTokenAndStopsWhereNothingChanges) {
  const Decoded done = run(settings(), kSettled);
  EXPECT_THAT(done.plans, SizeIs(2)) << "the second pass changes nothing";
  for (const int32_t position : free_positions())
    EXPECT_EQ(done.last[static_cast<size_t>(position)], 9 + position % 3);
  UniformDiffusion thorough = settings();
  thorough.leaves_at_fixed_point = false;
  EXPECT_THAT(run(thorough, kSettled).plans, SizeIs(6));
}

TEST(WholeCanvas, AdaptiveChoosesAmongAllThatIsDenoised) {
  UniformDiffusion options = settings();
  options.sampler = UniformSampler::kAdaptive;
  options.tokens_per_step = 100;
  options.steps = 1;
  const Decoded done = run(options, [](int32_t, size_t) { return 11; });
  for (const int32_t position : free_positions()) EXPECT_EQ(done.last[static_cast<size_t>(position)], 11);
  for (const Commit& commit : done.reports[0].committed) EXPECT_LT(commit.position, kClosing);
  options.tokens_per_step = 2;
  const Decoded slow = run(options, [](int32_t, size_t) { return 11; });
  EXPECT_EQ(std::count(slow.last.begin(), slow.last.end(), 11) -
                std::count(slow.first.begin(), slow.first.end(), 11),
            2);
}

TEST(WholeCanvas, TheCacheComputesTheAnswerAloneBetweenFullSteps) {
  UniformDiffusion options = settings();
  options.cache = UniformCacheKind::kUniform;
  options.refresh = 3;
  const Decoded done = run(options, kRestless);
  EXPECT_THAT(rows_of(done), ElementsAre(kCanvas, kAnswer, kCanvas, kAnswer, kAnswer, kCanvas));
  EXPECT_EQ(done.plans[1].positions, range(kPrompt, kClosing));
  EXPECT_EQ(positions_of_logits(done.plans[1]), range(kPrompt, kClosing));
  EXPECT_EQ(positions_of_logits(done.plans[2]), free_positions());
  options.refresh = 0;
  EXPECT_THAT(rows_of(run(options, kRestless)),
              ElementsAre(kCanvas, kAnswer, kAnswer, kAnswer, kAnswer, kAnswer));
}

TEST(WholeCanvas, ARestingAnswerWaitsForAFullStepIfItsTokensHaveChangedSinceTheLast) {
  UniformDiffusion options = settings();
  options.cache = UniformCacheKind::kUniform;
  options.refresh = 4;
  // The first pass changes tokens, the second finds nothing, the third step is left out; the full fourth
  // finds nothing either, so nothing is left to compute.
  EXPECT_THAT(rows_of(run(options, kSettled)), ElementsAre(kCanvas, kAnswer, kCanvas));
  options.refresh = 0;
  EXPECT_THAT(rows_of(run(options, kSettled)), ElementsAre(kCanvas, kAnswer));
}

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

TEST(WholeCanvas, LevelsCutTheEndsOfTheCurveAndClampTheLogSnr) {
  const NoiseProcess noise{1000, -9, 9, WholeCanvas()};
  const NoiseSchedule linear(noise, NoiseCurve::kLinear, 4);
  EXPECT_NEAR(linear.level(0).alpha, sigmoid(9), 1e-15) << "1 - 1e-4 is above";
  EXPECT_NEAR(linear.level(1).alpha, 1e-4 + 0.75 * (1 - 2e-4), 1e-15);
  EXPECT_NEAR(linear.level(4).alpha, sigmoid(-9), 1e-15);
  const NoiseSchedule cosine(noise, NoiseCurve::kCosine, 4);
  EXPECT_NEAR(cosine.level(0).alpha, sigmoid(9), 1e-15);
  const double u = 1e-3 + (1 - 2e-3) / 4;
  EXPECT_NEAR(cosine.level(1).alpha, (1 + std::cos(std::numbers::pi * u)) / 2, 1e-15);
  EXPECT_EQ(linear.level(2).uniform, 1);
}

TEST(WholeCanvas, TheAncestralStepIsThePosteriorOfNoiseOverAllTokens) {
  const NoiseSchedule levels({1000, -9, 9, WholeCanvas()}, NoiseCurve::kLinear, 5);
  constexpr double kVocab = 23;
  for (int32_t t = 1; t <= 5; ++t) {
    const double alpha_t = levels.level(t).alpha;
    const double alpha_s = levels.level(t - 1).alpha;
    const double ratio = alpha_t / alpha_s;
    for (const double x : {0.0, 0.3, 1.0}) {
      const AncestralMixture mixture = ancestral_mixture(levels.level(t), levels.level(t - 1), false, x, 23);
      const double evidence = alpha_t * x + (1 - alpha_t) / kVocab;
      const double kept = ratio * (alpha_s * x + (1 - alpha_s) / kVocab) / evidence;
      EXPECT_NEAR(mixture.stay, kept, 1e-12);
      EXPECT_NEAR(mixture.predict, (1 - ratio) / kVocab * alpha_s / evidence, 1e-12);
      EXPECT_NEAR(1 - mixture.stay - mixture.predict, (1 - ratio) / kVocab * (1 - alpha_s) / evidence, 1e-12);
    }
  }
}

}  // namespace
}  // namespace lacuna::whole_canvas_test
