#include "decode/canvas.h"

#include <gmock/gmock.h>

#include <vector>

namespace lacuna::canvas_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr TokenId kMask = 2;

std::vector<TokenId> tokens_of(const Canvas& canvas) {
  return {canvas.tokens().begin(), canvas.tokens().end()};
}

std::vector<int32_t> ages_of(const Canvas& canvas) {
  std::vector<int32_t> ages;
  for (int32_t position = 0; position < canvas.length(); ++position) ages.push_back(canvas.age(position));
  return ages;
}

TEST(Canvas, IsThePromptThenMasks) {
  const Canvas canvas({7, 8}, 3, kMask, false);
  EXPECT_THAT(tokens_of(canvas), ElementsAre(7, 8, kMask, kMask, kMask));
  EXPECT_EQ(canvas.length(), 5);
  EXPECT_EQ(canvas.prompt_length(), 2);
  EXPECT_EQ(canvas[1], 8);
  EXPECT_EQ(canvas.num_passes(), 0);
  EXPECT_THAT(ages_of(canvas), ElementsAre(0, 0, 0, 0, 0));
}

TEST(Canvas, AMaskInThePromptIsAGapThatThePromptDoesNotFix) {
  Canvas canvas({7, kMask, 9}, 1, kMask, false);
  EXPECT_TRUE(canvas.is_given(0));
  EXPECT_FALSE(canvas.is_given(1));
  EXPECT_TRUE(canvas.is_given(2));
  EXPECT_FALSE(canvas.is_given(3));
  EXPECT_THAT(canvas.masked_positions(0, 4), ElementsAre(1, 3));
  canvas.commit({1, 5, 0.5});
  EXPECT_FALSE(canvas.is_given(1));  // committed tokens are not part of the prompt
}

TEST(Canvas, CountsMasksFromTheFirstPositionToBeforeTheLast) {
  const Canvas canvas({7, kMask, kMask}, 2, kMask, false);
  EXPECT_EQ(canvas.count_masked(0, 5), 4);
  EXPECT_EQ(canvas.count_masked(1, 2), 1);
  EXPECT_EQ(canvas.count_masked(2, 2), 0);
  EXPECT_THAT(canvas.masked_positions(2, 4), ElementsAre(2, 3));
  EXPECT_THAT(canvas.masked_positions(0, 1), IsEmpty());
}

TEST(Canvas, ARowPredictsItsOwnPosition) {
  const Canvas canvas({7}, 3, kMask, false);
  for (int32_t position = 0; position < 4; ++position) {
    EXPECT_EQ(canvas.predictor(position), position);
    EXPECT_EQ(canvas.predicted(position), position);
  }
}

TEST(Canvas, AShiftedRowPredictsTheNextPositionAndRowZeroAlsoItsOwn) {
  const Canvas canvas({7}, 3, kMask, true);
  EXPECT_EQ(canvas.predictor(0), 0);
  EXPECT_EQ(canvas.predictor(1), 0);
  EXPECT_EQ(canvas.predictor(3), 2);
  EXPECT_EQ(canvas.predicted(0), 1);
  EXPECT_EQ(canvas.predicted(2), 3);
  EXPECT_EQ(canvas.predicted(3), canvas.length());  // the last row predicts nothing
}

TEST(Canvas, KnowsWhatIsNotMaskedAndWhatLiesBeyondTheEnd) {
  const Canvas canvas({7, kMask}, 1, kMask, true);
  EXPECT_TRUE(canvas.is_known(0));
  EXPECT_FALSE(canvas.is_known(1));
  EXPECT_FALSE(canvas.is_known(2));
  EXPECT_TRUE(canvas.is_known(3));
}

TEST(Canvas, AgesCountThePassesThatComputedTheRow) {
  Canvas canvas({7, 8}, 2, kMask, false);
  canvas.count_pass(std::vector<int32_t>{0, 1, 2, 3});
  canvas.count_pass(std::vector<int32_t>{1, 3});
  EXPECT_THAT(ages_of(canvas), ElementsAre(1, 2, 1, 2));
  EXPECT_EQ(canvas.num_passes(), 2);
}

TEST(Canvas, ACommittedTokenStartsAnewUntilAPassReadsIt) {
  Canvas canvas({7}, 2, kMask, false);
  canvas.count_pass(std::vector<int32_t>{0, 1, 2});
  canvas.commit({2, 5, 0.25});
  EXPECT_THAT(tokens_of(canvas), ElementsAre(7, kMask, 5));
  EXPECT_THAT(ages_of(canvas), ElementsAre(1, 1, 0));
  canvas.count_pass(std::vector<int32_t>{0, 1, 2});
  EXPECT_THAT(ages_of(canvas), ElementsAre(2, 2, 1));
}

TEST(Canvas, ADrawnMaskChangesNothing) {
  Canvas canvas({7}, 2, kMask, false);
  canvas.count_pass(std::vector<int32_t>{0, 1, 2});
  canvas.commit({1, kMask, 0.9});
  EXPECT_TRUE(canvas.is_masked(1));
  EXPECT_THAT(ages_of(canvas), ElementsAre(1, 1, 1));
}

TEST(Canvas, TheAnswerEndsAtItsFirstEndToken) {
  Canvas canvas({4, 7}, 4, kMask, false);
  const std::vector<TokenId> end_ids = {4, 5};
  EXPECT_EQ(canvas.answer_end(end_ids), 6);  // the prompt's end token ends nothing
  canvas.commit({5, 4, 1});
  EXPECT_EQ(canvas.answer_end(end_ids), 5);
  canvas.commit({3, 5, 1});
  EXPECT_EQ(canvas.answer_end(end_ids), 3);
  EXPECT_EQ(canvas.answer_end({}), 6);
}

TEST(Canvas, TheAnswerIsFinalOnceNothingBeforeItsEndIsMasked) {
  Canvas canvas({kMask, 7}, 4, kMask, false);  // a gap in the prompt is not part of the answer
  const std::vector<TokenId> end_ids = {4};
  EXPECT_FALSE(canvas.answer_is_final(end_ids));
  canvas.commit({4, 4, 1});
  EXPECT_FALSE(canvas.answer_is_final(end_ids));
  canvas.commit({2, 9, 1});
  EXPECT_FALSE(canvas.answer_is_final(end_ids));
  canvas.commit({3, 9, 1});
  EXPECT_TRUE(canvas.answer_is_final(end_ids));
  EXPECT_TRUE(canvas.is_masked(5));
  EXPECT_FALSE(canvas.answer_is_final({}));
}

TEST(Canvas, AnInsertedMaskTakesTheAgeOfAllThatItMoves) {
  Canvas canvas({7}, 3, kMask, false);
  canvas.commit({2, 5, 1});
  canvas.count_pass(std::vector<int32_t>{0, 1, 2, 3});
  canvas.insert_masks(2, 2);
  EXPECT_THAT(tokens_of(canvas), ElementsAre(7, kMask, kMask, kMask, 5, kMask));
  EXPECT_THAT(ages_of(canvas), ElementsAre(1, 1, 0, 0, 0, 0));
  EXPECT_EQ(canvas.first_moved(), 2);
  EXPECT_FALSE(canvas.is_given(2));
  canvas.count_pass(std::vector<int32_t>{2, 3, 4, 5});
  EXPECT_EQ(canvas.first_moved(), canvas.length());
}

TEST(Canvas, ADroppedPositionMovesWhatIsBehindIt) {
  Canvas canvas({7}, 3, kMask, false, std::vector<TokenId>{kMask, 8, kMask});
  canvas.count_pass(std::vector<int32_t>{0, 1, 2, 3});
  canvas.drop(1);
  EXPECT_THAT(tokens_of(canvas), ElementsAre(7, 8, kMask));
  EXPECT_TRUE(canvas.is_given(1));
  EXPECT_FALSE(canvas.is_given(2));
  EXPECT_THAT(ages_of(canvas), ElementsAre(1, 0, 0));
  canvas.drop(2);
  EXPECT_EQ(canvas.first_moved(), 1) << "the first of the edits since the last pass";
}

TEST(Canvas, TokensAreAppendedAsGiven) {
  Canvas canvas({7}, 1, kMask, false);
  canvas.count_pass(std::vector<int32_t>{0, 1});
  canvas.append(4, 2);
  canvas.append(kMask, 1);
  EXPECT_THAT(tokens_of(canvas), ElementsAre(7, kMask, 4, 4, kMask));
  EXPECT_TRUE(canvas.is_given(3));
  EXPECT_FALSE(canvas.is_given(4));
  EXPECT_EQ(canvas.first_moved(), 2);
}

}  // namespace
}  // namespace lacuna::canvas_test
