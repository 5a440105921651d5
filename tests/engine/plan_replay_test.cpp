// Plans that went through JSON are run again: nothing that a pass needs lies outside its plan.
#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

#include "options/choose.h"
#include "engine/pass_loop.h"
#include "kernels/dispatch.h"
#include "model/plan_json.h"
#include "model/tiny_models.h"

namespace lacuna {
namespace {

/// Writes each plan as JSON and computes the plan that is read back.
class ReplayingRunner final : public PassRunner {
 public:
  ReplayingRunner(const Model& model, const KernelContext& context) : model_(model), context_(context) {}

  PassResult run(const StepPlan& plan, std::span<KvCache* const> caches) override {
    plan_ = plan_from_json(nlohmann::json::parse(to_json(plan).dump()), "plan");
    EXPECT_EQ(plan_, plan);
    return model_.forward(context_, plan_, caches, workspace_);
  }
  FollowUpResult follow_up(const FollowUp& wanted, std::span<OutputCache* const> outputs) override {
    return model_.follow_up(context_, plan_, wanted, outputs, workspace_);
  }

 private:
  const Model& model_;
  const KernelContext context_;
  Workspace workspace_;
  StepPlan plan_;
};

std::vector<TokenId> decode(const Model& model, PassRunner& runner, const GenerationOptions& options) {
  const std::unique_ptr<Decoder> decoder =
      make_decoder(model.config(), options, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  std::vector<KvCache> caches;
  std::vector<OutputCache> outputs;
  for (int32_t i = 0; i < decoder->num_sequences(); ++i) {
    caches.push_back(model.make_cache(decoder->num_cells()));
    if (decoder->remembers_outputs()) outputs.emplace_back(decoder->num_cells(), model.config().hidden_dim);
  }
  const PassMember member{decoder.get(), caches, outputs};
  PassLoop loop;
  while (!decoder->done()) loop.make_pass(runner, {&member, 1});
  return {decoder->canvas().begin(), decoder->canvas().end()};
}

void expect_replayed(const ModelConfig& config, const GenerationOptions& options) {
  ThreadPool threads(1);
  const std::shared_ptr<const Model> model = tiny_model(config);
  const KernelContext context{default_table(), threads};
  ModelRunner plain(*model, context);
  ReplayingRunner replaying(*model, context);
  EXPECT_EQ(decode(*model, replaying, options), decode(*model, plain, options)) << config.architecture;
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
  options = sampled(16);
  options.cache = "uniform";
  options.drift = "tau=1e-6,page=4,budget=8";
  expect_replayed(tiny_gidd_config(1000), options);
}

TEST(PlanReplay, GivesTheTextOfSparseAttention) {
  for (const char* sparse :
       {"mage=4,dense-layers=1", "quest=4,page=2,dense-layers=0", "sparsed=4,exact=0.1"}) {
    GenerationOptions options = sampled(16);
    options.sparse = sparse;
    ModelConfig config = tiny_block_config(4);
    expect_replayed(config, options);
  }
}

}  // namespace
}  // namespace lacuna
