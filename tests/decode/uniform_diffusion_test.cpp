// Expectations are written from docs/methods/uniform_diffusion.md; sections below are that page's.
#include "decode/uniform_diffusion.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "fake_model.h"

namespace lacuna::uniform_diffusion_test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::IsEmpty;
using testing::SizeIs;

constexpr TokenId kMask = 2;
constexpr TokenId kEnd = 4;
constexpr int64_t kVocab = 23;
constexpr float kUniform = 1000;  // NoiseProcess::uniform_shift
constexpr float kMasked = -1000;

UniformDiffusion settings(int32_t context, int32_t gen_length, int32_t block_length, int32_t steps) {
  UniformDiffusion options;
  options.noise.uniform_shift = kUniform;
  options.vocab_size = kVocab;
  options.mask_id = kMask;
  options.end_ids = {kEnd};
  options.noise_excludes = {0, 1, kMask, kEnd};
  options.context = context;
  options.gen_length = gen_length;
  options.block_length = block_length;
  options.steps = steps;
  options.seed = 5;
  return options;
}

std::vector<TokenId> prompt_of(int32_t length) {
  return std::vector<TokenId>(static_cast<size_t>(length), 7);
}

struct Pass {
  StepPlan plan;
  StepReport report;
  std::vector<int32_t> sampled;  // positions
  std::vector<LogitRow> further;
  std::vector<TokenId> context;  // before the pass
};

/// Result of a row for its position in the n-th pass, and the drift of its K/V.
struct Script {
  std::function<RowStatistics(int32_t position, size_t pass)> sample;
  std::function<float(int32_t position, size_t pass)> drift = [](int32_t, size_t) { return 0.0F; };
  TokenId further = 19;  // token that follow-ups sample
};

/// A row whose best token is `token`, with a probability of 0.9 and of `current` for the token that is there.
RowStatistics prefers(TokenId token, double current = 0.1) {
  RowStatistics row;
  row.token = token;
  row.best_token = token;
  row.confidence = 0.9;
  row.scored_probability = current;
  return row;
}

/// A row whose best token is the one that is there.
RowStatistics agrees() {
  return prefers(9, 0.9);
}

const Script kAgree = {[](int32_t, size_t) { return agrees(); }};
/// Each pass changes something.
const Script kRestless = {[](int32_t, size_t pass) { return prefers(9 + static_cast<TokenId>(pass % 2)); }};

Pass step(UniformDiffusionDecoder& decoder, const Script& script, size_t number) {
  Pass pass;
  pass.context.assign(decoder.context().begin(), decoder.context().end());
  pass.plan = decoder.plan();
  EXPECT_EQ(decoder.plan(), pass.plan);
  EXPECT_EQ(pass.plan.cells, pass.plan.positions);
  std::vector<RowStatistics> samples;
  for (const LogitRow& logit : pass.plan.logits) {
    pass.sampled.push_back(pass.plan.positions.at(static_cast<size_t>(logit.row)));
    samples.push_back(script.sample(pass.sampled.back(), number));
  }
  std::vector<float> drift;
  for (size_t row = 0; row < pass.plan.tokens.size() && pass.plan.measures_kv_drift; ++row) {
    // The mean of two layers' keys and values counts.
    const float mean = script.drift(pass.plan.positions[row], number);
    drift.insert(drift.end(), {0, 2 * mean, mean / 2, mean * 3 / 2});
  }
  pass.report = decoder.apply({samples, drift});
  if (pass.report.step > 1000) throw std::runtime_error("the decoder does not end");
  const FollowUp wanted = decoder.follow_up();
  pass.further.assign(wanted.logits.begin(), wanted.logits.end());
  if (wanted.empty()) return pass;
  samples.assign(pass.further.size(), prefers(script.further));
  decoder.apply_follow_up({.samples = samples}, pass.report);
  EXPECT_TRUE(decoder.follow_up().empty()) << "it is asked again";
  EXPECT_TRUE(decoder.follow_up().empty());
  return pass;
}

std::vector<Pass> run(UniformDiffusionDecoder& decoder, const Script& script) {
  std::vector<Pass> passes;
  while (!decoder.done()) {
    passes.push_back(step(decoder, script, passes.size()));
  }
  return passes;
}

std::vector<Pass> run(const UniformDiffusion& options, int32_t prompt_length, const Script& script) {
  UniformDiffusionDecoder decoder(options, prompt_of(prompt_length));
  return run(decoder, script);
}

std::vector<int32_t> steps(const std::vector<Pass>& passes) {
  std::vector<int32_t> result;
  for (const Pass& pass : passes) result.push_back(pass.report.step);
  return result;
}

std::vector<std::pair<int32_t, TokenId>> changes(const StepReport& report) {
  std::vector<std::pair<int32_t, TokenId>> result;
  for (const Commit& commit : report.committed) result.emplace_back(commit.position, commit.token);
  return result;
}

std::vector<int32_t> changed(const Pass& pass) {
  std::vector<int32_t> result;
  for (const Commit& commit : pass.report.committed) result.push_back(commit.position);
  return result;
}

std::vector<TokenId> answer(const Decoder& decoder) {
  return {decoder.canvas().begin() + decoder.prompt_length(), decoder.canvas().end()};
}

/// Positions that a pass computes.
std::vector<int32_t> rows(const Pass& pass) {
  return pass.plan.positions;
}

std::vector<int32_t> range(int32_t begin, int32_t end) {
  std::vector<int32_t> result(static_cast<size_t>(end - begin));
  std::iota(result.begin(), result.end(), begin);
  return result;
}

// ---- 1. The canvas

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

TEST(UniformDiffusion, EverythingBehindThePromptBeginsAsNoise) {
  for (const float shift : {kUniform, kMasked, 0.5F}) {
    UniformDiffusion options = settings(64, 8, 4, 4);
    options.noise = {shift, -1, 9};
    const UniformDiffusionDecoder decoder(options, prompt_of(3));
    int32_t masks = 0;
    for (int32_t p = 0; p < 64; ++p) {
      TokenId expected = 7;
      if (p >= 3) {
        const RngStream noise(5, 16, p);
        std::vector<TokenId> allowed;
        for (TokenId id = 0; id < kVocab; ++id) {
          if (id > 4 || id == 3) allowed.push_back(id);
        }
        const bool shows = noise.uniform(0) < sigmoid(-1.0 + shift);
        expected = shows ? allowed[noise.below(1, static_cast<uint32_t>(allowed.size()))] : kMask;
        masks += shows ? 0 : 1;
      }
      ASSERT_EQ(decoder.context()[static_cast<size_t>(p)], expected) << p;
    }
    EXPECT_EQ(masks > 0, shift != kUniform);
    EXPECT_EQ(masks < 61, shift != kMasked);
  }
}

TEST(UniformDiffusion, TheFillerStaysWhatItIs) {
  UniformDiffusionDecoder decoder(settings(20, 8, 4, 4), prompt_of(3));
  const std::vector<TokenId> before(decoder.context().begin(), decoder.context().end());
  run(decoder, kRestless);
  const std::vector<TokenId> after(decoder.context().begin(), decoder.context().end());
  EXPECT_TRUE(std::equal(before.begin() + 11, before.end(), after.begin() + 11));
  EXPECT_THAT(decoder.canvas(), SizeIs(11));
}

// ---- 2. Blocks and steps

TEST(UniformDiffusion, ABlockMayReachBeyondTheAnswerAndIsCutInTheEnd) {
  for (const int32_t context : {20, 14}) {
    UniformDiffusion options = settings(context, 10, 4, 2);
    options.leaves_at_fixed_point = false;
    UniformDiffusionDecoder decoder(options, prompt_of(3));
    std::vector<IndexRange> blocks;
    std::vector<int32_t> num_final;
    std::vector<Pass> passes;
    while (!decoder.done()) {
      blocks.push_back(decoder.block());
      num_final.push_back(decoder.num_final());
      passes.push_back(step(decoder, kRestless, passes.size()));
      EXPECT_EQ(passes.back().sampled, range(blocks.back().begin, blocks.back().end));
      EXPECT_THAT(changed(passes.back()), Each(testing::Lt(13)));
      EXPECT_EQ(passes.back().report.kind, "denoise");
    }
    const int32_t end = std::min(context, 15);
    EXPECT_THAT(blocks, ElementsAre(IndexRange{3, 7}, IndexRange{3, 7}, IndexRange{7, 11}, IndexRange{7, 11},
                                    IndexRange{11, end}, IndexRange{11, end}));
    EXPECT_THAT(num_final, ElementsAre(0, 0, 4, 4, 8, 8));
    EXPECT_EQ(decoder.num_final(), 10);
    EXPECT_THAT(steps(passes), ElementsAre(0, 1, 2, 3, 4, 5));
    EXPECT_EQ(passes[3].report.block, 1);
    EXPECT_THAT(answer(decoder), SizeIs(10));
    EXPECT_EQ(decoder.stop_reason(), StopReason::kLength);
  }
}

/// Gives one position the end token in the first pass, and another token there in `pass`.
Script ends_at(int32_t at, size_t taken_back = 1000) {
  return {[=](int32_t position, size_t pass) {
    if (position == at && pass == 0) return prefers(kEnd);
    if (position == at && pass == taken_back) return prefers(9);
    return agrees();
  }};
}

TEST(UniformDiffusion, StopsAfterTheBlockInWhichTheAnswerHoldsAnEndToken) {
  UniformDiffusion options = settings(20, 12, 4, 2);
  UniformDiffusionDecoder ends(options, prompt_of(3));
  EXPECT_THAT(run(ends, ends_at(4)), SizeIs(2));
  EXPECT_THAT(answer(ends), SizeIs(4)) << "what was written so far";
  EXPECT_EQ(answer(ends)[1], kEnd);
  EXPECT_EQ(ends.stop_reason(), StopReason::kEndToken);
  EXPECT_EQ(ends.baseline_request()->answer_length, 4);

  UniformDiffusionDecoder taken_back(options, prompt_of(3));
  run(taken_back, ends_at(4, 1));
  EXPECT_THAT(answer(taken_back), SizeIs(12));
  EXPECT_EQ(taken_back.stop_reason(), StopReason::kLength);

  options.ignore_eos = true;
  UniformDiffusionDecoder ignores(options, prompt_of(3));
  run(ignores, ends_at(4));
  EXPECT_THAT(answer(ignores), SizeIs(12));
  EXPECT_EQ(ignores.stop_reason(), StopReason::kLength);

  UniformDiffusionDecoder in_the_prompt(settings(20, 12, 4, 2), {7, kEnd, 7});
  run(in_the_prompt, kAgree);
  EXPECT_THAT(answer(in_the_prompt), SizeIs(12));
}

TEST(UniformDiffusion, AnEndTokenBehindTheAnswerEndsNothing) {
  UniformDiffusionDecoder decoder(settings(20, 3, 4, 2), prompt_of(3));
  run(decoder, ends_at(6));
  EXPECT_EQ(decoder.context()[6], kEnd);
  EXPECT_THAT(answer(decoder), SizeIs(3));
  EXPECT_EQ(decoder.stop_reason(), StopReason::kLength);
}

// ---- 3. What a step asks of the logits

TEST(UniformDiffusion, AdaptiveMeasuresTheBestTokenAgainstTheOneThatIsThere) {
  UniformDiffusion options = settings(20, 8, 4, 3);
  options.sampling.temperature = 0.7F;
  options.sampling.top_k = 5;
  options.leaves_at_fixed_point = false;
  options.min_length = 5;
  const std::vector<Pass> passes = run(options, 3, kRestless);
  ASSERT_THAT(passes, SizeIs(6));
  for (size_t n = 0; n < passes.size(); ++n) {
    const auto block = static_cast<int32_t>(n / 3);
    const auto s = static_cast<int32_t>(n % 3) + 1;
    EXPECT_EQ(passes[n].sampled, range(3 + 4 * block, 7 + 4 * block));
    const auto check = [&](const LogitRow& logit) {
      const int32_t position = passes[n].plan.positions[static_cast<size_t>(logit.row)];
      EXPECT_EQ(logit.noise, RngStream(5, 1, block, s - 1, position));
      const SamplingRule& rule = passes[n].plan.rules.at(static_cast<size_t>(logit.rule));
      if (position < 8) {
        EXPECT_THAT(rule.forbidden, ElementsAre(kMask, kEnd));
      } else {
        EXPECT_THAT(rule.forbidden, ElementsAre(kMask));
      }
      return rule;
    };
    for (const LogitRow& logit : passes[n].plan.logits) {
      const SamplingRule rule = check(logit);
      EXPECT_EQ(rule.temperature, 0);
      EXPECT_EQ(rule.top_k, 0);
      EXPECT_EQ(logit.scored, passes[n].plan.tokens[static_cast<size_t>(logit.row)]);
    }
    EXPECT_THAT(passes[n].further, SizeIs(3)) << "the positions that are chosen get a token from x_hat";
    for (const LogitRow& logit : passes[n].further) {
      const SamplingRule rule = check(logit);
      EXPECT_EQ(rule.temperature, 0.7F);
      EXPECT_EQ(rule.top_k, 5);
    }
  }
  EXPECT_THAT(changes(passes[0].report), Each(testing::Pair(testing::Lt(7), 19)));
}

TEST(UniformDiffusion, AdaptiveChangesTheLargestScoresAbove0) {
  // Probabilities that the model gives the tokens of positions 3, 4, 5 and so on; all of them prefer 9, with
  // 0.9.
  const auto changed_by = [](int32_t tokens_per_step, std::vector<double> current) {
    const auto length = static_cast<int32_t>(current.size());
    UniformDiffusion options = settings(20, length, length, 1);
    options.tokens_per_step = tokens_per_step;
    const auto passes = run(options, 3, {[&](int32_t position, size_t) {
                              return prefers(1, current[static_cast<size_t>(position - 3)]);
                            }});
    return changed(passes.at(0));
  };
  EXPECT_THAT(changed_by(2, {0.3, 0.1, 0.2, 0.4}), ElementsAre(4, 5));
  EXPECT_THAT(changed_by(1, {0.3, 0.1, 0.2, 0.4}), ElementsAre(4));
  EXPECT_THAT(changed_by(2, {0.3, 0.2, 0.2, 0.2}), ElementsAre(4, 5)) << "ties";
  EXPECT_THAT(changed_by(3, {0.9, 0.9, 0.2, 0.9}), ElementsAre(5)) << "scores of 0";
  EXPECT_THAT(changed_by(9, {0.3, 0.1, 0.2, 0.4}), ElementsAre(3, 4, 5, 6));
}

/// Positions that a step changes where the model gives the tokens of positions 3, 4, 5 and so on these
/// probabilities and all of them prefer 9, with 0.9.
std::vector<int32_t> changed_by(PreferenceThreshold threshold, const std::vector<double>& current) {
  const auto length = static_cast<int32_t>(current.size());
  UniformDiffusion options = settings(20, length, length, 1);
  options.sampler = UniformSampler::kThreshold;
  options.threshold = threshold;
  const auto passes =
      run(options, 3,
          {[&](int32_t position, size_t) { return prefers(1, current[static_cast<size_t>(position - 3)]); }});
  return changed(passes.at(0));
}

TEST(UniformDiffusion, ThresholdChangesAllThatThePreferenceOfAnotherTokenExceeds) {
  const std::vector<double> current = {0.25, 0.1, 0.2, 0.4};
  EXPECT_THAT(changed_by({0.6, 0}, current), ElementsAre(3, 4, 5));
  EXPECT_THAT(changed_by({0.75, 0}, current), ElementsAre(4));
  EXPECT_THAT(changed_by({1, 0}, current), IsEmpty());
  EXPECT_THAT(changed_by({0.75, 2}, current), ElementsAre(4, 5)) << "at least two, the largest first";
  EXPECT_THAT(changed_by({0.6, 1}, current), ElementsAre(3, 4, 5));
  EXPECT_THAT(changed_by({0.95, 3}, {0.9, 0.2, 0.9}), ElementsAre(4))
      << "never one that is preferred already";
}

TEST(UniformDiffusion, ThresholdLeavesTheBlockWhenNothingExceedsIt) {
  UniformDiffusion options = settings(20, 4, 4, 8);
  options.sampler = UniformSampler::kThreshold;
  options.threshold = {0.6, 0};
  // After the first step the model prefers other tokens again, but by less.
  const Script script = {[](int32_t, size_t pass) {
    return prefers(9 + static_cast<TokenId>(pass % 2), pass == 0 ? 0.1 : 0.4);
  }};
  for (const UniformCacheKind cache : {UniformCacheKind::kNone, UniformCacheKind::kUniform}) {
    options.cache = cache;
    options.refresh = 1;
    EXPECT_THAT(run(options, 3, script), SizeIs(2));
  }
  options.leaves_at_fixed_point = false;
  EXPECT_THAT(run(options, 3, script), SizeIs(8));
  options.leaves_at_fixed_point = true;
  options.threshold.least = 1;
  EXPECT_THAT(run(options, 3, script), SizeIs(8)) << "one token changes in each of the other steps";
}

TEST(UniformDiffusion, ThresholdFillsAMaskInEachStepWhateverTheThreshold) {
  UniformDiffusion options = settings(20, 4, 4, 8);
  options.noise.uniform_shift = kMasked;
  options.sampler = UniformSampler::kThreshold;
  options.threshold = {1, 0};
  const std::vector<Pass> passes = run(options, 3, kRestless);
  ASSERT_THAT(passes, SizeIs(5)) << "the fifth changes nothing";
  for (size_t n = 0; n < 4; ++n) EXPECT_THAT(changed(passes[n]), SizeIs(1));
}

/// Section 2, from the page.
struct Level {
  double alpha;
  double w;

  double pi(TokenId token) const { return token == kMask ? 1 - w : w / (kVocab - 1); }
};

Level level(const UniformDiffusion& options, int32_t j) {
  const double u = static_cast<double>(j) / options.steps;
  const double f = options.schedule == NoiseCurve::kLinear ? 1 - u : (1 + std::cos(std::numbers::pi * u)) / 2;
  const double least = sigmoid(options.noise.min_log_snr);
  const double alpha = least + (sigmoid(options.noise.max_log_snr) - least) * f;
  const double lambda = std::clamp(std::log(alpha / (1 - alpha)), double{options.noise.min_log_snr},
                                   double{options.noise.max_log_snr});
  return {sigmoid(lambda), sigmoid(lambda + options.noise.uniform_shift)};
}

/// Section 3: what becomes of a token z; x_hat is what the prediction gives to it.
struct Mixture {
  double stay = 1;
  double predict = 0;
};

Mixture mixture(const Level& t, const Level& s, TokenId z, double x_hat) {
  const double r = t.alpha / s.alpha;
  const double noise_t = (1 - t.alpha) * t.pi(z);
  const double noise_s = (1 - s.alpha) * s.pi(z);
  const double d = t.alpha * x_hat + noise_t;
  if (d == 0) return {};
  return {r * (s.alpha * x_hat + noise_s) / d, std::max(0.0, noise_t - r * noise_s) * s.alpha / d};
}

/// A token of the noise at level s.
TokenId sample_noise(const Level& s, const RngStream& coins) {
  if (coins.uniform(1) >= s.w) return kMask;
  const auto token = static_cast<TokenId>(coins.below(2, kVocab - 1));
  return token + (token >= kMask ? 1 : 0);
}

TEST(UniformDiffusion, AdaptiveScoresWeighAMaskByTheNoiseOfTheLevelThatTheStepComesFrom) {
  UniformDiffusion options = settings(40, 24, 24, 4);
  options.noise = {0, -2, 2};
  options.tokens_per_step = 1;
  // The mask's row is the least certain, but its noise is the likeliest.
  const Script script = {[](int32_t position, size_t) { return prefers(1, 0.3 + 0.01 * position); }};
  int32_t masks = 0;
  for (const Pass& pass : run(options, 3, script)) {
    const Level from = level(options, 4 - pass.report.step);
    double best = 0;
    int32_t expected = -1;
    for (int32_t p = 3; p < 27; ++p) {
      const TokenId z = pass.context[static_cast<size_t>(p)];
      const double score = from.pi(z) * (0.9 - (0.3 + 0.01 * p));
      if (score > best) {
        best = score;
        expected = p;
      }
    }
    masks += pass.context[static_cast<size_t>(expected)] == kMask ? 1 : 0;
    // A position that holds the token already is chosen and does not change.
    const bool holds_it = pass.context[static_cast<size_t>(expected)] == 1;
    EXPECT_EQ(changed(pass), holds_it ? std::vector<int32_t>() : std::vector{expected});
  }
  EXPECT_GT(masks, 0);
}

TEST(UniformDiffusion, AdaptiveInAMaskedModelNeverRewritesATokenThatIsThere) {
  UniformDiffusion options = settings(20, 4, 4, 8);
  options.noise.uniform_shift = kMasked;
  options.tokens_per_step = 2;
  const std::vector<Pass> passes = run(options, 3, kRestless);
  ASSERT_THAT(passes, SizeIs(3)) << "the third changes nothing";
  EXPECT_THAT(changed(passes[0]), ElementsAre(3, 4));
  EXPECT_THAT(changed(passes[1]), ElementsAre(5, 6));
}

TEST(UniformDiffusion, AncestralMixesStayingThePredictionAndTheNoise) {
  int32_t stayed = 0;
  int32_t predicted = 0;
  int32_t replaced = 0;
  int32_t masked = 0;
  for (const NoiseCurve curve : {NoiseCurve::kCosine, NoiseCurve::kLinear}) {
    for (const float temperature : {0.0F, 0.8F}) {
      UniformDiffusion options = settings(40, 30, 30, 6);
      options.noise = {0, -3, 3};
      options.sampler = UniformSampler::kAncestral;
      options.schedule = curve;
      options.sampling.temperature = temperature;
      const Script script = {[](int32_t position, size_t) { return prefers(9, 0.02 * position); }};
      for (const Pass& pass : run(options, 3, script)) {
        const int32_t s = pass.report.step + 1;
        const Level t = level(options, 6 - s + 1);
        const Level cleaner = level(options, 6 - s);
        std::vector<std::pair<int32_t, TokenId>> expected;
        for (int32_t p = 3; p < 33; ++p) {
          const TokenId z = pass.context[static_cast<size_t>(p)];
          const double x_hat = temperature == 0 ? (z == 9 ? 1 : 0) : 0.02 * p;
          const auto [stay, predict] = mixture(t, cleaner, z, x_hat);
          const RngStream coins(5, 17, 0, s - 1, p);
          TokenId token = z;
          if (coins.uniform(0) < stay) {
            ++stayed;
          } else if (coins.uniform(0) < stay + predict) {
            ++predicted;
            token = temperature == 0 ? 9 : 19;
          } else {
            token = sample_noise(cleaner, coins);
            ++(token == kMask ? masked : replaced);
          }
          if (token != z) expected.emplace_back(p, token);
        }
        ASSERT_EQ(changes(pass.report), expected) << s;
      }
    }
  }
  for (const int32_t count : {stayed, predicted, replaced, masked}) EXPECT_GT(count, 20);
}

TEST(UniformDiffusion, AncestralLeavesAMaskOfAUniformModelAsItIs) {
  UniformDiffusion options = settings(20, 4, 4, 4);
  options.noise_excludes.clear();
  for (TokenId id = 0; id < kVocab; ++id) {
    if (id != kMask) options.noise_excludes.push_back(id);  // all noise is the mask
  }
  options.sampler = UniformSampler::kAncestral;
  for (const Pass& pass : run(options, 3, kRestless)) EXPECT_THAT(changed(pass), IsEmpty());
}

TEST(UniformDiffusion, AncestralMeasuresTheDistributionThatTokensAreDrawnFrom) {
  UniformDiffusion options = settings(20, 4, 4, 1);
  options.sampler = UniformSampler::kAncestral;
  options.sampling.temperature = 0.7F;
  options.sampling.top_p = 0.8F;
  const std::vector<Pass> passes = run(options, 3, kRestless);
  for (const LogitRow& logit : passes.at(0).plan.logits) {
    const SamplingRule& rule = passes[0].plan.rules.at(static_cast<size_t>(logit.rule));
    EXPECT_EQ(rule.temperature, 0.7F);
    EXPECT_EQ(rule.top_p, 0.8F);
    EXPECT_EQ(rule.source, ConfidenceSource::kSampled);
    EXPECT_FALSE(rule.draws);
  }
}

// ---- 4. Which rows a step computes

std::vector<std::vector<Group>> all_groups(const std::vector<Pass>& passes) {
  std::vector<std::vector<Group>> result;
  for (const Pass& pass : passes) result.push_back(groups(pass.plan));
  return result;
}

UniformDiffusion cached(UniformCacheKind cache, int32_t context, int32_t gen_length, int32_t block_length,
                        int32_t num_steps) {
  UniformDiffusion options = settings(context, gen_length, block_length, num_steps);
  options.cache = cache;
  options.leaves_at_fixed_point = false;
  return options;
}

TEST(UniformDiffusion, CleanRowsSeeCleanCellsAndNoisyRowsSeeEverything) {
  const Group prompt = {{0, 3}, 3, kOnlyKv};
  const Group clean = {{0, 7}, 7, kOnlyKv};
  const Group block0 = {{3, 7}, 20, !kOnlyKv};
  const Group block1 = {{7, 11}, 20, !kOnlyKv};
  const Group behind0 = {{7, 20}, 20, kOnlyKv};
  const Group behind1 = {{11, 20}, 20, kOnlyKv};
  const std::vector<Group> all0 = {prompt, block0, behind0};
  const std::vector<Group> all1 = {clean, block1, behind1};
  EXPECT_THAT(all_groups(run(cached(UniformCacheKind::kNone, 20, 8, 4, 2), 3, kRestless)),
              ElementsAre(all0, all0, all1, all1));
  EXPECT_THAT(all_groups(run(cached(UniformCacheKind::kPrefix, 20, 8, 4, 2), 3, kRestless)),
              ElementsAre(all0, std::vector{block0, behind0}, all1, std::vector{block1, behind1}));
  EXPECT_THAT(all_groups(run(cached(UniformCacheKind::kUniform, 20, 8, 4, 2), 3, kRestless)),
              ElementsAre(all0, std::vector{block0}, all1, std::vector{block1}));
}

TEST(UniformDiffusion, TheCacheComputesTheNextBlockInEveryRthStepButTheFirst) {
  // The first position after the block and the end of the next block where a step computes it, 0 otherwise.
  const auto next_blocks = [](int32_t refresh, int32_t context) {
    UniformDiffusion options = cached(UniformCacheKind::kUniform, context, 11, 4, 5);
    options.refresh = refresh;
    std::vector<int32_t> result;
    for (const Pass& pass : run(options, 3, kRestless)) {
      if (pass.report.step % 5 == 0) continue;
      const std::vector<Group> parts = groups(pass.plan);
      const int32_t begin = 3 + 4 * pass.report.block;
      EXPECT_EQ(parts.at(0), (Group{{begin, std::min(begin + 4, context)}, context, !kOnlyKv}));
      if (parts.size() == 1) {
        result.push_back(0);
        continue;
      }
      EXPECT_THAT(parts, SizeIs(2));
      EXPECT_EQ(parts[1], (Group{{begin + 4, parts[1].positions.end}, context, kOnlyKv}));
      result.push_back(parts[1].positions.end);
    }
    return result;
  };
  // Steps 2 to 5 of three blocks, of which the last has no next one.
  EXPECT_THAT(next_blocks(2, 20), ElementsAre(11, 0, 11, 0, 15, 0, 15, 0, 0, 0, 0, 0));
  EXPECT_THAT(next_blocks(5, 20), ElementsAre(0, 0, 0, 11, 0, 0, 0, 15, 0, 0, 0, 0));
  EXPECT_THAT(next_blocks(1, 14), ElementsAre(11, 11, 11, 11, 14, 14, 14, 14, 0, 0, 0, 0)) << "cut at S";
  EXPECT_THAT(next_blocks(0, 20), Each(0));
}

TEST(UniformDiffusion, TheWholeLastLayerIsComputedOnRequest) {
  UniformDiffusion options = cached(UniformCacheKind::kUniform, 20, 8, 4, 4);
  options.whole_last_layer = true;
  for (const Pass& pass : run(options, 3, kRestless)) {
    for (const Group& group : groups(pass.plan)) EXPECT_FALSE(group.only_kv);
    EXPECT_THAT(pass.sampled, SizeIs(4));
  }
}

TEST(UniformDiffusion, LeavesABlockThatNothingChanges) {
  const auto computed = [](UniformDiffusion options) {
    options.leaves_at_fixed_point = true;
    options.noise_excludes = {0, 1, 2, 4, 9, 10};
    return steps(run(options, 3, {[](int32_t, size_t) { return prefers(9); }}));
  };
  // Step 1 changes three of four positions with equal scores; step 2 chooses the same three, which have their
  // tokens.
  for (const UniformCacheKind cache : {UniformCacheKind::kNone, UniformCacheKind::kPrefix}) {
    EXPECT_THAT(computed(settings(20, 8, 4, 9)), ElementsAre(0, 1, 9, 10)) << static_cast<int>(cache);
    EXPECT_THAT(computed(cached(cache, 20, 8, 4, 9)), ElementsAre(0, 1, 9, 10));
  }
  // With the default refresh, step 4 computes the next block with the new tokens; step 8 need not.
  EXPECT_THAT(computed(cached(UniformCacheKind::kUniform, 20, 8, 4, 9)), ElementsAre(0, 1, 3, 9, 10));
  UniformDiffusion never = cached(UniformCacheKind::kUniform, 20, 8, 4, 9);
  never.refresh = 0;
  EXPECT_THAT(computed(never), ElementsAre(0, 1, 9, 10));
  UniformDiffusion last_step = cached(UniformCacheKind::kUniform, 20, 8, 4, 4);
  EXPECT_THAT(computed(last_step), ElementsAre(0, 1, 3, 4, 5)) << "a refresh at s = T";
  // A refresh at step 2 computes the next block with the tokens of step 1.
  UniformDiffusion often = cached(UniformCacheKind::kUniform, 20, 8, 4, 9);
  often.refresh = 2;
  EXPECT_THAT(computed(often), ElementsAre(0, 1, 9, 10));
}

TEST(UniformDiffusion, APassThatChangesATokenHasComputedTheNextBlockWithTheOldOne) {
  UniformDiffusion options = settings(20, 8, 4, 9);
  options.cache = UniformCacheKind::kUniform;
  options.refresh = 2;
  // Changes in steps 1 and 2; nothing in step 3. Step 4 is the first to compute the next block with the last
  // tokens.
  const Script script = {[](int32_t position, size_t pass) {
    return pass < 2 ? prefers(9 + static_cast<TokenId>(pass), 0.1) : prefers(position, 0.9);
  }};
  const std::vector<int32_t> computed = steps(run(options, 3, script));
  EXPECT_THAT(std::vector(computed.begin(), computed.begin() + 5), ElementsAre(0, 1, 2, 3, 9));
  // A first pass that changes nothing has computed the next block, too.
  EXPECT_THAT(steps(run(options, 3, kAgree)), ElementsAre(0, 9));
}

TEST(UniformDiffusion, ABlockIsNotLeftBeforeTheNextOneIsComputedBehindABoundaryPass) {
  UniformDiffusion options = settings(20, 12, 4, 4);
  options.cache = UniformCacheKind::kUniform;
  options.refresh = 2;
  EXPECT_THAT(steps(run(options, 3, kAgree)), ElementsAre(0, 4, 8));
  options.boundary = BoundaryRefresh{2, 8};  // computes the frozen block and block 1
  EXPECT_THAT(steps(run(options, 3, kAgree)), ElementsAre(0, 4, 5, 8));
  options.boundary = BoundaryRefresh{3, 8};
  EXPECT_THAT(steps(run(options, 3, kAgree)), ElementsAre(0, 4, 8));
}

TEST(UniformDiffusion, NeverLeavesWhereAStepIsNotARepetition) {
  UniformDiffusion options = settings(20, 8, 4, 4);
  options.leaves_at_fixed_point = false;
  EXPECT_THAT(run(options, 3, kAgree), SizeIs(8));
  options.leaves_at_fixed_point = true;
  EXPECT_THAT(run(options, 3, kAgree), SizeIs(2));
  UniformDiffusion warm = options;
  warm.sampling.temperature = 0.5F;
  EXPECT_THAT(run(warm, 3, kAgree), SizeIs(8));
  options.sampler = UniformSampler::kAncestral;
  EXPECT_THAT(run(options, 3, kAgree), SizeIs(8));
}

TEST(UniformDiffusion, ABoundaryPassComputesTheFrozenBlockAndThoseFromTheNewOneOn) {
  const auto first_steps = [](BoundaryRefresh boundary) {
    UniformDiffusion options = cached(UniformCacheKind::kUniform, 18, 14, 4, 2);
    options.refresh = 0;
    options.boundary = boundary;
    std::vector<std::vector<Group>> result;
    for (const Pass& pass : run(options, 3, kRestless)) {
      if (pass.report.step % 2 == 0) result.push_back(groups(pass.plan));
    }
    return result;
  };
  const std::vector<Group> full0 = {{{0, 3}, 3, kOnlyKv}, {{3, 7}, 18, !kOnlyKv}, {{7, 18}, 18, kOnlyKv}};
  const std::vector<Group> full2 = {
      {{0, 11}, 11, kOnlyKv}, {{11, 15}, 18, !kOnlyKv}, {{15, 18}, 18, kOnlyKv}};
  const Group frozen0 = {{3, 7}, 7, kOnlyKv};
  const Group frozen1 = {{7, 11}, 11, kOnlyKv};
  const Group frozen2 = {{11, 15}, 15, kOnlyKv};
  const Group block1 = {{7, 11}, 18, !kOnlyKv};
  const Group block2 = {{11, 15}, 18, !kOnlyKv};
  const Group block3 = {{15, 18}, 18, !kOnlyKv};
  EXPECT_THAT(first_steps({2, 2}),
              ElementsAre(full0, std::vector{frozen0, block1}, full2, std::vector{frozen2, block3}));
  EXPECT_THAT(
      first_steps({3, 8}),
      ElementsAre(full0, std::vector{frozen0, block1, Group{{11, 15}, 18, kOnlyKv}},
                  std::vector{frozen1, block2, Group{{15, 18}, 18, kOnlyKv}}, std::vector{frozen2, block3}));
  EXPECT_THAT(first_steps({9, 8})[1], ElementsAre(frozen0, block1, Group{{11, 18}, 18, kOnlyKv}))
      << "cut at S";
}

/// Positions after the block that each pass computes.
std::vector<std::vector<int32_t>> computed_behind(const std::vector<Pass>& passes) {
  std::vector<std::vector<int32_t>> result;
  for (const Pass& pass : passes) {
    EXPECT_TRUE(pass.plan.measures_kv_drift);
    std::vector<int32_t>& behind = result.emplace_back(rows(pass));
    std::erase_if(behind, [&](int32_t position) { return position <= pass.sampled.back(); });
  }
  return result;
}

UniformDiffusion drifting(DriftRefresh drift) {
  UniformDiffusion options = cached(UniformCacheKind::kUniform, 16, 4, 2, 4);
  options.drift = drift;
  return options;
}

TEST(UniformDiffusion, PagesAreComputedOnceTheirExpectedDriftExceedsTau) {
  const Script script = {[](int32_t, size_t) { return agrees(); },
                         [](int32_t position, size_t pass) {
                           // Since step 1, four steps ago: pages [6, 10), [10, 14) and [14, 16).
                           if (pass == 4) return position < 10 ? 0.8F : position < 14 ? 0.28F : 0.04F;
                           return position < 10 ? 0.02F : 0.0F;
                         }};
  const std::vector<Pass> passes = run(drifting({0.1, 4, 8}), 2, script);
  // Block 0: no position has a rate. Block 1: rates of 0.2, 0.07 and 0.01 in step 1, page 0 then has 0.02.
  EXPECT_THAT(computed_behind(passes), ElementsAre(range(4, 16), IsEmpty(), IsEmpty(), IsEmpty(),
                                                   range(6, 16), range(6, 10), range(10, 14), IsEmpty()));
  EXPECT_EQ(groups(passes[5].plan)[1], (Group{{6, 10}, 16, kOnlyKv}));

  // The steps that nothing changes are left out, but counted.
  UniformDiffusion leaving = drifting({0.1, 4, 8});
  leaving.leaves_at_fixed_point = true;
  const Script early = {script.sample, [&](int32_t position, size_t pass) {
                          return script.drift(position, pass == 1 ? 4 : 0);
                        }};
  const std::vector<Pass> left = run(leaving, 2, early);
  EXPECT_THAT(steps(left), ElementsAre(0, 4, 5, 6));
  EXPECT_THAT(computed_behind(left), ElementsAre(range(4, 16), range(6, 16), range(6, 10), range(10, 14)));
}

TEST(UniformDiffusion, PagesGoByTheirDriftAndThoseThatDoNotFitAreLeftOut) {
  const auto second_step = [](int32_t budget, std::vector<float> drifts) {
    const Script script = {[](int32_t, size_t) { return agrees(); },
                           [&](int32_t position, size_t) {
                             return position < 6 ? 0.0F : drifts[static_cast<size_t>((position - 6) / 4)];
                           }};
    return computed_behind(run(drifting({0.01, 4, budget}), 2, script))[5];
  };
  using testing::ElementsAre;
  EXPECT_THAT(second_step(10, {0.8F, 0.7F, 0.6F}), ElementsAreArray(range(6, 16)));
  EXPECT_THAT(second_step(9, {0.8F, 0.7F, 0.6F}), ElementsAreArray(range(6, 14)));
  EXPECT_THAT(second_step(6, {0.8F, 0.7F, 0.6F}), ElementsAre(6, 7, 8, 9, 14, 15));
  EXPECT_THAT(second_step(4, {0.7F, 0.8F, 0.6F}), ElementsAreArray(range(10, 14)));
  EXPECT_THAT(second_step(4, {0.5F, 0.5F, 0.5F}), ElementsAreArray(range(6, 10)));
  EXPECT_THAT(second_step(5, {0.5F, 0.5F, 0.6F}), ElementsAre(14, 15));
  EXPECT_THAT(second_step(16, {0.0F, 0.5F, 0.0F}), ElementsAreArray(range(10, 14)));
}

TEST(UniformDiffusion, APageWithAPositionWithoutARateIsNotComputed) {
  UniformDiffusion options = drifting({0.001, 4, 16});
  options.boundary = BoundaryRefresh{3, 8};  // block 1 begins with positions 2 to 8 alone
  options.gen_length = 6;
  const Script script = {[](int32_t, size_t) { return agrees(); }, [](int32_t, size_t) { return 0.9F; }};
  const std::vector<std::vector<int32_t>> behind = computed_behind(run(options, 2, script));
  EXPECT_EQ(behind[4], range(6, 8));
  EXPECT_THAT(behind[5], IsEmpty()) << "the page [6, 10) has two positions that were computed once";
  options.drift->page = 2;
  EXPECT_EQ(computed_behind(run(options, 2, script))[5], range(6, 8));

  // However far the others moved: of [16, 24), block 1 begins with all but the last.
  UniformDiffusion wide = cached(UniformCacheKind::kUniform, 26, 21, 7, 2);
  wide.boundary = options.boundary;
  wide.drift = DriftRefresh{0.001, 8, 16};
  const Script moves = {[](int32_t, size_t) { return agrees(); }, [](int32_t, size_t) { return 1.9F; }};
  EXPECT_THAT(computed_behind(run(wide, 2, moves))[3], IsEmpty());
}

TEST(UniformDiffusion, UncachedWorkIsThatOfAllPositions) {
  for (const UniformCacheKind cache :
       {UniformCacheKind::kNone, UniformCacheKind::kPrefix, UniformCacheKind::kUniform}) {
    UniformDiffusion options = cached(cache, 20, 8, 4, 3);
    if (cache == UniformCacheKind::kUniform) options.drift = DriftRefresh{0.01, 4, 8};
    UniformDiffusionDecoder decoder(options, prompt_of(3));
    UniformDiffusionDecoder uncached(cached(UniformCacheKind::kNone, 20, 8, 4, 3), prompt_of(3));
    for (size_t n = 0; !decoder.done(); ++n) {
      EXPECT_EQ(decoder.uncached_plan().value(), uncached.plan());
      const PassWork work = decoder.uncached_work();
      const PassWork expected = work_of(uncached.plan());
      EXPECT_EQ(work.rows, 20);
      EXPECT_EQ(work.pairs, expected.pairs);
      EXPECT_EQ(work.cells, expected.cells);
      EXPECT_EQ(work.logit_rows, 4);
      step(decoder, kRestless, n);
      step(uncached, kRestless, n);
    }
    const BaselineRequest baseline = decoder.baseline_request().value();
    EXPECT_EQ(baseline.prompt_length, 3);
    EXPECT_EQ(baseline.gen_length, 8);
    EXPECT_EQ(baseline.answer_length, 8);
    EXPECT_EQ(baseline.context, 20);
  }
}

// ---- 5. Self-correction

/// A prompt of 2 and an answer of `gen_length`, which one step for each block leaves as it is; then
/// corrections.
UniformDiffusion correcting(SelfCorrection correction, int32_t gen_length = 4) {
  UniformDiffusion options = settings(10, gen_length, 2, 1);
  options.self_correct = correction;
  options.ignore_eos = true;
  return options;
}

/// Suggestion of an iteration for a position: y, q(y), the likeliest token.
struct Suggestion {
  TokenId token = 0;
  double probability = 0;
  TokenId likeliest = 0;
};

struct Corrected {
  std::vector<Pass> passes;  // the iterations
  std::vector<TokenId> before;
  std::vector<TokenId> answer;
  StopReason stop_reason = StopReason::kLength;
};

Corrected correct(const UniformDiffusion& options,
                  const std::function<Suggestion(int32_t position, int32_t iteration)>& suggest) {
  UniformDiffusionDecoder decoder(options, prompt_of(2));
  const int32_t blocks = (options.gen_length + 1) / 2;
  Corrected result;
  const Script script = {[&](int32_t position, size_t pass) {
    const int32_t iteration = static_cast<int32_t>(pass) - blocks;
    if (iteration < 0) return agrees();
    const Suggestion suggestion = suggest(position, iteration);
    RowStatistics row;
    row.token = suggestion.token;
    row.confidence = suggestion.probability;
    row.best_token = suggestion.likeliest;
    return row;
  }};
  for (size_t number = 0; !decoder.done(); ++number) {
    EXPECT_EQ(decoder.num_final(), 0) << "a correction may change everything";
    if (number == static_cast<size_t>(blocks)) result.before = answer(decoder);
    const Pass pass = step(decoder, script, number);
    if (number < static_cast<size_t>(blocks)) continue;
    EXPECT_EQ(pass.report.kind, "correct");
    result.passes.push_back(pass);
  }
  EXPECT_EQ(decoder.num_final(), options.gen_length);
  result.answer = answer(decoder);
  result.stop_reason = decoder.stop_reason();
  return result;
}

/// Positions whose token an iteration takes, where it is always a new one.
Suggestion always_new(int32_t position, int32_t iteration) {
  return {100 * (iteration + 1) + position, 0.9 - 0.1 * position, 0};
}

TEST(UniformDiffusion, AnIterationComputesTheWholeContextAndSamplesTheAnswer) {
  UniformDiffusion options = correcting({.most = 3, .temperature = 0.3F});
  options.min_length = 4;
  options.cache = UniformCacheKind::kUniform;
  const Corrected run = correct(options, always_new);
  ASSERT_THAT(run.passes, SizeIs(3));
  for (int32_t i = 0; i < 3; ++i) {
    const Pass& pass = run.passes[static_cast<size_t>(i)];
    EXPECT_THAT(groups(pass.plan), ElementsAre(Group{{0, 2}, 2, kOnlyKv}, Group{{2, 6}, 10, !kOnlyKv},
                                               Group{{6, 10}, 10, kOnlyKv}));
    EXPECT_EQ(pass.plan.tokens, pass.context);
    EXPECT_EQ(pass.sampled, range(2, 6));
    for (size_t n = 0; n < 4; ++n) {
      const LogitRow& logit = pass.plan.logits[n];
      EXPECT_EQ(logit.noise, RngStream(5, 18, i, pass.sampled[n]));
      const SamplingRule& rule = pass.plan.rules.at(static_cast<size_t>(logit.rule));
      EXPECT_EQ(rule.temperature, 0.3F);
      EXPECT_TRUE(rule.draws);
      EXPECT_EQ(rule.source, ConfidenceSource::kSampled);
      EXPECT_THAT(rule.forbidden, ElementsAre(kMask));
    }
  }
}

TEST(UniformDiffusion, AnIterationTakesTheLikeliestOfTheTokensThatDiffer) {
  const auto taken = [](int32_t tokens, std::vector<double> probabilities) {
    const Corrected run = correct(correcting({.most = 1, .tokens = tokens}), [&](int32_t position, int32_t) {
      return Suggestion{100 + position, probabilities[static_cast<size_t>(position - 2)], 0};
    });
    return changed(run.passes.at(0));
  };
  EXPECT_THAT(taken(1, {0.2, 0.5, 0.4, 0.3}), ElementsAre(3));
  EXPECT_THAT(taken(2, {0.2, 0.5, 0.4, 0.3}), ElementsAre(3, 4));
  EXPECT_THAT(taken(2, {0.2, 0.5, 0.2, 0.2}), ElementsAre(2, 3)) << "ties";
  EXPECT_THAT(taken(3, {0, 0.5, 0, 0}), ElementsAre(3)) << "scores of 0";
}

TEST(UniformDiffusion, CorrectionEndsWhenNothingChangesOrAfterMostIterations) {
  const auto stubborn = [](int32_t position, int32_t) {
    return Suggestion{100 + position, 0.5, 100 + position};
  };
  const Corrected converged = correct(correcting({}), stubborn);
  EXPECT_THAT(converged.passes, SizeIs(5)) << "one token each, then none";
  EXPECT_THAT(converged.answer, ElementsAre(102, 103, 104, 105));
  EXPECT_THAT(changed(converged.passes[4]), IsEmpty());
  const Corrected cut = correct(correcting({.most = 3}), stubborn);
  EXPECT_THAT(cut.passes, SizeIs(3));
  EXPECT_EQ(cut.answer[2], 104);
  EXPECT_EQ(cut.answer[3], cut.before[3]);
}

TEST(UniformDiffusion, CorrectionEndsOncePatienceIsUsedUpAndUndoesItsLastChange) {
  // After each iteration this many of the four tokens are the likeliest ones; the first position never is.
  const auto accuracy = [](int32_t patience, const std::vector<int32_t>& agreeing) {
    UniformDiffusion options =
        correcting({.most = static_cast<int32_t>(agreeing.size()), .patience = patience, .tokens = 4});
    const Corrected run = correct(options, [&](int32_t position, int32_t i) {
      if (position == 2) return Suggestion{100 + i, 0.9, 1};
      const bool agrees = position - 2 <= agreeing[static_cast<size_t>(i)];
      return Suggestion{200 + position, 0.5, agrees ? 200 + position : 1};
    });
    return run;
  };
  // 1, then never more: two units are one too many for a patience of 1.
  const Corrected equal = accuracy(1, {1, 1, 1, 1, 1});
  ASSERT_THAT(equal.passes, SizeIs(3));
  EXPECT_THAT(equal.passes[2].report.committed, IsEmpty());
  EXPECT_THAT(equal.answer, ElementsAre(101, 203, 204, 205)) << "the change of the third is undone";
  EXPECT_THAT(accuracy(0, {1, 0, 0}).passes, SizeIs(2));
  EXPECT_THAT(accuracy(0, {0, 1, 2, 2, 3}).passes, SizeIs(4));
  EXPECT_THAT(accuracy(1, {0, 0, 1, 1, 1, 3}).passes, SizeIs(5)) << "a better one starts patience anew";
  EXPECT_THAT(accuracy(1, {2, 1, 2, 3}).passes, SizeIs(3)) << "the best so far counts, not the last";
  EXPECT_THAT(accuracy(9, {2, 1, 2, 1}).passes, SizeIs(4));
}

TEST(UniformDiffusion, AccuracyCountsTheTokensAfterTheChange) {
  // Each change makes one more token the likeliest, so patience 0 never runs out.
  const Corrected run = correct(correcting({.patience = 0}), [](int32_t position, int32_t) {
    return Suggestion{100 + position, 0.5, 100 + position};
  });
  EXPECT_THAT(run.answer, ElementsAre(102, 103, 104, 105));
}

TEST(UniformDiffusion, IterationsBetweenFullOnesComputeTheBlocksThatChanged) {
  // Five positions are three blocks, the last one of one position.
  const Corrected run =
      correct(correcting({.most = 5, .patience = 99, .full_every = 4}, 5), [](int32_t position, int32_t i) {
        if (i == 0 && position == 6) return Suggestion{300, 0.9, 0};
        if (i == 0 && position == 3) return Suggestion{301, 0.8, 0};
        if (i == 2 && position == 2) return Suggestion{302, 0.7, 0};
        if (i == 2 && position == 3) return Suggestion{301, 0.7, 0};
        return Suggestion{position == 3 ? 301 : 400 + position, i == 0 ? 0.1 : 0.05, 0};
      });
  ASSERT_THAT(run.passes, SizeIs(5));
  EXPECT_EQ(rows(run.passes[0]), range(0, 10));
  EXPECT_THAT(changes(run.passes[0].report), ElementsAre(std::pair(6, 300)));
  EXPECT_THAT(groups(run.passes[1].plan), ElementsAre(Group{{6, 7}, 10, !kOnlyKv}));
  EXPECT_THAT(changes(run.passes[1].report), ElementsAre(std::pair(3, 301))) << "as suggested in the first";
  EXPECT_THAT(groups(run.passes[2].plan), ElementsAre(Group{{2, 4}, 10, !kOnlyKv}));
  EXPECT_THAT(changes(run.passes[2].report), ElementsAre(std::pair(2, 302)));
  EXPECT_EQ(rows(run.passes[3]), range(2, 4));
  EXPECT_EQ(rows(run.passes[4]), range(0, 10));
}

TEST(UniformDiffusion, TheStopReasonIsThatOfTheCorrectedAnswer) {
  for (const TokenId token : {kEnd, TokenId{9}}) {
    UniformDiffusion options = correcting({.most = 1});
    options.ignore_eos = false;
    EXPECT_EQ(correct(options,
                      [&](int32_t, int32_t) {
                        return Suggestion{token, 0.9, token};
                      })
                  .stop_reason,
              token == kEnd ? StopReason::kEndToken : StopReason::kLength);
  }
}

// ---- The decoder and the page's rules

struct Outcome {
  std::vector<TokenId> answer;
  std::vector<int32_t> steps;                                     // steps that were computed
  std::vector<std::vector<int32_t>> rows;                         // computed rows of each step
  std::vector<std::vector<std::pair<int32_t, TokenId>>> changes;  // changes of each step

  bool operator==(const Outcome&) const = default;
};

Outcome decode(const FakeModel& model, const UniformDiffusion& options, const std::vector<TokenId>& prompt) {
  UniformDiffusionDecoder decoder(options, prompt);
  FakeCells cells(model, decoder.num_cells());
  Outcome outcome;
  cells.run(decoder, [&](const StepPlan& plan, const StepReport& report) {
    outcome.steps.push_back(report.step);
    outcome.rows.push_back(plan.positions);
    outcome.changes.push_back(changes(report));
  });
  outcome.answer = answer(decoder);
  return outcome;
}

/// Sections 1 to 4, position by position.
class Plainly {
 public:
  Plainly(const FakeModel& model, const UniformDiffusion& options, const std::vector<TokenId>& prompt)
      : o_(options),
        prompt_(static_cast<int32_t>(prompt.size())),
        limit_(prompt_ + o_.gen_length),
        cells_(model, o_.context),
        movements_(static_cast<size_t>(o_.context), {0, -1.0}) {
    const UniformDiffusionDecoder noise(options, prompt);  // its canvas has tests of its own
    x_.assign(noise.context().begin(), noise.context().end());
  }

  Outcome decode() {
    const int32_t num_blocks = (o_.gen_length + o_.block_length - 1) / o_.block_length;
    int32_t written = prompt_;
    for (int32_t b = 0; b < num_blocks; ++b) {
      denoise(b, b + 1 == num_blocks);
      written = std::min(prompt_ + (b + 1) * o_.block_length, limit_);
      const auto end = std::find(x_.begin() + prompt_, x_.begin() + written, kEnd);
      if (end != x_.begin() + written && !o_.ignore_eos) break;
    }
    outcome_.answer.assign(x_.begin() + prompt_, x_.begin() + written);
    return outcome_;
  }

 private:
  void denoise(int32_t b, bool last) {
    const int32_t a = prompt_ + b * o_.block_length;
    const int32_t e = std::min(a + o_.block_length, o_.context);
    const bool may_rest = o_.leaves_at_fixed_point && o_.sampler == UniformSampler::kAdaptive && greedy();
    const bool uniform = o_.cache == UniformCacheKind::kUniform;
    bool has_changed = true;
    bool next_is_current = false;
    bool has_left = false;
    for (int32_t s = 1; s <= o_.steps; ++s) {
      ++clock_;
      if (has_left) continue;
      std::vector<int32_t> behind;  // outside the block, with the uniform cache
      if (uniform && s > 1 && o_.drift) {
        behind = pages(e);
      } else if (uniform && s > 1 && o_.refresh > 0 && s % o_.refresh == 0 && !last) {
        behind = range(e, std::min(e + o_.block_length, o_.context));
      }
      const bool wants_behind = !behind.empty() && (o_.drift || !next_is_current);
      if (s > 1 && may_rest && !has_changed && !(uniform && wants_behind)) continue;
      std::vector<int32_t> rows = range(a, e);
      rows.insert(rows.end(), behind.begin(), behind.end());
      const bool at_boundary = uniform && o_.boundary && b % o_.boundary->full_every != 0;
      if (s == 1 && at_boundary) {
        rows =
            range(a - o_.block_length, std::min(a + (o_.boundary->blocks - 1) * o_.block_length, o_.context));
      } else if (s == 1 || o_.cache == UniformCacheKind::kNone) {
        rows = range(0, o_.context);
      } else if (o_.cache == UniformCacheKind::kPrefix) {
        rows = range(a, o_.context);
      }
      compute(rows, a);
      next_is_current = next_is_current || std::count(rows.begin(), rows.end(), e) > 0;
      std::vector<std::pair<int32_t, TokenId>> chosen =
          o_.sampler == UniformSampler::kAdaptive    ? adaptive(b, s, a, e)
          : o_.sampler == UniformSampler::kThreshold ? above_threshold(b, s, a, e)
                                                     : ancestral(b, s, a, e);
      has_left = o_.sampler == UniformSampler::kThreshold && o_.leaves_at_fixed_point && chosen.empty();
      std::sort(chosen.begin(), chosen.end());
      has_changed = false;
      std::vector<std::pair<int32_t, TokenId>> reported;
      for (const auto& [position, token] : chosen) {
        if (at(position) == token) continue;
        at(position) = token;
        has_changed = true;
        if (position < limit_) reported.emplace_back(position, token);
      }
      if (has_changed) next_is_current = false;
      outcome_.steps.push_back(clock_ - 1);
      outcome_.rows.push_back(rows);
      outcome_.changes.push_back(reported);
    }
  }

  bool greedy() const { return o_.sampling.temperature == 0; }
  TokenId& at(int32_t position) { return x_[static_cast<size_t>(position)]; }

  void compute(const std::vector<int32_t>& rows, int32_t a) {
    StepPlan plan;
    row_of_.clear();
    for (const int32_t position : rows) {
      row_of_.resize(static_cast<size_t>(position) + 1, -1);
      row_of_[static_cast<size_t>(position)] = plan.num_rows();
      const int32_t row = plan.num_rows();
      plan.add_row(at(position), position, position);
      plan.groups.push_back({0, {row, row + 1}, {{0, position < a ? a : o_.context}}, OwnRows::kNone});
    }
    cells_.forward(plan);
    const std::vector<float> drift = cells_.kv_drift();
    for (size_t row = 0; row < rows.size(); ++row) {
      auto& [computed_at, rate] = movements_[static_cast<size_t>(rows[row])];
      const float mean = (drift[4 * row] + drift[4 * row + 1] + drift[4 * row + 2] + drift[4 * row + 3]) / 4;
      if (computed_at > 0) rate = double{mean} / (clock_ - computed_at);
      computed_at = clock_;
    }
  }

  std::vector<int32_t> pages(int32_t e) const {
    std::vector<std::pair<double, int32_t>> found;  // -drift, begin
    for (int32_t begin = e; begin < o_.context; begin += o_.drift->page) {
      double sum = 0;
      bool known = true;
      const int32_t end = std::min(begin + o_.drift->page, o_.context);
      for (int32_t position = begin; position < end; ++position) {
        const auto& [computed_at, rate] = movements_[static_cast<size_t>(position)];
        known = known && rate >= 0;
        sum += rate * (clock_ - computed_at);
      }
      if (known && sum / (end - begin) > o_.drift->tau) found.emplace_back(-sum / (end - begin), begin);
    }
    std::sort(found.begin(), found.end());
    std::vector<int32_t> rows;
    for (const auto& [drift, begin] : found) {
      const std::vector<int32_t> page = range(begin, std::min(begin + o_.drift->page, o_.context));
      if (static_cast<int32_t>(rows.size() + page.size()) <= o_.drift->budget)
        rows.insert(rows.end(), page.begin(), page.end());
    }
    std::sort(rows.begin(), rows.end());
    return rows;
  }

  RowStatistics ask(int32_t b, int32_t s, int32_t position, SamplingRule rule) {
    rule.forbidden = {kMask};
    if (position < prompt_ + o_.min_length) rule.forbidden.push_back(kEnd);
    std::vector<float> logits = cells_.logits(row_of_[static_cast<size_t>(position)]);
    const RngStream noise(o_.seed, 1, b, s - 1, position);
    return draw(default_table(), rule, noise, logits, at(position));
  }

  SamplingRule x_hat() const {
    SamplingRule rule = o_.sampling;
    rule.source = ConfidenceSource::kSampled;
    return rule;
  }

  std::vector<std::pair<int32_t, TokenId>> adaptive(int32_t b, int32_t s, int32_t a, int32_t e) {
    const Level from = level(o_, o_.steps - s + 1);
    std::vector<std::pair<double, int32_t>> scores;  // negative
    for (int32_t position = a; position < e; ++position) {
      const RowStatistics p = ask(b, s, position, {});
      const double score = from.pi(at(position)) * (p.confidence - p.scored_probability);
      if (score > 0) scores.emplace_back(-score, position);
    }
    std::sort(scores.begin(), scores.end());
    scores.resize(std::min(scores.size(), static_cast<size_t>(o_.tokens_per_step)));
    std::vector<std::pair<int32_t, TokenId>> chosen;
    for (const auto& [score, position] : scores)
      chosen.emplace_back(position, ask(b, s, position, x_hat()).token);
    return chosen;
  }

  std::vector<std::pair<int32_t, TokenId>> above_threshold(int32_t b, int32_t s, int32_t a, int32_t e) {
    const Level from = level(o_, o_.steps - s + 1);
    std::vector<int32_t> chosen;
    std::vector<std::pair<double, int32_t>> others;  // negative scores
    for (int32_t position = a; position < e; ++position) {
      const RowStatistics p = ask(b, s, position, {});
      const double score = p.confidence - p.scored_probability;
      if (from.pi(at(position)) == 0 || score <= 0) continue;
      if (score > o_.threshold.tau) {
        chosen.push_back(position);
      } else {
        others.emplace_back(-score, position);
      }
    }
    auto missing = o_.threshold.least - static_cast<int32_t>(chosen.size());
    if (chosen.empty() && o_.threshold.least == 0) {
      std::erase_if(others, [&](const auto& other) { return at(other.second) != kMask; });
      missing = 1;
    }
    std::sort(others.begin(), others.end());
    for (const auto& [score, position] : others) {
      if (missing-- > 0) chosen.push_back(position);
    }
    std::vector<std::pair<int32_t, TokenId>> tokens;
    for (const int32_t position : chosen) tokens.emplace_back(position, ask(b, s, position, x_hat()).token);
    return tokens;
  }

  std::vector<std::pair<int32_t, TokenId>> ancestral(int32_t b, int32_t s, int32_t a, int32_t e) {
    const Level t = level(o_, o_.steps - s + 1);
    const Level cleaner = level(o_, o_.steps - s);
    std::vector<std::pair<int32_t, TokenId>> chosen;
    for (int32_t position = a; position < e; ++position) {
      const TokenId z = at(position);
      const RowStatistics p = ask(b, s, position, x_hat());
      const double x = greedy() ? (p.token == z ? 1 : 0) : p.scored_probability;
      const auto [stay, predict] = mixture(t, cleaner, z, x);
      const RngStream coins(o_.seed, 17, b, s - 1, position);
      if (coins.uniform(0) < stay) continue;
      const bool predicts = coins.uniform(0) < stay + predict;
      chosen.emplace_back(position, predicts ? p.token : sample_noise(cleaner, coins));
    }
    return chosen;
  }

  UniformDiffusion o_;
  int32_t prompt_;
  int32_t limit_;
  FakeCells cells_;
  std::vector<std::pair<int32_t, double>> movements_;  // computed at, rate
  std::vector<TokenId> x_;
  std::vector<int32_t> row_of_;
  int32_t clock_ = 0;
  Outcome outcome_;
};

struct Request {
  UniformDiffusion options;
  std::vector<TokenId> prompt;
  FakeModel model;
};

Request random_request(uint64_t seed) {
  const RngStream choose(seed, 78);
  const auto below = [&](uint64_t index, uint32_t count) {
    return static_cast<int32_t>(choose.below(index, count));
  };
  Request request;
  request.model.seed = seed;
  request.prompt = prompt_of(1 + below(0, 5));
  const int32_t gen_length = 1 + below(1, 10);
  const int32_t context = static_cast<int32_t>(request.prompt.size()) + gen_length + below(2, 8);
  UniformDiffusion& options = request.options;
  options = settings(context, gen_length, 1 + below(3, 4), 1 + below(4, 8));
  const std::vector<float> shifts = {kUniform, kMasked, 0.5F};
  options.noise = {shifts[static_cast<size_t>(below(5, 3))], -3, 3};
  options.seed = seed;
  options.min_length = below(6, 3);
  options.ignore_eos = below(7, 3) == 0;
  options.sampler = std::vector{UniformSampler::kAncestral, UniformSampler::kAdaptive,
                                UniformSampler::kThreshold}[static_cast<size_t>(below(8, 3))];
  options.threshold = {std::vector{0.02, 0.1, 0.3, 0.7}[static_cast<size_t>(below(21, 4))], below(22, 3)};
  options.tokens_per_step = 1 + below(9, 3);
  options.schedule = below(10, 2) == 0 ? NoiseCurve::kCosine : NoiseCurve::kLinear;
  options.sampling.temperature = below(11, 3) == 0 ? 0.8F : 0;
  options.cache = std::vector{UniformCacheKind::kNone, UniformCacheKind::kPrefix, UniformCacheKind::kUniform,
                              UniformCacheKind::kUniform}[static_cast<size_t>(below(12, 4))];
  options.leaves_at_fixed_point = below(13, 4) != 0;
  if (options.cache != UniformCacheKind::kUniform) return request;
  options.refresh = below(14, 4);
  if (below(15, 2) == 0) options.boundary = BoundaryRefresh{2 + below(16, 2), 1 + below(17, 3)};
  if (below(18, 2) == 0) options.drift = DriftRefresh{0.3, 1 + below(19, 4), 1 + below(20, 8)};
  return request;
}

TEST(UniformDiffusion, ComputesAndWritesWhatTheRulesSay) {
  size_t left_out = 0;
  int32_t ends = 0;
  int32_t left = 0;  // blocks of kThreshold
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const Request request = random_request(seed);
    const Outcome expected = Plainly(request.model, request.options, request.prompt).decode();
    const Outcome outcome = decode(request.model, request.options, request.prompt);
    ASSERT_EQ(outcome.steps, expected.steps);
    ASSERT_EQ(outcome.rows, expected.rows);
    ASSERT_EQ(outcome.changes, expected.changes);
    ASSERT_EQ(outcome.answer, expected.answer);
    const int32_t last = expected.steps.back() / request.options.steps;
    left_out += static_cast<size_t>((last + 1) * request.options.steps) - expected.steps.size();
    left += request.options.sampler == UniformSampler::kThreshold && expected.changes.back().empty() ? 1 : 0;
    ends += static_cast<int32_t>(expected.answer.size()) < request.options.gen_length ? 1 : 0;
  }
  EXPECT_GT(left_out, 20U);
  EXPECT_GT(ends, 5);
  EXPECT_GT(left, 5);
}

TEST(UniformDiffusion, ThePrefixCacheWritesWhatNoCacheWrites) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Request request = random_request(seed);
    request.options.boundary = {};
    request.options.drift = {};
    request.options.cache = UniformCacheKind::kNone;
    const Outcome plain = decode(request.model, request.options, request.prompt);
    request.options.cache = UniformCacheKind::kPrefix;
    const Outcome cached_prefix = decode(request.model, request.options, request.prompt);
    EXPECT_EQ(cached_prefix.changes, plain.changes) << seed;
    EXPECT_EQ(cached_prefix.steps, plain.steps) << seed;
  }
}

TEST(UniformDiffusion, LeavingEarlyIsExact) {
  size_t saved = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Request request = random_request(seed);
    request.options.sampler = UniformSampler::kAdaptive;
    request.options.sampling.temperature = 0;
    request.options.drift = {};  // a step without a pass does not measure drift rates
    request.options.leaves_at_fixed_point = true;
    const Outcome leaving = decode(request.model, request.options, request.prompt);
    request.options.leaves_at_fixed_point = false;
    const Outcome staying = decode(request.model, request.options, request.prompt);
    EXPECT_EQ(leaving.answer, staying.answer) << seed;
    saved += staying.steps.size() - leaving.steps.size();
  }
  EXPECT_GT(saved, 50U);
}

}  // namespace
}  // namespace lacuna::uniform_diffusion_test
