// The paper's slots of ReFusion; those of its published code are in objective_test.cpp.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "train/objective.h"

namespace lacuna::train::slot_examples_test {
namespace {

constexpr int64_t kMask = 9;

Batch batch_of(int64_t rows, int64_t length, int64_t prompt) {
  Batch batch{torch::arange(rows * length).remainder(9).view({rows, length}),
              torch::ones({rows, length}, torch::kBool)};
  batch.response.slice(1, 0, prompt).fill_(false);
  return batch;
}

TEST(SamplePaperSlotPlans, MaskExactlyAsManySlotsAsTheRatioSaysInAnyPlaceAscending) {
  const Batch batch = batch_of(8, 33, 1);
  std::map<int64_t, int64_t> masked;
  std::set<size_t> counts;
  bool shuffles = false;
  for (uint64_t step = 0; step < 200; ++step) {
    for (const SlotPlan& plan : sample_paper_slot_plans(batch, std::vector<int64_t>{4}, 1, step)) {
      ASSERT_EQ(plan.clean.size() + plan.masked.size(), 8U);
      EXPECT_EQ(plan.masked.size(), static_cast<size_t>(8 * plan.ratio));
      counts.insert(plan.masked.size());
      for (size_t i = 0; i < plan.masked.size(); ++i) {
        ++masked[plan.masked[i].first];
        EXPECT_EQ(plan.masked[i].written, 0);
        EXPECT_TRUE(i == 0 || plan.masked[i].first > plan.masked[i - 1].first);
      }
      shuffles = shuffles || (plan.clean.size() > 1 && plan.clean[0].first > plan.clean[1].first);
    }
  }
  EXPECT_EQ(counts.size(), 8U) << "none to all but one";
  EXPECT_EQ(masked.size(), 8U);
  EXPECT_TRUE(shuffles);
}

TEST(SlotExamples, OfThePaperAreMeansOfEachSample) {
  // The first sample has two clean rows that predict and two masked ones, the second three clean ones.
  const Batch batch{torch::tensor({{1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6}}),
                    torch::tensor({{0, 1, 1, 1, 1, 1}, {0, 0, 1, 1, 1, 1}}).to(torch::kBool)};
  const std::vector<SlotPlan> plans = {{0.5, {{1, 3}}, {{4, 2}}}, {0.01, {{2, 4}}, {}}};
  const Examples examples = slot_examples(batch, plans, kMask, 0.5);
  ASSERT_EQ(examples.rows.size(0), 2 + 2 + 3);
  EXPECT_TRUE(
      examples.weights.allclose(torch::tensor({0.25F, 0.25F, 0.125F, 0.125F, 1 / 6.F, 1 / 6.F, 1 / 6.F})));
  EXPECT_NEAR(slot_examples(batch, plans, kMask, 1).weights.sum().item<double>(), 1.5, 1e-6);
}

}  // namespace
}  // namespace lacuna::train::slot_examples_test
