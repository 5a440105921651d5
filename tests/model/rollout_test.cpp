// Model::Pass::rollout().
#include <gmock/gmock.h>

#include <map>
#include <mutex>
#include <numeric>
#include <vector>

#include "model/model.h"
#include "tiny_models.h"

namespace lacuna::rollout_test {
namespace {

/// Adds a group of these rows of a sequence, which see all of its cells.
void add_rows(StepPlan& plan, int32_t sequence, const std::vector<int32_t>& rows, int32_t cells,
              bool wants_rollout) {
  RowGroup group{sequence, {plan.num_rows(), 0}, {{0, cells}}, OwnRows::kNone};
  for (const int32_t row : rows) plan.add_row(3 + row % 5, row, row);
  group.rows.end = plan.num_rows();
  group.wants_rollout = wants_rollout;
  plan.groups.push_back(group);
}

std::vector<int32_t> all(int32_t count) {
  std::vector<int32_t> rows(static_cast<size_t>(count));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

/// Passes over two sequences of 40 and 70 cells: one that computes everything, then one of some rows.
class TwoPasses {
 public:
  TwoPasses(const std::shared_ptr<const Model>& model, int num_threads, bool observes = false)
      : model_(model), threads_(num_threads) {
    for (const int32_t cells : {40, 70}) caches_.push_back(model->make_cache(cells));
    StepPlan plan;
    add_rows(plan, 0, all(40), 40, true);
    add_rows(plan, 1, all(70), 70, true);
    run(plan);
    plan.clear();
    add_rows(plan, 0, {0, 7, 39}, 40, false);
    add_rows(plan, 1, {2, 3, 33, 64}, 70, true);
    if (observes) observe();
    rollout = run(plan);
  }

  std::vector<double> rollout;
  /// The weights that the second sequence's rows of the second pass gave in each layer, the mean over heads.
  std::vector<std::map<int32_t, std::vector<double>>> weights;

 private:
  void observe() {
    const ModelConfig& config = model_->config();
    weights.resize(static_cast<size_t>(config.num_layers));
    workspace_.attention_probe = [this, &config](const AttentionRow& seen) {
      if (seen.group != 1) return;
      const std::lock_guard lock(mutex_);
      std::vector<double>& row = weights[static_cast<size_t>(workspace_.layer)][seen.row - 3];
      row.resize(70);
      for (size_t cell = 0; cell < 70; ++cell)
        row[cell] += double{seen.weights[cell]} / seen.sum / static_cast<double>(config.num_heads);
    };
  }

  std::vector<double> run(const StepPlan& plan) {
    KvCache* caches[] = {&caches_[0], &caches_[1]};
    const auto found = model_->forward({default_table(), threads_}, plan, caches, workspace_).rollout;
    EXPECT_EQ(found.size(), plan.rollout_size());
    return {found.begin(), found.end()};
  }

  std::shared_ptr<const Model> model_;
  ThreadPool threads_;
  std::vector<KvCache> caches_;
  Workspace workspace_;
  std::mutex mutex_;
};

TEST(Rollout, IsTheProductOfTheWeightsOfAllLayers) {
  for (const size_t number : {size_t{0}, size_t{4}}) {
    const auto model = tiny_model(tiny_configs()[number]);
    const TwoPasses passes(model, 1, true);
    const std::vector<int32_t> rows = {2, 3, 33, 64};
    // [70, 70], from the first layer on
    std::vector<std::vector<double>> product(70, std::vector<double>(70));
    for (size_t i = 0; i < 70; ++i) product[i][i] = 1;
    for (const auto& layer : passes.weights) {
      auto next = product;
      for (const auto& [row, weights] : layer) {
        const auto cell = static_cast<size_t>(rows[static_cast<size_t>(row)]);
        for (size_t j = 0; j < 70; ++j) {
          next[cell][j] = product[cell][j] / 2;
          for (size_t k = 0; k < 70; ++k) next[cell][j] += weights[k] * product[k][j] / 2;
        }
      }
      product = next;
    }
    ASSERT_EQ(passes.rollout.size(), 70U);
    double sum = 0;
    for (size_t j = 0; j < 70; ++j) {
      double expected = 0;
      for (size_t i = 0; i < 70; ++i) expected += product[i][j];
      EXPECT_NEAR(passes.rollout[j], expected, 1e-5) << j;
      sum += passes.rollout[j];
    }
    EXPECT_NEAR(sum, 70, 1e-4) << "each cell gives one";
  }
}

TEST(Rollout, IsTheSameWithAnyThreadsBitForBit) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const auto model = tiny_model(tiny_configs()[0], dtype);
    const TwoPasses alone(model, 1);
    for (const int threads : {2, 5}) EXPECT_EQ(TwoPasses(model, threads).rollout, alone.rollout);
  }
}

}  // namespace
}  // namespace lacuna::rollout_test
