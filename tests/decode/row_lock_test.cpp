// One canvas after the other. Requests to a pass and the choice of rows are tested with the passes of masked
// diffusion (canvas_pass_test.cpp).
#include "decode/row_lock.h"

#include <gmock/gmock.h>

#include <vector>

namespace lacuna::row_lock_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr TokenId kMask = 2;

SureLock lock_of_moving_rows() {
  SureLock lock;
  lock.delta = 1;
  lock.eps = 0.5;
  lock.gate = 100;
  return lock;
}

/// Runs a pass over the rows that are not locked; every measured row has moved by `kl`. Returns what locks.
std::vector<int32_t> pass_over(RowLock& lock, Canvas& canvas, double kl) {
  StepPlan plan;
  plan.rules.emplace_back();
  std::vector<int32_t> rows;
  for (int32_t row = 0; row < canvas.length(); ++row) rows.push_back(row);
  lock.remove_locked(rows);
  for (const int32_t row : rows) plan.add_row(canvas[row], row, row);
  const auto logit_of = [](int32_t plan_row) {
    LogitRow logit;
    logit.row = plan_row;
    return logit;
  };
  lock.watch(canvas, {rows, {}}, /*may_lock=*/true, {}, logit_of, plan);
  canvas.count_pass(lock.rows());
  lock.close_gate(canvas, std::vector<RowStatistics>(plan.logits.size(), RowStatistics{9, 0.9}));
  StepReport report;
  lock.apply_drift(canvas, std::vector<Drift>(lock.drift_probes().size(), Drift{kl, kl}), report);
  return report.locked;
}

TEST(RowLock, ReportsPositionsAndComparesWithTheirCells) {
  Canvas canvas({7, 8}, 1, kMask, false);
  RowLock lock(lock_of_moving_rows(), canvas, 30);
  EXPECT_THAT(pass_over(lock, canvas, 0), IsEmpty());
  EXPECT_THAT(pass_over(lock, canvas, 0), ElementsAre(30, 31));
  EXPECT_TRUE(lock.is_locked(0));
  EXPECT_FALSE(lock.is_locked(2));
}

TEST(RowLock, ANewCanvasHasNoLockedRowsAndKeepsTheEstimate) {
  Canvas first({7, 8}, 1, kMask, false);
  RowLock lock(lock_of_moving_rows(), first, 30);
  for (int pass = 0; pass < 4; ++pass) pass_over(lock, first, 0.9);
  EXPECT_EQ(lock.estimate().samples, 4) << "two rows, measured in three passes";
  pass_over(lock, first, 0);
  ASSERT_TRUE(lock.is_locked(0));

  Canvas second({7, 8}, 1, kMask, false);
  const int64_t samples = lock.estimate().samples;
  lock.restart(second, 33);
  EXPECT_FALSE(lock.is_locked(0));
  EXPECT_EQ(lock.estimate().samples, samples);
  EXPECT_THAT(pass_over(lock, second, 0), IsEmpty()) << "nothing is there to compare with";
  EXPECT_THAT(pass_over(lock, second, 0), ElementsAre(33, 34));
  EXPECT_EQ(lock.estimate().samples, samples) << "a row of another canvas is another row";
}

TEST(RowLock, RefusesACanvasOfAnotherLength) {
  const Canvas canvas({7, 8}, 1, kMask, false);
  RowLock lock(lock_of_moving_rows(), canvas);
  EXPECT_THROW(lock.restart(Canvas({7, 8}, 2, kMask, false), 3), std::logic_error);
}

}  // namespace
}  // namespace lacuna::row_lock_test
