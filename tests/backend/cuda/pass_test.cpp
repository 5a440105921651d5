// Passes as graphs, and rows of which keys and values alone are wanted.
#include "backend/cuda/pass.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "backend/cuda/kv_pool.h"
#include "cuda_models.h"
#include "logits.h"

namespace lacuna::cuda::pass_test {
namespace {

std::shared_ptr<const BackendModel> random_model(const std::shared_ptr<const CudaDevice>& device,
                                                 const ModelConfig& config, bool graphs) {
  return load_on_cuda(device, one_thread(), {}, config, DType::kBF16, kWeightSeed, {},
                      {.kv_bytes = int64_t{1} << 20, .graphs = graphs});
}

TEST(DevicePass, GivesTheBitsOfDirectLaunchesFromAGraphThatIsLaunchedAgain) {
  // Dense; experts; experts of windows; queries that grow; a sink; canvases.
  for (const char* family :
       {"llada", "llada2", "llada2.2", "nemotron-labs-diffusion", "gidd", "diffusion-gemma"}) {
    const ModelConfig config = config_of(family);
    const auto device = open_cuda_device(0);
    Passes direct(random_model(device, config, false));
    Passes replayed(random_model(device, config, true));
    direct.add_sequence(64);
    replayed.add_sequence(64);
    const auto made_plan = [&](uint64_t seed, int32_t rows) {
      StepPlan plan = plan_of(config, seed, rows);
      plan.measures_kv_drift = true;
      if (std::string_view(family) == "llada2") plan.mixed = {{1, 0.25F}, {rows - 1, 0.5F}};
      return plan;
    };
    // 19 and 21 rows are padded to one graph, the first of them is sent directly, and its graph is recorded
    // by the second.
    for (const int32_t rows : {19, 21, 19, 21}) {
      const StepPlan plan = made_plan(static_cast<uint64_t>(rows), rows);
      EXPECT_EQ(replayed.samples(plan), direct.samples(plan)) << family << ", " << rows;
      EXPECT_EQ(replayed.kv_drift(), direct.kv_drift()) << family << ", " << rows;
    }
    const StepPlan plan = made_plan(7, 20);
    EXPECT_EQ(replayed.logits(plan), direct.logits(plan)) << family;
    EXPECT_EQ(device->stream()->num_graph_passes, 4) << family;
  }
}

/// Rows of one sequence of which keys and values alone are wanted, and rows of another with outputs.
struct MixedRows {
  int32_t only_kv = 0;
  int32_t outputs = 0;
  bool outputs_first = false;

  StepPlan plan(const ModelConfig& config) const {
    StepPlan kept = plan_of(config, static_cast<uint64_t>(only_kv), only_kv);
    kept.groups.front().only_kv = true;
    kept.logits.clear();
    StepPlan plan;
    if (!outputs_first) plan.append(kept, 0);
    if (outputs > 0) plan.append(plan_of(config, static_cast<uint64_t>(100 + outputs), outputs), 1);
    if (outputs_first) plan.append(kept, 0);
    plan.measures_kv_drift = true;
    return plan;
  }
};

TEST(DevicePass, GivesTheBitsOfDirectLaunchesFromGraphsWhereSomeRowsOnlyWantKeysAndValues) {
  for (const char* family : {"llada", "llada2", "llada2.2"}) {
    const ModelConfig config = config_of(family);
    const auto device = open_cuda_device(0);
    Passes direct(random_model(device, config, false));
    Passes replayed(random_model(device, config, true));
    for (Passes* passes : {&direct, &replayed}) {
      for (int i = 0; i < 2; ++i) passes->add_sequence(96);
    }
    // Three shapes: some rows with outputs, after rounding as many as there are rows, and none. The first
    // pass of each is sent directly.
    for (const MixedRows& rows : {MixedRows{70, 9}, MixedRows{66, 11}, MixedRows{66, 11, true},
                                  MixedRows{3, 72}, MixedRows{5, 70}, MixedRows{40, 0}, MixedRows{37, 0}}) {
      const StepPlan plan = rows.plan(config);
      EXPECT_EQ(replayed.samples(plan), direct.samples(plan)) << family << ", " << rows.only_kv;
      EXPECT_EQ(replayed.kv_drift(), direct.kv_drift()) << family << ", " << rows.only_kv;
      if (rows.outputs == 0) continue;
      EXPECT_EQ(replayed.logits(plan), direct.logits(plan)) << family << ", " << rows.only_kv;
    }
    EXPECT_EQ(device->stream()->num_graph_passes, 9) << family;
  }
}

TEST(DevicePass, LeavesRowsBehindOfWhichNothingButKeysAndValuesIsWanted) {
  for (const char* family : {"llada", "llada2", "llada2.2"}) {
    const ModelConfig config = config_of(family);
    // Two groups of one sequence: the first is only read by the second, which begins within a window.
    StepPlan plan = plan_of(config, 8, 40);
    plan.groups.clear();
    plan.groups.push_back({0, {0, 20}, {}, OwnRows::kBidirectional});
    plan.groups.push_back({0, {20, 40}, {{0, 20}}, OwnRows::kBidirectional});
    const std::vector<float> all = logits_of(cuda_model(config), plan);
    plan.groups.front().only_kv = true;
    plan.logits.erase(plan.logits.begin(), plan.logits.begin() + 20);
    const std::vector<float> some = logits_of(cuda_model(config), plan);
    EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + 20 * config.vocab_size)) << family;
  }
}

}  // namespace
}  // namespace lacuna::cuda::pass_test
