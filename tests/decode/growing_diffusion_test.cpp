// Expectations are written from docs/methods/growing_canvases.md.
#include "decode/growing_diffusion.h"

#include <gmock/gmock.h>

#include <functional>
#include <map>
#include <vector>

#include "decode/edits.h"
#include "fake_model.h"

namespace lacuna::growing_diffusion_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::IsEmpty;
using testing::Le;
using testing::Not;

constexpr TokenId kMask = 2;
constexpr TokenId kExpand = 3;
constexpr TokenId kDelete = 4;
constexpr TokenId kEnd = 4;

GrowingDiffusion token_settings(int32_t start, int32_t most) {
  GrowingDiffusion options;
  options.mask_id = kMask;
  options.expand_id = kExpand;
  options.delete_id = kDelete;
  options.end_ids = {5};
  options.growth = TokenGrowth{start};
  options.most_length = most;
  options.pass.sampling.undrawn = {kMask};
  return options;
}

GrowingDiffusion end_mass_settings(const EndMassGrowth& growth, int32_t most) {
  GrowingDiffusion options;
  options.mask_id = kMask;
  options.end_id = kEnd;
  options.end_ids = {kEnd};
  options.growth = growth;
  options.most_length = most;
  options.block_length = 8;
  options.unmask.count = Threshold{0.9};
  options.pass.sampling.undrawn = {kMask};
  return options;
}

/// Result of a row: its token and the confidence.
struct Says {
  TokenId token = 0;
  double confidence = 0;
};

/// Answers one pass by position; what is not scripted says `other`.
StepReport answer(Decoder& decoder, const std::map<int32_t, Says>& script, const Says& other = {9, 0.5}) {
  const StepPlan plan = decoder.plan();
  std::vector<RowStatistics> samples;
  for (const LogitRow& logit : plan.logits) {
    const int32_t position = plan.positions[static_cast<size_t>(logit.row)];
    const auto found = script.find(position);
    const Says& says = found == script.end() ? other : found->second;
    RowStatistics& row = samples.emplace_back();
    row.token = row.best_token = says.token;
    row.confidence = says.confidence;
  }
  return decoder.apply({samples});
}

std::vector<TokenId> canvas_of(const Decoder& decoder) {
  return {decoder.canvas().begin(), decoder.canvas().end()};
}

/// Positions that may take a token by the rules of the plan.
std::vector<int32_t> positions_that_may_draw(const StepPlan& plan, TokenId token) {
  std::vector<int32_t> positions;
  for (const LogitRow& logit : plan.logits) {
    const std::vector<TokenId>& forbidden = plan.rules[static_cast<size_t>(logit.rule)].forbidden;
    if (std::find(forbidden.begin(), forbidden.end(), token) != forbidden.end()) continue;
    positions.push_back(plan.positions[static_cast<size_t>(logit.row)]);
  }
  return positions;
}

TEST(TokenGrowth, WritesTheMostConfidentPositionOfAStep) {
  GrowingDiffusionDecoder decoder(token_settings(3, 8), {7});
  const StepReport report = answer(decoder, {{2, {11, 0.9}}});
  EXPECT_THAT(report.committed, ElementsAre(Commit{2, 11, 0.9}));
  EXPECT_THAT(canvas_of(decoder), ElementsAre(7, kMask, 11, kMask));
  EXPECT_TRUE(report.edits.empty());
}

TEST(TokenGrowth, MakesTwoMasksOfTheTokenThatExpands) {
  GrowingDiffusionDecoder decoder(token_settings(2, 8), {7});
  const StepReport report = answer(decoder, {{1, {kExpand, 0.9}}});
  EXPECT_THAT(report.committed, IsEmpty());
  EXPECT_THAT(report.edits.inserted, ElementsAre(InsertedMasks{1, 1}));
  EXPECT_THAT(canvas_of(decoder), ElementsAre(7, kMask, kMask, kMask));
}

TEST(TokenGrowth, TakesTheTokenThatDeletesOutOfTheCanvas) {
  GrowingDiffusionDecoder decoder(token_settings(3, 8), {7});
  const StepReport report = answer(decoder, {{2, {kDelete, 0.9}}});
  EXPECT_THAT(report.edits.dropped, ElementsAre(2));
  EXPECT_THAT(canvas_of(decoder), ElementsAre(7, kMask, kMask));
}

TEST(TokenGrowth, MayDropEveryMaskBehindIt) {
  GrowingDiffusion options = token_settings(4, 8);
  options.growth = TokenGrowth{4, true};
  GrowingDiffusionDecoder decoder(options, {7});
  answer(decoder, {{3, {11, 0.9}}});
  const StepReport report = answer(decoder, {{2, {kDelete, 0.9}}});
  EXPECT_THAT(report.edits.dropped, ElementsAre(2, 4));
  EXPECT_THAT(canvas_of(decoder), ElementsAre(7, kMask, 11));
}

TEST(TokenGrowth, NeitherExpandsAFullHoleNorBeyondItsBudget) {
  GrowingDiffusion options = token_settings(1, 2);
  options.growth = TokenGrowth{.start = 1, .budget = 2};
  GrowingDiffusionDecoder decoder(options, {7});
  EXPECT_THAT(positions_that_may_draw(decoder.plan(), kExpand), ElementsAre(1));
  answer(decoder, {{1, {kExpand, 0.9}}});
  EXPECT_THAT(positions_that_may_draw(decoder.plan(), kExpand), IsEmpty()) << "the answer has 2 positions";
  answer(decoder, {{1, {kDelete, 0.9}}});
  EXPECT_THAT(positions_that_may_draw(decoder.plan(), kExpand), ElementsAre(1)) << "there is room again";
  answer(decoder, {{1, {kExpand, 0.9}}});
  answer(decoder, {{1, {kDelete, 0.9}}});
  EXPECT_THAT(positions_that_may_draw(decoder.plan(), kExpand), IsEmpty()) << "the budget of 2 is spent";
}

/// How often the first hole expands where it deletes the new mask again each time.
int32_t expansions(GrowingDiffusionDecoder decoder, int32_t position) {
  int32_t count = 0;
  while (!positions_that_may_draw(decoder.plan(), kExpand).empty() && count < 100) {
    answer(decoder, {{position, {kExpand, 0.9}}});
    ++count;
    answer(decoder, {{position, {kDelete, 0.9}}});
  }
  return count;
}

TEST(TokenGrowth, ExpandsTwiceAsOftenAsTheLongestHoleAndWhatFollowsHavePositions) {
  EXPECT_EQ(expansions(GrowingDiffusionDecoder(token_settings(1, 2), {7}), 1), 4);
  EXPECT_EQ(expansions(GrowingDiffusionDecoder(token_settings(3, 5), {7, 8, 9}), 3), 10);
  const std::vector<TokenId> text = {kMask, kMask, 8, 8, 8};
  const std::vector<GrowingHole> holes = {{{0, 2}, 4}};
  EXPECT_EQ(expansions(GrowingDiffusionDecoder(token_settings(1, 1), {7, 6}, text, holes), 2), 2 * (4 + 3));
}

TEST(TokenGrowth, KeepsTheLengthOfFixedHolesAndOfMasksOutsideOfHoles) {
  const std::vector<TokenId> text = {kMask, kMask, 8, kMask, 8};
  const std::vector<GrowingHole> holes = {{{0, 2}, 4}, {{3, 4}, 1}};
  GrowingDiffusionDecoder decoder(token_settings(1, 1), {7, kMask, 6}, text, holes);
  EXPECT_THAT(positions_that_may_draw(decoder.plan(), kExpand), ElementsAre(3, 4));
  EXPECT_THAT(positions_that_may_draw(decoder.plan(), kDelete), ElementsAre(3, 4));
  answer(decoder, {{3, {kExpand, 0.9}}});
  EXPECT_THAT(decoder.holes(), ElementsAre(IndexRange{3, 6}, IndexRange{7, 8}));
}

TEST(TokenGrowth, AHoleMayBecomeEmpty) {
  const std::vector<TokenId> text = {kMask, 8, kMask};
  const std::vector<GrowingHole> holes = {{{0, 1}, 3}, {{2, 3}, 3}};
  GrowingDiffusionDecoder decoder(token_settings(1, 1), {7}, text, holes);
  answer(decoder, {{1, {kDelete, 0.9}}});
  EXPECT_THAT(decoder.holes(), ElementsAre(IndexRange{1, 1}, IndexRange{2, 3}));
  answer(decoder, {{2, {kExpand, 0.9}}});
  EXPECT_THAT(decoder.holes(), ElementsAre(IndexRange{1, 1}, IndexRange{2, 4}));
}

TEST(TokenGrowth, EndsByItselfUnlessTheAnswerIsFull) {
  GrowingDiffusionDecoder short_one(token_settings(1, 2), {7});
  answer(short_one, {});
  EXPECT_TRUE(short_one.done());
  EXPECT_EQ(short_one.stop_reason(), StopReason::kEndToken);
  GrowingDiffusionDecoder full(token_settings(2, 2), {7});
  answer(full, {});
  answer(full, {});
  EXPECT_TRUE(full.done());
  EXPECT_EQ(full.stop_reason(), StopReason::kLength);
}

TEST(EndMass, AppendsMasksUntilTheModelIsSureThatTheAnswerEnds) {
  GrowingDiffusionDecoder decoder(end_mass_settings({.start = 2, .by = 3, .tail = 2}, 16), {7});
  StepReport report = answer(decoder, {{2, {kEnd, 0.9}}});
  EXPECT_EQ(report.kind, "grow");
  EXPECT_EQ(canvas_of(decoder).size(), 1U + 2 + 3) << "0.9 / 2 is less than 0.5";
  report = answer(decoder, {{2, {kEnd, 0.6}}, {5, {kEnd, 0.5}}});
  EXPECT_EQ(report.kind, "grow");
  EXPECT_THAT(canvas_of(decoder), ElementsAre(7, kMask, kMask, kMask, kMask, kMask, kEnd))
      << "tail / 2 end tokens";
  EXPECT_EQ(answer(decoder, {}).kind, "denoise");
}

TEST(EndMass, CountsTheLastPositionsWhoseBestTokenIsTheEnd) {
  GrowingDiffusionDecoder decoder(end_mass_settings({.start = 4, .by = 3, .tail = 2}, 16), {7});
  answer(decoder, {{1, {kEnd, 1}}, {2, {kEnd, 1}}, {3, {kEnd, 0.4}}, {4, {kEnd, 0.5}}});
  EXPECT_EQ(canvas_of(decoder).size(), 1U + 7) << "(0.4 + 0.5) / 2: those before are not among the last two";
}

TEST(EndMass, NeverPassesTheMostLength) {
  GrowingDiffusionDecoder decoder(end_mass_settings({.start = 2, .by = 4, .tail = 8}, 5), {7});
  answer(decoder, {});
  EXPECT_EQ(canvas_of(decoder).size(), 6U);
  answer(decoder, {});
  EXPECT_EQ(canvas_of(decoder).size(), 6U) << "no room for end tokens";
  EXPECT_EQ(answer(decoder, {}, {9, 0.01}).edits.inserted.size(), 0U);
}

TEST(EndMass, MakesSeveralMasksOfTheLeastSurePosition) {
  GrowingDiffusionDecoder decoder(end_mass_settings({.start = 4, .by = 3, .tail = 2, .enough = 0}, 16), {7});
  answer(decoder, {});  // there is enough at once
  const StepReport report =
      answer(decoder, {{1, {11, 0.05}}, {2, {12, 0.02}}, {3, {13, 0.95}}, {4, {14, 0.92}}});
  EXPECT_THAT(report.edits.inserted, ElementsAre(InsertedMasks{2, 2}));
  EXPECT_THAT(report.committed, ElementsAre(Commit{5, 13, 0.95}, Commit{6, 14, 0.92}))
      << "positions after the step";
  EXPECT_THAT(canvas_of(decoder), ElementsAre(7, kMask, kMask, kMask, kMask, 13, 14, kEnd));
}

TEST(EndMass, LeavesUnsurePositionsAloneWhereTheEndIsSure) {
  GrowingDiffusionDecoder decoder(
      end_mass_settings({.start = 4, .by = 3, .tail = 2, .enough = 0, .plenty = 0.8}, 16), {7});
  answer(decoder, {});
  const StepReport report = answer(decoder, {{2, {12, 0.02}}, {4, {kEnd, 0.95}}, {5, {kEnd, 1}}});
  EXPECT_TRUE(report.edits.empty());
}

TEST(EndMass, GrowsHolesOfAnInfillWhereTheModelIsUnsure) {
  const std::vector<TokenId> text = {kMask, 8, kMask, kMask};
  const std::vector<GrowingHole> holes = {{{0, 1}, 3}, {{2, 4}, 2}};
  GrowingDiffusionDecoder decoder(end_mass_settings({.by = 8}, 1), {7}, text, holes);
  const StepReport report = answer(decoder, {{1, {11, 0.05}}, {3, {12, 0.01}}, {4, {13, 0.95}}});
  EXPECT_EQ(report.kind, "denoise");
  EXPECT_THAT(report.edits.inserted, ElementsAre(InsertedMasks{1, 2})) << "the second hole keeps its length";
  EXPECT_THAT(decoder.holes(), ElementsAre(IndexRange{1, 4}, IndexRange{5, 7}));
}

/// Checks, for any model output, that no canvas exceeds its limit and that reports explain every canvas.
void check_run(GrowingDiffusionDecoder& decoder, const FakeModel& model, int32_t most_positions) {
  std::vector<TokenId> followed = canvas_of(decoder);
  EXPECT_GE(decoder.num_cells(), most_positions);
  model.run(decoder, [&](const StepPlan&, const StepReport& report) {
    apply_edits(report.edits, kMask, followed);
    const std::vector<TokenId> now = canvas_of(decoder);
    ASSERT_THAT(std::ssize(now), Le(most_positions));
    for (size_t i = followed.size(); i < now.size(); ++i) followed.push_back(now[i]);  // appended
    for (const Commit& commit : report.committed)
      followed.at(static_cast<size_t>(commit.position)) = commit.token;
    ASSERT_THAT(followed, ElementsAreArray(now));
  });
  EXPECT_THAT(canvas_of(decoder), Not(Contains(kMask)));
}

TEST(GrowingDiffusion, EndsForEveryModelWithinItsLength) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    FakeModel model;
    model.seed = seed;
    model.favour = {0, 0, 0, 4, 4};
    const auto start = static_cast<int32_t>(1 + seed % 5);
    GrowingDiffusionDecoder by_tokens(token_settings(start, start + 4), {7, 8});
    check_run(by_tokens, model, 2 + start + 4);
    model.favour = {0, 0, 0, 0, static_cast<double>(seed % 7)};
    GrowingDiffusionDecoder by_end_mass(
        end_mass_settings({.start = start, .by = 3, .tail = 4, .enough = 0.4, .unsure = 0.3}, 20), {7, 8});
    check_run(by_end_mass, model, 22);
  }
}

TEST(GrowingDiffusion, APassComputesEveryCellThatAnEditMadeVoidWhateverTheCache) {
  const std::vector<CachePolicy> policies = {PrefixCache{}, DualCache{}, FreeCache{2}, DkvCache{}};
  int num_edits = 0;
  for (uint64_t seed = 1; seed <= 80; ++seed) {
    FakeModel model;
    model.seed = seed;
    model.favour = {0, 0, 0, 3, 3};
    GrowingDiffusion options =
        seed % 2 == 0 ? token_settings(4, 12)
                      : end_mass_settings(
                            {.start = 12, .by = 3, .tail = 2, .enough = 0, .plenty = 1, .unsure = 0.95}, 30);
    options.unmask.count = Threshold{0.6};
    options.pass.cache = policies[seed / 2 % policies.size()];
    GrowingDiffusionDecoder decoder(options, {7, 8, 9});
    FakeCells cells(model, decoder.num_cells());
    auto length = static_cast<int32_t>(decoder.canvas().size());
    int32_t first_void = 0;  // nothing has been computed
    cells.run(decoder, [&](const StepPlan& plan, const StepReport& report) {
      for (int32_t position = first_void; position < length; ++position) {
        ASSERT_THAT(plan.positions, Contains(position)) << seed;
      }
      first_void = length;
      if (!report.edits.dropped.empty()) first_void = report.edits.dropped.front();
      for (const InsertedMasks& each : report.edits.inserted)
        first_void = std::min(first_void, each.position);
      num_edits += report.edits.empty() ? 0 : 1;
      length = static_cast<int32_t>(decoder.canvas().size());
    });
  }
  EXPECT_GT(num_edits, 20);
}

}  // namespace
}  // namespace lacuna::growing_diffusion_test
