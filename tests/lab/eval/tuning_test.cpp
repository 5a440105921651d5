#include "eval/tuning.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "engine/tuned_formats.h"
#include "kernels/dispatch.h"
#include "temporary_folder.h"

namespace lacuna::tuning_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(SplitPrompts, GivesAQuarterToTheRaceWhereThereAreEnough) {
  const PromptSplit split = split_prompts({LossKind::kBinary, 0.02, 0.9}, 1000);
  EXPECT_EQ(split.race, 250);
  EXPECT_EQ(split.certification, 750);
  EXPECT_EQ(split.chains, 2);
}

TEST(SplitPrompts, LeavesCertificationWhatItNeeds) {
  const PromptSplit split = split_prompts({LossKind::kBinary, 0.02, 0.9}, 114 + 8);
  EXPECT_EQ(split.race, 8);
  EXPECT_EQ(split.certification, 114);
  EXPECT_EQ(split.chains, 1);
}

TEST(SplitPrompts, SaysHowManyPromptsAPromiseNeeds) {
  EXPECT_THAT(([] {
                split_prompts({LossKind::kBinary, 0.02, 0.9}, 60);
              }),
              ThrowsMessage<InputError>(AllOf(HasSubstr("at least 122 prompts"), HasSubstr("found 60"),
                                              HasSubstr("smallest risk is 0.044"))));
}

TEST(UsualPrompts, SufficeForThePromise) {
  for (const double risk : {0.5, 0.1, 0.02, 0.001}) {
    const Promise promise{LossKind::kBinary, risk, 0.95};
    EXPECT_EQ(split_prompts(promise, std::max<int32_t>(usual_prompts(promise), 16)).chains, 2);
  }
}

/// mini-llada on stories of the task arithmetic.
class TuneMiniModel : public testing::Test {
 protected:
  TuneMiniModel() {
    const Task& task = find_task("arithmetic");
    for (uint64_t i = 0; i < 40; ++i) {
      Sample sample = task.generate(Split::kTest, 0, i);
      std::vector<Message> messages = messages_of(sample);
      prompts_.push_back({std::move(messages), std::move(sample)});
    }
    plan_.promise = {LossKind::kBinary, 0.15, 0.9};
    plan_.asked.gen_length = 32;
    plan_.prompts = 40;
    plan_.peaks = {8e11, 2e10};
    judge_.emplace(LACUNA_SOURCE_DIR "/models/mini-qwen",
                   TextModel{opened_.config(), opened_.tokenizer(), opened_.chat_template()}, "--judge");
    models_.load = [this](std::span<const TuningSetting> loading) {
      ++num_loaded_;
      return InferenceSession::Parts{
          load(folder_, weight_formats(with_formats(formats_, loading), opened_.source()))};
    };
    models_.judge = &judge_->guide;
    models_.judge_model = load(judge_->model, DType::kF32);
  }

  std::shared_ptr<const BackendModel> load(const std::string& folder, const WeightFormats& formats) {
    return on_cpu(Model::load(folder, formats, threads_), default_table(), threads_);
  }

  void use_methods(const std::vector<std::string>& methods) {
    plan_.paths = tuning_paths(opened_.config(), plan_.asked, false);
    for (TuningPath& path : format_paths(formats_, opened_.source(), nullptr)) {
      plan_.paths.push_back(std::move(path));
    }
    std::erase_if(plan_.paths, [&](const TuningPath& path) {
      return std::find(methods.begin(), methods.end(), path.method) == methods.end();
    });
  }

  TuningResult run(const std::filesystem::path& file, int32_t batch = 8) {
    plan_.promise.kind = kind_of(plan_.loss);
    TuningLog log(file, plan_.prompts);
    TuningRuns runs(opened_, models_, prompts_, find_task("arithmetic").check, batch, plan_.loss, log);
    return tune(plan_, runs, log);
  }

  static std::string text_of(const std::filesystem::path& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  std::string folder_ = LACUNA_SOURCE_DIR "/models/mini-llada";
  ThreadPool threads_{2};
  OpenedModel opened_{"mini-llada", find_model(folder_)};
  FormatNames formats_{.dtype = "f32"};
  std::optional<GuideSource> judge_;
  TuningModels models_;
  int num_loaded_ = 0;
  std::vector<TuningPrompt> prompts_;
  TuningPlan plan_;
  TemporaryFolder files_;
};

void expect_same(const TuningResult& a, const TuningResult& b) {
  EXPECT_EQ(a.chosen, b.chosen);
  EXPECT_EQ(a.num_raced, b.num_raced);
  EXPECT_EQ(a.budget_spent, b.budget_spent);
  ASSERT_EQ(a.tested.size(), b.tested.size());
  for (size_t i = 0; i < a.tested.size(); ++i) {
    EXPECT_EQ(a.tested[i].settings, b.tested[i].settings);
    EXPECT_EQ(a.tested[i].sum, b.tested[i].sum);
    EXPECT_EQ(a.tested[i].p_value, b.tested[i].p_value);
    EXPECT_EQ(a.tested[i].certified, b.tested[i].certified);
    EXPECT_EQ(a.tested[i].ratios.predicted, b.tested[i].ratios.predicted);
    EXPECT_EQ(a.tested[i].ratios.flops, b.tested[i].ratios.flops);
    EXPECT_EQ(a.tested[i].ratios.rows, b.tested[i].ratios.rows);
  }
}

TEST_F(TuneMiniModel, FindsASettingThatSavesWorkAndKeepsThePromise) {
  use_methods({"unmask", "cache"});
  const TuningResult result = run({});
  ASSERT_TRUE(result.chosen);
  const TunedCandidate& chosen = result.tested[*result.chosen];
  EXPECT_TRUE(chosen.certified);
  EXPECT_EQ(chosen.sum.prompts, result.split.certification);
  EXPECT_LE(chosen.bound, 0.15);
  EXPECT_LT(chosen.ratios.flops, 0.2);
  EXPECT_EQ(result.num_correct, 40);
  for (const TunedCandidate& other : result.tested) {
    if (other.certified) {
      EXPECT_LE(chosen.ratios.predicted, other.ratios.predicted);
    }
  }
}

TEST_F(TuneMiniModel, NeverCertifiesAMethodThatIsBroken) {
  plan_.paths = {{"steps", "steps", {{{"steps", "1"}}}}};  // the whole answer in one pass, blindly
  for (const TuningLoss loss : {TuningLoss::kChangedAnswer, TuningLoss::kWrongAnswer, TuningLoss::kToken,
                                TuningLoss::kKl, TuningLoss::kJudge}) {
    plan_.loss = loss;
    const TuningResult result = run({});
    EXPECT_FALSE(result.chosen) << name_of(loss);
  }
}

TEST_F(TuneMiniModel, ExactMethodsHaveNoLossOfAnyKind) {
  plan_.paths = {{"eos-exit", "eos-exit", {{{"block-length", "8"}, {"eos-exit", ""}}}}};
  plan_.asked.block_length = 8;
  plan_.promise.risk = 0.3;
  plan_.prompts = 16;
  for (const TuningLoss loss : {TuningLoss::kChangedAnswer, TuningLoss::kWrongAnswer, TuningLoss::kToken,
                                TuningLoss::kKl, TuningLoss::kJudge}) {
    plan_.loss = loss;
    const TuningResult result = run({});
    ASSERT_EQ(result.tested.size(), 1U) << name_of(loss);
    EXPECT_EQ(result.tested.front().sum.losses, 0) << name_of(loss);
    EXPECT_TRUE(result.chosen) << name_of(loss);
  }
}

TEST_F(TuneMiniModel, ContinuesAnInterruptedTuningToTheSameResult) {
  use_methods({"unmask", "lock"});
  const std::filesystem::path whole = files_.path() / "whole.jsonl";
  const TuningResult expected = run(whole);
  const std::string log = text_of(whole);
  for (const double share : {0.1, 0.5, 0.9}) {  // cut where a process may be killed, within a line as well
    const std::string name = std::to_string(share) + ".jsonl";
    files_.write(name, log.substr(0, static_cast<size_t>(share * static_cast<double>(log.size()))));
    expect_same(run(files_.path() / name, 3), expected);
  }
}

TEST_F(TuneMiniModel, FormatsCountByWhatTheyRead) {
  use_methods({"weights"});
  plan_.promise.risk = 0.3;
  plan_.peaks = {8e11, 1e9};  // reading takes nearly all of the time
  const TuningResult slow_memory = run({});
  ASSERT_TRUE(slow_memory.chosen);
  const TunedCandidate& chosen = slow_memory.tested[*slow_memory.chosen];
  EXPECT_EQ(chosen.settings.front().name, "weights");
  EXPECT_EQ(chosen.ratios.flops, 1);
  EXPECT_LT(chosen.ratios.predicted, 0.6);
  plan_.peaks = {8e11, 1e18};
  EXPECT_TRUE(run({}).tested.empty());
}

TEST_F(TuneMiniModel, ContinuesInOtherFormatsToTheSameResult) {
  use_methods({"unmask", "weights", "kv"});
  // Two rules, with which some of the fastest candidates are formats.
  std::erase_if(plan_.paths, [](const TuningPath& path) {
    return path.method == "unmask" && path.name != "unmask threshold" && path.name != "unmask factor";
  });
  plan_.loss = TuningLoss::kKl;
  const std::filesystem::path whole = files_.path() / "whole.jsonl";
  const TuningResult expected = run(whole);
  EXPECT_TRUE(std::any_of(expected.tested.begin(), expected.tested.end(), [&](const TunedCandidate& each) {
    return !loading_of(plan_.paths, each.levels).empty();
  }));
  const std::string log = text_of(whole);
  files_.write("cut.jsonl", log.substr(0, log.size() / 2));
  expect_same(run(files_.path() / "cut.jsonl", 3), expected);
  num_loaded_ = 0;
  expect_same(run(whole), expected);
  EXPECT_EQ(num_loaded_, 0);  // nothing is left to run
}

TEST_F(TuneMiniModel, RunsNothingTwice) {
  use_methods({"unmask"});
  const std::filesystem::path file = files_.path() / "log.jsonl";
  const TuningResult first = run(file);
  const std::string log = text_of(file);
  expect_same(run(file), first);
  EXPECT_EQ(text_of(file), log);
}

TEST_F(TuneMiniModel, ABudgetIsOfCountedWork) {
  use_methods({"unmask", "cache", "lock"});
  const std::filesystem::path file = files_.path() / "log.jsonl";
  {
    TuningLog log(file, plan_.prompts);
    log.set_speed(1e9);
  }
  const TuningResult free = run({});
  plan_.budget_seconds = 1.6 * 40 * free.baseline_flops / 1e9;
  const TuningResult first = run(file);
  EXPECT_TRUE(first.budget_spent);
  EXPECT_LT(first.split.race + first.split.certification, 30);
  expect_same(run(file), first);
}

TEST_F(TuneMiniModel, SaysWhichBudgetThePromiseNeeds) {
  use_methods({"unmask"});
  plan_.budget_seconds = 1e-6;
  EXPECT_THAT([this] { run({}); },
              ThrowsMessage<InputError>(
                  AllOf(HasSubstr("--budget allows the baseline on 0 prompts"), HasSubstr("needs 23"))));
}

}  // namespace
}  // namespace lacuna::tuning_test
