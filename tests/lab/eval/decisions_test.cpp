#include "eval/decisions.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>
#include <string>

namespace lacuna::decisions_test {
namespace {

/// A predicate whose yes has this probability before any temperature.
JudgedDecision judged(double yes, size_t answer) {
  return {make_predicate("?"), answer, {{std::log(yes), std::log(1 - yes)}}, false, 1};
}

TEST(Decisions, AreTheSameForTheSameSeedAndNeverInBothSplits) {
  std::set<std::string> train;
  for (uint64_t index = 0; index < 200; ++index) train.insert(draw_decisions(Split::kTrain, 1, index).story);
  for (uint64_t index = 0; index < 200; ++index) {
    const DecisionSample sample = draw_decisions(Split::kTest, 1, index);
    EXPECT_EQ(sample.story, draw_decisions(Split::kTest, 1, index).story);
    EXPECT_EQ(train.count(sample.story), 0);
  }
}

TEST(Decisions, HaveOneRightOptionThatTheStorySays) {
  std::set<QuestionKind> kinds;
  for (uint64_t index = 0; index < 300; ++index) {
    const DecisionSample sample = draw_decisions(Split::kTrain, 2, index);
    ASSERT_EQ(sample.questions.size(), sample.answers.size());
    EXPECT_GE(sample.questions.size(), 1);
    EXPECT_LE(sample.questions.size(), 4);
    for (size_t i = 0; i < sample.questions.size(); ++i) {
      const DecisionQuestion& question = sample.questions[i];
      kinds.insert(question.kind);
      ASSERT_LT(sample.answers[i], question.options.size());
      if (question.kind != QuestionKind::kChoice) continue;
      // The story names the right option; of places, people, feelings and things others may be named as well.
      EXPECT_NE(sample.story.find(question.options[sample.answers[i]].text), std::string::npos)
          << sample.story;
      std::set<std::string> texts;
      for (const DecisionOption& option : question.options) texts.insert(option.text);
      EXPECT_EQ(texts.size(), question.options.size());
    }
  }
  EXPECT_EQ(kinds.size(), 3);
}

TEST(Decisions, TellOfThingsOrOfAnAnimalOrOfBothAndAskForNumbersOnlyWhereThereAreSome) {
  bool has_things_alone = false, has_animal_alone = false, has_both = false;
  for (uint64_t index = 0; index < 200; ++index) {
    const DecisionSample sample = draw_decisions(Split::kTrain, 4, index, 12);
    const bool has_things = sample.story.find(" has ") != std::string::npos;
    const bool has_animal = sample.story.find(" lives ") != std::string::npos;
    has_things_alone |= has_things && !has_animal;
    has_animal_alone |= has_animal && !has_things;
    has_both |= has_animal && has_things;
    EXPECT_FALSE(sample.questions.empty());
    for (const DecisionQuestion& question : sample.questions) {
      const bool asks_for_animal = question.instructions.find("live") != std::string::npos;
      EXPECT_TRUE(has_animal || !asks_for_animal) << sample.story << question.instructions;
      EXPECT_TRUE(has_things || question.kind != QuestionKind::kScore) << sample.story;
    }
  }
  EXPECT_TRUE(has_things_alone && has_animal_alone && has_both);
}

TEST(Decisions, HaveRightAnswersAsOftenAsWrongOnes) {
  int yes = 0, all = 0;
  for (uint64_t index = 0; index < 1000; ++index) {
    const DecisionSample sample = draw_decisions(Split::kTrain, 3, index);
    for (size_t i = 0; i < sample.questions.size(); ++i) {
      if (sample.questions[i].kind != QuestionKind::kPredicate) continue;
      ++all;
      yes += sample.answers[i] == 0 ? 1 : 0;
    }
  }
  EXPECT_NEAR(static_cast<double>(yes) / all, 0.5, 0.05);
}

TEST(Decisions, AreMeasuredByTheirProbabilities) {
  const std::vector<JudgedDecision> decisions = {judged(0.8, 0), judged(0.6, 1)};
  const DecisionQuality quality = measure_decisions(decisions, {});
  EXPECT_EQ(quality.count, 2);
  EXPECT_DOUBLE_EQ(quality.accuracy, 0.5);
  EXPECT_NEAR(quality.brier, (2 * 0.04 + 2 * 0.36) / 2, 1e-12);
  EXPECT_NEAR(quality.nll, -(std::log(0.8) + std::log(0.4)) / 2, 1e-12);
  EXPECT_NEAR(quality.ece, (0.2 + 0.6) / 2, 1e-12);  // each in a bin of its own
  EXPECT_EQ(measure_decisions({}, {}).count, 0);
}

TEST(Decisions, HaveNoCalibrationErrorWhereConfidenceIsTheShareOfRightAnswers) {
  std::vector<JudgedDecision> decisions;
  for (int i = 0; i < 1000; ++i) decisions.push_back(judged(0.75, i % 4 == 0 ? 1 : 0));
  EXPECT_NEAR(measure_decisions(decisions, {}).ece, 0, 1e-9);
  EXPECT_NEAR(measure_decisions(decisions, {{2, 1, 1}, true}).ece, 0.75 - std::sqrt(3) / (1 + std::sqrt(3)),
              1e-9);
}

TEST(Decisions, AreFittedToTheTemperatureOfLeastNll) {
  std::vector<JudgedDecision> decisions;  // ln 9 as logits where ln 3 would be right
  for (int i = 0; i < 400; ++i) decisions.push_back(judged(0.9, i % 4 == 0 ? 1 : 0));
  const DecisionTemperatures fitted = fit_temperatures(decisions);
  EXPECT_NEAR(fitted.of(QuestionKind::kPredicate), 2, 1e-4);
  EXPECT_EQ(fitted.of(QuestionKind::kChoice), 1);
  EXPECT_TRUE(fitted.is_fitted);
  EXPECT_LT(measure_decisions(decisions, fitted).nll, measure_decisions(decisions, {}).nll);
}

}  // namespace
}  // namespace lacuna::decisions_test
