#include "engine/decision.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace lacuna::decision_test {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

TEST(Decision, ProbabilitiesAreASoftmaxOverLabelsAtATemperature) {
  const std::vector<double> logprobs = {std::log(0.2), std::log(0.1), std::log(0.1)};
  EXPECT_THAT(label_probabilities(logprobs, 1),
              ElementsAre(DoubleNear(0.5, 1e-12), DoubleNear(0.25, 1e-12), DoubleNear(0.25, 1e-12)));
  EXPECT_THAT(
      label_probabilities(logprobs, 0.5),
      ElementsAre(DoubleNear(4.0 / 6, 1e-12), DoubleNear(1.0 / 6, 1e-12), DoubleNear(1.0 / 6, 1e-12)));
}

TEST(Decision, LabelsWithoutAnyProbabilityAreEquallyProbable) {
  const double never = -std::numeric_limits<double>::infinity();
  EXPECT_THAT(label_probabilities(std::vector{never, never}, 1), ElementsAre(0.5, 0.5));
  EXPECT_THAT(label_probabilities(std::vector{never, -3.0}, 1), ElementsAre(0, 1));
}

TEST(Decision, ConfidenceOfAChoiceIsItsDistanceFromChance) {
  EXPECT_DOUBLE_EQ(confidence_of(QuestionKind::kChoice, std::vector{0.25, 0.25, 0.25, 0.25}), 0);
  EXPECT_DOUBLE_EQ(confidence_of(QuestionKind::kChoice, std::vector{1.0, 0.0}), 1);
  EXPECT_DOUBLE_EQ(confidence_of(QuestionKind::kChoice, std::vector{0.25, 0.75}), 0.5);
  EXPECT_DOUBLE_EQ(confidence_of(QuestionKind::kChoice, std::vector{1.0}), 1);
}

TEST(Decision, ConfidenceOfAScoreFallsWithTheDistanceOfOtherLevels) {
  const auto confidence = [](const std::vector<double>& p) { return confidence_of(QuestionKind::kScore, p); };
  EXPECT_DOUBLE_EQ(confidence({1}), 1);
  EXPECT_DOUBLE_EQ(confidence({0, 1, 0}), 1);
  // D = 0.5, Du = 2/3.
  EXPECT_NEAR(confidence({0.25, 0.5, 0.25}), 0.25, 1e-12);
  EXPECT_EQ(confidence({0.5, 0, 0.5}), 0);
  EXPECT_GT(confidence({0.6, 0.4, 0}), confidence({0.6, 0, 0.4}));
}

TEST(Decision, OfEquallyProbableOptionsTheFirstIsTheBest) {
  EXPECT_EQ((DecisionAnswer{{0.4, 0.4, 0.2}}).best(), 0);
  EXPECT_DOUBLE_EQ((DecisionAnswer{{0.1, 0.2, 0.7}}).score(), 1.6);
}

}  // namespace
}  // namespace lacuna::decision_test
