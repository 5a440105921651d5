// Expectations are written from docs/methods/canvas_diffusion.md and the sampler that HF published.
#include "decode/canvas_diffusion.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "fake_model.h"

namespace lacuna::canvas_diffusion_test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr int64_t kVocab =
    10'000;  // random ids hardly ever meet the tokens of a script, which are below 1000
constexpr TokenId kEnd = 4;
constexpr int32_t kPrompt = 3;

std::vector<int32_t> range(int32_t begin, int32_t end) {
  std::vector<int32_t> result(static_cast<size_t>(end - begin));
  std::iota(result.begin(), result.end(), begin);
  return result;
}

// ---- Acceptance

TEST(AcceptByEntropy, CountsTheEntropiesBeforeAndNotItsOwn) {
  const std::vector<double> entropies = {0.5, 0.25, 4, 0.125};
  // In order: 0.125, 0.25, 0.5, 4; before them 0, 0.125, 0.375, 0.875.
  EXPECT_THAT(accept_by_entropy(entropies, 0.0), ElementsAre(3));
  EXPECT_THAT(accept_by_entropy(entropies, 0.124), ElementsAre(3));
  EXPECT_THAT(accept_by_entropy(entropies, 0.125), ElementsAre(1, 3));
  EXPECT_THAT(accept_by_entropy(entropies, 0.374), ElementsAre(1, 3));
  EXPECT_THAT(accept_by_entropy(entropies, 0.375), ElementsAre(0, 1, 3));
  EXPECT_THAT(accept_by_entropy(entropies, 0.874), ElementsAre(0, 1, 3));
  EXPECT_THAT(accept_by_entropy(entropies, 0.875), ElementsAre(0, 1, 2, 3));
}

TEST(AcceptByEntropy, AcceptsOneAtLeastHoweverUnsure) {
  EXPECT_THAT(accept_by_entropy(std::vector<double>{9, 8, 7}, 0.1), ElementsAre(2));
  EXPECT_THAT(accept_by_entropy(std::vector<double>{9}, 0), ElementsAre(0));
  EXPECT_THAT(accept_by_entropy({}, 1), IsEmpty());
}

TEST(AcceptByEntropy, BreaksTiesToTheLowestPosition) {
  EXPECT_THAT(accept_by_entropy(std::vector<double>{2, 1, 1, 1}, 1.5), ElementsAre(1, 2));
  EXPECT_THAT(accept_by_entropy(std::vector<double>(100, 0.5), 1), ElementsAre(0, 1, 2));
}

TEST(AcceptByEntropy, AcceptsAllThatAreSureWithABoundOfZero) {
  EXPECT_THAT(accept_by_entropy(std::vector<double>{0, 0.1, 0, 0}, 0), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(accept_by_entropy(std::vector<double>{0, 0.1, 0.2, 0}, 0), ElementsAre(0, 1, 3));
  EXPECT_THAT(accept_by_entropy(std::vector<double>(300, 0), 0), SizeIs(300));
}

// ---- The decoder

CanvasDiffusion settings(int32_t gen_length = 8, int32_t canvas_length = 8, int32_t steps = 4) {
  CanvasDiffusion options;
  options.vocab_size = kVocab;
  options.end_ids = {kEnd, 5};
  options.gen_length = gen_length;
  options.max_positions = 100'000;
  options.canvas_length = canvas_length;
  options.steps = steps;
  options.seed = 7;
  return options;
}

std::vector<TokenId> prompt_of(int32_t length) {
  std::vector<TokenId> prompt;
  for (int32_t i = 0; i < length; ++i) prompt.push_back(600 + i % 300);
  return prompt;
}

/// Result of a position's row in a pass.
struct Drawn {
  TokenId best = 0;
  TokenId sampled = 0;
  double entropy = 0;
};

struct Where {
  int32_t position = 0;
  int32_t canvas = 0;
  int32_t step = 0;  // of the canvas, from 0
};
using Script = std::function<Drawn(const Where&)>;

struct Pass {
  StepPlan plan;
  StepReport report;
  std::vector<TokenId> inputs;  // of the canvas
  bool finished = false;        // the canvas, with this pass
};

/// Tokens of the rows that are denoised.
std::vector<TokenId> inputs_of(const StepPlan& plan) {
  std::vector<TokenId> inputs;
  for (const LogitRow& logit : plan.logits) inputs.push_back(plan.tokens.at(static_cast<size_t>(logit.row)));
  return inputs;
}

std::vector<Pass> run(Decoder& decoder, const Script& script) {
  std::vector<Pass> passes;
  int32_t canvas = 0;
  int32_t step = 0;
  while (!decoder.done()) {
    if (passes.size() > 1000) throw std::runtime_error("the decoder does not end");
    Pass pass;
    pass.plan = decoder.plan();
    EXPECT_EQ(decoder.plan(), pass.plan) << "until a result comes";
    EXPECT_EQ(pass.plan.cells, pass.plan.positions);
    pass.inputs = inputs_of(pass.plan);
    std::vector<RowStatistics> samples;
    for (const LogitRow& logit : pass.plan.logits) {
      const int32_t position = pass.plan.positions.at(static_cast<size_t>(logit.row));
      const Drawn drawn = script({position, canvas, step});
      RowStatistics row;
      row.token = drawn.sampled;
      row.best_token = drawn.best;
      row.confidence = -drawn.entropy;
      samples.push_back(row);
    }
    const int32_t begin = decoder.block().begin;
    pass.report = decoder.apply({samples});
    pass.finished = decoder.done() || decoder.block().begin != begin;
    if (!samples.empty()) ++step;
    if (pass.finished) {
      ++canvas;
      step = 0;
    }
    passes.push_back(pass);
  }
  return passes;
}

std::vector<Pass> run(const CanvasDiffusion& options, const Script& script, int32_t prompt = kPrompt) {
  CanvasDiffusionDecoder decoder(options, prompt_of(prompt));
  return run(decoder, script);
}

std::vector<TokenId> answer(const Decoder& decoder) {
  return {decoder.canvas().begin() + decoder.prompt_length(), decoder.canvas().end()};
}

/// No pass finds anything likely, and each finds something else best.
Drawn restless(const Where& at) {
  return {100 + at.step, 300 + at.position, 3};
}

/// Always the same, and sure.
Drawn converges(const Where& at) {
  return {100 + at.position, 300 + at.position, 0};
}

/// The passes of each canvas, where each gives these entropies and best tokens.
size_t passes_of(CanvasDiffusion options, const std::vector<std::pair<TokenId, double>>& by_step) {
  options.steps = static_cast<int32_t>(by_step.size());
  return run(options,
             [&](const Where& at) {
               const auto& [best, entropy] = by_step.at(static_cast<size_t>(at.step));
               return Drawn{best, 300, entropy};
             })
      .size();
}

TEST(CanvasDiffusion, CoolsDownInEqualStepsFromTheFirstTemperature) {
  CanvasDiffusion options = settings(8, 8, 4);
  options.first_temperature = 0.8F;
  options.last_temperature = 0.4F;
  const std::vector<Pass> passes = run(options, restless);
  ASSERT_THAT(passes, SizeIs(4));
  for (int32_t i = 0; i < 4; ++i) {
    const StepPlan& plan = passes[static_cast<size_t>(i)].plan;
    ASSERT_THAT(plan.rules, SizeIs(1));
    EXPECT_FLOAT_EQ(plan.rules[0].temperature, 0.4F + 0.4F * static_cast<float>(4 - i) / 4) << i;
    EXPECT_EQ(plan.rules[0].measure, ConfidenceMeasure::kNegativeEntropy);
    EXPECT_EQ(plan.rules[0].source, ConfidenceSource::kTempered);
    EXPECT_EQ(plan.rules[0].top_p, 1);
    EXPECT_EQ(plan.rules[0].top_k, 0);
    EXPECT_THAT(plan.rules[0].forbidden, IsEmpty());
    EXPECT_TRUE(plan.rules[0].draws);
  }
  options.draws = false;
  const std::vector<Pass> greedy = run(options, restless);
  EXPECT_FALSE(greedy[1].plan.rules[0].draws);
  EXPECT_FLOAT_EQ(greedy[1].plan.rules[0].temperature, 0.7F) << "entropies are of the same distribution";
}

TEST(CanvasDiffusion, ConditionsEachPassButTheFirstOfACanvas) {
  const std::vector<Pass> passes = run(settings(16, 8, 3), restless);
  ASSERT_THAT(passes, SizeIs(6));
  for (size_t i = 0; i < passes.size(); ++i) {
    const StepPlan& plan = passes[i].plan;
    EXPECT_EQ(plan.groups.back().canvas, i % 3 == 0 ? CanvasRows::kFresh : CanvasRows::kConditioned) << i;
    EXPECT_EQ(plan.groups.back().own_rows, OwnRows::kBidirectional);
    EXPECT_FALSE(plan.groups.back().only_kv);
    for (const LogitRow& logit : plan.logits) {
      EXPECT_EQ(logit.soft_embedding_slack, i % 3 == 2 ? -1 : 1e-6F)
          << "no pass follows the last one of pass " << i;
    }
  }
  CanvasDiffusion exact = settings(8, 8, 2);
  exact.soft_embedding_slack = 0;
  EXPECT_EQ(run(exact, restless)[0].plan.logits[3].soft_embedding_slack, 0);
}

TEST(CanvasDiffusion, BeginsWithRandomTokensOfTheWholeVocabulary) {
  CanvasDiffusion options = settings(2048, 1024, 1);
  options.vocab_size = 9;
  options.end_ids = {};
  CanvasDiffusionDecoder decoder(options, prompt_of(kPrompt));
  const std::vector<Pass> passes = run(decoder, restless);
  ASSERT_THAT(passes, SizeIs(2));
  for (const Pass& pass : passes) {
    std::map<TokenId, int> counts;
    for (const TokenId token : pass.inputs) ++counts[token];
    ASSERT_THAT(counts, SizeIs(9));
    for (const auto& [token, count] : counts) {
      EXPECT_GE(token, 0);
      EXPECT_LT(token, 9);
      EXPECT_NEAR(count, 1024.0 / 9, 50) << token;
    }
  }
  EXPECT_NE(passes[0].inputs, passes[1].inputs);
}

TEST(CanvasDiffusion, FeedsWhatWasSampledWhereItIsAcceptedAndNewRandomTokensElsewhere) {
  // Positions 5, 7 and 8 are sure in every second pass, and no two in the other ones.
  const auto script = [](const Where& at) {
    const bool sure = at.step % 2 == 0 && (at.position == 5 || at.position == 7 || at.position == 8);
    return Drawn{100 + at.position, 300 + at.position, sure ? 0.02 : 1.0 + at.position};
  };
  const std::vector<Pass> passes = run(settings(8, 8, 6), script);
  ASSERT_THAT(passes, SizeIs(6));
  std::set<std::vector<TokenId>> seen;
  for (size_t i = 0; i < passes.size(); ++i) {
    EXPECT_TRUE(seen.insert(passes[i].inputs).second);
    EXPECT_EQ(passes[i].report.canvas_in, passes[i].inputs);
    if (i == 0) continue;
    for (int32_t position = 3; position < 11; ++position) {
      const auto index = static_cast<size_t>(position - 3);
      const TokenId fed = passes[i].inputs[index];
      // The first that is not sure is accepted as well, as little comes before it: 0.06 nats, or nothing.
      const bool sure = position == 5 || position == 7 || position == 8;
      const bool accepted = i % 2 == 1 ? sure || position == 3 : position == 3;
      if (accepted) {
        EXPECT_EQ(fed, 300 + position) << "pass " << i << ", position " << position;
      } else {
        EXPECT_NE(fed, passes[i - 1].inputs[index]) << "pass " << i << ", position " << position;
        EXPECT_NE(fed, 300 + position);
        EXPECT_NE(fed, 100 + position);
      }
    }
  }
}

TEST(CanvasDiffusion, AcceptsAsManyAsTheBoundAllows) {
  for (const auto& [bound, count] : {std::pair{0.0, 1}, {0.5, 2}, {2.4, 5}, {2.5, 6}, {100.0, 8}}) {
    CanvasDiffusion options = settings(8, 8, 2);
    options.entropy_bound = bound;
    const std::vector<Pass> passes = run(options, [](const Where& at) {
      return Drawn{100, 300 + at.position, 0.5};
    });
    int32_t accepted = 0;
    for (int32_t i = 0; i < 8; ++i)
      accepted += passes[1].inputs[static_cast<size_t>(i)] == 300 + kPrompt + i ? 1 : 0;
    EXPECT_EQ(accepted, count) << bound;
  }
}

TEST(CanvasDiffusion, StopsOnceItsBestTokensStayAndItsMeanEntropyIsBelowTheBound) {
  CanvasDiffusion options = settings();
  options.stop_entropy = 0.25;
  EXPECT_EQ(passes_of(options, {{1, 0}, {1, 0}, {1, 0}, {1, 0}}), 2U) << "never with the first pass";
  EXPECT_EQ(passes_of(options, {{1, 0}, {2, 0}, {3, 0}, {3, 0}, {3, 0}}), 4U);
  EXPECT_EQ(passes_of(options, {{1, 9}, {1, 0.25}, {1, 0.2}, {1, 0}}), 3U) << "strictly below";
  EXPECT_EQ(passes_of(options, {{1, 0}, {2, 0}, {1, 0}, {2, 0}}), 4U) << "two that take turns are not stable";
  EXPECT_EQ(passes_of(options, {{1, 9}, {1, 9}, {1, 9}}), 3U);
  options.stop_entropy = 0;
  EXPECT_EQ(passes_of(options, {{1, 0}, {1, 0}, {1, 0}}), 3U);
}

TEST(CanvasDiffusion, ComparesItsBestTokensWithThoseOfThePassBeforeAndNotWithWhatItWasFed) {
  // The tokens that are sampled, and so fed, change in every pass.
  const auto script = [](const Where& at) { return Drawn{100, 300 + at.step, 0}; };
  EXPECT_THAT(run(settings(8, 8, 9), script), SizeIs(2));
  // They are what the next pass finds best, but no two passes agree.
  const auto ahead = [](const Where& at) { return Drawn{300 + at.step, 301 + at.step, 0}; };
  EXPECT_THAT(run(settings(8, 8, 9), ahead), SizeIs(9));
}

TEST(CanvasDiffusion, TakesTheMeanOfAllEntropies) {
  CanvasDiffusion options = settings(8, 8, 9);
  options.stop_entropy = 0.125;
  const auto with = [](double one) {
    return [=](const Where& at) { return Drawn{100, 300, at.position == 4 ? one : 0.0}; };
  };
  EXPECT_THAT(run(options, with(0.99)), SizeIs(2));
  EXPECT_THAT(run(options, with(1)), SizeIs(9));
}

TEST(CanvasDiffusion, IsStableAfterAsManyPassesAsAreAskedFor) {
  const auto first_differs = [](const Where& at) { return Drawn{at.step == 0 ? 99 : 100, 300, 0}; };
  for (const auto& [stable_steps, passes] : {std::pair{0, 1U}, {1, 3U}, {2, 4U}, {5, 7U}}) {
    CanvasDiffusion options = settings(8, 8, 9);
    options.stable_steps = stable_steps;
    EXPECT_THAT(run(options, first_differs), SizeIs(passes)) << stable_steps;
  }
  CanvasDiffusion options = settings();
  options.stable_steps = 2;
  EXPECT_EQ(passes_of(options, {{1, 0}, {1, 0}, {2, 0}, {2, 0}, {2, 0}, {2, 0}}), 5U) << "in a row";
}

TEST(CanvasDiffusion, BeginsToCountAnewWithEachCanvas) {
  CanvasDiffusion options = settings(24, 8, 9);
  options.stable_steps = 2;
  const std::vector<Pass> passes = run(options, converges);
  ASSERT_THAT(passes, SizeIs(9));
  for (size_t i = 0; i < passes.size(); ++i) {
    EXPECT_EQ(passes[i].report.block, static_cast<int32_t>(i) / 3);
    EXPECT_EQ(passes[i].report.step, static_cast<int32_t>(i));
    EXPECT_EQ(passes[i].report.kind, "denoise");
    EXPECT_FLOAT_EQ(passes[i].plan.rules[0].temperature, 0.4F + 0.4F * (9 - static_cast<float>(i % 3)) / 9);
  }
}

TEST(CanvasDiffusion, WritesTheBestTokensAndNotThoseThatWereSampled) {
  CanvasDiffusionDecoder decoder(settings(8, 8, 3), prompt_of(kPrompt));
  run(decoder, converges);
  EXPECT_EQ(answer(decoder), range(103, 111));
  EXPECT_EQ(decoder.stop_reason(), StopReason::kLength);
  EXPECT_EQ(decoder.num_final(), 8);
  CanvasDiffusionDecoder unsure(settings(8, 8, 3), prompt_of(kPrompt));
  run(unsure, restless);
  EXPECT_THAT(answer(unsure), Each(102)) << "those of the last pass, where it does not converge";
}

TEST(CanvasDiffusion, ReportsEachChangeOfTheBestTokens) {
  const auto script = [](const Where& at) {
    return Drawn{at.step > 0 && at.position == 6 ? 50 + at.step : 100, 300, 1.5};
  };
  const std::vector<Pass> passes = run(settings(5, 8, 3), script);
  ASSERT_THAT(passes, SizeIs(3));
  ASSERT_THAT(passes[0].report.committed, SizeIs(5)) << "of the answer alone";
  EXPECT_EQ(passes[0].report.committed[4], (Commit{7, 100, -1.5}));
  EXPECT_THAT(passes[1].report.committed, ElementsAre(Commit{6, 51, -1.5}));
  EXPECT_THAT(passes[2].report.committed, ElementsAre(Commit{6, 52, -1.5}));
}

TEST(CanvasDiffusion, CutsTheAnswerAfterItsFirstEndToken) {
  for (const TokenId end : {kEnd, TokenId{5}}) {
    CanvasDiffusionDecoder decoder(settings(24, 8, 5), prompt_of(kPrompt));
    const std::vector<Pass> passes = run(decoder, [&](const Where& at) {
      const bool ends = at.position == 14 || at.position == 16;
      return Drawn{ends ? end : 100, 300, 0};
    });
    EXPECT_THAT(passes, SizeIs(4)) << "two canvases; an end token ends no canvas early";
    EXPECT_THAT(answer(decoder), SizeIs(12));
    EXPECT_EQ(answer(decoder).back(), end);
    EXPECT_EQ(decoder.num_final(), 12);
    EXPECT_EQ(decoder.stop_reason(), StopReason::kEndToken);
    for (const Commit& commit : passes.back().report.committed) EXPECT_LE(commit.position, 14);
  }
}

TEST(CanvasDiffusion, IgnoresAnEndTokenThatALaterPassTakesBack) {
  CanvasDiffusionDecoder decoder(settings(8, 8, 5), prompt_of(kPrompt));
  run(decoder, [](const Where& at) { return Drawn{at.step == 0 ? kEnd : 100, kEnd, 0}; });
  EXPECT_THAT(answer(decoder), Each(100));
}

TEST(CanvasDiffusion, ContinuesAfterEndTokensWhereNothingEndsAnAnswer) {
  CanvasDiffusion options = settings(16);
  options.end_ids = {};
  CanvasDiffusionDecoder decoder(options, prompt_of(kPrompt));
  run(decoder, [](const Where&) { return Drawn{kEnd, 300, 0}; });
  EXPECT_THAT(answer(decoder), SizeIs(16));
  EXPECT_EQ(decoder.stop_reason(), StopReason::kLength);
}

TEST(CanvasDiffusion, CutsTheAnswerAtItsLengthThoughCanvasesAreWhole) {
  CanvasDiffusionDecoder decoder(settings(11, 8, 5), prompt_of(kPrompt));
  const std::vector<Pass> passes = run(decoder, [](const Where& at) {
    return Drawn{at.position == 16 ? kEnd : 100, 300, 0};  // after the answer
  });
  EXPECT_THAT(passes.back().inputs, SizeIs(8));
  EXPECT_THAT(answer(decoder), SizeIs(11));
  EXPECT_EQ(decoder.stop_reason(), StopReason::kLength);
  EXPECT_EQ(decoder.num_cells(), kPrompt + 16);
  for (const Pass& pass : passes) {
    for (const Commit& commit : pass.report.committed) EXPECT_LT(commit.position, kPrompt + 11);
  }
}

TEST(CanvasDiffusion, ReadsTheFinishedCanvasInTheFirstPassOfTheNext) {
  CanvasDiffusionDecoder decoder(settings(24, 8, 2), prompt_of(kPrompt));
  const std::vector<Pass> passes = run(decoder, converges);
  ASSERT_THAT(passes, SizeIs(6));
  EXPECT_THAT(groups(passes[0].plan), ElementsAre(Group{{0, 3}, -1, kOnlyKv}, Group{{3, 11}, 11}));
  EXPECT_THAT(groups(passes[1].plan), ElementsAre(Group{{3, 11}, 11}));
  EXPECT_THAT(groups(passes[2].plan), ElementsAre(Group{{3, 11}, -1, kOnlyKv}, Group{{11, 19}, 19}));
  EXPECT_THAT(groups(passes[3].plan), ElementsAre(Group{{11, 19}, 19}));
  EXPECT_THAT(groups(passes[4].plan), ElementsAre(Group{{11, 19}, -1, kOnlyKv}, Group{{19, 27}, 27}));
  for (const size_t i : {0U, 2U, 4U}) {
    const StepPlan& plan = passes[i].plan;
    const RowGroup& reading = plan.groups[0];
    EXPECT_EQ(reading.own_rows, OwnRows::kCausal);
    EXPECT_EQ(reading.canvas, CanvasRows::kNone);
    EXPECT_EQ(cells_seen_by(plan, reading, 1), range(0, plan.positions[1] + 1));
  }
  // The best tokens, as they were written.
  EXPECT_EQ(std::vector<TokenId>(passes[2].plan.tokens.begin(), passes[2].plan.tokens.begin() + 8),
            range(103, 111));
  EXPECT_EQ(std::vector<TokenId>(passes[0].plan.tokens.begin(), passes[0].plan.tokens.begin() + 3),
            prompt_of(3));
}

TEST(CanvasDiffusion, ReadsLongPromptsInPassesOf1024Rows) {
  for (const auto& [prompt, reads] : {std::pair{1024, 0}, {1025, 1}, {2048, 1}, {2049, 2}, {2500, 2}}) {
    CanvasDiffusionDecoder decoder(settings(8, 8, 2), prompt_of(prompt));
    const std::vector<Pass> passes = run(decoder, converges);
    ASSERT_THAT(passes, SizeIs(static_cast<size_t>(reads + 2))) << prompt;
    for (int32_t i = 0; i < reads; ++i) {
      const Pass& pass = passes[static_cast<size_t>(i)];
      EXPECT_EQ(pass.report.kind, "prefill");
      EXPECT_THAT(groups(pass.plan), ElementsAre(Group{{1024 * i, 1024 * (i + 1)}, -1, kOnlyKv}));
      EXPECT_THAT(pass.plan.logits, IsEmpty());
      EXPECT_THAT(pass.report.canvas_in, IsEmpty());
    }
    const StepPlan& first = passes[static_cast<size_t>(reads)].plan;
    EXPECT_EQ(first.groups[0].rows.size(), prompt - 1024 * reads) << "what is left";
    EXPECT_THAT(groups(first).back(), (Group{{prompt, prompt + 8}, prompt + 8}));
    EXPECT_EQ(first.groups.back().canvas, CanvasRows::kFresh);
    EXPECT_FLOAT_EQ(first.rules[0].temperature, 0.8F) << "passes that read cool nothing down";
  }
}

TEST(CanvasDiffusion, SharesItsPromptAndTheCanvasesThatAreRead) {
  CanvasDiffusionDecoder decoder(settings(24, 8, 2), prompt_of(20));
  ExactPrefix prefix = decoder.exact_prefix();
  EXPECT_EQ(prefix.block_length, 1);
  EXPECT_EQ(prefix.wanted, 20) << "nothing is asked of the prompt but its K/V";
  EXPECT_EQ(prefix.promised, 20);
  EXPECT_EQ(prefix.kept, 0);
  decoder.skip_prefix(16);
  EXPECT_EQ(decoder.exact_prefix().kept, 16);
  EXPECT_THAT(groups(decoder.plan()), ElementsAre(Group{{16, 20}, -1, kOnlyKv}, Group{{20, 28}, 28}));
  std::vector<int32_t> kept;
  while (!decoder.done()) {
    decoder.apply({std::vector<RowStatistics>(decoder.plan().logits.size())});
    kept.push_back(decoder.exact_prefix().kept);
  }
  EXPECT_THAT(kept, ElementsAre(20, 20, 28, 28, 36, 36)) << "a canvas's own K/V are not those of its reading";

  CanvasDiffusionDecoder whole(settings(8, 8, 2), prompt_of(20));
  whole.skip_prefix(20);
  EXPECT_THAT(groups(whole.plan()), ElementsAre(Group{{20, 28}, 28}));
}

TEST(CanvasDiffusion, CutsTheLastCanvasWhereTheModelHasNoMorePositions) {
  CanvasDiffusion options = settings(13, 8, 2);
  options.max_positions = kPrompt + 13;
  CanvasDiffusionDecoder decoder(options, prompt_of(kPrompt));
  EXPECT_EQ(decoder.num_cells(), kPrompt + 13);
  const std::vector<Pass> passes = run(decoder, converges);
  EXPECT_THAT(passes.back().inputs, SizeIs(5));
  EXPECT_EQ(answer(decoder), range(103, 116));
  EXPECT_EQ(decoder.stop_reason(), StopReason::kLength);
}

TEST(CanvasDiffusion, ShowsTheBestTokensOfTheCanvasThatIsDenoised) {
  CanvasDiffusionDecoder decoder(settings(16, 8, 2), prompt_of(kPrompt));
  EXPECT_THAT(answer(decoder), SizeIs(8));
  EXPECT_EQ(decoder.num_final(), 0);
  const auto apply = [&](TokenId best) {
    RowStatistics row;
    row.best_token = best;
    row.confidence = -1;
    decoder.apply({std::vector<RowStatistics>(decoder.plan().logits.size(), row)});
  };
  apply(100);
  EXPECT_THAT(answer(decoder), Each(100));
  EXPECT_EQ(decoder.num_final(), 0);
  EXPECT_EQ(decoder.block(), (IndexRange{3, 11}));
  apply(101);
  EXPECT_EQ(decoder.num_final(), 8);
  EXPECT_EQ(decoder.block(), (IndexRange{11, 19}));
  EXPECT_THAT(answer(decoder), SizeIs(16));
  EXPECT_EQ(decoder.planned_steps(), 4);
}

// ---- With random logits

struct Outcome {
  std::vector<TokenId> answer;
  std::vector<std::vector<TokenId>> inputs;

  bool operator==(const Outcome&) const = default;
};

Outcome decode(const CanvasDiffusion& options, double scale = 40) {
  FakeModel model;
  model.vocab = options.vocab_size;
  model.scale = scale;
  CanvasDiffusionDecoder decoder(options, {1, 2, 3});
  FakeCells cells(model, decoder.num_cells());
  Outcome outcome;
  cells.run(decoder,
            [&](const StepPlan& plan, const StepReport&) { outcome.inputs.push_back(inputs_of(plan)); });
  outcome.answer = answer(decoder);
  return outcome;
}

CanvasDiffusion small(uint64_t seed) {
  CanvasDiffusion options = settings(20, 8, 5);
  options.vocab_size = 23;
  options.end_ids = {};
  options.seed = seed;
  return options;
}

TEST(CanvasDiffusion, WritesTheSameWithTheSameSeedAndSomethingElseWithAnother) {
  std::set<std::vector<TokenId>> answers;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const Outcome outcome = decode(small(seed));
    EXPECT_EQ(outcome, decode(small(seed)));
    answers.insert(outcome.answer);
  }
  EXPECT_THAT(answers, SizeIs(8));
}

TEST(CanvasDiffusion, FeedsTheBestTokensWhereItDoesNotDraw) {
  CanvasDiffusion options = small(1);
  options.draws = false;
  options.entropy_bound = 1e6;  // all are accepted
  FakeModel model;
  model.vocab = options.vocab_size;
  CanvasDiffusionDecoder decoder(options, {1, 2, 3});
  FakeCells cells(model, decoder.num_cells());
  std::vector<TokenId> best;
  int32_t compared = 0;
  while (!decoder.done()) {
    const StepPlan plan = decoder.plan();
    if (plan.groups.back().canvas == CanvasRows::kConditioned) {
      EXPECT_EQ(inputs_of(plan), best);
      ++compared;
    }
    const std::vector<RowStatistics> samples = cells.forward(plan);
    best.clear();
    for (const RowStatistics& row : samples) best.push_back(row.best_token);
    decoder.apply({samples});
  }
  EXPECT_GT(compared, 5);
}

TEST(CanvasDiffusion, DrawsOtherTokensThanTheBestAtItsTemperature) {
  CanvasDiffusion options = small(1);
  options.entropy_bound = 1e6;
  const Outcome drawn = decode(options, 4);
  options.draws = false;
  const Outcome best = decode(options, 4);
  EXPECT_EQ(drawn.inputs[0], best.inputs[0]) << "the canvas begins with the same tokens";
  EXPECT_NE(drawn.inputs[1], best.inputs[1]);
}

TEST(CanvasDiffusion, CountsWhatThePassWouldComputeWithoutACache) {
  CanvasDiffusionDecoder decoder(settings(8, 8, 2), prompt_of(20));
  PassWork work = decoder.uncached_work();
  EXPECT_EQ(work.rows, 28);
  EXPECT_EQ(work.only_kv_rows, 20);
  decoder.apply({std::vector<RowStatistics>(decoder.plan().logits.size())});
  work = decoder.uncached_work();
  EXPECT_EQ(work.rows, 28) << "the prompt would be read again";
  EXPECT_EQ(work.logit_rows, 8);
  CanvasDiffusionDecoder reads(settings(8, 8, 2), prompt_of(1500));
  EXPECT_EQ(reads.uncached_work().rows, 0);
}

}  // namespace
}  // namespace lacuna::canvas_diffusion_test
