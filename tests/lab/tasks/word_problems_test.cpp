#include "tasks/word_problems.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "tasks/tasks.h"

namespace lacuna::word_problems_test {
namespace {

using ::testing::Contains;
using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr uint64_t kSamples = 2000;

Draws draws_of(uint64_t index) {
  return Draws(RngStream(1, 99, index));
}

NumberProblem shells() {
  return {"Mia", true, "shells", 12, {{true, 7, "Sam"}, {false, 5, "Ben"}}};
}

TEST(WordProblems, KeepTheirNumbersWithinTheRange) {
  for (uint64_t index = 0; index < kSamples; ++index) {
    Draws draws = draws_of(index);
    const NumberProblem problem = draw_word_problem(draws);
    ASSERT_GE(problem.changes.size(), 1);
    ASSERT_LE(problem.changes.size(), 3);
    for (size_t count = 0; count <= problem.changes.size(); ++count) {
      ASSERT_GE(problem.number_after(count), 0);
      ASSERT_LE(problem.number_after(count), kMaxNumber);
    }
  }
}

TEST(WordProblems, AreAnsweredStepByStep) {
  EXPECT_EQ(worked_answer(shells()), "12+7=19. 19-5=14. The answer is 14.");
}

TEST(WordProblems, ArePhrasedInThousandsOfWays) {
  std::set<std::string> texts;
  std::set<uint64_t> frames;
  for (uint64_t index = 0; index < kSamples; ++index) {
    Draws draws = draws_of(index);
    const Phrased phrased = phrase(draws, shells(), /*held_out=*/false);
    texts.insert(phrased.text);
    frames.insert(phrased.frame);
    ASSERT_THAT(phrased.text, HasSubstr("12"));
    ASSERT_THAT(phrased.text, HasSubstr("7"));
    ASSERT_THAT(phrased.text, HasSubstr("5"));
    ASSERT_THAT(phrased.text, EndsWith("?"));
  }
  EXPECT_GT(texts.size(), kSamples * 9 / 10);
  EXPECT_GT(frames.size(), kSamples * 9 / 10);
}

TEST(WordProblems, HaveAFrameThatNamesAndNumbersDoNotChange) {
  for (uint64_t index = 0; index < 100; ++index) {
    Draws one = draws_of(index), other = draws_of(index);
    NumberProblem problem = shells();
    const Phrased first = phrase(one, problem, /*held_out=*/false);
    problem.name = "Ben";
    problem.start = 13;
    const Phrased second = phrase(other, problem, /*held_out=*/false);
    EXPECT_EQ(first.frame, second.frame);
    EXPECT_NE(first.text, second.text);
  }
}

TEST(Phrasings, TestQuestionsThatTrainingNeverAsks) {
  std::set<std::string> trained, tested;
  const auto question_of = [](const std::string& text) { return text.substr(text.rfind(". ") + 2); };
  for (uint64_t index = 0; index < 20 * kSamples; ++index) {
    Draws draws = draws_of(index);
    trained.insert(question_of(phrase(draws, shells(), /*held_out=*/false).text));
    const Phrased phrased = phrase(draws, shells(), /*held_out=*/true);
    if (phrased.frame == 0) tested.insert(question_of(phrased.text));  // a question of the test split
  }
  EXPECT_GT(tested.size(), 50);
  for (const std::string& question : tested) EXPECT_FALSE(trained.contains(question)) << question;
  EXPECT_TRUE(trained.contains("How many shells does she have left?"));
  EXPECT_TRUE(trained.contains("How many shells does Mia have now?"));
}

TEST(Chat, AsksForNumbersAloneAndGoesOnWithTheSameThings) {
  const Task& task = find_task("chat");
  int numbers = 0, follow_ups = 0, stories = 0;
  for (uint64_t index = 0; index < kSamples; ++index) {
    const Sample sample = task.generate(Split::kTest, 3, index);
    if (sample.answer.find("One day") != std::string::npos) ++stories;
    if (sample.history.empty()) continue;
    const Turn& first = sample.history.front();
    const bool number_only = first.role == "system" && first.content.find("number") != std::string::npos &&
                             first.content.find("stories") == std::string::npos;
    if (number_only) {
      ++numbers;
      ASSERT_EQ(sample.answer.find_first_not_of("0123456789"), std::string::npos) << sample.answer;
    }
    const Turn& last = sample.history.back();
    if (last.role != "assistant") continue;
    ++follow_ups;
    // The result of the earlier answer is the first number of the next one.
    const size_t end = last.content.find_last_of("0123456789");
    const size_t begin = last.content.find_last_not_of("0123456789", end) + 1;
    const std::string number = last.content.substr(begin, end + 1 - begin);
    if (number_only) continue;
    ASSERT_EQ(sample.answer.substr(0, sample.answer.find_first_of("+-")), number) << sample.answer;
  }
  EXPECT_GT(numbers, kSamples / 20);
  EXPECT_GT(follow_ups, kSamples / 4);
  EXPECT_GT(stories, kSamples / 10);
}

TEST(Chat, AcceptsAnyStoryThatHasTheRequestedWords) {
  const Task& task = find_task("chat");
  const Sample request{
      "Tell me a story about a fox.",
      "Mia the fox lives by the lake. One day Mia finds the drum. Mia is very happy. The end."};
  const auto accepts = [&](const std::string& text) { return task.check(request, text); };
  EXPECT_TRUE(
      accepts("Ben the fox lives in the barn. One day Ben breaks the kite. Ben is very sorry. The end."));
  EXPECT_FALSE(
      accepts("Ben the dog lives in the barn. One day Ben breaks the kite. Ben is very sorry. The end."));
  EXPECT_FALSE(
      accepts("Ben the fox lives in the barn. One day Ben breaks the kite. Ben is very happy. The end."));
  EXPECT_FALSE(
      accepts("Ben the fox lives in the barn. One day Mia breaks the kite. Ben is very sorry. The end."));
  EXPECT_FALSE(accepts("Ben the fox lives in the barn."));
  const Sample with_thing{"Write a story about a fox and a drum.", request.answer};
  EXPECT_TRUE(task.check(with_thing, request.answer));
  EXPECT_FALSE(task.check(
      with_thing, "Ben the fox lives in the barn. One day Ben breaks the kite. Ben is very sorry. The end."));
}

TEST(InfillStories, HaveBlanksThatTheirOwnWordsFill) {
  for (uint64_t index = 0; index < kSamples; ++index) {
    Draws draws = draws_of(index);
    const InfillStory story = draw_infill_story(draws);
    EXPECT_EQ(story.text.substr(story.start.begin, story.start.end - story.start.begin),
              story.start.accepted[0]);
    EXPECT_LT(story.start.end, story.blanks[0].begin);
    ASSERT_GE(story.blanks.size(), 2);
    size_t last = 0;
    for (const Blank& blank : story.blanks) {
      ASSERT_LE(last, blank.begin) << story.text;
      ASSERT_LT(blank.begin, blank.end);
      ASSERT_LE(blank.end, story.text.size());
      ASSERT_THAT(blank.accepted, Contains(story.text.substr(blank.begin, blank.end - blank.begin)))
          << story.text;
      last = blank.end;
    }
  }
}

}  // namespace
}  // namespace lacuna::word_problems_test
