#include "eval/tuning_runs.h"

#include <gmock/gmock.h>

#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "kernels/dispatch.h"

namespace lacuna::tuning_runs_test {
namespace {

TEST(TuningLoss, HasNames) {
  for (const TuningLoss loss : {TuningLoss::kChangedAnswer, TuningLoss::kWrongAnswer, TuningLoss::kToken,
                                TuningLoss::kKl, TuningLoss::kJudge}) {
    EXPECT_EQ(tuning_loss_named(name_of(loss)), loss);
  }
  EXPECT_FALSE(tuning_loss_named("perplexity"));
}

TEST(TuningRuns, CompareASettingWithTheBaseline) {
  const std::string folder = LACUNA_SOURCE_DIR "/models/mini-llada";
  ThreadPool threads(2);
  const OpenedModel opened("mini-llada", find_model(folder));
  const TuningModels models{[&](std::span<const TuningSetting>) {
    return InferenceSession::Parts{
        on_cpu(Model::load(folder, DType::kF32, threads), default_table(), threads)};
  }};
  const Task& task = find_task("stories");
  std::vector<TuningPrompt> prompts;
  for (uint64_t i = 0; i < 4; ++i) {
    Sample sample = task.generate(Split::kTest, 0, i);
    std::vector<Message> messages = messages_of(sample);
    prompts.push_back({std::move(messages), std::move(sample)});
  }
  TuningLog log({}, 4);
  TuningRuns runs(opened, models, prompts, task.check, 3, TuningLoss::kKl, log);
  TunedSetting baseline, same, broken;
  baseline.options.gen_length = 32;  // a story in one pass is a mixture of several
  same = broken = baseline;
  same.name = "same";
  broken.name = "broken";
  broken.options.steps = 1;
  runs.run_baseline(baseline, 0, 4);
  runs.run(same, baseline, 0, 4);
  runs.run(broken, baseline, 1, 2);
  EXPECT_EQ(log.tuned("broken", 0), nullptr);
  for (int32_t prompt = 0; prompt < 4; ++prompt) {
    const TunedRun& run = *log.tuned("same", prompt);
    EXPECT_EQ(run.changed, 0);
    EXPECT_EQ(run.wrong, 0);
    EXPECT_EQ(run.token, 0);
    EXPECT_EQ(run.kl, 0);
    EXPECT_EQ(run.work.flops, log.baseline(prompt)->work.flops);
  }
  const TunedRun& run = *log.tuned("broken", 1);
  EXPECT_EQ(run.changed, 1);
  EXPECT_EQ(run.wrong, 1);
  EXPECT_GT(run.token, 0);
  EXPECT_GT(run.kl.value(), 0);
  EXPECT_LT(run.work.flops, 0.1 * log.baseline(1)->work.flops);
}

}  // namespace
}  // namespace lacuna::tuning_runs_test
