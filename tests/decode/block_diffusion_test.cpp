// Expectations are written from docs/methods/block_diffusion.md; sections below are that page's.
#include "decode/block_diffusion.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "block_settings.h"
#include "fake_model.h"

namespace lacuna::block_diffusion_test {
namespace {

using block_tests::kEnd;
using block_tests::kMask;
using block_tests::settings;
using testing::Each;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

using Choice = SparseAttention::Choice;

BlockDiffusion shifted_settings(int32_t gen_length, int32_t block_length, int32_t sub_block_length,
                                int32_t steps) {
  BlockDiffusion options = settings(gen_length, block_length, steps);
  options.sub_block_length = sub_block_length;
  options.shifted_logits = true;
  options.commits_apart = true;
  return options;
}

/// `length` tokens from 11 on.
std::vector<TokenId> prompt_of(int32_t length) {
  std::vector<TokenId> prompt(static_cast<size_t>(length));
  std::iota(prompt.begin(), prompt.end(), 11);
  return prompt;
}

struct Pass {
  StepPlan plan;
  StepReport report;
  std::vector<int32_t> sampled;  // positions, in the order of the plan's logits
};

/// A token and its confidence, for a position in the n-th pass.
using Script = std::function<std::pair<TokenId, double>(int32_t position, size_t pass)>;

std::pair<TokenId, double> same_everywhere(int32_t position, size_t) {
  return {position + 100, 0.5};
}

Pass step(Decoder& decoder, bool shifted, const Script& script, size_t number) {
  Pass pass;
  pass.plan = decoder.plan();
  EXPECT_EQ(decoder.plan(), pass.plan);
  EXPECT_EQ(pass.plan.cells, pass.plan.positions);
  std::vector<RowStatistics> samples;
  for (const LogitRow& logit : pass.plan.logits) {
    const int32_t position = pass.plan.positions.at(static_cast<size_t>(logit.row)) + (shifted ? 1 : 0);
    pass.sampled.push_back(position);
    RowStatistics& sample = samples.emplace_back();
    std::tie(sample.token, sample.confidence) = script(position, number);
  }
  pass.report = decoder.apply({samples});
  if (pass.report.step > 1000) throw std::runtime_error("the decoder does not end");
  return pass;
}

std::vector<Pass> run(Decoder& decoder, const BlockDiffusion& options,
                      const Script& script = same_everywhere) {
  std::vector<Pass> passes;
  while (!decoder.done()) {
    passes.push_back(step(decoder, options.shifted_logits, script, passes.size()));
  }
  return passes;
}

std::vector<Pass> run(const BlockDiffusion& options, const std::vector<TokenId>& prompt,
                      const Script& script = same_everywhere) {
  BlockDiffusionDecoder decoder(options, prompt);
  return run(decoder, options, script);
}

std::vector<std::string> kinds(const std::vector<Pass>& passes) {
  std::vector<std::string> result;
  for (const Pass& pass : passes) result.emplace_back(pass.report.kind);
  return result;
}

std::vector<int32_t> committed(const Pass& pass) {
  std::vector<int32_t> result;
  for (const Commit& commit : pass.report.committed) result.push_back(commit.position);
  return result;
}

std::vector<std::vector<int32_t>> committed(const std::vector<Pass>& passes) {
  std::vector<std::vector<int32_t>> result;
  for (const Pass& pass : passes) result.push_back(committed(pass));
  return result;
}

std::vector<TokenId> answer(const Decoder& decoder) {
  return {decoder.canvas().begin() + decoder.prompt_length(), decoder.canvas().end()};
}

std::vector<Group> groups(const Pass& pass) {
  return groups(pass.plan);
}

// ---- 1. The canvas

TEST(BlockDiffusion, BlocksBeginAtPosition0AndTheTailOfThePromptIsFixedInTheFirst) {
  const BlockDiffusion options = settings(6, 4, 4);
  BlockDiffusionDecoder decoder(options, prompt_of(6));
  EXPECT_EQ(decoder.num_cells(), 12);
  EXPECT_EQ(decoder.block(), (IndexRange{4, 8}));
  EXPECT_EQ(decoder.planned_steps(), 8);
  const std::vector<Pass> passes = run(decoder, options);
  ASSERT_THAT(passes, SizeIs(6));
  EXPECT_THAT(passes[0].plan.tokens, ElementsAre(11, 12, 13, 14, 15, 16, kMask, kMask));
  EXPECT_THAT(passes[0].sampled, ElementsAre(6, 7));
  EXPECT_THAT(passes[1].plan.tokens, ElementsAre(15, 16, 106, kMask));
  EXPECT_THAT(passes[1].sampled, ElementsAre(7));
  EXPECT_THAT(passes[2].sampled, ElementsAre(8, 9, 10, 11));
  EXPECT_THAT(answer(decoder), ElementsAre(106, 107, 108, 109, 110, 111));
  EXPECT_EQ(decoder.stop_reason(), StopReason::kLength);
}

TEST(BlockDiffusion, APromptMayContainTheMaskToken) {
  const BlockDiffusion options = settings(2, 4, 4);
  BlockDiffusionDecoder decoder(options, {11, kMask, 13, 14, kMask, 16});
  for (const Pass& pass : run(decoder, options)) EXPECT_THAT(pass.sampled, Each(testing::Ge(6)));
  EXPECT_THAT(decoder.canvas(), ElementsAre(11, kMask, 13, 14, kMask, 16, 106, 107));
}

TEST(BlockDiffusion, PositionsBehindTheAnswerAreDenoisedAndCut) {
  BlockDiffusion options = settings(3, 4, 1);
  BlockDiffusionDecoder decoder(options, prompt_of(2));
  const auto ends_behind = [](int32_t position, size_t) {
    return std::pair(position == 6 ? kEnd : position + 100, 0.5);
  };
  const std::vector<Pass> passes = run(decoder, options, ends_behind);
  ASSERT_THAT(passes, SizeIs(2));
  EXPECT_THAT(passes[1].sampled, ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(committed(passes[1]), ElementsAre(4));
  EXPECT_THAT(answer(decoder), ElementsAre(102, 103, 104));
  EXPECT_EQ(decoder.stop_reason(), StopReason::kLength);
}

TEST(BlockDiffusion, TellsHowFarItIs) {
  const BlockDiffusion options = settings(8, 4, 2);
  BlockDiffusionDecoder decoder(options, prompt_of(6));
  std::vector<int32_t> blocks;
  std::vector<int32_t> begins;
  std::vector<int32_t> num_final = {decoder.num_final()};
  int32_t number = 0;
  while (!decoder.done()) {
    begins.push_back(decoder.block().begin);
    const Pass pass = step(decoder, false, same_everywhere, 0);
    EXPECT_EQ(pass.report.step, number++);
    blocks.push_back(pass.report.block);
    num_final.push_back(decoder.num_final());
  }
  EXPECT_THAT(begins, ElementsAre(4, 8, 8, 12, 12));
  EXPECT_THAT(blocks, ElementsAre(0, 1, 1, 2, 2));
  EXPECT_THAT(num_final, ElementsAre(0, 2, 4, 6, 8, 8));  // 14 and 15 are cut
  const BaselineRequest baseline = decoder.baseline_request().value();
  EXPECT_EQ(baseline, (BaselineRequest{6, 8, 8}));
}

// ---- 2. Passes

TEST(BlockDiffusion, FusedTheFirstStepOfABlockKeepsWhatLiesBefore) {
  const BlockDiffusion options = settings(8, 4, 2);
  const std::vector<Pass> passes = run(options, prompt_of(8));
  ASSERT_THAT(kinds(passes), ElementsAre("denoise", "denoise", "denoise", "denoise"));
  EXPECT_THAT(groups(passes[0]), ElementsAre(Group{{0, 4}, 4, kOnlyKv}, Group{{4, 8}, 8, kOnlyKv},
                                             Group{{8, 12}, 12, !kOnlyKv}));
  EXPECT_THAT(groups(passes[1]), ElementsAre(Group{{8, 12}, 12, !kOnlyKv}));
  EXPECT_THAT(groups(passes[2]), ElementsAre(Group{{8, 12}, 12, kOnlyKv}, Group{{12, 16}, 16, !kOnlyKv}));
  EXPECT_THAT(passes[2].plan.tokens, ElementsAre(108, 109, 110, 111, kMask, kMask, kMask, kMask));
  EXPECT_THAT(passes[2].sampled, ElementsAre(12, 13, 14, 15));
  EXPECT_THAT(groups(passes[3]), ElementsAre(Group{{12, 16}, 16, !kOnlyKv}));
}

TEST(BlockDiffusion, ApartAFinishedBlockIsKeptInAPassOfItsOwnAndTheLastIsNot) {
  BlockDiffusion options = settings(8, 4, 2);
  options.commits_apart = true;
  const std::vector<Pass> passes = run(options, prompt_of(8));
  ASSERT_THAT(kinds(passes), ElementsAre("prefill", "denoise", "denoise", "commit", "denoise", "denoise"));
  EXPECT_THAT(groups(passes[0]), ElementsAre(Group{{0, 4}, 4, kOnlyKv}, Group{{4, 8}, 8, kOnlyKv}));
  EXPECT_THAT(groups(passes[1]), ElementsAre(Group{{8, 12}, 12, !kOnlyKv}));
  EXPECT_THAT(groups(passes[3]), ElementsAre(Group{{8, 12}, 12, kOnlyKv}));
  EXPECT_THAT(passes[3].plan.tokens, ElementsAre(108, 109, 110, 111));
  EXPECT_THAT(passes[3].sampled, IsEmpty());
  EXPECT_THAT(groups(passes[4]), ElementsAre(Group{{12, 16}, 16, !kOnlyKv}));
}

TEST(BlockDiffusion, PrefillComputes1024RowsInAPassOrOneBlock) {
  // Blocks of the prompt that each pass computes; the last pass denoises.
  const auto kept_blocks = [](int32_t block_length, int32_t prompt_blocks, bool apart) {
    BlockDiffusion options = settings(1, block_length, 1);
    options.commits_apart = apart;
    std::vector<std::vector<int32_t>> result;
    for (const Pass& pass : run(options, prompt_of(prompt_blocks * block_length))) {
      EXPECT_EQ(pass.report.kind, pass.sampled.empty() ? "prefill" : "denoise");
      std::vector<int32_t>& blocks = result.emplace_back();
      for (const RowGroup& group : pass.plan.groups) {
        const int32_t begin = pass.plan.positions[static_cast<size_t>(group.rows.begin)];
        EXPECT_EQ(group.visible.size(), begin == 0 ? 0U : 1U);
        if (group.only_kv) blocks.push_back(begin / block_length);
      }
    }
    return result;
  };
  using testing::UnorderedElementsAre;
  EXPECT_THAT(kept_blocks(400, 5, true),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4), IsEmpty()));
  EXPECT_THAT(kept_blocks(400, 5, false), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4)));
  EXPECT_THAT(kept_blocks(512, 4, false), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_THAT(kept_blocks(512, 2, false), ElementsAre(ElementsAre(0, 1)));
  EXPECT_THAT(kept_blocks(2000, 2, true), ElementsAre(ElementsAre(0), ElementsAre(1), IsEmpty()));
  EXPECT_THAT(kept_blocks(2000, 2, false), ElementsAre(ElementsAre(0), ElementsAre(1)));
}

TEST(BlockDiffusion, UncachedWorkIsThatOfAllBlocksUpToTheDenoisedOne) {
  for (const bool apart : {false, true}) {
    BlockDiffusion options = settings(8, 4, 2);
    options.commits_apart = apart;
    BlockDiffusionDecoder decoder(options, prompt_of(6));
    while (!decoder.done()) {
      const PassWork work = decoder.uncached_work();
      const int32_t end = decoder.block().end;
      const Pass pass = step(decoder, false, same_everywhere, 0);
      PassWork expected;
      if (pass.report.kind == "denoise") {
        StepPlan plan;
        for (int32_t begin = 0; begin < end; begin += 4) {
          for (int32_t position = begin; position < begin + 4; ++position)
            plan.add_row(0, position, position);
          plan.groups.push_back({0, {begin, begin + 4}, {{0, begin}}});
        }
        plan.logits = pass.plan.logits;
        expected = work_of(plan);
      }
      EXPECT_EQ(work.rows, expected.rows);
      EXPECT_EQ(work.pairs, expected.pairs);
      EXPECT_EQ(work.cells, expected.cells);
      EXPECT_EQ(work.logit_rows, expected.logit_rows);
    }
  }
}

TEST(BlockDiffusion, ThePrefixThatRequestsShareIsWholeBlocksOfThePrompt) {
  const BlockDiffusion options = settings(8, 4, 1);
  BlockDiffusionDecoder decoder(options, prompt_of(14));
  EXPECT_EQ(decoder.exact_prefix().block_length, 4);
  EXPECT_EQ(decoder.exact_prefix().wanted, 12);
  EXPECT_EQ(decoder.exact_prefix().promised, 12);
  std::vector<int32_t> kept;
  while (!decoder.done()) {
    kept.push_back(decoder.exact_prefix().kept);
    step(decoder, false, same_everywhere, 0);
  }
  EXPECT_THAT(kept, ElementsAre(0, 12, 16));

  BlockDiffusionDecoder skipping(options, prompt_of(14));
  skipping.skip_prefix(8);
  EXPECT_EQ(skipping.exact_prefix().kept, 8);
  EXPECT_THAT(groups(run(skipping, options).front()),
              ElementsAre(Group{{8, 12}, 12, kOnlyKv}, Group{{12, 16}, 16, !kOnlyKv}));
}

TEST(BlockDiffusion, AShiftedModelReadsTheLastBlockOfThePromptWhereItsLastRowIsNeeded) {
  const BlockDiffusion options = shifted_settings(4, 4, 4, 4);
  BlockDiffusionDecoder at_a_boundary(options, prompt_of(12));
  EXPECT_EQ(at_a_boundary.exact_prefix().wanted, 8);
  EXPECT_EQ(at_a_boundary.exact_prefix().promised, 12);
  at_a_boundary.skip_prefix(8);
  EXPECT_THAT(groups(run(at_a_boundary, options).front()), ElementsAre(Group{{8, 12}, 12, !kOnlyKv}));
  BlockDiffusionDecoder within(options, prompt_of(13));
  EXPECT_EQ(within.exact_prefix().wanted, 12);
}

TEST(BlockDiffusion, BlocksThatWereKeptSparselyAreNotShared) {
  BlockDiffusion options = settings(8, 4, 1);
  options.sparse = Mage{4};
  options.commits_apart = true;
  for (const bool sparsely : {false, true}) {
    options.commits_sparsely = sparsely;
    BlockDiffusionDecoder decoder(options, prompt_of(8));
    run(decoder, options);
    EXPECT_EQ(decoder.exact_prefix().kept, sparsely ? 8 : 12);
  }
}

// ---- 3. Drawing

TEST(BlockDiffusion, EverySampleTakesItsNoiseFromBlockStepAndPosition) {
  for (const bool shifted : {false, true}) {
    BlockDiffusion options = shifted ? shifted_settings(16, 8, 4, 4) : settings(16, 8, 4);
    options.sampling.temperature = 0.7F;
    options.sampling.top_k = 5;
    std::vector<std::pair<int32_t, int32_t>> steps;  // b, s
    int32_t last_block = -1;
    for (const Pass& pass : run(options, prompt_of(10))) {
      if (pass.report.kind != "denoise") continue;
      const int32_t block = pass.sampled.front() / 8;
      const int32_t s = block == last_block ? steps.back().second + 1 : 0;
      last_block = block;
      steps.emplace_back(block, s);
      ASSERT_THAT(pass.plan.rules, SizeIs(1));
      EXPECT_EQ(pass.plan.rules[0], options.sampling);
      for (size_t i = 0; i < pass.sampled.size(); ++i) {
        EXPECT_EQ(pass.plan.logits[i].noise, RngStream(5, 1, block, s, pass.sampled[i]));
      }
    }
    EXPECT_THAT(steps, testing::Contains(Pair(2, 3)));
  }
}

TEST(BlockDiffusion, WithAShiftAPositionIsSampledFromTheRowBefore) {
  BlockDiffusion options = shifted_settings(8, 4, 4, 4);
  options.sampling.temperature = 0.7F;
  BlockDiffusionDecoder decoder(options, prompt_of(8));
  const std::vector<Pass> passes = run(decoder, options);
  ASSERT_THAT(kinds(passes), ElementsAre("prefill", "denoise", "denoise", "denoise", "commit", "denoise",
                                         "denoise", "denoise"));
  // The last row of the pass that computes the block before gives a block its first token, the best one.
  for (const size_t pass : {0U, 4U}) {
    const int32_t begin = pass == 0 ? 8 : 12;
    ASSERT_THAT(passes[pass].sampled, ElementsAre(begin));
    EXPECT_THAT(committed(passes[pass]), ElementsAre(begin));
    const auto rule = static_cast<size_t>(passes[pass].plan.logits[0].rule);
    EXPECT_EQ(passes[pass].plan.rules[rule].temperature, 0);
    EXPECT_EQ(passes[pass].plan.rules[rule].undrawn, options.sampling.undrawn);
  }
  EXPECT_THAT(groups(passes[0]), ElementsAre(Group{{0, 4}, 4, kOnlyKv}, Group{{4, 8}, 8, !kOnlyKv}));
  EXPECT_THAT(passes[1].plan.tokens, ElementsAre(108, kMask, kMask, kMask));
  EXPECT_THAT(passes[1].sampled, ElementsAre(9, 10, 11));
  EXPECT_THAT(answer(decoder), ElementsAre(108, 109, 110, 111, 112, 113, 114, 115));
}

TEST(BlockDiffusion, WithAShiftThePromptMayGiveABlockItsFirstToken) {
  const std::vector<Pass> passes = run(shifted_settings(3, 4, 4, 4), prompt_of(5));
  ASSERT_THAT(kinds(passes), ElementsAre("prefill", "denoise", "denoise", "denoise"));
  EXPECT_THAT(groups(passes[0]), ElementsAre(Group{{0, 4}, 4, kOnlyKv}));
  EXPECT_THAT(passes[0].sampled, IsEmpty());
  EXPECT_THAT(passes[1].sampled, ElementsAre(5, 6, 7));
}

TEST(BlockDiffusion, WithAShiftOnlyTheLastPrefillPassGivesAToken) {
  const std::vector<Pass> passes = run(shifted_settings(1, 512, 512, 1), prompt_of(1536));
  ASSERT_THAT(kinds(passes), ElementsAre("prefill", "prefill", "denoise"));
  EXPECT_THAT(passes[0].sampled, IsEmpty());
  EXPECT_THAT(passes[1].sampled, ElementsAre(1536));
}

TEST(BlockDiffusion, WithAShiftTheFirstTokenOfABlockMayEndTheAnswer) {
  const BlockDiffusion options = shifted_settings(8, 4, 4, 1);
  BlockDiffusionDecoder decoder(options, prompt_of(4));
  const std::vector<Pass> passes = run(decoder, options, [](int32_t position, size_t) {
    return std::pair(position == 8 ? kEnd : position + 100, 0.5);
  });
  EXPECT_THAT(kinds(passes), ElementsAre("prefill", "denoise", "commit"));
  EXPECT_THAT(answer(decoder), ElementsAre(104, 105, 106, 107, kEnd));
  EXPECT_EQ(decoder.stop_reason(), StopReason::kEndToken);
}

// ---- 4. What a step commits

TEST(BlockDiffusion, StepsSplitABlockEvenlyWhateverThePromptsTail) {
  const auto counts = [](int32_t steps, int32_t prompt_length) {
    std::vector<size_t> result;
    for (const Pass& pass : run(settings(8 - prompt_length, 8, steps), prompt_of(prompt_length))) {
      result.push_back(pass.report.committed.size());
    }
    return result;
  };
  EXPECT_THAT(counts(3, 0), ElementsAre(3, 3, 2));
  EXPECT_THAT(counts(5, 0), ElementsAre(2, 2, 2, 1, 1));
  EXPECT_THAT(counts(1, 0), ElementsAre(8));
  EXPECT_THAT(counts(3, 3), ElementsAre(3, 2));
  EXPECT_THAT(counts(5, 7), ElementsAre(1));
}

TEST(BlockDiffusion, EachUnmaskRuleCommitsItsPositions) {
  struct Case {
    UnmaskPolicy policy;
    std::vector<double> confidences;
    std::vector<int32_t> expected;
  };
  const std::vector<double> sure = {0.9, 0.5, 0.95, 0.9, 0.2, 0.7, 0.96, 0.9};
  const std::vector<double> entropies = {-0.12, -0.5, -0.05, -0.2, -1, -0.7, -2, -0.6};
  const std::vector<double> equal(8, 0.5);
  const std::vector<Case> cases = {
      {{EvenSplit{}}, sure, {2, 6}},
      {{EvenSplit{}}, entropies, {0, 2}},
      {{EvenSplit{}}, equal, {0, 1}},
      {{EvenSplit{}, UnmaskOrder::kLeftToRight}, sure, {0, 1}},
      {{Dynamic{0.6}}, sure, {0, 2, 3, 5, 6, 7}},
      {{Dynamic{0.9}}, sure, {2, 6}},   // strictly above
      {{Dynamic{0.95}}, sure, {2, 6}},  // only one is; n_s are two
      {{Dynamic{1}}, sure, {2, 6}},
      {{Dynamic{0.6}}, equal, {0, 1}},
      {{Threshold{0.9}}, sure, {0, 2, 3, 6, 7}},  // at least
      {{Threshold{0.99}}, sure, {6}},
      {{Threshold{0.6}}, equal, {0}},
      {{Factor{1}}, sure, {0, 2, 3, 6, 7}},  // 0.9 >= 1 - 1 / 6, 0.7 < 1 - 1 / 7
      {{EntropyBounded{0.35}}, entropies, {0, 2}},
      {{EntropyBounded{0.38}}, entropies, {0, 2, 3}},
      {{EntropyBounded{0.01}}, entropies, {2}},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    BlockDiffusion options = settings(8, 8, 4);
    options.unmask = cases[i].policy;
    const std::vector<Pass> passes = run(options, {}, [&](int32_t position, size_t) {
      return std::pair(position + 100, cases[i].confidences[static_cast<size_t>(position)]);
    });
    EXPECT_EQ(committed(passes[0]), cases[i].expected);
    for (const Commit& commit : passes[0].report.committed) {
      EXPECT_EQ(commit.token, commit.position + 100);
      EXPECT_EQ(commit.confidence, cases[i].confidences[static_cast<size_t>(commit.position)]);
    }
  }
}

TEST(BlockDiffusion, RandomOrderTakesItsNoiseFromBlockAndStep) {
  BlockDiffusion options = settings(12, 4, 4);
  options.unmask.order = UnmaskOrder::kRandom;
  const std::vector<Pass> passes = run(options, prompt_of(4));
  ASSERT_THAT(passes, SizeIs(12));
  for (int32_t pass = 0; pass < 12; ++pass) {
    const std::vector<int32_t>& masked = passes[static_cast<size_t>(pass)].sampled;
    const RngStream noise(5, 2, 1 + pass / 4, pass % 4);
    const auto largest = std::max_element(masked.begin(), masked.end(), [&](int32_t a, int32_t b) {
      return noise.uniform(static_cast<uint64_t>(a)) < noise.uniform(static_cast<uint64_t>(b));
    });
    EXPECT_THAT(committed(passes[static_cast<size_t>(pass)]), ElementsAre(*largest));
  }
}

TEST(BlockDiffusion, StopsAtAnEndTokenOnceNoMaskLiesBeforeIt) {
  BlockDiffusion options = settings(12, 4, 4);
  const auto script = [](int32_t position, size_t) {
    // 6 first, then 7, 4, 5.
    const double confidence = position == 6 ? 0.9 : position == 7 ? 0.8 : position == 4 ? 0.7 : 0.6;
    return std::pair(position == 6 ? kEnd : position + 100, confidence);
  };
  BlockDiffusionDecoder decoder(options, {11, 12, 13, kEnd});  // one in the prompt ends nothing
  std::vector<int32_t> num_final;
  const Script watched = [&](int32_t position, size_t pass) {
    num_final.resize(pass + 1, decoder.num_final());
    return script(position, pass);
  };
  const std::vector<Pass> passes = run(decoder, options, watched);
  EXPECT_THAT(committed(passes), ElementsAre(ElementsAre(6), ElementsAre(7), ElementsAre(4), ElementsAre(5)));
  EXPECT_THAT(num_final, ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(answer(decoder), ElementsAre(104, 105, kEnd));
  EXPECT_EQ(decoder.num_final(), 3);
  EXPECT_EQ(decoder.stop_reason(), StopReason::kEndToken);

  options.end_ids.clear();
  BlockDiffusionDecoder ignoring(options, {11, 12, 13, kEnd});
  EXPECT_THAT(run(ignoring, options, script), SizeIs(12));
  EXPECT_THAT(answer(ignoring), SizeIs(12));
  EXPECT_EQ(ignoring.stop_reason(), StopReason::kLength);
}

TEST(BlockDiffusion, StopsBeforeABlockIsFullAndReportsNothingBehindTheEnd) {
  BlockDiffusion options = settings(8, 8, 4);
  options.unmask.count = Threshold{0.9};
  BlockDiffusionDecoder decoder(options, {});
  const std::vector<Pass> passes = run(decoder, options, [](int32_t position, size_t) {
    return std::pair(position == 2 ? kEnd : position + 100, position < 5 ? 0.9 : 0.1);
  });
  EXPECT_THAT(committed(passes), ElementsAre(ElementsAre(0, 1, 2)));
  EXPECT_THAT(answer(decoder), ElementsAre(100, 101, kEnd));
}

// ---- 5. Sub-blocks and the block cache

TEST(BlockDiffusion, SubBlocksAreDenoisedFromLeftToRightByWholeBlocks) {
  const std::vector<Pass> passes = run(shifted_settings(7, 8, 4, 6), prompt_of(1));
  std::vector<std::vector<int32_t>> sampled;
  for (const Pass& pass : passes) {
    sampled.push_back(pass.sampled);
    EXPECT_THAT(groups(pass), ElementsAre(Group{{0, 8}, 8, !kOnlyKv}));
  }
  // Three steps for each sub-block: 2, 1 and 1 positions. The prompt has one of the first's.
  EXPECT_THAT(sampled, ElementsAre(ElementsAre(1, 2, 3), ElementsAre(3), ElementsAre(4, 5, 6, 7),
                                   ElementsAre(6, 7), ElementsAre(7)));
}

TEST(BlockDiffusion, TheBlockCacheComputesTheSubBlockAloneOnceItsFirstPositionIsKnown) {
  BlockDiffusion options = shifted_settings(15, 8, 4, 8);
  options.caches_block = true;
  const std::vector<Pass> passes = run(options, prompt_of(1), [](int32_t position, size_t) {
    return std::pair(position + 100, position == 5 ? 0.9 : position == 4 ? 0.8 : 0.5);
  });
  const Group whole = {{0, 8}, 8, !kOnlyKv};
  const Group first = {{0, 4}, 8, !kOnlyKv};
  const Group second = {{4, 8}, 8, !kOnlyKv};
  // The first pass; 0 is known; 4 is masked in two passes, and then known.
  const std::vector<Group> expected = {whole, first, first, whole, whole, second, second};
  ASSERT_GE(passes.size(), 14U);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_THAT(groups(passes[i]), ElementsAre(expected[i])) << i;
    EXPECT_EQ(passes[i].report.kind, "denoise");
  }
  EXPECT_EQ(passes[7].report.kind, "commit");
  EXPECT_THAT(groups(passes[7]), ElementsAre(whole));
  EXPECT_THAT(groups(passes[8]), ElementsAre(Group{{8, 16}, 16, !kOnlyKv}));
  EXPECT_THAT(groups(passes[9]), ElementsAre(Group{{8, 12}, 16, !kOnlyKv}));
  EXPECT_THAT(passes[9].sampled, Each(testing::AllOf(testing::Gt(8), testing::Lt(12))));
}

// ---- 6. Editing

struct Edited {
  std::vector<Pass> passes;
  std::vector<TokenId> answer;
};

Edited edit(int32_t most, const Script& script, int32_t prompt_length = 0, int32_t gen_length = 4) {
  BlockDiffusion options = settings(gen_length, 4, 2);
  options.edit = TokenEditing{0.5, most};
  BlockDiffusionDecoder decoder(options, prompt_of(prompt_length));
  Edited result;
  result.passes = run(decoder, options, script);
  result.answer = answer(decoder);
  return result;
}

TEST(BlockDiffusion, EditingReplacesTokensByOthersWithAConfidenceAboveTau) {
  const Edited edited = edit(16, [](int32_t position, size_t pass) -> std::pair<TokenId, double> {
    if (pass == 0) return {position + 100, 0.9 - 0.1 * position};
    if (pass == 1 && position == 0) return {200, 0.51};
    if (pass == 1 && position == 1) return {201, 0.5};
    if (pass == 2 && position == 2) return {202, 0.6};
    return {position == 0 ? 200 : position == 2 && pass > 2 ? 202 : position + 100, 0.9};
  });
  EXPECT_THAT(committed(edited.passes),
              ElementsAre(ElementsAre(0, 1), ElementsAre(0, 2, 3), ElementsAre(2), IsEmpty()));
  EXPECT_THAT(edited.answer, ElementsAre(200, 101, 202, 103));
  for (int32_t s = 0; s < 4; ++s) {
    const Pass& pass = edited.passes[static_cast<size_t>(s)];
    EXPECT_THAT(pass.sampled, ElementsAre(0, 1, 2, 3));
    for (int32_t i = 0; i < 4; ++i) {
      EXPECT_EQ(pass.plan.logits[static_cast<size_t>(i)].noise, RngStream(5, 1, 0, s, i));
    }
  }
}

TEST(BlockDiffusion, EditingEndsAfterSoManyFurtherStepsOrAStepWithoutAChange) {
  const Script changes = [](int32_t position, size_t pass) {
    return std::pair(position + 100 * static_cast<int32_t>(pass + 1), 0.9);
  };
  for (const size_t most : {0U, 1U, 3U}) {
    EXPECT_THAT(edit(static_cast<int32_t>(most), changes).passes, SizeIs(2 + most)) << most;
    EXPECT_THAT(edit(static_cast<int32_t>(most), changes, 0, 8).passes, SizeIs(2 * (2 + most))) << most;
  }
  EXPECT_THAT(edit(16, same_everywhere).passes, SizeIs(3));
}

TEST(BlockDiffusion, EditingLeavesThePromptAsItIs) {
  const Edited edited = edit(
      2,
      [](int32_t position, size_t pass) {
        return std::pair(position + 100 * static_cast<int32_t>(pass), 1.0);
      },
      2, 2);
  ASSERT_THAT(edited.passes, SizeIs(3));  // both masks in the first step, then two more
  for (const Pass& pass : edited.passes) EXPECT_THAT(pass.sampled, ElementsAre(2, 3));
}

TEST(BlockDiffusion, EditingLooksForTheEndWhenTheBlockIsFinished) {
  const auto script = [](bool takes_back) {
    return [takes_back](int32_t position, size_t pass) {
      const bool ends = position == 1 && (pass < 2 || !takes_back);
      return std::pair(ends ? kEnd : position + 100, position == 1 ? 0.9 : 0.8);
    };
  };
  const Edited ended = edit(16, script(false), 0, 8);
  EXPECT_THAT(ended.answer, ElementsAre(100, kEnd));
  EXPECT_THAT(ended.passes, SizeIs(3));
  const Edited taken_back = edit(16, script(true), 0, 8);
  EXPECT_THAT(taken_back.answer, ElementsAre(100, 101, 102, 103, 104, 105, 106, 107));
}

TEST(BlockDiffusion, NothingIsFinalWhileItsBlockMayBeEdited) {
  BlockDiffusion options = settings(8, 4, 2);
  options.edit = TokenEditing{0.5, 16};
  BlockDiffusionDecoder decoder(options, {});
  std::vector<int32_t> num_final;
  while (!decoder.done()) {
    num_final.push_back(decoder.num_final());
    step(decoder, false, same_everywhere, 0);
  }
  EXPECT_THAT(num_final, ElementsAre(0, 0, 0, 4, 4, 4));
  EXPECT_EQ(decoder.num_final(), 8);
}

// ---- 9. Tokens mixed with the mask

Edited soften(const SoftTokens& rule, const Script& script, int32_t prompt_length = 0,
              int32_t gen_length = 4) {
  BlockDiffusion options = settings(gen_length, 4, 4);
  options.unmask.count = rule;
  BlockDiffusionDecoder decoder(options, prompt_of(prompt_length));
  Edited result;
  result.passes = run(decoder, options, script);
  result.answer = answer(decoder);
  return result;
}

TEST(BlockDiffusion, SoftTokensAreWrittenUpToTheFirstDoubtAndAnewInEachStep) {
  const Edited soft = soften({0.5, 0.9}, [](int32_t position, size_t pass) -> std::pair<TokenId, double> {
    constexpr double kConfidences[3][4] = {
        {0.5, 0.6, 0.4, 0.9}, {0.25, 0.7, 0.3, 0.1}, {0.9, 0.95, 0.9, 0.9}};
    const double confidence = kConfidences[std::min<size_t>(pass, 2)][static_cast<size_t>(position)];
    return {pass == 1 && position == 0 ? 200 : position + 100, confidence};
  });
  EXPECT_THAT(committed(soft.passes), ElementsAre(ElementsAre(0, 1), ElementsAre(0, 2), ElementsAre(0, 3)));
  EXPECT_THAT(soft.answer, ElementsAre(100, 101, 102, 103));
  EXPECT_THAT(soft.passes[0].plan.mixed, IsEmpty());
  EXPECT_THAT(soft.passes[1].plan.mixed, ElementsAre(MixedRow{0, 0.5F}, MixedRow{1, 0.6F}));
  EXPECT_THAT(soft.passes[2].plan.mixed,
              ElementsAre(MixedRow{0, 0.25F}, MixedRow{1, 0.7F}, MixedRow{2, 0.3F}));
  EXPECT_THAT(soft.passes[2].plan.tokens, ElementsAre(200, 101, 102, kMask));
  for (const Pass& pass : soft.passes) EXPECT_THAT(pass.sampled, ElementsAre(0, 1, 2, 3));
}

TEST(BlockDiffusion, SoftTokensAreDoneWhenAllAreSureOrNoneChangesOrAfterAStepForEachPosition) {
  const auto of = [](double confidence, bool changes) {
    return [=](int32_t position, size_t pass) {
      return std::pair(position + 100 * (changes ? static_cast<int32_t>(pass) + 1 : 1), confidence);
    };
  };
  EXPECT_THAT(soften({0.5, 0.9}, of(0.9, true)).passes, SizeIs(1));
  EXPECT_THAT(soften({0.5, 0.9}, of(0.8, false)).passes, SizeIs(2));
  EXPECT_THAT(soften({0.5, 0.9}, of(0.8, true)).passes, SizeIs(4));
  EXPECT_THAT(soften({0.95, 0.9}, of(0.92, true)).passes, SizeIs(4)) << "masks are left until the last step";
}

TEST(BlockDiffusion, SoftTokensOfAFinishedBlockAreReadAsTheyAre) {
  const Edited soft = soften({0.5, 0.9}, same_everywhere, 2, 8);
  ASSERT_THAT(soft.passes, SizeIs(6));
  EXPECT_THAT(soft.passes[0].sampled, ElementsAre(2, 3));
  EXPECT_THAT(soft.passes[1].plan.mixed, ElementsAre(MixedRow{2, 0.5F}, MixedRow{3, 0.5F}));
  EXPECT_THAT(soft.passes[2].plan.tokens, ElementsAre(11, 12, 102, 103, kMask, kMask, kMask, kMask));
  EXPECT_THAT(soft.passes[2].plan.mixed, IsEmpty());
  EXPECT_THAT(soft.passes[3].plan.mixed, SizeIs(4));
}

TEST(BlockDiffusion, SoftTokensEndTheAnswerWhenTheirBlockIsDone) {
  const auto script = [](bool takes_back) {
    return [takes_back](int32_t position, size_t pass) {
      return std::pair(position == 1 && (pass == 0 || !takes_back) ? kEnd : position + 100, 0.8);
    };
  };
  EXPECT_THAT(soften({}, script(false), 0, 8).answer, ElementsAre(100, kEnd));
  EXPECT_THAT(soften({}, script(true), 0, 8).answer, ElementsAre(100, 101, 102, 103, 104, 105, 106, 107));
}

// ---- 7. Sparse attention

/// The choice of the block that a pass denoises or commits, and the cells that it is made among.
using Attention = std::pair<Choice, int32_t>;

std::vector<Attention> attention(const std::vector<Pass>& passes) {
  std::vector<Attention> result;
  for (const Pass& pass : passes) {
    for (const RowGroup& group : pass.plan.groups) {
      EXPECT_EQ(group.sparse.among.begin, 0);
      const bool is_kept = &group != &pass.plan.groups.back();
      EXPECT_TRUE(!is_kept || group.sparse == SparseAttention());
    }
    EXPECT_NE(groups(pass).back().sees, -1);
    const RowGroup& last = pass.plan.groups.back();
    const IndexRange& among = last.sparse.among;
    EXPECT_TRUE(among.end == 0 || last.visible.front() == among);
    result.emplace_back(last.sparse.choice, among.end);
  }
  return result;
}

TEST(BlockDiffusion, MageRemembersInTheFirstStepOfABlockBeyondTheBudget) {
  BlockDiffusion options = settings(12, 4, 3);
  options.sparse = Mage{8};
  const std::vector<Pass> passes = run(options, prompt_of(8));
  EXPECT_THAT(attention(passes),
              ElementsAre(Pair(Choice::kAll, 0), Pair(Choice::kAll, 0), Pair(Choice::kAll, 0),
                          Pair(Choice::kAllAndRemember, 12), Pair(Choice::kRemembered, 12),
                          Pair(Choice::kRemembered, 12), Pair(Choice::kAllAndRemember, 16),
                          Pair(Choice::kRemembered, 16), Pair(Choice::kRemembered, 16)));
  EXPECT_EQ(passes[4].plan.groups.back().sparse.budget, 8);
}

TEST(BlockDiffusion, QuestChoosesPagesInEveryStepTheFirstToo) {
  BlockDiffusion options = settings(8, 4, 2);
  options.sparse = Quest{8, 4};
  const std::vector<Pass> passes = run(options, prompt_of(8));
  EXPECT_THAT(attention(passes), ElementsAre(Pair(Choice::kAll, 0), Pair(Choice::kAll, 0),
                                             Pair(Choice::kBestPages, 12), Pair(Choice::kBestPages, 12)));
  EXPECT_EQ(passes[3].plan.groups.back().sparse.page_size, 4);
}

TEST(BlockDiffusion, SparseDIsExactForAShareOfThePlannedStepsAndThenRemembersOnce) {
  BlockDiffusion options = settings(10, 4, 4);
  options.sparse =
      SparseD{4, 0.35};  // floor(0.35 * 12) are 4; the prompt's tail leaves two steps to the first block
  const std::vector<Pass> passes = run(options, prompt_of(6));
  ASSERT_THAT(passes, SizeIs(10));
  const std::vector<Attention> steps = attention(passes);
  EXPECT_THAT(std::vector(steps.begin(), steps.begin() + 4), Each(Pair(Choice::kAll, 0)));
  EXPECT_THAT(steps[4], Pair(Choice::kAllAndRemember, 8));
  EXPECT_THAT(std::vector(steps.begin() + 5, steps.end()), Each(Pair(Choice::kRemembered, 8)));
  // Cells since are seen, too: 12 before the current block, and its own.
  EXPECT_THAT(groups(passes[6]).back(), (Group{{12, 16}, 16, !kOnlyKv}));
  EXPECT_THAT(passes[6].plan.groups.back().visible, ElementsAre(IndexRange{0, 8}, IndexRange{8, 12}));
}

TEST(BlockDiffusion, SparseDWaitsForAPrefixBeyondTheBudget) {
  BlockDiffusion options = settings(8, 4, 2);
  options.sparse = SparseD{8, 0};
  EXPECT_THAT(attention(run(options, prompt_of(8))),
              ElementsAre(Pair(Choice::kAll, 0), Pair(Choice::kAll, 0), Pair(Choice::kAllAndRemember, 12),
                          Pair(Choice::kRemembered, 12)));
}

TEST(BlockDiffusion, ASparseCommitAttendsToTheCellsOfItsBlockAndPrefillIsExact) {
  const auto commits = [](const SparsePolicy& policy, bool sparsely, int32_t sparse_after = 0) {
    BlockDiffusion options = settings(8, 4, 2);
    options.sparse = policy;
    options.commits_apart = true;
    options.commits_sparsely = sparsely;
    options.sparse_after = sparse_after;
    const std::vector<Pass> passes = run(options, prompt_of(8));
    EXPECT_THAT(kinds(passes), ElementsAre("prefill", "denoise", "denoise", "commit", "denoise", "denoise"));
    const std::vector<Attention> all = attention(passes);
    EXPECT_THAT(all[0], Pair(Choice::kAll, 0));
    return all[3];
  };
  EXPECT_THAT(commits(Mage{4}, false), Pair(Choice::kAll, 0));
  EXPECT_THAT(commits(Mage{4}, true), Pair(Choice::kRemembered, 8));
  EXPECT_THAT(commits(Mage{4}, true, 1), Pair(Choice::kRemembered, 8)) << "--sparse-after is for steps";
  EXPECT_THAT(commits(Mage{8}, true), Pair(Choice::kAll, 0));
  EXPECT_THAT(commits(Quest{4, 4}, true), Pair(Choice::kBestPages, 8));
  EXPECT_THAT(commits(Quest{8, 4}, true), Pair(Choice::kAll, 0));
  EXPECT_THAT(commits(SparseD{4, 0}, true), Pair(Choice::kRemembered, 8));
  EXPECT_THAT(commits(SparseD{4, 1}, true), Pair(Choice::kAll, 0));
}

TEST(BlockDiffusion, FlashBlockReusesAttentionUntilTheBlockHasSoManyNewTokens) {
  BlockDiffusion options = settings(8, 4, 4);
  options.sparse = FlashBlock{3};
  EXPECT_TRUE(BlockDiffusionDecoder(options, prompt_of(8)).needs().keeps_attention);
  EXPECT_THAT(attention(run(options, prompt_of(8))),
              ElementsAre(Pair(Choice::kAllAndKeep, 8), Pair(Choice::kKept, 8), Pair(Choice::kKept, 8),
                          Pair(Choice::kAllAndKeep, 8), Pair(Choice::kAllAndKeep, 12),
                          Pair(Choice::kKept, 12), Pair(Choice::kKept, 12), Pair(Choice::kAllAndKeep, 12)));
}

TEST(BlockDiffusion, LosaHasActiveRowsInAllButTheFirstStepOfABlock) {
  BlockDiffusion options = settings(4, 4, 3);
  options.sparse = Losa{4, 4, 0.5};
  const std::vector<Pass> passes = run(options, prompt_of(8));
  EXPECT_THAT(attention(passes),
              ElementsAre(Pair(Choice::kAllAndKeep, 8), Pair(Choice::kKept, 8), Pair(Choice::kKept, 8)));
  for (const Pass& pass : passes) EXPECT_EQ(pass.plan.groups.back().sparse.active_rows, 2);
}

TEST(BlockDiffusion, StepsBehindSparseAfterAreExactAgain) {
  BlockDiffusion options = settings(8, 4, 4);
  options.sparse = Mage{4};
  options.sparse_after = 2;
  const std::vector<Attention> steps = attention(run(options, prompt_of(8)));
  EXPECT_THAT(steps,
              ElementsAre(Pair(Choice::kAllAndRemember, 8), Pair(Choice::kRemembered, 8),
                          Pair(Choice::kAll, 0), Pair(Choice::kAll, 0), Pair(Choice::kAllAndRemember, 12),
                          Pair(Choice::kRemembered, 12), Pair(Choice::kAll, 0), Pair(Choice::kAll, 0)));
  options.sparse = SparseD{4, 0.25};  // two exact steps; the third remembers
  EXPECT_THAT(attention(run(options, prompt_of(8)))[2], Pair(Choice::kAllAndRemember, 8));
}

// ---- Locks within a block (docs/methods/surelock.md)

/// One token a step from left to right, in blocks of four; every measured row has moved by `kl`.
std::vector<Pass> run_with_lock(BlockDiffusion options, int32_t prompt_length, double kl) {
  options.lock.emplace();
  options.lock->eps = 0.01;
  options.lock->gate = 100;
  BlockDiffusionDecoder decoder(options, prompt_of(prompt_length));
  EXPECT_TRUE(decoder.needs().remembers_outputs);
  std::vector<Pass> passes;
  while (!decoder.done()) {
    passes.push_back(step(decoder, options.shifted_logits, same_everywhere, passes.size()));
    const FollowUp wanted = decoder.follow_up();
    for (const DriftProbe& probe : wanted.probes) {
      EXPECT_EQ(passes.back().plan.cells.at(static_cast<size_t>(probe.row)), probe.cell);
    }
    const std::vector<Drift> drifts(wanted.probes.size(), Drift{kl, kl});
    decoder.apply_follow_up({.drifts = drifts}, passes.back().report);
    EXPECT_TRUE(decoder.follow_up().empty());
  }
  return passes;
}

std::vector<std::vector<int32_t>> rows(const std::vector<Pass>& passes) {
  std::vector<std::vector<int32_t>> result;
  for (const Pass& pass : passes) result.push_back(pass.plan.positions);
  return result;
}

std::vector<std::vector<int32_t>> locked(const std::vector<Pass>& passes) {
  std::vector<std::vector<int32_t>> result;
  for (const Pass& pass : passes) result.push_back(pass.report.locked);
  return result;
}

TEST(BlockDiffusion, ALockedRowIsLeftOutUntilThePassThatKeepsItsBlock) {
  const std::vector<Pass> passes = run_with_lock(settings(8, 4, 4), 0, 0.01);
  using Rows = std::vector<std::vector<int32_t>>;
  EXPECT_EQ(rows(passes), (Rows{{0, 1, 2, 3},
                                {0, 1, 2, 3},
                                {1, 2, 3},
                                {2, 3},
                                {0, 1, 2, 3, 4, 5, 6, 7},
                                {4, 5, 6, 7},
                                {5, 6, 7},
                                {6, 7}}));
  EXPECT_EQ(locked(passes), (Rows{{}, {0}, {1}, {}, {}, {4}, {5}, {}})) << "none after a block's last step";
  EXPECT_THAT(groups(passes[6]), ElementsAre(Group{{5, 8}, 8})) << "rows see the locked cell as well";
  BlockDiffusion apart = settings(8, 4, 4);
  apart.commits_apart = true;
  EXPECT_EQ(rows(run_with_lock(apart, 0, 0.01))[4], (std::vector<int32_t>{0, 1, 2, 3}));
}

TEST(BlockDiffusion, RowsThatMoveAreNotLocked) {
  const BlockDiffusion options = settings(8, 4, 4);
  EXPECT_EQ(rows(run_with_lock(options, 0, 0.02)), rows(run(options, prompt_of(0))));
}

TEST(BlockDiffusion, RowsOfThePromptLockLikeOthersAndAMaskInThePromptDoesNot) {
  BlockDiffusion options = settings(3, 4, 4);
  EXPECT_THAT(locked(run_with_lock(options, 1, 0.01)), ElementsAre(IsEmpty(), ElementsAre(0, 1), IsEmpty()));
  options.mask_id = 11;  // the prompt's token
  EXPECT_THAT(locked(run_with_lock(options, 1, 0.01)), ElementsAre(IsEmpty(), ElementsAre(1), IsEmpty()));
}

TEST(BlockDiffusion, AShiftedRowLocksOnceItsTokenAndTheNextAreKnown) {
  // Position 4 comes from the pass that keeps the prompt; the steps write 5, 6 and 7.
  const std::vector<Pass> passes = run_with_lock(shifted_settings(4, 4, 4, 4), 4, 0.01);
  using Rows = std::vector<std::vector<int32_t>>;
  EXPECT_EQ(rows(passes), (Rows{{0, 1, 2, 3}, {4, 5, 6, 7}, {4, 5, 6, 7}, {6, 7}}));
}

TEST(BlockDiffusion, WithTheBlockCacheNothingLocksInPassesOverASubBlockAlone) {
  BlockDiffusion options = shifted_settings(8, 8, 4, 8);
  options.caches_block = true;
  const std::vector<Pass> passes = run_with_lock(options, 8, 0.01);
  bool any = false;
  for (const Pass& pass : passes) {
    any = any || !pass.report.locked.empty();
    const bool is_part = pass.plan.num_rows() <= 4;
    EXPECT_TRUE(!is_part || pass.report.locked.empty());
  }
  EXPECT_TRUE(any);
}

// ---- The decoder and the page's rules without K/V

struct Outcome {
  std::vector<TokenId> answer;
  std::vector<std::vector<std::pair<int32_t, TokenId>>> commits;  // of each pass that committed any

  bool operator==(const Outcome&) const = default;
};

void note(Outcome& outcome, const std::vector<Commit>& commits) {
  if (commits.empty()) return;
  auto& noted = outcome.commits.emplace_back();
  for (const Commit& commit : commits) noted.emplace_back(commit.position, commit.token);
}

Outcome decode(const FakeModel& model, const BlockDiffusion& options, const std::vector<TokenId>& prompt,
               FakeCells* shared = nullptr) {
  BlockDiffusionDecoder decoder(options, prompt);
  FakeCells own(model, decoder.num_cells());
  FakeCells& cells = shared == nullptr ? own : *shared;
  if (shared != nullptr) decoder.skip_prefix(decoder.exact_prefix().wanted);
  Outcome outcome;
  cells.run(decoder, [&](const StepPlan&, const StepReport& report) { note(outcome, report.committed); });
  outcome.answer = answer(decoder);
  return outcome;
}

/// Computes all blocks anew in every step. Rules: low-confidence, sequential, random, dynamic and threshold.
class Plainly {
 public:
  Plainly(const FakeModel& model, const BlockDiffusion& options, const std::vector<TokenId>& prompt)
      : o_(options),
        prompt_(static_cast<int32_t>(prompt.size())),
        limit_(prompt_ + o_.gen_length),
        x_(prompt),
        cells_(model, limit_ + o_.block_length) {
    x_.resize(static_cast<size_t>((limit_ + o_.block_length - 1) / o_.block_length * o_.block_length), kMask);
    masked_.assign(x_.size(), true);
    std::fill_n(masked_.begin(), prompt_, false);
  }

  Outcome decode() {
    const int32_t size = o_.block_length;
    for (int32_t begin = prompt_ / size * size; begin < limit_ && !ended_; begin += size) {
      if (o_.shifted_logits && masked(begin)) {
        SamplingRule best = o_.sampling;
        best.temperature = 0;
        compute(begin);
        write({sample(begin, best, RngStream(0))});
        find_end();
      }
      int32_t s = 0;
      weights_.clear();
      for (bool changes = true; soft() != nullptr && changes && s < size;)
        changes = step(begin, begin, s++, 0);
      for (int32_t sub = begin; sub < begin + size; sub += o_.sub_block_length) {
        for (int32_t within = 0; !ended_ && any_masked(sub); ++within) step(begin, sub, s++, within);
      }
      for (int32_t more = 0; o_.edit && more < o_.edit->most; ++more) {
        if (!step(begin, begin, s++, 0)) break;
      }
      weights_.clear();
      if (o_.edit || soft() != nullptr) find_end();
    }
    outcome_.answer.assign(x_.begin() + prompt_, x_.begin() + limit_);
    return outcome_;
  }

 private:
  const SoftTokens* soft() const { return std::get_if<SoftTokens>(&o_.unmask.count); }
  bool masked(int32_t position) const { return masked_[static_cast<size_t>(position)]; }
  bool any_masked(int32_t sub) const {
    return std::count(masked_.begin() + sub, masked_.begin() + sub + o_.sub_block_length, true) > 0;
  }

  void compute(int32_t end) {
    StepPlan plan;
    for (int32_t begin = 0; begin < end; begin += o_.block_length) {
      for (int32_t p = begin; p < begin + o_.block_length; ++p)
        plan.add_row(x_[static_cast<size_t>(p)], p, p);
      plan.groups.push_back({0, {begin, begin + o_.block_length}, {{0, begin}}});
    }
    for (const auto& [position, weight] : weights_) plan.mixed.push_back({position, weight});
    cells_.forward(plan);
  }

  Commit sample(int32_t position, const SamplingRule& rule, const RngStream& noise) const {
    std::vector<float> logits = cells_.logits(position - (o_.shifted_logits ? 1 : 0));
    const RowStatistics drawn = draw(default_table(), rule, noise, logits);
    return {position, drawn.token, drawn.confidence};
  }

  bool step(int32_t begin, int32_t sub, int32_t s, int32_t within) {
    const int32_t block = begin / o_.block_length;
    compute(begin + o_.block_length);
    std::vector<Commit> candidates;
    std::vector<Commit> edits;
    std::map<int32_t, float> weights;
    bool are_sure = true;
    for (int32_t p = std::max(sub, prompt_); p < sub + o_.sub_block_length; ++p) {
      const Commit commit = sample(p, o_.sampling, RngStream(o_.seed, 1, block, s, p));
      weights[p] = static_cast<float>(commit.confidence);
      are_sure = are_sure && soft() != nullptr && commit.confidence >= soft()->accept;
      if (masked(p)) {
        candidates.push_back(commit);
      } else if (soft() != nullptr && commit.token != x_[static_cast<size_t>(p)]) {
        edits.push_back(commit);
      } else if (o_.edit && commit.token != x_[static_cast<size_t>(p)] && commit.confidence > o_.edit->tau) {
        edits.push_back(commit);
      }
    }
    const RngStream order(o_.seed, 2, block, s);
    const auto score = [&](const Commit& c) {
      if (o_.unmask.order == UnmaskOrder::kLeftToRight) return -double{1} * c.position;
      if (o_.unmask.order == UnmaskOrder::kRandom) return order.uniform(static_cast<uint64_t>(c.position));
      return c.confidence;
    };
    std::stable_sort(candidates.begin(), candidates.end(),
                     [&](const Commit& a, const Commit& b) { return score(a) > score(b); });
    const int32_t steps = o_.steps * o_.sub_block_length / o_.block_length;
    size_t count = static_cast<size_t>(o_.sub_block_length / steps + (within < o_.sub_block_length % steps));
    const auto number = [&](auto&& taken) {
      return static_cast<size_t>(std::count_if(candidates.begin(), candidates.end(), taken));
    };
    if (const auto* rule = std::get_if<Dynamic>(&o_.unmask.count)) {
      count = std::max(count, number([&](const Commit& c) { return c.confidence > rule->tau; }));
    } else if (const auto* least = std::get_if<Threshold>(&o_.unmask.count)) {
      count = std::max(size_t{1}, number([&](const Commit& c) { return c.confidence >= least->tau; }));
    }
    if (soft() != nullptr) {
      std::sort(candidates.begin(), candidates.end(),
                [](const Commit& a, const Commit& b) { return a.position < b.position; });
      for (count = 0; count < candidates.size() && candidates[count].confidence >= soft()->tau;) ++count;
      count = std::max<size_t>(count, 1);
    }
    candidates.resize(std::min(candidates.size(), count));
    candidates.insert(candidates.end(), edits.begin(), edits.end());
    write(candidates);
    if (soft() != nullptr) {
      std::erase_if(weights, [&](const auto& each) { return masked(each.first); });
      weights_ = weights;
      return any_masked(begin) || (!candidates.empty() && !are_sure);
    }
    if (!o_.edit) find_end();
    return !edits.empty();
  }

  void write(std::vector<Commit> commits) {
    std::sort(commits.begin(), commits.end(),
              [](const Commit& a, const Commit& b) { return a.position < b.position; });
    for (const Commit& commit : commits) {
      x_[static_cast<size_t>(commit.position)] = commit.token;
      masked_[static_cast<size_t>(commit.position)] = false;
    }
    note(outcome_, commits);
  }

  void find_end() {
    for (int32_t p = prompt_; p < limit_ && !masked(p); ++p) {
      if (std::count(o_.end_ids.begin(), o_.end_ids.end(), x_[static_cast<size_t>(p)]) == 0) continue;
      limit_ = p + 1;
      ended_ = true;
    }
  }

  BlockDiffusion o_;
  int32_t prompt_;
  int32_t limit_;
  std::vector<TokenId> x_;
  std::vector<bool> masked_;
  FakeCells cells_;
  std::map<int32_t, float> weights_;  // by position, of soft tokens
  bool ended_ = false;
  Outcome outcome_;
};

/// Without what lies after the answer.
Outcome cut(Outcome outcome, int32_t prompt_length) {
  const auto end = prompt_length + static_cast<int32_t>(outcome.answer.size());
  for (auto& pass : outcome.commits) {
    std::erase_if(pass, [&](const auto& commit) { return commit.first >= end; });
  }
  std::erase_if(outcome.commits, [](const auto& pass) { return pass.empty(); });
  return outcome;
}

struct Request {
  BlockDiffusion options;
  std::vector<TokenId> prompt;
  FakeModel model;
};

Request random_request(uint64_t seed) {
  const RngStream choose(seed, 77);
  const auto below = [&](uint64_t index, uint32_t count) {
    return static_cast<int32_t>(choose.below(index, count));
  };
  const int32_t sub_blocks = 1 + below(0, 3);
  const int32_t sub_length = 1 + below(1, 4);
  const bool shifted = below(2, 2) == 1;
  const int32_t block = sub_blocks * sub_length;
  Request request;
  BlockDiffusion& options = request.options;
  options = settings(1 + below(3, 20), block, sub_blocks * (1 + below(4, static_cast<uint32_t>(sub_length))));
  options.seed = seed;
  if (shifted) options.sub_block_length = sub_length;
  options.shifted_logits = shifted;
  options.commits_apart = shifted || below(5, 2) == 1;
  options.sampling.temperature = below(6, 2) == 1 ? 0.8F : 0;
  const std::vector<UnmaskPolicy> policies = {{EvenSplit{}},
                                              {EvenSplit{}, UnmaskOrder::kLeftToRight},
                                              {EvenSplit{}, UnmaskOrder::kRandom},
                                              {Dynamic{0.5}},
                                              {Threshold{0.5}}};
  options.unmask = policies[static_cast<size_t>(below(7, 5))];
  if (!shifted && below(12, 3) == 0) {
    options.unmask = {SoftTokens{0.1 * below(13, 7), 0.3 + 0.1 * below(14, 7)}};
  } else if (!shifted && below(8, 2) == 1)
    options.edit = TokenEditing{0.3, below(9, 4)};

  if (below(10, 3) == 0) options.end_ids.clear();
  for (int32_t i = 0; i < (shifted ? 1 : 0) + below(11, 14); ++i) {
    request.prompt.push_back(below(100 + static_cast<uint64_t>(i), 23));
  }
  request.model.seed = seed;
  return request;
}

TEST(BlockDiffusion, WritesWhatTheRulesWriteWithoutACache) {
  int32_t ends = 0;
  for (uint64_t seed = 0; seed < 80; ++seed) {
    SCOPED_TRACE(seed);
    const Request request = random_request(seed);
    const auto prompt_length = static_cast<int32_t>(request.prompt.size());
    const Outcome expected = Plainly(request.model, request.options, request.prompt).decode();
    const Outcome outcome = decode(request.model, request.options, request.prompt);
    ASSERT_EQ(outcome.answer, expected.answer);
    ASSERT_EQ(cut(outcome, prompt_length), cut(expected, prompt_length));
    ends += static_cast<int32_t>(expected.answer.size()) < request.options.gen_length ? 1 : 0;
  }
  EXPECT_GT(ends, 10);
}

TEST(BlockDiffusion, WritesTheSameFusedAndApart) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Request request = random_request(seed);
    if (request.options.shifted_logits) continue;
    request.options.commits_apart = true;
    const Outcome apart = decode(request.model, request.options, request.prompt);
    request.options.commits_apart = false;
    EXPECT_EQ(decode(request.model, request.options, request.prompt), apart) << seed;
  }
}

TEST(BlockDiffusion, WritesTheSameWithThePrefixOfAnotherRequest) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Request request = random_request(seed);
    const Outcome alone = decode(request.model, request.options, request.prompt);
    // The cells of a request with the same prompt and another answer.
    BlockDiffusion other = request.options;
    other.seed += 1;
    other.sampling.temperature = 1;
    BlockDiffusionDecoder decoder(other, request.prompt);
    FakeCells cells(request.model, decoder.num_cells());
    cells.run(decoder);
    EXPECT_EQ(decode(request.model, request.options, request.prompt, &cells), alone) << seed;
  }
}

}  // namespace
}  // namespace lacuna::block_diffusion_test
