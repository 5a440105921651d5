// Plans that went through JSON are run again: nothing that a pass needs lies outside its plan.
#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "engine/pass_loop.h"
#include "kernels/dispatch.h"
#include "model/plan_json.h"
#include "model/tiny_models.h"
#include "options/choose.h"

namespace lacuna::plan_replay_test {
namespace {

using Replay = std::function<StepPlan(const StepPlan&)>;

/// Decodes, computing what `replay` makes of each plan.
std::vector<TokenId> decode(const BackendModel& model, const Replay& replay,
                            const GenerationOptions& options) {
  const std::unique_ptr<Decoder> decoder =
      make_decoder(model.config(), options, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const std::unique_ptr<KvPool> pool = model.make_pool();
  std::vector<std::unique_ptr<KvSequence>> sequences;
  for (int32_t i = 0; i < decoder->num_sequences(); ++i) {
    sequences.push_back(pool->make_sequence({decoder->num_cells(), decoder->needs().remembers_outputs}));
  }
  const PassMember member{decoder.get(), sequences};
  PassLoop loop;
  StepPlan replayed;
  const SubmitPass submit = [&](const StepPlan& plan, std::span<KvSequence* const> of_plan) {
    replayed = replay(plan);
    return model.submit(replayed, of_plan);
  };
  while (!decoder->done()) loop.make_pass(submit, {&member, 1});
  return {decoder->canvas().begin(), decoder->canvas().end()};
}

/// Writes a plan as JSON and reads it back.
StepPlan through_json(const StepPlan& plan) {
  StepPlan read = plan_from_json(nlohmann::json::parse(to_json(plan).dump()), "plan");
  EXPECT_EQ(read, plan);
  return read;
}

void expect_replayed(const ModelConfig& config, const GenerationOptions& options) {
  ThreadPool threads(1);
  const std::shared_ptr<const BackendModel> model = on_cpu(tiny_model(config), default_table(), threads);
  const Replay plain = [](const StepPlan& plan) { return plan; };
  EXPECT_EQ(decode(*model, through_json, options), decode(*model, plain, options)) << config.architecture;
}

GenerationOptions sampled(int32_t gen_length) {
  GenerationOptions options;
  options.gen_length = gen_length;
  options.temperature = 0.8;
  options.seed = 5;
  return options;
}

TEST(PlanReplay, GivesTheTextOfEveryFamily) {
  for (const ModelConfig& config : tiny_configs()) expect_replayed(config, sampled(16));
  expect_replayed(tiny_refusion_config(), sampled(16));
  expect_replayed(tiny_gidd_config(1000), sampled(16));
  GenerationOptions of_canvases = sampled(16);
  of_canvases.temperature = 1;
  expect_replayed(tiny_canvas_config(), of_canvases);
}

TEST(PlanReplay, GivesTheTextOfLocksGuidanceAndCaches) {
  GenerationOptions options = sampled(16);
  options.cfg_scale = 1.5;
  options.lock = "eps=1e-3,gate=50";
  expect_replayed(tiny_configs()[0], options);
  options = sampled(16);
  options.cache = "dual";
  options.block_length = 8;
  expect_replayed(tiny_configs()[0], options);
  for (const char* cache : {"sparse-dllm=0.2", "d2cache=2"}) {
    options.cache = cache;
    expect_replayed(tiny_configs()[0], options);
  }
  options = sampled(16);
  options.cache = "uniform";
  options.drift = "tau=1e-6,page=4,budget=8";
  expect_replayed(tiny_gidd_config(1000), options);
}

TEST(PlanReplay, GivesTheTextOfSparseAttention) {
  for (const char* sparse : {"mage=4,dense-layers=1", "quest=4,page=2,dense-layers=0", "sparsed=4,exact=0.1",
                             "flashblock=2", "losa=4,page=2,dense-layers=0"}) {
    GenerationOptions options = sampled(16);
    options.sparse = sparse;
    ModelConfig config = tiny_block_config(4);
    expect_replayed(config, options);
  }
}

}  // namespace
}  // namespace lacuna::plan_replay_test
