// Expectations are written from docs/methods/block_diffusion.md, section 8.
#include "decode/pipelined_diffusion.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "block_settings.h"
#include "fake_model.h"

namespace lacuna::pipelined_diffusion_test {
namespace {

using block_tests::kEnd;
using block_tests::kMask;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

/// Blocks of 4 that write what is likelier than 0.9, and one token where the block must write.
BlockDiffusion settings(int32_t gen_length, Pipeline pipeline) {
  BlockDiffusion options = block_tests::settings(gen_length, 4, 4);
  options.unmask.count = Dynamic{0.9};
  options.pipeline = pipeline;
  return options;
}

BlockDiffusion whole_prompt(int32_t gen_length, Pipeline pipeline) {
  BlockDiffusion options = settings(gen_length, pipeline);
  options.whole_prompt = true;
  return options;
}

std::vector<TokenId> prompt_of(int32_t length) {
  std::vector<TokenId> prompt(static_cast<size_t>(length));
  std::iota(prompt.begin(), prompt.end(), 11);
  return prompt;
}

struct Pass {
  StepPlan plan;
  StepReport report;
  std::vector<int32_t> sampled;
};

/// The confidence of position + 100 there, in the n-th pass; negative: of an end token instead.
using Script = std::function<double(int32_t position, size_t pass)>;

std::vector<Pass> run(Decoder& decoder, const Script& script) {
  std::vector<Pass> passes;
  while (!decoder.done()) {
    if (passes.size() > 100) throw std::runtime_error("the decoder does not end");
    Pass& pass = passes.emplace_back();
    pass.plan = decoder.plan();
    EXPECT_EQ(pass.plan.cells, pass.plan.positions);
    pass.sampled = decoder.constrainable()->sampled_positions();
    std::vector<RowStatistics> samples(pass.plan.logits.size());
    for (size_t i = 0; i < samples.size(); ++i) {
      const double confidence = script(pass.sampled.at(i), passes.size() - 1);
      samples[i].token = confidence < 0 ? kEnd : pass.sampled[i] + 100;
      samples[i].confidence = std::abs(confidence);
    }
    pass.report = decoder.apply({samples});
  }
  return passes;
}

std::vector<Pass> run(const BlockDiffusion& options, int32_t prompt_length, const Script& script) {
  PipelinedDecoder decoder(options, prompt_of(prompt_length));
  return run(decoder, script);
}

std::vector<std::vector<int32_t>> committed(const std::vector<Pass>& passes) {
  std::vector<std::vector<int32_t>> result;
  for (const Pass& pass : passes) {
    std::vector<int32_t>& positions = result.emplace_back();
    for (const Commit& commit : pass.report.committed) positions.push_back(commit.position);
  }
  return result;
}

/// Positions that a pass computes.
std::vector<IndexRange> computed(const std::vector<Pass>& passes) {
  std::vector<IndexRange> result;
  for (const Pass& pass : passes)
    result.push_back({pass.plan.positions.front(), pass.plan.positions.back() + 1});
  return result;
}

TEST(Pipeline, BeginsABlockOnceEnoughOfTheLastIsWritten) {
  const std::vector<Pass> passes =
      run(settings(12, {.add = 0.5, .full = 1}), 4, [](int32_t position, size_t) {
        return position < 8 ? 0.1 * position : 0.5;  // the last of the first block is the most confident
      });
  EXPECT_THAT(committed(passes),
              ElementsAre(ElementsAre(7), ElementsAre(6), ElementsAre(5), ElementsAre(4), ElementsAre(8),
                          ElementsAre(9), ElementsAre(10), ElementsAre(11), ElementsAre(12), ElementsAre(13),
                          ElementsAre(14), ElementsAre(15)));
  // Two of four are written before the third pass; a block that has begun but is not full writes nothing
  // here.
  const std::vector<IndexRange> rows = computed(passes);
  EXPECT_EQ(rows[0], (IndexRange{0, 8}));  // with the prompt
  EXPECT_EQ(rows[1], (IndexRange{4, 8}));
  EXPECT_EQ(rows[2], (IndexRange{4, 12}));
  EXPECT_EQ(rows[3], (IndexRange{4, 12}));
  EXPECT_EQ(rows[4], (IndexRange{4, 12}));  // keeps the first block
  EXPECT_EQ(rows[5], (IndexRange{8, 12}));
}

TEST(Pipeline, ABlockThatIsNotFullWritesOnlyWhatIsAboveTheThreshold) {
  const BlockDiffusion options = settings(8, {.add = 0.25, .full = 0.75});
  const std::vector<Pass> passes = run(options, 4, [](int32_t position, size_t) {
    return position == 10 ? 0.95 : position == 11 ? 0.9 : 0.5;
  });
  // The second block begins with the second pass and is full from the fourth on, before the first is done.
  EXPECT_THAT(committed(passes), ElementsAre(ElementsAre(4), ElementsAre(5, 10), ElementsAre(6),
                                             ElementsAre(7, 11), ElementsAre(8), ElementsAre(9)));
}

TEST(Pipeline, AThresholdIsReachedWhereTheRuleSaysAtLeast) {
  BlockDiffusion options = settings(8, {.add = 0.25, .full = 1});
  options.unmask.count = Threshold{0.9};
  const std::vector<Pass> passes =
      run(options, 4, [](int32_t position, size_t) { return position == 11 ? 0.9 : 0.5; });
  EXPECT_THAT(committed(passes)[1], ElementsAre(5, 11));
}

TEST(Pipeline, ABlockIsKeptOnceAllBeforeItAreFinished) {
  const BlockDiffusion options = settings(12, {.add = 0, .full = 1});
  const std::vector<Pass> passes = run(options, 4, [](int32_t position, size_t) {
    return position >= 8 && position < 12 ? 0.99 : 0.5;  // the second block at once, the others one by one
  });
  EXPECT_THAT(committed(passes), ElementsAre(ElementsAre(4), ElementsAre(5, 8, 9, 10, 11), ElementsAre(6, 12),
                                             ElementsAre(7, 13), ElementsAre(14), ElementsAre(15)));
  EXPECT_THAT(groups(passes[3].plan), ElementsAre(Group{{4, 8}, 8, !kOnlyKv}, Group{{8, 12}, 12, kOnlyKv},
                                                  Group{{12, 16}, 16, !kOnlyKv}));
  EXPECT_THAT(groups(passes[4].plan), ElementsAre(Group{{4, 8}, 8, kOnlyKv}, Group{{8, 12}, 12, kOnlyKv},
                                                  Group{{12, 16}, 16, !kOnlyKv}));
  EXPECT_THAT(groups(passes[5].plan), ElementsAre(Group{{12, 16}, 16, !kOnlyKv}));
  EXPECT_THAT(passes[3].sampled, ElementsAre(7, 13, 14, 15));
}

TEST(Pipeline, APromptMayBeABlockBehindWhichOthersBegin) {
  PipelinedDecoder decoder(whole_prompt(6, {.add = 1, .full = 1}), prompt_of(5));
  EXPECT_EQ(decoder.num_cells(), 13);
  EXPECT_EQ(decoder.block(), (IndexRange{5, 9}));
  EXPECT_EQ(decoder.planned_steps(), 8);
  EXPECT_EQ(decoder.exact_prefix().block_length, 0) << "all of the prompt sees all of it";
  const std::vector<Pass> passes = run(decoder, [](int32_t, size_t) { return 0.99; });
  ASSERT_THAT(passes, SizeIs(2));
  EXPECT_THAT(groups(passes[0].plan), ElementsAre(Group{{0, 5}, 5, kOnlyKv}, Group{{5, 9}, 9, !kOnlyKv}));
  EXPECT_THAT(groups(passes[1].plan), ElementsAre(Group{{5, 9}, 9, kOnlyKv}, Group{{9, 13}, 13, !kOnlyKv}));
  EXPECT_THAT(committed(passes), ElementsAre(ElementsAre(5, 6, 7, 8), ElementsAre(9, 10)));
  EXPECT_THAT(decoder.canvas(), SizeIs(11));
  EXPECT_EQ(decoder.stop_reason(), StopReason::kLength);
}

TEST(Pipeline, TheLastBlockEndsWhereTheModelsPositionsDo) {
  BlockDiffusion options = whole_prompt(5, {.add = 1, .full = 1});
  options.max_positions = 10;
  PipelinedDecoder decoder(options, prompt_of(5));
  EXPECT_EQ(decoder.num_cells(), 10);
  const std::vector<Pass> passes = run(decoder, [](int32_t, size_t) { return 0.99; });
  EXPECT_THAT(committed(passes), ElementsAre(ElementsAre(5, 6, 7, 8), ElementsAre(9)));
  EXPECT_THAT(groups(passes[1].plan), ElementsAre(Group{{5, 9}, 9, kOnlyKv}, Group{{9, 10}, 10, !kOnlyKv}));
}

TEST(Pipeline, WithoutAPromptBlocksBeginAtPosition0) {
  const std::vector<Pass> passes = run(whole_prompt(4, {}), 0, [](int32_t, size_t) { return 0.99; });
  ASSERT_THAT(passes, SizeIs(1));
  EXPECT_THAT(groups(passes[0].plan), ElementsAre(Group{{0, 4}, 4, !kOnlyKv}));
}

TEST(Pipeline, ShiftedTheRowBeforeTheFirstMaskIsComputedAgainUntilItIsWritten) {
  BlockDiffusion options = whole_prompt(8, {.add = 1, .full = 1});
  options.shifted_logits = true;
  const std::vector<Pass> passes = run(options, 3, [](int32_t position, size_t) {
    return position == 4 ? 0.6 : position == 3 ? 0.5 : position < 7 ? 0.4 : 0.99;
  });
  EXPECT_THAT(committed(passes), ElementsAre(ElementsAre(4), ElementsAre(3), ElementsAre(5), ElementsAre(6),
                                             ElementsAre(7, 8, 9, 10)));
  EXPECT_THAT(groups(passes[0].plan), ElementsAre(Group{{0, 3}, 3, !kOnlyKv}, Group{{3, 7}, 7, !kOnlyKv}))
      << "the prompt's last row samples";
  EXPECT_THAT(groups(passes[1].plan), ElementsAre(Group{{2, 3}, 3, !kOnlyKv}, Group{{3, 7}, 7, !kOnlyKv}));
  EXPECT_THAT(groups(passes[2].plan), ElementsAre(Group{{3, 7}, 7, !kOnlyKv}));
  EXPECT_THAT(groups(passes[4].plan), ElementsAre(Group{{3, 7}, 7, !kOnlyKv}, Group{{7, 11}, 11, !kOnlyKv}));
  EXPECT_THAT(passes[1].sampled, ElementsAre(3, 5, 6));
  EXPECT_EQ(passes[1].plan.logits[0].row, 0);
  EXPECT_EQ(passes[1].plan.logits[1].row, 2);
}

TEST(Pipeline, NothingBehindAnEndTokensBlockIsComputed) {
  PipelinedDecoder decoder(settings(16, {.add = 0, .full = 1}), prompt_of(4));
  const std::vector<Pass> passes =
      run(decoder, [](int32_t position, size_t pass) { return position == 9 && pass == 2 ? -0.99 : 0.5; });
  const std::vector<IndexRange> rows = computed(passes);
  EXPECT_EQ(rows[2], (IndexRange{4, 16}));
  EXPECT_EQ(rows[3], (IndexRange{4, 12}));
  EXPECT_THAT(committed(passes),
              ElementsAre(ElementsAre(4), ElementsAre(5), ElementsAre(6, 9), ElementsAre(7), ElementsAre(8)));
  EXPECT_EQ(decoder.stop_reason(), StopReason::kEndToken);
  EXPECT_THAT(decoder.canvas().subspan(8), ElementsAre(108, kEnd));
  EXPECT_EQ(decoder.num_final(), 6);
}

TEST(Pipeline, TellsHowFarItIs) {
  PipelinedDecoder decoder(settings(8, {.add = 0.25, .full = 0.75}), prompt_of(6));
  EXPECT_EQ(decoder.block(), (IndexRange{4, 8}));
  EXPECT_EQ(decoder.num_final(), 0);
  const std::vector<Pass> passes = run(decoder, [](int32_t, size_t) { return 0.5; });
  EXPECT_EQ(decoder.num_final(), 8);
  EXPECT_EQ(decoder.block().end, 16);
  EXPECT_EQ(passes.front().report.block, 0);
  EXPECT_EQ(passes.back().report.block, 2);
  EXPECT_EQ(decoder.baseline_request(), (BaselineRequest{6, 8, 8}));
}

TEST(Pipeline, ALongPromptIsReadInPassesOfItsOwnWhereBlocksBeginAtPosition0) {
  const std::vector<Pass> passes = run(settings(4, {}), 1028 + 4, [](int32_t, size_t) { return 0.99; });
  ASSERT_THAT(passes, SizeIs(2));
  EXPECT_EQ(passes[0].report.kind, "prefill");
  EXPECT_EQ(passes[0].plan.num_rows(), 1024);
  EXPECT_THAT(passes[0].sampled, IsEmpty());
  EXPECT_EQ(passes[1].plan.num_rows(), 12);
}

TEST(Pipeline, ThatWaitsForWholeBlocksIsTheUsualDecoding) {
  for (const int32_t prompt_length : {0, 3, 9}) {
    for (const double tau : {0.2, 0.5}) {
      BlockDiffusion options = settings(21, {.add = 1, .full = 1});
      options.unmask.count = Dynamic{tau};
      options.sampling.temperature = 0.7F;
      options.end_ids = {};
      PipelinedDecoder pipelined(options, prompt_of(prompt_length));
      options.pipeline.reset();
      BlockDiffusionDecoder usual(options, prompt_of(prompt_length));
      std::vector<StepPlan> plans;
      FakeCells cells({}, pipelined.num_cells());
      cells.run(pipelined, [&](const StepPlan& plan, const StepReport&) { plans.push_back(plan); });
      size_t at = 0;
      FakeCells others({}, usual.num_cells());
      others.run(usual, [&](const StepPlan& plan, const StepReport&) { EXPECT_EQ(plan, plans.at(at++)); });
      EXPECT_EQ(at, plans.size());
      EXPECT_THAT(usual.canvas(), testing::ElementsAreArray(pipelined.canvas()));
    }
  }
}

/// A pass over all blocks up to the plan's last row, of the tokens on the canvas.
StepPlan anew(const PipelinedDecoder& decoder, const StepPlan& plan, const BlockGrid& grid,
              std::span<const TokenId> tokens) {
  StepPlan whole;
  whole.rules = plan.rules;
  const int32_t end = plan.positions.back() + 1;
  for (int32_t begin = 0; begin < end;) {
    const int32_t next = grid.begin_of(grid.block_of(begin) + 1);
    RowGroup group;
    group.rows = {begin, next};
    if (begin > 0) group.visible.push_back({0, begin});
    for (int32_t position = begin; position < next; ++position) {
      const bool is_known = position < std::ssize(tokens) && decoder.held_token(position) >= 0;
      whole.add_row(is_known ? tokens[static_cast<size_t>(position)] : kMask, position, position);
    }
    whole.groups.push_back(std::move(group));
    begin = next;
  }
  for (LogitRow logit : plan.logits) {
    logit.row = plan.positions[static_cast<size_t>(logit.row)];
    whole.logits.push_back(logit);
  }
  return whole;
}

TEST(Pipeline, SamplesWhatAPassOverAllBlocksWouldSample) {
  for (const bool is_whole : {false, true}) {
    for (const bool is_shifted : {false, true}) {
      for (const double add : {0.0, 0.3, 1.0}) {
        BlockDiffusion options = settings(is_whole ? 24 : 25, {.add = add, .full = 0.75});  // whole blocks
        options.whole_prompt = is_whole;
        options.shifted_logits = is_shifted;
        options.unmask.count = Dynamic{0.3};
        options.sampling.temperature = 0.5F;
        const std::vector<TokenId> prompt = prompt_of(7);
        PipelinedDecoder decoder(options, prompt);
        FakeCells cells({}, decoder.num_cells());
        for (int passes = 0; !decoder.done(); ++passes) {
          ASSERT_LT(passes, 100);
          const StepPlan plan = decoder.plan();
          const StepPlan whole =
              anew(decoder, plan, {options.block_length, is_whole ? 7 : 0}, decoder.canvas());
          const std::vector<RowStatistics> samples = cells.forward(plan);
          FakeCells fresh({}, decoder.num_cells());
          const std::vector<RowStatistics> expected = fresh.forward(whole);
          ASSERT_EQ(samples.size(), expected.size());
          for (size_t i = 0; i < samples.size(); ++i) {
            EXPECT_EQ(samples[i].token, expected[i].token);
            EXPECT_EQ(samples[i].confidence, expected[i].confidence);
          }
          EXPECT_EQ(decoder.uncached_work().rows, whole.num_rows());
          decoder.apply({samples});
        }
      }
    }
  }
}

TEST(HasThreshold, IsTrueOfRulesThatMayWriteNothing) {
  EXPECT_TRUE(has_threshold(Dynamic()));
  EXPECT_TRUE(has_threshold(Threshold()));
  EXPECT_FALSE(has_threshold(EvenSplit()));
  EXPECT_FALSE(has_threshold(Factor()));
}

}  // namespace
}  // namespace lacuna::pipelined_diffusion_test
