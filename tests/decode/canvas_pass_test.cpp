#include "decode/canvas_pass.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace lacuna::canvas_pass_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr TokenId kMask = 2;

std::vector<int32_t> range(int32_t begin, int32_t end) {
  std::vector<int32_t> rows(static_cast<size_t>(end - begin));
  std::iota(rows.begin(), rows.end(), begin);
  return rows;
}

RngStream noise_at(int32_t position) {
  return RngStream(99, position);
}

/// A rule other than the raw posterior's.
SamplingRule suppressing(TokenId token) {
  SamplingRule rule;
  rule.undrawn = {token};
  return rule;
}

SureLock without_gate() {
  SureLock lock;
  lock.eps = 1;
  lock.gate = 100;
  return lock;
}

std::vector<int32_t> rows_of(const std::vector<LogitRow>& logits) {
  std::vector<int32_t> rows;
  for (const LogitRow& logit : logits) rows.push_back(logit.row);
  return rows;
}

/// A pass over a canvas, with what its decoder does around it.
class Passes {
 public:
  Passes(const CanvasPassOptions& options, std::vector<TokenId> prompt, int32_t gen_length,
         bool shifted = false)
      : canvas(std::move(prompt), gen_length, kMask, shifted), pass(options, canvas) {
    block = {0, canvas.prompt_length(), canvas.length(), 0};
  }

  const StepPlan& prepare() {
    pass.prepare(canvas, block, canvas.masked_positions(block.begin, block.end), noise_at);
    return pass.plan();
  }

  /// One certainty for all rows, one drift for all measured rows.
  StepReport finish(const std::vector<Commit>& commits = {}, double certainty = 0.5, double kl = 0) {
    return finish_with(commits, std::vector<double>(pass.plan().logits.size(), certainty), kl);
  }

  StepReport finish_with(const std::vector<Commit>& commits, const std::vector<double>& certainties,
                         double kl) {
    std::vector<RowStatistics> drawn;
    for (const double certainty : certainties) drawn.push_back({9, certainty});
    pass.count_rows(canvas);
    for (const Commit& commit : commits) canvas.commit(commit);
    pass.close_gate(canvas, drawn);
    ++block.pass;
    StepReport report;
    probes = {pass.drift_probes().begin(), pass.drift_probes().end()};
    pass.apply_drift(canvas, std::vector<Drift>(probes.size(), {kl, 0}), report);
    return report;
  }

  StepReport run(const std::vector<Commit>& commits = {}, double certainty = 0.5, double kl = 0) {
    prepare();
    return finish(commits, certainty, kl);
  }

  Canvas canvas;
  CanvasPass pass;
  Block block;
  std::vector<DriftProbe> probes;  // of the last pass
};

TEST(CanvasPass, SeesAWindowBehindTheBlockAndTheLastPosition) {
  CanvasPassOptions options;
  options.suffix = 2;
  Passes passes(options, {5, 6, 7}, 9);
  passes.block = {0, 3, 6, 0};
  EXPECT_THAT(passes.prepare().cells, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 11));
  ASSERT_THAT(passes.prepare().groups, SizeIs(1));
  EXPECT_THAT(passes.prepare().groups.front().visible, ElementsAre(IndexRange{0, 8}, IndexRange{11, 12}));
  passes.finish({{3, 9, 1}});
  passes.block = {1, 6, 9, 0};
  EXPECT_THAT(passes.prepare().groups.front().visible, ElementsAre(IndexRange{0, 12}));
  EXPECT_THAT(passes.prepare().cells, SizeIs(12)) << "the window reaches the last position but one";
}

TEST(CanvasPass, DrawsWhatItSeesOfAWindowByTheDistance) {
  CanvasPassOptions options;
  options.suffix = 5;
  options.suffix_dropout = SuffixDropout{2, 2};
  std::vector<double> counts(7);
  constexpr int kBlocks = 2000;
  for (int32_t index = 0; index < kBlocks; ++index) {
    Passes passes(options, {5, 6, 7}, 9);
    passes.block = {index, 3, 5, 0};
    const std::vector<int32_t> cells = passes.prepare().cells;
    EXPECT_EQ(passes.prepare().cells, cells) << "the same in each pass of a block";
    for (size_t i = 5; i < cells.size(); ++i) counts.at(static_cast<size_t>(cells[i] - 5)) += 1.0 / kBlocks;
  }
  // Four standard deviations of 2000 draws are 0.045 at most. Densities at 0, 0.5, 1, 1.5 and 2.
  const std::vector<double> densities = {0.3989, 0.3521, 0.2420, 0.1295, 0.0540};
  for (size_t d = 0; d < 5; ++d) EXPECT_NEAR(counts[d], 2 * densities[d], 0.045) << d;
  EXPECT_EQ(counts[5] + counts[6], 0) << "not even the last position";
}

TEST(CanvasPass, SeesTheBlockAndTheLastPositionWithoutAWindow) {
  CanvasPassOptions options;
  options.suffix = 0;
  options.cache = PrefixCache{};
  Passes passes(options, {5, 6, 7}, 9);
  passes.block = {0, 3, 6, 0};
  passes.prepare();
  passes.finish({{3, 9, 1}});
  EXPECT_THAT(passes.prepare().cells, ElementsAre(3, 4, 5, 11)) << "what precedes the block is cached";
  EXPECT_THAT(passes.prepare().groups.front().visible, ElementsAre(IndexRange{0, 6}, IndexRange{11, 12}));
}

TEST(CanvasPass, WithoutOptionsIsAPassOverTheCanvas) {
  Passes passes({}, {7, 8}, 3);
  const StepPlan& plan = passes.prepare();
  EXPECT_THAT(plan.tokens, ElementsAre(7, 8, kMask, kMask, kMask));
  EXPECT_EQ(plan.positions, range(0, 5));
  EXPECT_EQ(plan.cells, range(0, 5));
  // Rows see the canvas's cells, their own among them.
  EXPECT_THAT(plan.groups, ElementsAre(RowGroup{0, {0, 5}, {{0, 5}}, OwnRows::kNone}));
  EXPECT_THAT(rows_of(plan.logits), ElementsAre(2, 3, 4));
  EXPECT_THAT(plan.rules, ElementsAre(SamplingRule{}));
  for (const LogitRow& logit : plan.logits) {
    EXPECT_EQ(logit.noise, noise_at(logit.row));
    EXPECT_EQ(logit.unconditional_row, -1);
    EXPECT_EQ(logit.rule, 0);
    EXPECT_EQ(logit.scored, -1);
  }
  EXPECT_EQ(passes.pass.num_sequences(), 1);
  EXPECT_EQ(passes.pass.num_cells(), 5);
  EXPECT_FALSE(passes.pass.remembers_outputs());
  EXPECT_EQ(passes.pass.drift_estimate(), nullptr);
  const StepReport report = passes.finish();
  EXPECT_THAT(report.locked, IsEmpty());
  EXPECT_THAT(passes.probes, IsEmpty());
}

TEST(CanvasPass, DrawsAreTheRulesOfTheRequest) {
  CanvasPassOptions options;
  options.sampling = suppressing(5);
  Passes passes(options, {7}, 2);
  EXPECT_THAT(passes.prepare().rules, ElementsAre(suppressing(5)));
}

TEST(CanvasPass, NoiseBelongsToThePositionAndNotToItsRow) {
  Passes passes({}, {7}, 3, true);
  const StepPlan& plan = passes.prepare();
  EXPECT_THAT(rows_of(plan.logits), ElementsAre(0, 1, 2));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(plan.logits[i].noise, noise_at(static_cast<int32_t>(i) + 1));
}

TEST(CanvasPass, ACachedPassReadsEveryCellAndComputesItsOwnRows) {
  CanvasPassOptions options;
  options.cache = DualCache{};
  Passes passes(options, {7, 8}, 4);
  passes.block.end = 4;
  passes.run({{2, 9, 1}});
  const StepPlan& plan = passes.prepare();
  EXPECT_THAT(plan.tokens, ElementsAre(9, kMask));
  EXPECT_THAT(plan.positions, ElementsAre(2, 3));
  EXPECT_THAT(plan.cells, ElementsAre(2, 3));
  EXPECT_THAT(plan.groups, ElementsAre(RowGroup{0, {0, 2}, {{0, 6}}, OwnRows::kNone}));
  EXPECT_THAT(rows_of(plan.logits), ElementsAre(1));
  passes.finish();
  EXPECT_EQ(passes.canvas.age(0), 1);
  EXPECT_EQ(passes.canvas.age(2), 1);
  EXPECT_EQ(passes.canvas.age(5), 1);
  EXPECT_EQ(passes.canvas.num_passes(), 2);
}

TEST(CanvasPass, ASparseCacheChoosesByTheBlocksRowsAndThenComputesThemAlone) {
  CanvasPassOptions options;
  options.cache = SparseDllm{};
  options.cfg_scale = 1;
  Passes passes(options, {7, 8, 9}, 8);
  passes.block = {0, 3, 6, 0};
  EXPECT_THAT(passes.prepare().groups, ElementsAre(RowGroup{0, {0, 11}, {{0, 11}}, OwnRows::kNone},
                                                   RowGroup{1, {11, 22}, {{0, 11}}, OwnRows::kNone}));
  passes.finish({{3, 9, 1}});
  const std::vector<RowGroup> second = passes.prepare().groups;
  ASSERT_THAT(second, SizeIs(6));
  const SparseAttention& chooses = second[1].sparse;
  EXPECT_EQ(chooses.choice, SparseAttention::Choice::kAllAndRememberScored);
  EXPECT_EQ(chooses.budget, 4);
  EXPECT_EQ(second[4].sparse, chooses);
  std::vector<IndexRange> rows;
  for (const RowGroup& group : second) {
    rows.push_back(group.rows);
    EXPECT_THAT(group.visible, ElementsAre(IndexRange{0, 11}));
    EXPECT_EQ(group.sequence, rows.size() > 3 ? 1 : 0);
  }
  EXPECT_THAT(rows, ElementsAre(IndexRange{0, 3}, IndexRange{3, 6}, IndexRange{6, 11}, IndexRange{11, 14},
                                IndexRange{14, 17}, IndexRange{17, 22}));
  passes.finish({{4, 9, 1}});
  const std::vector<RowGroup> third = passes.prepare().groups;
  ASSERT_THAT(third, SizeIs(2));
  EXPECT_EQ(third[0].rows, (IndexRange{0, 3}));
  EXPECT_EQ(third[0].sparse.choice, SparseAttention::Choice::kRemembered);
  EXPECT_EQ(third[0].sparse.except, (IndexRange{3, 6}));
  const PassWork work = work_of(passes.prepare());
  EXPECT_EQ(work.pairs - work.unchosen_pairs, 2 * 3 * (3 + 4)) << "the block, and half of the others";
}

TEST(CanvasPass, ComputesWholeBlocksOfThePromptOnceFromThemselvesAndThoseBefore) {
  CanvasPassOptions options;
  options.prompt_block = 3;
  Passes passes(options, {10, 11, 12, 13, 14, 15, 16}, 4);
  const StepPlan& first = passes.prepare();
  EXPECT_EQ(first.cells, range(0, 11));
  ASSERT_THAT(first.groups, SizeIs(3));
  for (const int32_t block : {0, 1}) {
    const RowGroup& group = first.groups[static_cast<size_t>(block)];
    EXPECT_EQ(group.rows, (IndexRange{3 * block, 3 * block + 3}));
    EXPECT_THAT(group.visible, ElementsAre(IndexRange{0, 3 * block + 3}));
    EXPECT_TRUE(group.only_kv);
  }
  EXPECT_EQ(first.groups[2].rows, (IndexRange{6, 11}));
  EXPECT_THAT(first.groups[2].visible, ElementsAre(IndexRange{0, 11}));
  EXPECT_EQ(passes.pass.exact_prefix().wanted, 6);
  EXPECT_EQ(passes.pass.exact_prefix().kept, 0);
  passes.finish();
  EXPECT_EQ(passes.prepare().cells, range(6, 11));
  EXPECT_EQ(passes.pass.exact_prefix().kept, 6);
}

TEST(CanvasPass, ComputesNoBlockOfThePromptThatAnotherRequestHas) {
  CanvasPassOptions options;
  options.prompt_block = 3;
  Passes passes(options, {10, 11, 12, 13, 14, 15, 16}, 4);
  passes.pass.skip_prefix(3);
  EXPECT_EQ(passes.prepare().cells, range(3, 11));
  EXPECT_EQ(passes.pass.plan().groups.front().rows, (IndexRange{0, 3}));
  EXPECT_THAT(passes.pass.plan().groups.front().visible, ElementsAre(IndexRange{0, 6}));
  passes.finish();
  EXPECT_EQ(passes.canvas.age(0), 1) << "the text does not depend on what was shared";
}

TEST(CanvasPass, LeavesRowsThatPredictOutOfTheBlocksOfThePrompt) {
  CanvasPassOptions options;
  options.prompt_block = 3;
  const auto end_of = [&](const std::vector<TokenId>& prompt, bool shifted) {
    return Passes(options, prompt, 4, shifted).pass.exact_prefix().wanted;
  };
  EXPECT_EQ(end_of({10, 11, 12, 13, 14, 15}, false), 6);
  EXPECT_EQ(end_of({10, 11, 12, 13, 14, 15}, true), 3) << "row 5 predicts position 6";
  EXPECT_EQ(end_of({10, 11, 12, 13, kMask, 15}, false), 3) << "a gap";
  EXPECT_EQ(end_of({10, 11, 12, kMask, 14, 15}, true), 0);
  EXPECT_EQ(end_of({kMask, 11, 12}, true), 0);
}

TEST(CanvasPass, GuidanceGivesTheSecondSequenceMasksForThePrompt) {
  CanvasPassOptions options;
  options.cfg_scale = 1.5F;
  options.cache = DualCache{};
  Passes passes(options, {7, kMask, 8}, 2);
  EXPECT_EQ(passes.pass.num_sequences(), 2);
  EXPECT_THAT(passes.prepare().tokens,
              ElementsAre(7, kMask, 8, kMask, kMask, kMask, kMask, kMask, kMask, kMask));
  // The gap's token is the answer's: both sequences show it.
  passes.finish({{1, 9, 1}, {4, 10, 1}});
  passes.block.pass = 0;
  EXPECT_THAT(passes.prepare().tokens, ElementsAre(7, 9, 8, kMask, 10, kMask, 9, kMask, kMask, 10));
  passes.finish();
  const StepPlan& plan = passes.prepare();
  EXPECT_THAT(plan.tokens, ElementsAre(kMask, 10, kMask, 10));
  EXPECT_THAT(plan.cells, ElementsAre(3, 4, 3, 4));
  EXPECT_THAT(plan.positions, ElementsAre(3, 4, 3, 4));
  EXPECT_THAT(plan.groups, ElementsAre(RowGroup{0, {0, 2}, {{0, 5}}, OwnRows::kNone},
                                       RowGroup{1, {2, 4}, {{0, 5}}, OwnRows::kNone}));
  ASSERT_THAT(plan.logits, SizeIs(1));
  EXPECT_EQ(plan.logits[0].row, 0);
  EXPECT_EQ(plan.logits[0].unconditional_row, 2);
  EXPECT_EQ(plan.logits[0].guidance, 1.5F);
}

TEST(CanvasPass, CountsWhatThePassWouldCostWithoutCachesAndLocks) {
  CanvasPassOptions options;
  options.cache = DualCache{};
  options.lock = without_gate();
  options.sampling = suppressing(5);
  for (const float scale : {0.0F, 2.0F}) {
    options.cfg_scale = scale;
    Passes passes(options, {7, 8, 9}, 2);
    passes.run();
    passes.prepare();
    const PassWork work = passes.pass.uncached_work(passes.canvas);
    const int32_t sequences = scale > 0 ? 2 : 1;
    EXPECT_EQ(work.rows, 5 * sequences);
    EXPECT_EQ(work.pairs, 25 * sequences);
    EXPECT_EQ(work.cells, 5 * sequences);
    EXPECT_EQ(work.logit_rows, 2 * sequences);  // the two samples, not the rows that are judged
  }
}

// Locks

TEST(CanvasPass, LockedRowsAreComputedNoMore) {
  CanvasPassOptions options;
  options.lock = without_gate();
  Passes passes(options, {7, 8, 9}, 2);
  EXPECT_TRUE(passes.pass.remembers_outputs());
  EXPECT_EQ(passes.pass.num_cells(), 5);
  EXPECT_THAT(passes.run().locked, IsEmpty());
  EXPECT_THAT(passes.probes, IsEmpty());  // nothing to compare with
  EXPECT_THAT(passes.run({{3, 9, 1}}).locked, ElementsAre(0, 1, 2));
  EXPECT_THAT(passes.probes,
              ElementsAre(DriftProbe{0, -1, 0, 0}, DriftProbe{1, -1, 0, 1}, DriftProbe{2, -1, 0, 2}));
  const StepPlan& plan = passes.prepare();
  EXPECT_THAT(plan.tokens, ElementsAre(9, kMask));
  EXPECT_THAT(plan.cells, ElementsAre(3, 4));
  EXPECT_THAT(plan.groups, ElementsAre(RowGroup{0, {0, 2}, {{0, 5}}, OwnRows::kNone}));
  EXPECT_EQ(plan.logits[0].row, 1);
  EXPECT_THAT(passes.finish().locked, ElementsAre(3));
  EXPECT_THAT(passes.probes, ElementsAre(DriftProbe{0, -1, 0, 3}));  // plan row 0, canvas row 3
}

TEST(CanvasPass, FullPassesLeaveLockedRowsOutToo) {
  CanvasPassOptions options;
  options.lock = without_gate();
  options.cache = DualCache{2};
  Passes passes(options, {7, 8}, 2);
  passes.run();
  passes.run();
  EXPECT_THAT(passes.run().locked, ElementsAre(0, 1));  // the second full pass
  passes.run();
  EXPECT_THAT(passes.prepare().cells, ElementsAre(2, 3));  // the third
}

TEST(CanvasPass, NothingLocksWhereStaleRowsMayHideAChange) {
  CanvasPassOptions options;
  options.lock = without_gate();
  options.cache = PrefixCache{};
  Passes passes(options, {7, 8}, 2);
  passes.run({{2, 9, 1}});
  for (int pass = 0; pass < 3; ++pass) {
    EXPECT_THAT(passes.prepare().logits, SizeIs(1));  // nothing is judged
    EXPECT_THAT(passes.finish().locked, IsEmpty());
    EXPECT_THAT(passes.probes, IsEmpty());
  }
  passes.block.pass = 0;  // the next block
  EXPECT_THAT(passes.run().locked, ElementsAre(0, 1, 2));
}

TEST(CanvasPass, RowsThatOnlyTheLockNeedsAreJudgedByTheRawPosterior) {
  CanvasPassOptions options;
  options.lock = without_gate();
  for (const bool plain : {true, false}) {
    options.sampling = plain ? SamplingRule{} : suppressing(5);
    Passes passes(options, {7, 8}, 2);
    const StepPlan& plan = passes.prepare();
    EXPECT_THAT(rows_of(plan.logits), ElementsAre(2, 3, 0, 1));
    const int32_t rule = plan.logits[2].rule;
    EXPECT_EQ(plan.rules[static_cast<size_t>(rule)], SamplingRule{});
    EXPECT_EQ(plan.logits[3].rule, rule);
    EXPECT_EQ(plan.rules[0], options.sampling);
    EXPECT_EQ(plan.logits[0].rule, 0);
    EXPECT_EQ(plan.logits[1].rule, 0);
  }
}

TEST(CanvasPass, ADrawThatSaysTheCertaintyIsNotAskedTwice) {
  CanvasPassOptions options;
  options.lock = without_gate();
  options.lock->min_age = 0;
  Passes plain(options, {7}, 2);
  EXPECT_THAT(rows_of(plain.prepare().logits), ElementsAre(1, 2, 0));
  // Shifted, the rows that sample are those before.
  Passes shifted(options, {7}, 2, true);
  EXPECT_THAT(rows_of(shifted.prepare().logits), ElementsAre(0, 1, 2));
  options.sampling = suppressing(5);
  Passes asked(options, {7}, 2);
  EXPECT_THAT(rows_of(asked.prepare().logits), ElementsAre(1, 2, 0, 1, 2));
}

TEST(CanvasPass, TheGateTakesEachRowsOwnCertainty) {
  CanvasPassOptions options;
  options.lock = without_gate();
  options.lock->gate = 50;
  options.lock->min_age = 0;
  Passes passes(options, {7, 8}, 2);
  passes.run();
  passes.prepare();  // samples at 2 and 3, then rows 0 and 1
  // Position 3 is not committed: among 0.6, 0.7 and 0.9, of rows 0, 1 and 2, the most confident ceil(1.5)
  // pass.
  EXPECT_THAT(passes.finish_with({{2, 9, 1}}, {0.9, 0.99, 0.6, 0.7}, 0).locked, ElementsAre(1, 2));
}

TEST(CanvasPass, WithMinAgeZeroATokenLocksInThePassThatCommitsIt) {
  CanvasPassOptions options;
  options.lock = without_gate();
  options.lock->min_age = 0;
  Passes passes(options, {}, 2);
  passes.run();
  EXPECT_THAT(passes.run({{1, 9, 1}}).locked, ElementsAre(1));
  EXPECT_THAT(passes.prepare().cells, ElementsAre(0));
}

TEST(CanvasPass, DriftIsGuidedWhereLogitsAre) {
  CanvasPassOptions options;
  options.lock = without_gate();
  options.cfg_scale = 0.5F;
  Passes passes(options, {7, 8}, 1);
  passes.run();
  passes.prepare();
  EXPECT_EQ(passes.pass.plan().logits[1].unconditional_row, 3);
  EXPECT_EQ(passes.pass.plan().logits[1].guidance, 0.5F);
  passes.finish();
  EXPECT_THAT(passes.probes, ElementsAre(DriftProbe{0, 3, 0.5F, 0}, DriftProbe{1, 4, 0.5F, 1}));
}

CanvasPassOptions probing() {
  CanvasPassOptions options;
  options.lock = without_gate();
  options.lock->eps = 0.01;
  options.lock->unlock_every = 3;
  options.lock->probes = 2;
  options.lock->min_locked_passes = 0;
  return options;
}

TEST(CanvasPass, ProbesWriteToScratchCellsAndReadTheCanvas) {
  Passes passes(probing(), {7, 8, 9}, 2);
  EXPECT_EQ(passes.pass.num_cells(), 7);
  passes.run();
  ASSERT_THAT(passes.run().locked, ElementsAre(0, 1, 2));
  passes.run({{3, 11, 1}});
  const StepPlan& plan = passes.prepare();  // pass 3 probes two of the three
  EXPECT_THAT(plan.tokens, ElementsAre(11, kMask, 7, 8));
  EXPECT_THAT(plan.positions, ElementsAre(3, 4, 0, 1));
  EXPECT_THAT(plan.cells, ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(plan.groups, ElementsAre(RowGroup{0, {0, 2}, {{0, 5}}, OwnRows::kNone},
                                       RowGroup{0, {2, 4}, {{0, 5}}, OwnRows::kNone}));
  EXPECT_THAT(rows_of(plan.logits), ElementsAre(1, 0, 2, 3));  // the sample, the judged row, the probes
  const int32_t age = passes.canvas.age(0);
  const StepReport report = passes.finish_with({}, {0.5, 0.5, 0.5, 1}, 0.2);
  // The second probe is certain; the first is compared with what its own cell remembers.
  EXPECT_THAT(passes.probes, ElementsAre(DriftProbe{0, -1, 0, 3}, DriftProbe{2, -1, 0, 0}));
  EXPECT_THAT(report.unlocked, ElementsAre(0));
  EXPECT_THAT(report.locked, IsEmpty());
  EXPECT_EQ(passes.canvas.age(0), age);  // its cell was left alone
  EXPECT_THAT(passes.prepare().cells, ElementsAre(0, 3, 4));
}

TEST(CanvasPass, ProbesOfTheUnconditionalSequenceHaveScratchCellsOfTheirOwn) {
  CanvasPassOptions options = probing();
  options.cfg_scale = 1;
  Passes passes(options, {7, 8}, 1);
  passes.run();
  ASSERT_THAT(passes.run().locked, ElementsAre(0, 1));
  passes.run();
  const StepPlan& plan = passes.prepare();
  EXPECT_THAT(plan.tokens, ElementsAre(kMask, 7, 8, kMask, kMask, kMask));
  EXPECT_THAT(plan.cells, ElementsAre(2, 3, 4, 2, 3, 4));
  EXPECT_THAT(plan.groups, ElementsAre(RowGroup{0, {0, 1}, {{0, 3}}, OwnRows::kNone},
                                       RowGroup{0, {1, 3}, {{0, 3}}, OwnRows::kNone},
                                       RowGroup{1, {3, 4}, {{0, 3}}, OwnRows::kNone},
                                       RowGroup{1, {4, 6}, {{0, 3}}, OwnRows::kNone}));
  EXPECT_EQ(plan.logits[0].unconditional_row, 3);
  passes.finish();
  EXPECT_THAT(passes.probes, ElementsAre(DriftProbe{1, 4, 1, 0}, DriftProbe{2, 5, 1, 1}));
}

TEST(CanvasPass, HasNoMoreScratchCellsThanRowsAndNoneWithoutUnlocking) {
  CanvasPassOptions options = probing();
  options.lock->probes = 100;
  EXPECT_EQ(Passes(options, {7, 8, 9}, 2).pass.num_cells(), 10);
  options.lock->unlock_every = 0;
  EXPECT_EQ(Passes(options, {7, 8, 9}, 2).pass.num_cells(), 5);
}

TEST(CanvasPass, APassMayProbeAloneWhenEveryRowIsLocked) {
  Passes passes(probing(), {7, 8}, 0);
  passes.run();
  passes.run();
  passes.run();
  const StepPlan& plan = passes.prepare();
  EXPECT_THAT(plan.cells, ElementsAre(2, 3));
  EXPECT_THAT(plan.groups, ElementsAre(RowGroup{0, {0, 2}, {{0, 2}}, OwnRows::kNone}));
}

TEST(CanvasPass, ReportsTheEstimateOnlyWhereThereIsOne) {
  CanvasPassOptions options;
  options.lock = without_gate();
  EXPECT_EQ(Passes(options, {7}, 1).pass.drift_estimate(), nullptr);
  options.lock->delta = 0.1;
  Passes passes(options, {7, 8}, 1);
  ASSERT_NE(passes.pass.drift_estimate(), nullptr);
  for (int pass = 0; pass < 3; ++pass) passes.run({}, 0.5, 2);
  EXPECT_EQ(passes.pass.drift_estimate()->samples, 2);
}

TEST(CanvasPass, RefusesAnotherNumberOfDriftsThanAskedFor) {
  CanvasPassOptions options;
  options.lock = without_gate();
  Passes passes(options, {7}, 1);
  passes.run();
  passes.prepare();
  passes.pass.count_rows(passes.canvas);
  passes.pass.close_gate(passes.canvas, std::vector<RowStatistics>(2, {9, 0.5}));
  StepReport report;
  EXPECT_THROW(passes.pass.apply_drift(passes.canvas, {}, report), std::logic_error);
}

TEST(CanvasPass, VerifiesTokensByMasksThatDoNotSeeThem) {
  for (const float cfg_scale : {0.0F, 1.0F}) {
    CanvasPassOptions options;
    options.verified_block = 3;
    options.cfg_scale = cfg_scale;
    Canvas canvas({5}, 6, kMask, false);
    canvas.commit({4, 8, 0.5});
    CanvasPass pass(options, canvas);
    const int32_t num_sequences = cfg_scale > 0 ? 2 : 1;
    EXPECT_EQ(pass.num_cells(), 10);
    const Block block{1, 4, 7, 0};
    const std::vector<int32_t> verified = {4};
    pass.prepare(canvas, block, canvas.masked_positions(4, 7), noise_at, {.verified = verified});
    const StepPlan& plan = pass.plan();
    ASSERT_EQ(plan.num_rows(), 10 * num_sequences);
    ASSERT_EQ(plan.groups.size(), 4U * static_cast<size_t>(num_sequences));
    for (int32_t sequence = 0; sequence < num_sequences; ++sequence) {
      for (int32_t i = 0; i < 3; ++i) {
        const auto row = static_cast<size_t>(10 * sequence + 7 + i);
        EXPECT_EQ(plan.tokens[row], kMask);
        EXPECT_EQ(plan.positions[row], 4 + i);
        EXPECT_EQ(plan.cells[row], 7 + i);
        const RowGroup& group = plan.groups[static_cast<size_t>(4 * sequence + 1 + i)];
        EXPECT_EQ(group.sequence, sequence);
        EXPECT_EQ(group.own_rows, OwnRows::kNone);
        EXPECT_EQ(group.only_kv, i != 0) << "what is not verified is only seen by the other masks";
        std::vector<int32_t> unseen = {4 + i};
        for (const IndexRange& part : group.visible) {
          for (int32_t cell = part.begin; cell < part.end; ++cell) unseen.push_back(cell);
        }
        std::sort(unseen.begin(), unseen.end());
        EXPECT_EQ(unseen, range(0, 10)) << "all but its own position, and the masks next to it";
      }
      EXPECT_THAT(plan.groups[static_cast<size_t>(4 * sequence)].visible, ElementsAre(IndexRange{0, 7}));
    }
    ASSERT_EQ(plan.logits.size(), 3U);
    EXPECT_EQ(plan.logits[2].row, 7);
    EXPECT_EQ(plan.logits[2].scored, 8);
    EXPECT_EQ(plan.logits[2].unconditional_row, cfg_scale > 0 ? 17 : -1);
  }
}

TEST(CanvasPass, ListsTokensOfAPositionByARuleOfItsOwn) {
  CanvasPassOptions options;
  options.sampling = suppressing(kMask);
  Canvas canvas({5}, 3, kMask, false);
  CanvasPass pass(options, canvas);
  const std::vector<std::vector<TokenId>> listed = {{7, 9}, {}, {4}};
  pass.prepare(canvas, {0, 1, 4, 0}, std::vector<int32_t>{1, 2, 3}, noise_at, {.listed = listed});
  const StepPlan& plan = pass.plan();
  ASSERT_EQ(plan.rules.size(), 3U);
  EXPECT_EQ(plan.logits[0].rule, 1);
  EXPECT_EQ(plan.logits[1].rule, 0);
  EXPECT_EQ(plan.logits[2].rule, 2);
  EXPECT_THAT(plan.rules[0].listed, IsEmpty());
  EXPECT_THAT(plan.rules[1].listed, ElementsAre(7, 9));
  EXPECT_THAT(plan.rules[2].listed, ElementsAre(4));
  EXPECT_EQ(plan.rules[2].undrawn, options.sampling.undrawn);
}

TEST(CanvasPass, ComputesTheRowsThatItCompares) {
  CanvasPassOptions options;
  options.cache = DualCache{};
  Canvas canvas({5, 6}, 6, kMask, true);
  CanvasPass pass(options, canvas);
  Block block{0, 2, 4, 0};
  const std::vector<int32_t> compared = {2, 6};
  for (block.pass = 0; block.pass < 2; ++block.pass) {
    pass.prepare(canvas, block, canvas.masked_positions(2, 4), noise_at, {.compared = compared});
    const StepPlan& plan = pass.plan();
    ASSERT_EQ(plan.logits.size(), 4U);
    for (size_t i = 0; i < 2; ++i) {
      const LogitRow& logit = plan.logits[2 + i];
      EXPECT_EQ(logit.num_likeliest, 2);
      EXPECT_EQ(plan.positions[static_cast<size_t>(logit.row)], compared[i] - 1) << "its predictor";
    }
    EXPECT_EQ(plan.num_rows(), block.pass == 0 ? 8 : 4) << "the block from its predictor on, and row 5";
    pass.count_rows(canvas);
  }
}

TEST(CanvasPass, ThatVerifiesNothingHasNoRowsForIt) {
  CanvasPassOptions options;
  options.verified_block = 6;
  Passes passes(options, {5}, 6);
  EXPECT_EQ(passes.prepare().num_rows(), 7);
}

}  // namespace
}  // namespace lacuna::canvas_pass_test
