#include "eval/tasks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>

#include "base/error.h"

namespace lacuna {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr uint64_t kSamples = 500;

class EveryTask : public ::testing::TestWithParam<Task> {};

INSTANTIATE_TEST_SUITE_P(Tasks, EveryTask, ::testing::ValuesIn(tasks().begin(), tasks().end()),
                         [](const auto& task) { return std::string(task.param.name); });

TEST_P(EveryTask, GivesTheSameSampleForTheSameSeedAndIndex) {
  for (uint64_t index = 0; index < kSamples; ++index) {
    const Sample once = GetParam().generate(Split::kTest, 7, index);
    const Sample again = GetParam().generate(Split::kTest, 7, index);
    ASSERT_EQ(once.prompt, again.prompt);
    ASSERT_EQ(once.answer, again.answer);
  }
}

TEST_P(EveryTask, GivesOtherSamplesForAnotherSeed) {
  uint64_t same = 0;
  for (uint64_t index = 0; index < kSamples; ++index) {
    same += GetParam().generate(Split::kTrain, 1, index).prompt ==
            GetParam().generate(Split::kTrain, 2, index).prompt;
  }
  EXPECT_LT(same, kSamples / 50);
}

TEST_P(EveryTask, NeverSharesAPromptBetweenTrainAndTest) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    for (uint64_t index = 0; index < kSamples; ++index) {
      ASSERT_EQ(split_of(GetParam().generate(Split::kTrain, seed, index).prompt), Split::kTrain);
      ASSERT_EQ(split_of(GetParam().generate(Split::kTest, seed, index).prompt), Split::kTest);
    }
  }
}

TEST_P(EveryTask, RarelyRepeatsAPrompt) {
  std::set<std::string> prompts;
  for (uint64_t index = 0; index < kSamples; ++index) {
    prompts.insert(GetParam().generate(Split::kTest, 3, index).prompt);
  }
  EXPECT_GT(prompts.size(), kSamples * 9 / 10);
}

TEST_P(EveryTask, AcceptsItsOwnAnswerAndWhiteSpaceAroundIt) {
  for (uint64_t index = 0; index < kSamples; ++index) {
    const Sample sample = GetParam().generate(Split::kTest, 0, index);
    ASSERT_TRUE(GetParam().check(sample, sample.answer)) << sample.answer;
    ASSERT_TRUE(GetParam().check(sample, " " + sample.answer + "\n")) << sample.answer;
  }
}

TEST_P(EveryTask, RefusesAnAnswerWithAnyOneCharacterMissingOrChanged) {
  for (uint64_t index = 0; index < kSamples / 10; ++index) {
    const Sample sample = GetParam().generate(Split::kTest, 0, index);
    for (size_t at = 0; at < sample.answer.size(); ++at) {
      std::string missing = sample.answer;
      missing.erase(at, 1);
      ASSERT_FALSE(GetParam().check(sample, missing)) << missing;
      std::string changed = sample.answer;
      changed[at] = changed[at] == 'x' ? 'y' : 'x';
      ASSERT_FALSE(GetParam().check(sample, changed)) << changed;
    }
  }
}

TEST_P(EveryTask, RefusesNothingAndTextAfterTheAnswer) {
  const Sample sample = GetParam().generate(Split::kTest, 0, 0);
  EXPECT_FALSE(GetParam().check(sample, ""));
  EXPECT_FALSE(GetParam().check(sample, "\n"));
  EXPECT_FALSE(GetParam().check(sample, sample.answer + " " + sample.answer));
}

TEST(FindTask, NamesTheTasksWhenItKnowsNone) {
  EXPECT_EQ(find_task("arithmetic").name, "arithmetic");
  EXPECT_THAT(
      [] { find_task("poems"); },
      ThrowsMessage<InputError>(HasSubstr("task 'poems' is not known; the tasks are arithmetic, stories")));
}

TEST(Arithmetic, IsAChainOfRightEquationsWithinItsRange) {
  const std::regex equation(R"((\d+)([+-])(\d+)=(\d+)\. )");
  std::set<size_t> lengths;
  for (uint64_t index = 0; index < kSamples; ++index) {
    const Sample sample = find_task("arithmetic").generate(Split::kTrain, 0, index);
    std::smatch start;
    ASSERT_TRUE(std::regex_search(sample.prompt, start, std::regex(R"( has (\d+) )")));
    int number = std::stoi(start[1]);
    size_t equations = 0;
    for (std::sregex_iterator it(sample.answer.begin(), sample.answer.end(), equation), end; it != end;
         ++it) {
      const int change = std::stoi((*it)[3]);
      ASSERT_EQ(std::stoi((*it)[1]), number) << sample.answer;
      ASSERT_GE(change, 1);
      ASSERT_LE(change, kMaxChange);
      ASSERT_THAT(sample.prompt, HasSubstr(" " + std::to_string(change)));
      number += (*it)[2] == "+" ? change : -change;
      ASSERT_EQ(std::stoi((*it)[4]), number) << sample.answer;
      ASSERT_GE(number, 0);
      ASSERT_LE(number, kMaxNumber);
      ++equations;
    }
    ASSERT_THAT(sample.answer, ::testing::EndsWith("The answer is " + std::to_string(number) + "."));
    lengths.insert(equations);
  }
  EXPECT_EQ(lengths, (std::set<size_t>{1, 2, 3}));
}

TEST(Arithmetic, RefusesARightAnswerWithAWrongStep) {
  const Sample sample{"Mia has 12 shells. She finds 7 more. She loses 5. How many shells does Mia have now?",
                      "12+7=19. 19-5=14. The answer is 14."};
  EXPECT_FALSE(find_task("arithmetic").check(sample, "12+7=18. 18-4=14. The answer is 14."));
  EXPECT_FALSE(find_task("arithmetic").check(sample, "The answer is 14."));
}

TEST(Stories, AcceptEveryEventWithItsFeelingAndNoOther) {
  const Sample sample{
      "Tell a story about Mia the fox, the hill and the drum.",
      "Mia the fox lives on the hill. One day Mia finds the drum. Mia is very happy. The end."};
  const auto story = [](const std::string& verb, const std::string& feeling) {
    return "Mia the fox lives on the hill. One day Mia " + verb + " the drum. Mia is very " + feeling +
           ". The end.";
  };
  const Task& task = find_task("stories");
  EXPECT_TRUE(task.check(sample, story("loses", "sad")));
  EXPECT_TRUE(task.check(sample, story("shares", "kind")));
  EXPECT_FALSE(task.check(sample, story("loses", "happy")));
  EXPECT_FALSE(task.check(sample, story("eats", "happy")));
}

}  // namespace
}  // namespace lacuna
