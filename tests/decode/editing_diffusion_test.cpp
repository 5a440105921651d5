// Expectations are written from docs/methods/block_diffusion.md, section 7.
#include "decode/editing_diffusion.h"

#include <gmock/gmock.h>

#include <map>
#include <utility>
#include <vector>

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

std::vector<TokenId> carry_out(std::vector<TokenId> before, std::vector<TokenId> written,
                               int32_t num_fixed = 0) {
  return ids_of(carry_out_edits(tokens(std::move(before)), written, num_fixed, settings()));
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
  EXPECT_THAT(carry_out_edits(before, written, 0, settings()),
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
  Script(EditingDiffusion options, std::vector<TokenId> prompt)
      : decoder_(std::move(options), std::move(prompt)) {}

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

}  // namespace
}  // namespace lacuna::editing_diffusion_test
