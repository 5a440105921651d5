#include "model/mask_eviction.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "tiny_models.h"

namespace lacuna::mask_eviction_test {
namespace {

using testing::ElementsAre;

TEST(MasksThatStay, AreAllIfTheyAreNotMoreThanTheTarget) {
  const std::vector<double> growth = {3, 1, 2};
  EXPECT_THAT(masks_that_stay(growth, std::vector<int32_t>{4, 5, 6}, 3, 99), ElementsAre(true, true, true));
}

TEST(MasksThatStay, AreThoseThatGrewMostTiesToTheLowest) {
  const std::vector<double> growth = {1, 5, 5, 1, 5};
  const std::vector<int32_t> apart = {10, 20, 30, 40, 50};
  EXPECT_THAT(masks_that_stay(growth, apart, 1, 99), ElementsAre(false, true, false, false, false));
  EXPECT_THAT(masks_that_stay(growth, apart, 2, 99), ElementsAre(false, true, true, false, false));
}

TEST(MasksThatStay, AreMoreThanTheTargetIfMoreGrewByAStandardDeviationAboveTheMean) {
  const std::vector<double> growth = {0, 9, 0, 9, 0, 0, 0, 0, 0};  // mean 2, deviation 3.74
  const std::vector<int32_t> apart = {0, 10, 20, 30, 40, 50, 60, 70, 80};
  EXPECT_THAT(masks_that_stay(growth, apart, 1, 99),
              ElementsAre(false, true, false, true, false, false, false, false, false));
}

TEST(MasksThatStay, IncludeTheCellBeforeEachThatStaysButNotTheOneBeforeThat) {
  const std::vector<double> growth = {0, 0, 9, 0};
  EXPECT_THAT(masks_that_stay(growth, std::vector<int32_t>{4, 5, 6, 7}, 1, 99),
              ElementsAre(false, true, true, false));
  EXPECT_THAT(masks_that_stay(growth, std::vector<int32_t>{4, 5, 7, 8}, 1, 99),
              ElementsAre(false, false, true, false));
}

TEST(MasksThatStay, IncludeEveryCellBeforeThemThatNoPassHasComputed) {
  const std::vector<double> growth = {0, 0, 0, 9, 0};
  EXPECT_THAT(masks_that_stay(growth, std::vector<int32_t>{2, 4, 6, 8, 10}, 1, 4),
              ElementsAre(false, true, true, true, false));
}

TEST(AttentionAmongMasks, AddsToOneForEachHeadAndQueryAndWidensEachScoreToItsNeighbors) {
  ThreadPool threads(2);
  const KernelContext context{supported_tables().front(), threads};
  const AttentionShape shape{.num_heads = 2, .num_kv_heads = 1, .head_dim = 2, .scale = 1};
  // Both heads of every query point along the first dimension; the second mask's key is the only long one.
  const std::vector<float> q(5 * 4, 1.0F);
  std::vector<float> k(5 * 2, 0.0F);
  k[2 * 2] = 20;
  const std::vector<double> all = attention_among_masks(
      context, shape, {q.data(), 5, 4, 4}, {k.data(), 5, 2, 2}, std::vector<int32_t>{0, 2, 3, 4});
  EXPECT_NEAR(all[0] + all[1] + all[2] + all[3], 2 * 4, 1e-12);
  for (const size_t i : {0, 1, 2}) EXPECT_NEAR(all[i], 8.0 / 3, 1e-6);
  EXPECT_NEAR(all[3], 0, 1e-6);
}

constexpr int32_t kPrefix = 8, kBlock = 16;

std::shared_ptr<const Model> model_of(DType dtype) {
  return tiny_model(tiny_block_config(kBlock), dtype);
}

/// A block of which the first `known` positions are no masks, behind a prefix that the pass computes too.
StepPlan pass_over(const Model& model, uint64_t seed, int32_t known, MaskEviction eviction) {
  std::vector<TokenId> tokens = random_tokens(seed, kPrefix + kBlock, 80);
  std::fill(tokens.begin() + kPrefix + known, tokens.end(), static_cast<TokenId>(model.config().mask_id));
  StepPlan plan;
  plan.rules.emplace_back();
  plan.add_group(tokens, 0, kPrefix).only_kv = true;
  RowGroup& group = plan.add_group(tokens, kPrefix, kPrefix + kBlock, OwnRows::kNone);
  group.visible.push_back({kPrefix, kPrefix + kBlock});
  group.eviction = eviction;
  for (int32_t row = kPrefix; row < kPrefix + kBlock; ++row) {
    LogitRow logit;
    logit.row = row;
    if (row >= kPrefix + known) plan.logits.push_back(logit);
  }
  return plan;
}

TEST(MaskEviction, OfNoMaskChangesNoBit) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const auto model = model_of(dtype);
    Runner plain(model, supported_tables().front(), 1), evicting(model, supported_tables().front(), 1);
    EXPECT_EQ(evicting.draws(pass_over(*model, 1, 4, {.target = 12})),
              plain.draws(pass_over(*model, 1, 4, {})));
  }
}

TEST(MaskEviction, LeavesTheSamplesOfEvictedMasksOutAndTheirKeysOfLaterLayersAlone) {
  const auto model = model_of(DType::kF32);
  Runner runner(model, supported_tables().front(), 1);
  const std::vector<RowStatistics> drawn = runner.draws(pass_over(*model, 2, 4, {.target = 2, .unread = 99}));
  int32_t evicted = 0;
  for (size_t i = 0; i < drawn.size(); ++i) {
    std::vector<float> key(static_cast<size_t>(model->config().head_dim)), value(key);
    const auto written = [&](int64_t layer) {
      runner.cache(0).read(layer, kPrefix + 4 + static_cast<int64_t>(i), 0, key.data(), value.data());
      return std::ranges::any_of(key, [](float x) { return x != 0; });
    };
    EXPECT_TRUE(written(0) && written(1));
    EXPECT_EQ(written(2), drawn[i].token >= 0);
    evicted += drawn[i].token < 0 ? 1 : 0;
  }
  EXPECT_GT(evicted, 5);
  EXPECT_LT(evicted, 12);
}

TEST(MaskEviction, IsTheSameForAnyNumberOfThreadsAndInAnyBatch) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const auto model = model_of(dtype);
    Runner alone(model, supported_tables().front(), 1), other(model, supported_tables().front(), 1);
    Runner both(model, supported_tables().front(), 4, 128, 2);
    StepPlan plan = pass_over(*model, 3, 2, {.target = 3, .unread = kPrefix});
    std::vector<RowStatistics> expected = alone.draws(plan);
    const StepPlan more = pass_over(*model, 4, 5, {.target = 1, .unread = 99});
    std::ranges::copy(other.draws(more), std::back_inserter(expected));
    plan.append(more, 1);
    EXPECT_EQ(both.draws(plan), expected);
    EXPECT_TRUE(std::ranges::any_of(expected, [](const RowStatistics& row) { return row.token < 0; }));
  }
}

}  // namespace
}  // namespace lacuna::mask_eviction_test
