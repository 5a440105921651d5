#include "tasks/outside.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "base/error.h"
#include "tasks/tasks.h"
#include "tokenizer/tokenizer.h"

namespace lacuna::outside_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr uint64_t kQuestions = 300;

const Task& outside() {
  return find_task("outside");
}

TEST(Outside, HasThreeHundredQuestionsThatNoSeedChanges) {
  std::set<std::string> conversations;
  for (uint64_t index = 0; index < kQuestions; ++index) {
    const Sample sample = outside().generate(Split::kTest, 0, index);
    std::string text;
    for (const Turn& turn : sample.history) text += turn.content + "\n";
    conversations.insert(text + sample.prompt);
    EXPECT_EQ(outside().generate(Split::kTest, 7, index).prompt, sample.prompt);
    EXPECT_EQ(outside().generate(Split::kTest, 0, index + kQuestions).prompt, sample.prompt);
  }
  EXPECT_EQ(conversations.size(), kQuestions);
}

TEST(Outside, AsksInTurnsThatAlternateAndEndWithAQuestion) {
  for (uint64_t index = 0; index < kQuestions; ++index) {
    const Sample sample = outside().generate(Split::kTest, 0, index);
    std::string expected = "user";
    for (const Turn& turn : sample.history) {
      EXPECT_FALSE(turn.content.empty()) << sample.prompt;
      if (turn.role == "system") continue;
      EXPECT_EQ(turn.role, expected) << sample.prompt;
      expected = expected == "user" ? "assistant" : "user";
    }
    EXPECT_EQ(expected, "user") << sample.prompt;
    EXPECT_FALSE(sample.prompt.empty());
  }
}

TEST(Outside, HasRoomForItsAnswers) {
  const Tokenizer tokenizer = Tokenizer::load(std::filesystem::path(LACUNA_SOURCE_DIR) / "models/mini-qwen3");
  for (uint64_t index = 0; index < kQuestions; ++index) {
    const Sample sample = outside().generate(Split::kTest, 0, index);
    EXPECT_LT(tokenizer.encode(sample.answer).size(), static_cast<size_t>(outside().room({})));
  }
}

TEST(Outside, TakesAnswersByTheirLastNumber) {
  Sample sample;
  sample.answer = "The answer is 19.";
  EXPECT_TRUE(check_outside(sample, sample.answer));
  EXPECT_TRUE(check_outside(sample, "12+7=19. The answer is 19.\n"));
  EXPECT_TRUE(check_outside(sample, "19"));
  EXPECT_FALSE(check_outside(sample, "12+7=19. The answer is 91."));
  EXPECT_FALSE(check_outside(sample, "119"));
  EXPECT_FALSE(check_outside(sample, "99999999999999999999"));
  EXPECT_FALSE(check_outside(sample, "I do not know."));
  EXPECT_FALSE(check_outside(sample, ""));
}

TEST(Outside, CannotBeTrainedOn) {
  EXPECT_THAT([] { outside().generate(Split::kTrain, 0, 0); },
              ThrowsMessage<InputError>(HasSubstr("task 'outside' has no samples to train on")));
}

}  // namespace
}  // namespace lacuna::outside_test
