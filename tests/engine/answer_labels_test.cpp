#include "engine/answer_labels.h"

#include <gmock/gmock.h>

#include "tokenizer/tiny_tokenizer.h"

namespace lacuna::answer_labels_test {
namespace {

using testing::ElementsAre;

/// Merges that give the space before a letter to the letter.
std::vector<std::pair<std::string, std::string>> spaced(const std::string& letters) {
  std::vector<std::pair<std::string, std::string>> merges;
  for (const char letter : letters) merges.emplace_back("\u0120", std::string(1, letter));
  return merges;
}

TEST(AnswerLabels, AreLettersBytesAndDigitsWhereNothingMerges) {
  const AnswerLabels labels = find_answer_labels(parse(tiny_tokenizer()));
  EXPECT_EQ(labels.separator, ": ");
  EXPECT_EQ(labels.options.size(), 26);  // codes of two letters are two tokens
  EXPECT_EQ(labels.options.front(), "A");
  EXPECT_EQ(labels.levels.size(), 10);
  EXPECT_THAT(labels.yes_no, ElementsAre("y", "n"));  // longer words differ in more than one byte
}

TEST(AnswerLabels, StandCloseBehindTheColonWhereSomeLettersMergeWithASpace) {
  const AnswerLabels labels = find_answer_labels(parse(tiny_tokenizer(spaced("ADHIJ"))));
  EXPECT_EQ(labels.separator, ":");
  EXPECT_EQ(labels.options.size(), 26);
}

TEST(AnswerLabels, TakeWordsAndCodesThatAreOneToken) {
  auto merges = spaced("ABCDEFGHIJKLMNOPQRSTUVWXYZ");
  merges.emplace_back(
      "\u0120"
      "A",
      "B");
  merges.insert(merges.end(),
                {{"e", "s"}, {"\u0120", "y"}, {"\u0120y", "es"}, {"\u0120", "n"}, {"\u0120n", "o"}});
  const AnswerLabels labels = find_answer_labels(parse(tiny_tokenizer(merges)));
  EXPECT_EQ(labels.separator, ": ");
  EXPECT_THAT(labels.yes_no, ElementsAre("yes", "no"));
  EXPECT_EQ(labels.options.size(), 27);
  EXPECT_EQ(labels.options.back(), "AB");
}

}  // namespace
}  // namespace lacuna::answer_labels_test
