#include "model/router.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace lacuna::router_test {
namespace {

using testing::ElementsAre;

std::vector<ExpertChoice> choose(const MoeConfig& moe, const std::vector<float>& logits,
                                 const std::vector<float>& bias = {}) {
  std::vector<ExpertChoice> chosen(static_cast<size_t>(moe.experts_per_token));
  choose_experts(moe, logits, bias, {}, chosen);
  return chosen;
}

std::vector<int32_t> experts_of(const std::vector<ExpertChoice>& chosen) {
  std::vector<int32_t> experts(chosen.size());
  std::transform(chosen.begin(), chosen.end(), experts.begin(),
                 [](const ExpertChoice& choice) { return choice.expert; });
  return experts;
}

float sigmoid(double x) {
  return static_cast<float>(1 / (1 + std::exp(-x)));
}

/// The logit whose sigmoid is p.
float logit(double p) {
  return static_cast<float>(std::log(p / (1 - p)));
}

/// LLaDA2's rule for eight experts in four groups, two of which are open to a row.
MoeConfig grouped() {
  return {.num_experts = 8,
          .experts_per_token = 2,
          .normalize_weights = true,
          .sigmoid_scores = true,
          .selection_bias = true,
          .num_groups = 4,
          .groups_per_token = 2,
          .routed_scale = 2.5F};
}

TEST(Router, WeighsBySoftmaxOverAllExperts) {
  const MoeConfig moe = {.num_experts = 3, .experts_per_token = 2};
  const auto chosen = choose(moe, {0, std::log(3.0F), std::log(2.0F)});
  EXPECT_THAT(experts_of(chosen), ElementsAre(1, 2));
  EXPECT_FLOAT_EQ(chosen[0].weight, 3.0F / 6);
  EXPECT_FLOAT_EQ(chosen[1].weight, 2.0F / 6);
}

TEST(Router, RescalesTheChosenWeightsWhereTheFamilyDoes) {
  const MoeConfig moe = {.num_experts = 3, .experts_per_token = 2, .normalize_weights = true};
  const auto chosen = choose(moe, {0, std::log(3.0F), std::log(2.0F)});
  EXPECT_FLOAT_EQ(chosen[0].weight, 3.0F / 5);
  EXPECT_FLOAT_EQ(chosen[1].weight, 2.0F / 5);
}

TEST(Router, GivesTiesToTheLowestExpert) {
  MoeConfig moe = {.num_experts = 6, .experts_per_token = 3};
  EXPECT_THAT(experts_of(choose(moe, {0, 1, 0, 1, 1, 1})), ElementsAre(1, 3, 4));
  moe.sigmoid_scores = true;
  EXPECT_THAT(experts_of(choose(moe, {0, 0, 0, 0, 0, 0})), ElementsAre(0, 1, 2));
}

TEST(Router, GivesTiesToTheLowestGroup) {
  MoeConfig moe = grouped();
  moe.groups_per_token = 1;
  EXPECT_THAT(experts_of(choose(moe, {0, 0, 1, 0, 0, 1, 1, 0}, std::vector<float>(8))), ElementsAre(2, 3));
}

TEST(Router, ChoosesByTheBiasButWeighsWithoutIt) {
  MoeConfig moe = grouped();
  moe.num_groups = moe.groups_per_token = 1;
  const std::vector<float> logits = {1, 2, 3, -1, 0, 0, 0, 0};
  const auto chosen = choose(moe, logits, {0, 0, 0, 2, 0, 0, 0, 0});
  EXPECT_THAT(experts_of(chosen), ElementsAre(3, 2));
  const float sum = sigmoid(-1) + sigmoid(3);
  EXPECT_FLOAT_EQ(chosen[0].weight, 2.5F * sigmoid(-1) / sum);
  EXPECT_FLOAT_EQ(chosen[1].weight, 2.5F * sigmoid(3) / sum);
}

// Groups by the sum of their two best: {0.9, 0.1} 1.0, {0.6, 0.6} 1.2, {0.8, 0.1} 0.9, {0.4, 0.7} 1.1. So the
// two best experts of all, 0 and 4, are not open.
TEST(Router, OpensTheGroupsWhoseTwoBestExpertsAreBestTogether) {
  const std::vector<float> logits = {logit(0.9), logit(0.1), logit(0.6), logit(0.6),
                                     logit(0.8), logit(0.1), logit(0.4), logit(0.7)};
  const auto chosen = choose(grouped(), logits, std::vector<float>(8));
  EXPECT_THAT(experts_of(chosen), ElementsAre(7, 2));
  EXPECT_FLOAT_EQ(chosen[0].weight, 2.5F * 0.7F / 1.3F);
  EXPECT_FLOAT_EQ(chosen[1].weight, 2.5F * 0.6F / 1.3F);
}

TEST(Router, CountsOnlyTheTwoBestOfAGroup) {
  MoeConfig moe = grouped();
  moe.num_groups = 2;
  moe.groups_per_token = 1;
  // All four of the first group add up to more, its two best to less.
  const std::vector<float> logits = {logit(0.5), logit(0.5), logit(0.5), logit(0.5),
                                     logit(0.1), logit(0.6), logit(0.1), logit(0.6)};
  EXPECT_THAT(experts_of(choose(moe, logits, std::vector<float>(8))), ElementsAre(5, 7));
}

TEST(Router, NeverLeavesTheOpenGroupsHoweverLowTheirBias) {
  MoeConfig moe = grouped();
  moe.num_groups = 2;
  moe.groups_per_token = 1;
  moe.experts_per_token = 4;
  const std::vector<float> bias = {9, 9, -9, -9, 0, 0, 0, 0};
  EXPECT_THAT(experts_of(choose(moe, std::vector<float>(8, 1), bias)), ElementsAre(0, 1, 2, 3));
}

TEST(Router, SurvivesScoresThatAreAllZero) {
  for (const ExpertChoice& choice : choose(grouped(), std::vector<float>(8, -200), std::vector<float>(8))) {
    EXPECT_EQ(choice.weight, 0);
  }
}

/// Sixteen rows' worth of a pool of two among four experts.
MoeConfig windowed() {
  return {.num_experts = 4,
          .experts_per_token = 1,
          .normalize_weights = false,
          .sigmoid_scores = true,
          .selection_bias = true,
          .window = 2,
          .experts_per_window = 2};
}

TEST(Router, GivesAWindowTheExpertsThatAnyOfItsRowsWantsMost) {
  const std::vector<float> logits = {0, 1, 2, 3,   // a row that wants 3
                                     5, 0, 0, 0};  // another that wants 0
  EXPECT_THAT(choose_pool(windowed(), {logits.data(), 2, 4}, {}), ElementsAre(0, 3));
  EXPECT_THAT(choose_pool(windowed(), {logits.data(), 1, 4}, {}), ElementsAre(2, 3));
}

TEST(Router, BreaksTiesOfAPoolToTheLowestExpert) {
  const std::vector<float> logits = {1, 1, 1, 1};
  EXPECT_THAT(choose_pool(windowed(), {logits.data(), 1, 4}, {}), ElementsAre(0, 1));
  const std::vector<float> bias = {0, 0, 0, 1};
  EXPECT_THAT(choose_pool(windowed(), {logits.data(), 1, 4}, bias), ElementsAre(0, 3)) << "with the bias";
}

TEST(Router, ChoosesWithinThePoolOfTheWindow) {
  const std::vector<float> logits = {0, 1, 2, 3};
  std::vector<ExpertChoice> chosen(1);
  const std::vector<int32_t> pool = {0, 2};
  choose_experts(windowed(), logits, {}, pool, chosen);
  EXPECT_EQ(chosen[0].expert, 2);
  EXPECT_FLOAT_EQ(chosen[0].weight, sigmoid(2));
}

}  // namespace
}  // namespace lacuna::router_test
