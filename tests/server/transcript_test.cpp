#include "server/transcript.h"

#include <gmock/gmock.h>

#include <cmath>
#include <vector>

#include "server/written_canvas.h"

namespace lacuna::transcript_test {
namespace {

using test::WrittenCanvas;
using test::WrittenStep;

constexpr TokenId kEnd = 1;

std::vector<TokenId> tokens_of(const Piece& piece) {
  std::vector<TokenId> tokens;
  for (const TokenRecord& record : piece.tokens) tokens.push_back(record.token);
  return tokens;
}

TEST(Transcript, GivesFinalTokensInOrderWithThePassThatCommittedThem) {
  Transcript transcript(AnswerText(nullptr, {kEnd}, {}));
  WrittenCanvas canvas;
  canvas.num_prompt = 1;
  canvas.tokens = {4, 0, 0, 7};

  WrittenStep step;
  step.statistics.forward_passes = 1;
  step.report.committed = {{3, 7, 0.5}};  // the last position first
  transcript.note(step.event(canvas));
  EXPECT_TRUE(transcript.advance(canvas, false).tokens.empty()) << "nothing is final yet";

  step.statistics.forward_passes = 2;
  step.report.committed = {{1, 5, 1}, {2, 6, 0}};
  transcript.note(step.event(canvas));
  canvas.tokens = {4, 5, 6, 7};
  canvas.final_tokens = 3;
  const Piece piece = transcript.advance(canvas, false);
  ASSERT_THAT(tokens_of(piece), testing::ElementsAre(5, 6, 7));
  EXPECT_EQ(piece.tokens[0].logprob, 0.0);
  EXPECT_EQ(piece.tokens[0].step, 1);
  EXPECT_EQ(piece.tokens[0].order, 1);
  EXPECT_FALSE(piece.tokens[1].logprob) << "a confidence of 0 has no logarithm";
  EXPECT_EQ(piece.tokens[2].logprob, std::log(0.5));
  EXPECT_EQ(piece.tokens[2].step, 0);
  EXPECT_EQ(piece.tokens[2].order, 0);
  EXPECT_TRUE(transcript.advance(canvas, true).tokens.empty()) << "each token comes once";
}

TEST(Transcript, EndsBeforeAnEndToken) {
  Transcript transcript(AnswerText(nullptr, {kEnd}, {}));
  WrittenCanvas canvas;
  canvas.tokens = {5, kEnd, 6};
  EXPECT_THAT(tokens_of(transcript.advance(canvas, true)), testing::ElementsAre(5));
  EXPECT_TRUE(transcript.has_ended());
  EXPECT_EQ(transcript.num_tokens(), 1);
}

TEST(Transcript, IgnoresCommitsInsideThePrompt) {
  Transcript transcript(AnswerText(nullptr, {kEnd}, {}));
  WrittenCanvas canvas;
  canvas.num_prompt = 2;
  canvas.tokens = {3, 4, 5};
  WrittenStep step;
  step.statistics.forward_passes = 1;
  step.report.committed = {{1, 4, 0.5}};
  transcript.note(step.event(canvas));
  const Piece piece = transcript.advance(canvas, true);
  ASSERT_THAT(tokens_of(piece), testing::ElementsAre(5));
  EXPECT_EQ(piece.tokens[0].step, -1) << "given, not committed";
}

}  // namespace
}  // namespace lacuna::transcript_test
