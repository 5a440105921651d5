// Drafts of block diffusion, written from section 9 of docs/methods/block_diffusion.md.
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "block_settings.h"
#include "decode/block_diffusion.h"
#include "fake_model.h"

namespace lacuna::block_drafts_test {
namespace {

using block_tests::kEnd;
using block_tests::kMask;
using block_tests::settings;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int32_t kTile = 32;

std::vector<TokenId> prompt_of(int32_t length) {
  std::vector<TokenId> prompt(static_cast<size_t>(length));
  std::iota(prompt.begin(), prompt.end(), 11);
  return prompt;
}

std::vector<int32_t> positions_of(const StepReport& report) {
  std::vector<int32_t> positions;
  for (const Commit& commit : report.committed) positions.push_back(commit.position);
  return positions;
}

/// Applies a pass that predicts position + 100 everywhere, the leftmost with most confidence, but
/// `other_token` in the samples from `changed` on.
StepReport pass(BlockDiffusionDecoder& decoder, size_t changed = 1000, TokenId other_token = 7) {
  const StepPlan& plan = decoder.plan();
  std::vector<RowStatistics> samples;
  for (const LogitRow& logit : plan.logits) {
    const int32_t position = plan.positions[static_cast<size_t>(logit.row)];
    RowStatistics& sample = samples.emplace_back();
    sample.token = samples.size() > changed ? other_token : position + 100;
    sample.confidence = 1.0 / (2 + position);
  }
  return decoder.apply({samples});
}

TEST(BlockDrafts, APassComputesTheStatesAfterTheNextSteps) {
  BlockDiffusion options = settings(12, 8, 4);
  options.drafts = 5;
  BlockDiffusionDecoder decoder(options, prompt_of(10));
  EXPECT_THAT(decoder.plan().groups, SizeIs(2))
      << "the first pass over a block has no predictions to draft by";
  EXPECT_THAT(positions_of(pass(decoder)), ElementsAre(10, 11));
  const StepPlan plan = decoder.plan();
  // States with masks at 12 to 15 and 14 and 15; one without masks predicts nothing.
  EXPECT_THAT(plan.tokens, ElementsAre(19, 20, 110, 111, kMask, kMask, kMask, kMask, 19, 20, 110, 111, 112,
                                       113, kMask, kMask));
  EXPECT_THAT(groups(plan), ElementsAre(Group{{8, 16}, 16}, Group{{8, 16}, -1}));
  ASSERT_THAT(plan.groups, SizeIs(2));
  EXPECT_THAT(plan.groups[1].visible, ElementsAre(IndexRange{0, 8}));
  EXPECT_EQ(plan.groups[1].own_rows, OwnRows::kBidirectional);
  for (size_t row = 8; row < 16; ++row) {
    EXPECT_EQ(plan.positions[row], plan.positions[row - 8]);
    EXPECT_GE(plan.cells[row], 24) << "the canvas";
    EXPECT_LT(plan.cells[row], decoder.num_cells());
    EXPECT_EQ(plan.cells[row] % kTile, plan.positions[row] % kTile);
  }
  std::vector<std::pair<int32_t, RngStream>> samples;
  for (const LogitRow& logit : plan.logits) samples.emplace_back(logit.row, logit.noise);
  const auto noise = [](int32_t step, int32_t position) { return RngStream(5, 1, 1, step, position); };
  EXPECT_THAT(samples, ElementsAre(std::pair(4, noise(1, 12)), std::pair(5, noise(1, 13)),
                                   std::pair(6, noise(1, 14)), std::pair(7, noise(1, 15)),
                                   std::pair(14, noise(2, 14)), std::pair(15, noise(2, 15))));
}

TEST(BlockDrafts, AcceptedDraftsAreStepsOfTheSamePass) {
  BlockDiffusion options = settings(8, 4, 4);
  options.drafts = 9;
  BlockDiffusionDecoder decoder(options, prompt_of(4));
  EXPECT_THAT(positions_of(pass(decoder)), ElementsAre(4));
  const StepReport report = pass(decoder);
  EXPECT_THAT(positions_of(report), ElementsAre(5, 6, 7));
  EXPECT_EQ(decoder.block(), (IndexRange{8, 12}));
  EXPECT_THAT(positions_of(pass(decoder)), ElementsAre(8));
  EXPECT_THAT(positions_of(pass(decoder)), ElementsAre(9, 10, 11));
  EXPECT_TRUE(decoder.done());
}

TEST(BlockDrafts, StepsEndWithTheFirstThatWritesWhatWasNotDrafted) {
  BlockDiffusion options = settings(8, 8, 8);
  options.drafts = 2;
  BlockDiffusionDecoder decoder(options, {});
  pass(decoder);
  ASSERT_THAT(decoder.plan().logits, SizeIs(7 + 6 + 5));
  // The first state predicts other tokens.
  EXPECT_THAT(positions_of(pass(decoder, 0)), ElementsAre(1));
  EXPECT_EQ(decoder.canvas()[1], 7);
  // From the second state on: its own step is taken, the draft behind it is not.
  ASSERT_THAT(decoder.plan().logits, SizeIs(6 + 5 + 4));
  EXPECT_THAT(positions_of(pass(decoder, 6)), ElementsAre(2));
}

TEST(BlockDrafts, NothingBehindAnEndIsAccepted) {
  BlockDiffusion options = settings(8, 8, 8);
  options.drafts = 8;
  BlockDiffusionDecoder decoder(options, {});
  pass(decoder);
  const StepReport report = pass(decoder, 0, kEnd);
  EXPECT_THAT(positions_of(report), ElementsAre(1));
  EXPECT_TRUE(decoder.done());
  EXPECT_THAT(decoder.canvas(), ElementsAre(100, kEnd));
}

TEST(BlockDrafts, UncachedWorkHasTheRowsOfDrafts) {
  BlockDiffusion options = settings(8, 8, 8);
  options.drafts = 2;
  BlockDiffusionDecoder decoder(options, prompt_of(8));
  EXPECT_EQ(decoder.uncached_work().rows, 16);
  pass(decoder);
  const PassWork work = decoder.uncached_work();
  EXPECT_EQ(work.rows, 16 + 2 * 8);
  EXPECT_EQ(work.pairs, 3 * 64 + 2 * 8 * 16);
  EXPECT_EQ(work.logit_rows, 7 + 6 + 5);
}

TEST(BlockDrafts, NeedNoCellsWhereABlockHasNoStateToDraft) {
  BlockDiffusion options = settings(8, 2, 2);
  options.drafts = 4;
  EXPECT_EQ(BlockDiffusionDecoder(options, {}).num_cells(), 8);
}

struct Outcome {
  std::vector<TokenId> canvas;
  std::vector<std::pair<int32_t, TokenId>> commits;  // in order of steps' positions within a block
  std::vector<double> confidences;
  int32_t passes = 0;
};

Outcome decode(const FakeModel& model, const BlockDiffusion& options, const std::vector<TokenId>& prompt) {
  BlockDiffusionDecoder decoder(options, prompt);
  FakeCells cells(model, decoder.num_cells());
  Outcome outcome;
  std::vector<Commit> commits;
  cells.run(decoder, [&](const StepPlan& plan, const StepReport& report) {
    std::vector<int32_t> used = plan.cells;
    std::ranges::sort(used);
    EXPECT_EQ(std::ranges::adjacent_find(used), used.end()) << "cells of a plan are distinct";
    commits.insert(commits.end(), report.committed.begin(), report.committed.end());
    ++outcome.passes;
  });
  std::ranges::sort(commits, {}, &Commit::position);
  // An answer that ends behind positions of its last block has reported some of them.
  std::erase_if(commits,
                [&](const Commit& commit) { return commit.position >= std::ssize(decoder.canvas()); });
  for (const Commit& commit : commits) {
    outcome.commits.emplace_back(commit.position, commit.token);
    outcome.confidences.push_back(commit.confidence);
  }
  outcome.canvas.assign(decoder.canvas().begin(), decoder.canvas().end());
  return outcome;
}

/// Each position once, with the token and the confidence of undrafted decoding.
TEST(BlockDrafts, WriteWhatIsWrittenWithoutThemInNoMorePasses) {
  int32_t fewer = 0;
  int32_t ended = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    const RngStream choose(seed, 91);
    const auto below = [&](uint64_t index, uint32_t count) {
      return static_cast<int32_t>(choose.below(index, count));
    };
    const int32_t block = 1 + below(0, 12);
    BlockDiffusion options = settings(1 + below(1, 40), block, 1 + below(2, static_cast<uint32_t>(block)));
    options.seed = seed;
    options.shifted_logits = below(3, 3) == 0;
    options.commits_apart = options.shifted_logits || below(4, 2) == 1;
    options.sampling.temperature = below(5, 2) == 1 ? 0.4F : 0;
    const std::vector<UnmaskPolicy> policies = {{EvenSplit{}},
                                                {EvenSplit{}, UnmaskOrder::kLeftToRight},
                                                {EvenSplit{}, UnmaskOrder::kRandom},
                                                {Dynamic{0.5}},
                                                {Threshold{0.5}},
                                                {Factor{1.0}},
                                                {EntropyBounded{0.4}}};
    options.unmask = policies[static_cast<size_t>(below(6, 7))];
    if (below(7, 3) == 0) options.end_ids.clear();
    const std::vector<TokenId> prompt = prompt_of((options.shifted_logits ? 1 : 0) + below(8, 40));
    FakeModel model;
    model.seed = seed;
    // A model that often predicts the same, so that drafts are accepted now and then.
    model.favour.assign(static_cast<size_t>(model.vocab), 0.0);
    model.favour[9] = seed % 2 == 0 ? 8 : 3;
    const Outcome plain = decode(model, options, prompt);
    options.drafts = 1 + below(9, 8);
    const Outcome drafted = decode(model, options, prompt);
    ASSERT_EQ(drafted.canvas, plain.canvas);
    ASSERT_EQ(drafted.commits, plain.commits);
    ASSERT_EQ(drafted.confidences, plain.confidences);
    ASSERT_LE(drafted.passes, plain.passes);
    fewer += drafted.passes < plain.passes ? 1 : 0;
    ended += std::ssize(plain.canvas) < std::ssize(prompt) + options.gen_length ? 1 : 0;
  }
  EXPECT_GT(fewer, 50);
  EXPECT_GT(ended, 30);
}

}  // namespace
}  // namespace lacuna::block_drafts_test
