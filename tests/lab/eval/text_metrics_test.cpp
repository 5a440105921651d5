#include "eval/text_metrics.h"

#include <gmock/gmock.h>

#include <string>

namespace lacuna::text_metrics_test {
namespace {

// Expected values are fractions counted by hand; tests/reference/check_text_metrics.py compares random texts
// with Python libraries.

TEST(TokenF1, CountsWordsWithoutCaseSignsAndArticles) {
  EXPECT_DOUBLE_EQ(token_f1("The red fox.", "a Red fox"), 1);
  // Given: red fox runs; wanted: red red fox. Two in common: P = 2/3, R = 2/3.
  EXPECT_DOUBLE_EQ(token_f1("red fox runs", "red, red fox!"), 2.0 / 3);
  // P = 1/4, R = 1: F = 2/5.
  EXPECT_DOUBLE_EQ(token_f1("it was in Rome", "Rome"), 2.0 / 5);
  EXPECT_DOUBLE_EQ(token_f1("U.S.A.", "usa"), 1);
}

TEST(TokenF1, IsZeroWithoutAWordInCommon) {
  EXPECT_EQ(token_f1("", "Rome"), 0);
  EXPECT_EQ(token_f1("Rome", "the"), 0);
  EXPECT_EQ(token_f1("...", "..."), 0);
  EXPECT_EQ(token_f1("Paris", "Rome"), 0);
}

TEST(RougeL, FollowsTheOrderOfWords) {
  // The longest common subsequence of "the cat sat here" and "the cat here sat" has 3 of 4 words each.
  EXPECT_DOUBLE_EQ(rouge_l("the cat sat here", "the cat here sat"), 3.0 / 4);
  EXPECT_DOUBLE_EQ(rouge_l("one two three", "one two three"), 1);
  EXPECT_DOUBLE_EQ(rouge_l("three two one", "one two three"), 1.0 / 3);
}

TEST(RougeL, JoinsWhatSentencesHaveInCommon) {
  // Lin's example: of w1 w2 w3 w4 w5, the sentences have w1 w2 and w1 w3 w5: together 4 of 5 words. The text
  // has 8 distinct ones: F = 2 * 4 / (5 + 8).
  EXPECT_DOUBLE_EQ(rouge_l("w1 w2 w6 w7 w8. w1 w3 w8 w9 w5.", "w1 w2 w3 w4 w5"), 8.0 / 13);
}

TEST(RougeL, CountsAWordOnce) {
  EXPECT_DOUBLE_EQ(rouge_l("we we we", "we run"), 2.0 / 3);  // P = 1/1, R = 1/2
}

TEST(RougeL, TakesBlanksAfterTheLastPeriodForAWord) {
  EXPECT_DOUBLE_EQ(rouge_l("we run.\n", "we run"), 4.0 / 5);  // P = 2/3, R = 2/2
  EXPECT_EQ(rouge_l("", "we run"), 0);
  EXPECT_EQ(rouge_l("...", "we run"), 0);
}

TEST(EditSimilarity, IsTheShareOfCharactersInCommon) {
  EXPECT_DOUBLE_EQ(edit_similarity("return a", "return b"), 2 * 7.0 / 16);
  EXPECT_DOUBLE_EQ(edit_similarity("abcd", "acbd"), 2 * 3.0 / 8);
  EXPECT_DOUBLE_EQ(edit_similarity("x", "x"), 1);
  EXPECT_EQ(edit_similarity("", "x"), 0);
  EXPECT_EQ(edit_similarity("", ""), 0);
}

TEST(EditSimilarity, CountsCodePointsAndNotBytes) {
  EXPECT_DOUBLE_EQ(edit_similarity("é", "è"), 0);  // both begin with the same byte
  EXPECT_DOUBLE_EQ(edit_similarity("café", "cafe"), 2 * 3.0 / 8);
  EXPECT_NO_THROW(edit_similarity("\xff\x80\x80", "\x80"));
}

TEST(FirstCodeLine, LeavesOutCommentsAndFences) {
  EXPECT_EQ(first_code_line("\n\n```python\n# sum\n// sum\nreturn a\nreturn b"), "return a");
  EXPECT_EQ(first_code_line("a = 1  # one\nb = 2"), "b = 2");
  EXPECT_EQ(first_code_line("x\n"), "x");
  EXPECT_EQ(first_code_line("# nothing"), "");
  EXPECT_EQ(first_code_line(""), "");
}

}  // namespace
}  // namespace lacuna::text_metrics_test
