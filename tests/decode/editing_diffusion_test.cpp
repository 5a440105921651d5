// Expectations are written from docs/methods/block_diffusion.md, section 7.
#include "decode/editing_diffusion.h"

#include <gmock/gmock.h>

#include <map>
#include <utility>
#include <vector>

#include "decode/baseline.h"
#include "model/tiny_models.h"

namespace lacuna::editing_diffusion_test {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::IsEmpty;
using testing::SizeIs;

constexpr TokenId kMask = 90;
constexpr TokenId kDelete = 91;
constexpr TokenId kSplit = 92;
constexpr TokenId kEnd = 93;

EditingDiffusion settings(int32_t gen_length = 4, int32_t block_length = 4) {
  EditingDiffusion options;
  options.mask_id = kMask;
  options.delete_id = kDelete;
  options.split_id = kSplit;
  options.end_ids = {kEnd};
  options.gen_length = gen_length;
  options.block_length = block_length;
  options.steps = block_length;
  return options;
}

std::vector<EditedToken> tokens(std::vector<TokenId> ids) {
  std::vector<EditedToken> result;
  for (const TokenId id : ids) result.push_back({id, true});
  return result;
}

std::vector<TokenId> ids_of(const std::vector<EditedToken>& edited) {
  std::vector<TokenId> ids;
  for (const EditedToken& each : edited) ids.push_back(each.token);
  return ids;
}

constexpr EditedToken kFilledWithMasks{kMask, false, 0};

std::vector<TokenId> carry_out(std::vector<TokenId> before, std::vector<TokenId> written,
                               size_t num_fixed = 0) {
  std::vector<EditedToken> block = tokens(std::move(before));
  for (size_t i = 0; i < num_fixed; ++i) block[i] = {block[i].token, false, EditedToken::kFixed};
  return ids_of(carry_out_edits(block, written, settings(), kFilledWithMasks));
}

TEST(CarryOutEdits, TakesDeletedTokensOutAndFillsWithMasks) {
  EXPECT_THAT(carry_out({1, 2, 3, 4}, {1, kDelete, 3, 4}), ElementsAre(1, 3, 4, kMask));
  EXPECT_THAT(carry_out({1, 2, 3, 4}, {kDelete, kDelete, kDelete, kDelete}),
              ElementsAre(kMask, kMask, kMask, kMask));
}

TEST(CarryOutEdits, SplitPutsAMaskBeforeTheTokenThatWasRead) {
  EXPECT_THAT(carry_out({1, 2, kMask, kMask}, {1, kSplit, 7, 8}), ElementsAre(1, kMask, 2, 7));
  EXPECT_THAT(carry_out({1, 2, 3, 4}, {1, 2, 3, kSplit}), ElementsAre(1, 2, 3, kMask));
}

TEST(CarryOutEdits, DeletesMakeRoomForSplits) {
  EXPECT_THAT(carry_out({1, 2, 3, 4}, {kDelete, 2, kSplit, 4}), ElementsAre(2, kMask, 3, 4));
}

TEST(CarryOutEdits, LeavesThePromptsEditTokensAlone) {
  EXPECT_THAT(carry_out({kDelete, kSplit, 3, 4}, {kDelete, kSplit, 5, kDelete}, 2),
              ElementsAre(kDelete, kSplit, 5, kMask));
}

TEST(CarryOutEdits, KnowsWhichMasksWereThereAtFirst) {
  const std::vector<EditedToken> before = {{kMask, true}, {2, false}, {kMask, true}, {4, true}};
  const std::vector<TokenId> written = {kSplit, 2, kDelete, 4};
  EXPECT_THAT(carry_out_edits(before, written, settings(), kFilledWithMasks),
              ElementsAre(EditedToken{kMask, false}, EditedToken{kMask, true}, EditedToken{2, false},
                          EditedToken{4, true}));
}

/// Result of a row: the sampled token, its probability, and the second best.
struct Says {
  TokenId token;
  double confidence;
  TokenId second = 50;
};

/// Runs a decoder on what each pass's rows say, by position in the block.
class Script {
 public:
  Script(EditingDiffusion options, std::vector<TokenId> prompt, std::vector<TokenId> answer = {},
         std::vector<GrowingHole> holes = {})
      : decoder_(std::move(options), std::move(prompt), std::move(answer), std::move(holes)) {}

  EditingDiffusionDecoder& decoder() { return decoder_; }

  StepReport pass(const std::map<int32_t, Says>& rows, const std::vector<Says>& further = {}) {
    const StepPlan plan = decoder_.plan();
    std::vector<RowStatistics> samples;
    const int32_t begin = decoder_.block().begin;
    for (const LogitRow& logit : plan.logits) {
      const int32_t position = plan.positions[static_cast<size_t>(logit.row)] - begin;
      samples.push_back(statistics(rows.at(position)));
    }
    StepReport report = decoder_.apply({samples});
    const FollowUp wanted = decoder_.follow_up();
    EXPECT_THAT(wanted.logits, SizeIs(further.size()));
    if (further.empty()) return report;
    samples.clear();
    for (const Says& says : further) samples.push_back(statistics(says));
    decoder_.apply_follow_up({.samples = samples}, report);
    EXPECT_TRUE(decoder_.follow_up().empty()) << "it is asked again";
    return report;
  }

  std::vector<TokenId> canvas() const { return {decoder_.canvas().begin(), decoder_.canvas().end()}; }

 private:
  static RowStatistics statistics(const Says& says) {
    RowStatistics row;
    row.token = row.best_token = says.token;
    row.confidence = says.confidence;
    row.second_token = says.second;
    return row;
  }

  EditingDiffusionDecoder decoder_;
};

TEST(EditingDiffusion, FillsWhatIsLikelierThanTauAndAtLeastTheQuota) {
  Script script(settings(), {});
  script.pass({{0, {10, 0.2}}, {1, {11, 0.6}}, {2, {12, 0.5}}, {3, {13, 0.9}}});
  EXPECT_THAT(script.canvas(), ElementsAre(kMask, 11, kMask, 13)) << "0.5 is not above 0.5";
  script.pass({{0, {10, 0.2}}, {1, {11, 0.6}}, {2, {12, 0.1}}, {3, {13, 0.9}}});
  EXPECT_THAT(script.canvas(), ElementsAre(10, 11, kMask, 13)) << "a quota of one, the most likely";
}

TEST(EditingDiffusion, FillsEverythingOnceTheStepsAreOver) {
  EditingDiffusion options = settings();
  options.steps = 1;
  Script script(options, {});
  script.pass({{0, {kDelete, 0.9}}, {1, {11, 0.1}}, {2, {12, 0.1}}, {3, {13, 0.1}}});
  EXPECT_THAT(script.canvas(), ElementsAre(11, 12, 13, kMask));
  script.pass({{0, {11, 0.9}}, {1, {12, 0.9}}, {2, {13, 0.9}}, {3, {14, 0.1}}});
  EXPECT_THAT(script.canvas(), ElementsAre(11, 12, 13, 14));
}

TEST(EditingDiffusion, HasNoQuotaInMostOfMoreStepsThanPositions) {
  EditingDiffusion options = settings();
  options.steps = 6;  // 1, 1, 1, 1, 0, 0
  Script script(options, {});
  const auto unsure = [](TokenId first) {
    return std::map<int32_t, Says>{{0, {first, 0.4}}, {1, {11, 0.3}}, {2, {12, 0.2}}, {3, {13, 0.1}}};
  };
  script.pass(unsure(10));
  script.pass({{0, {10, 0.4}}, {1, {kDelete, 0.3}}, {2, {12, 0.2}}, {3, {13, 0.1}}});
  EXPECT_THAT(script.canvas(), ElementsAre(10, kMask, kMask, kMask)) << "the third mask is an edit's";
  script.pass(unsure(10));
  EXPECT_THAT(script.canvas(), ElementsAre(10, 11, 12, kMask)) << "a quota of one, and one for the edit's";
  script.pass({{0, {10, 0.4}}, {1, {11, 0.3}}, {2, {12, 0.2}}, {3, {13, 0.1}}});
  EXPECT_THAT(script.canvas(), ElementsAre(10, 11, 12, 13));
}

TEST(EditingDiffusion, FinishesWhereNothingChangesAndReadsTheBlockWithTheNext) {
  Script script(settings(8), {});
  const std::map<int32_t, Says> sure = {{0, {10, 0.9}}, {1, {11, 0.9}}, {2, {12, 0.9}}, {3, {13, 0.9}}};
  script.pass(sure);
  EXPECT_EQ(script.decoder().num_final(), 0);
  script.pass(sure);
  EXPECT_EQ(script.decoder().num_final(), 4);
  const StepPlan& plan = script.decoder().plan();
  ASSERT_THAT(plan.groups, SizeIs(2));
  EXPECT_TRUE(plan.groups[0].only_kv);
  EXPECT_THAT(std::vector(plan.tokens.begin(), plan.tokens.begin() + 4), ElementsAre(10, 11, 12, 13));
}

TEST(EditingDiffusion, EndsAtTheFirstEndTokenOfAFinishedBlock) {
  Script script(settings(8), {});
  const std::map<int32_t, Says> rows = {{0, {10, 0.9}}, {1, {kEnd, 0.9}}, {2, {12, 0.9}}, {3, {13, 0.9}}};
  script.pass(rows);
  EXPECT_FALSE(script.decoder().done());
  script.pass(rows);
  EXPECT_TRUE(script.decoder().done());
  EXPECT_EQ(script.decoder().stop_reason(), StopReason::kEndToken);
  EXPECT_THAT(script.canvas(), ElementsAre(10, kEnd));
}

TEST(EditingDiffusion, TakesPlainTokensInTheLastStep) {
  EditingDiffusion options = settings();
  options.most_edits = 0;
  Script script(options, {});
  script.pass({{0, {10, 0.9}}, {1, {kSplit, 0.9}}, {2, {12, 0.9}}, {3, {kDelete, 0.9}}},
              {{21, 0.3}, {23, 0.2}});
  EXPECT_THAT(script.canvas(), ElementsAre(10, 21, 12, 23));
  EXPECT_TRUE(script.decoder().done());
}

TEST(EditingDiffusion, LeavesAStateThatItHasBeenIn) {
  Script script(settings(), {});
  script.pass({{0, {10, 0.9}}, {1, {11, 0.9}}, {2, {12, 0.9}}, {3, {13, 0.9}}});
  script.pass({{0, {20, 0.9}}, {1, {11, 0.9}}, {2, {12, 0.9}}, {3, {23, 0.8}}});
  ASSERT_THAT(script.canvas(), ElementsAre(20, 11, 12, 23));
  // Back to the first state: the less sure of the two changed positions takes its second token.
  script.pass({{0, {10, 0.9, 60}}, {1, {11, 0.9}}, {2, {12, 0.9}}, {3, {13, 0.8, 63}}});
  EXPECT_THAT(script.canvas(), ElementsAre(10, 11, 12, 63));
}

TEST(EditingDiffusion, FixesThePromptOfItsFirstBlock) {
  Script script(settings(4), {5, kMask});
  const StepPlan& plan = script.decoder().plan();
  EXPECT_THAT(plan.tokens, ElementsAre(5, kMask, kMask, kMask));
  EXPECT_THAT(plan.logits, SizeIs(2)) << "nothing is drawn for what the prompt says, its mask included";
}

TEST(EditingDiffusion, ReadsALongPromptInSeveralPasses) {
  EditingDiffusionDecoder decoder(settings(4, 32), std::vector<TokenId>(1088, 7));
  EXPECT_EQ(decoder.plan().num_rows(), 1024);
  EXPECT_THAT(decoder.plan().logits, IsEmpty());
  decoder.apply({});
  EXPECT_EQ(decoder.plan().num_rows(), 64 + 32);
  EXPECT_EQ(decoder.exact_prefix().kept, 1024);
}

TEST(InfillBlockLength, ReachesFromTheEndOfThePromptToTheEndOfTheAnswer) {
  const auto infill_block_length = [](int32_t block, int32_t prompt, int32_t answer) {
    return lacuna::infill_block_length(block, prompt, answer, 1024);
  };
  EXPECT_EQ(infill_block_length(32, 0, 32), 32);
  EXPECT_EQ(infill_block_length(32, 70, 20), 32) << "from position 64 on";
  EXPECT_EQ(infill_block_length(32, 70, 30), 64) << "from position 64 on as well";
  EXPECT_EQ(infill_block_length(32, 70, 60), 160) << "blocks of 64 to 128 end before position 130";
  EXPECT_EQ(infill_block_length(32, 1, 32), 64);
}

TEST(InfillBlockLength, EndsWithinThePositionsWhereALargerBlockDoes) {
  EXPECT_EQ(infill_block_length(32, 100, 60, 1024), 96);
  EXPECT_EQ(infill_block_length(32, 100, 60, 160), 160) << "a block of 96 would end at 192";
  EXPECT_EQ(infill_block_length(32, 100, 61, 160), 0);
}

/// An infill in one block of 8: a prompt of one token, a hole, the text 30 31, end tokens.
class Infill : public testing::Test {
 protected:
  static EditingDiffusion options() {
    EditingDiffusion chosen = settings(/*gen_length=*/5, /*block_length=*/8);
    chosen.filler_id = kEnd;
    return chosen;
  }
  /// A hole of two tokens that may become one of `most`.
  static Script script(int32_t most) { return {options(), {20}, {kMask, kMask, 30, 31}, {{{0, 2}, most}}}; }
};

TEST_F(Infill, DrawsForItsHolesAlone) {
  Script run = script(3);
  EXPECT_THAT(run.canvas(), ElementsAre(20, kMask, kMask, 30, 31, kEnd));
  EXPECT_THAT(run.decoder().plan().logits, SizeIs(2));
  EXPECT_EQ(run.decoder().plan().num_rows(), 8);
}

TEST_F(Infill, IsLongerBySplitsAndMovesTheTextAfterTheHole) {
  Script run = script(3);
  run.pass({{1, {10, 0.9}}, {2, {11, 0.9}}});
  run.pass({{1, {10, 0.9}}, {2, {kSplit, 0.9}}});
  EXPECT_THAT(run.canvas(), ElementsAre(20, 10, kMask, 11, 30, 31));
  EXPECT_THAT(run.decoder().holes(), ElementsAre(IndexRange{1, 4}));
  run.pass({{1, {10, 0.9}}, {2, {12, 0.9}}, {3, {11, 0.9}}});
  run.pass({{1, {10, 0.9}}, {2, {12, 0.9}}, {3, {11, 0.9}}});
  EXPECT_TRUE(run.decoder().done());
  EXPECT_THAT(run.canvas(), ElementsAre(20, 10, 12, 11, 30, 31));
}

TEST_F(Infill, HasABaselineOfOneStepForEachPositionOfItsHoles) {
  ModelConfig config = tiny_block_config(8);
  Script run = script(3);
  EXPECT_EQ(run.decoder().baseline_request().value().answer_masks, 2);
  run.pass({{1, {10, 0.9}}, {2, {11, 0.9}}});
  run.pass({{1, {10, 0.9}}, {2, {kSplit, 0.9}}});
  const BaselineRequest request = run.decoder().baseline_request().value();
  EXPECT_EQ(request.answer_masks, 3);
  const BaselineWork work = baseline_work(config, request);
  EXPECT_EQ(work.passes, 3);
  EXPECT_EQ(work.work.rows, 3 * 8) << "the block in which the infill is edited";
  EXPECT_EQ(work.work.logit_rows, 3 + 2 + 1);
}

TEST_F(Infill, HasABaselineWithTheBlockThatItsTextNeeds) {
  ModelConfig config = tiny_block_config(8);
  BaselineRequest request{.prompt_length = 17, .gen_length = 12, .answer_length = 12};
  request.answer_masks = 1;
  // A block of 16 would begin at 16 and end at 32; one of 8 ends at 24.
  const BaselineWork work = baseline_work(config, request);
  EXPECT_EQ(work.passes, 1 + 1) << "one reads the 16 tokens before the block";
  EXPECT_EQ(work.work.rows, 16 + 16);
}

TEST_F(Infill, IsShorterByDeletesAndEndsWithItsText) {
  Script run = script(3);
  run.pass({{1, {kDelete, 0.9}}, {2, {11, 0.9}}});
  EXPECT_THAT(run.decoder().holes(), ElementsAre(IndexRange{1, 2}));
  run.pass({{1, {11, 0.9}}});
  EXPECT_TRUE(run.decoder().done());
  EXPECT_THAT(run.canvas(), ElementsAre(20, 11, 30, 31)) << "the end tokens after the text are left out";
}

TEST_F(Infill, MayLoseAHoleAltogether) {
  Script run = script(3);
  run.pass({{1, {kDelete, 0.9}}, {2, {kDelete, 0.9}}});
  EXPECT_THAT(run.decoder().holes(), ElementsAre(IndexRange{1, 1}));
  run.pass({});
  EXPECT_TRUE(run.decoder().done());
  EXPECT_THAT(run.canvas(), ElementsAre(20, 30, 31));
}

TEST_F(Infill, TakesPlainTokensWhereAHoleHasNoRoom) {
  Script run = script(3);
  run.pass({{1, {kSplit, 0.9}}, {2, {kSplit, 0.9}}}, {{12, 0.4}});
  EXPECT_THAT(run.canvas(), ElementsAre(20, kMask, kMask, 12, 30, 31));
  run.pass({{1, {10, 0.9}}, {2, {11, 0.9}}, {3, {kDelete, 0.9}}});
  EXPECT_THAT(run.decoder().holes(), ElementsAre(IndexRange{1, 3})) << "a full hole may become shorter again";
}

TEST_F(Infill, KeepsTheLengthOfAHoleThatBeginsWithItsMost) {
  Script run = script(2);
  run.pass({{1, {kDelete, 0.9}}, {2, {kSplit, 0.9}}}, {{12, 0.4}, {13, 0.4}});
  EXPECT_THAT(run.canvas(), ElementsAre(20, 12, 13, 30, 31, kEnd));
}

TEST_F(Infill, KeepsAdjacentHolesApart) {
  EditingDiffusion chosen = options();
  chosen.gen_length = 6;
  Script run(chosen, {}, {kMask, kMask, 30}, {{{0, 1}, 2}, {{1, 2}, 3}});
  run.pass({{0, {kDelete, 0.9}}, {1, {kSplit, 0.9}}});
  EXPECT_THAT(run.decoder().holes(), ElementsAre(IndexRange{0, 0}, IndexRange{0, 2}));
  EXPECT_THAT(run.canvas(), ElementsAre(kMask, kMask, 30, kEnd, kEnd, kEnd));
}

TEST_F(Infill, LeavesNoMaskAfterTheLastPassThatABlockHas) {
  constexpr int32_t kHole = 1100;
  EditingDiffusion chosen = settings(kHole, 2048);
  chosen.tau = 1;
  Script run(chosen, {}, std::vector<TokenId>(kHole, kMask), {{{0, kHole}, kHole}});
  std::map<int32_t, Says> rows;
  for (int32_t i = 0; i < kHole; ++i) rows[i] = {10, 0.5};
  for (int32_t pass = 0; pass < 999; ++pass) run.pass(rows);
  EXPECT_THAT(run.canvas(), testing::Contains(kMask).Times(kHole - 999)) << "one is filled in each pass";
  run.pass(rows);
  EXPECT_TRUE(run.decoder().done());
  EXPECT_THAT(run.canvas(), testing::Each(10));
}

TEST_F(Infill, MovesLaterHolesWithTheText) {
  EditingDiffusion chosen = options();
  chosen.gen_length = 6;
  Script run(chosen, {20}, {kMask, 30, kMask, 31}, {{{0, 1}, 2}, {{2, 3}, 2}});
  run.pass({{1, {kSplit, 0.9}}, {3, {11, 0.9}}});
  EXPECT_THAT(run.decoder().holes(), ElementsAre(IndexRange{1, 3}, IndexRange{4, 5}));
  EXPECT_THAT(run.canvas(), ElementsAre(20, kMask, kMask, 30, 11, 31, kEnd));
}

}  // namespace
}  // namespace lacuna::editing_diffusion_test
