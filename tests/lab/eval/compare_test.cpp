#include "eval/compare.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "backend/cpu/cpu_backend.h"
#include "kernels/dispatch.h"

namespace lacuna::compare_test {
namespace {

class CompareMiniModels : public testing::Test {
 protected:
  std::filesystem::path folder_ = std::filesystem::path(LACUNA_SOURCE_DIR) / "models/mini-llada";
  ThreadPool threads_{2};
  Tokenizer tokenizer_ = Tokenizer::load(folder_);
  EvaluatedModel model_{on_cpu(Model::load(folder_, DType::kF32, threads_), default_table(), threads_),
                        tokenizer_, load_chat_template(folder_)};
};

TEST_F(CompareMiniModels, FindsNoDifferenceBetweenASettingAndItself) {
  GenerationOptions plain;
  plain.gen_length = 16;
  plain.block_length = 8;
  GenerationOptions refreshed = plain;
  refreshed.cache = "dual";
  refreshed.refresh = 1;
  const Comparison same =
      compare({model_, plain}, {model_, refreshed},
              {.task = "stories", .task_options = {}, .samples = 5, .batch = 2, .seed = 3});
  EXPECT_EQ(same.same_tokens.successes, 5 * 16);
  EXPECT_EQ(same.same_tokens.trials, 5 * 16);
  EXPECT_EQ(same.same_texts.successes, 5);
  EXPECT_EQ(same.only_a_correct + same.only_b_correct, 0);
  EXPECT_EQ(same.kl_positions, 5 * 16);
  EXPECT_EQ(same.kl_max, 0);
  EXPECT_EQ(same.a.cost.rows, same.b.cost.rows);
  EXPECT_EQ(same.a.records.size(), 5U);
}

TEST(Comparison, TellsASpeedFromTheNoiseOfBatches) {
  Comparison comparison;
  const auto with_times = [&](std::vector<double> a, std::vector<double> b) {
    comparison.a.batch_seconds = std::move(a);
    comparison.b.batch_seconds = std::move(b);
    return comparison.has_speed_difference();
  };
  comparison.a.cost.rows = comparison.b.cost.rows = 100;
  EXPECT_FALSE(with_times({1, 1.1, 0.9}, {0.95, 1.15, 0.9}));
  EXPECT_TRUE(with_times({1, 1.1, 0.9}, {0.5, 0.6, 0.4}));
  EXPECT_TRUE(with_times({1, 1.1, 0.9}, {2, 2.2, 1.9}));
  EXPECT_FALSE(with_times({1}, {0.5}));  // too few batches, and the same work
  EXPECT_FALSE(comparison.time_ratio().has_value());
  comparison.b.cost.rows = 50;
  EXPECT_TRUE(with_times({1}, {0.5}));
  EXPECT_FALSE(with_times({1, 1.1, 0.9}, {0.95, 1.15, 0.9}));
  EXPECT_FALSE(to_json(comparison)["b_over_a"]["differs_in_speed"].get<bool>());
}

TEST_F(CompareMiniModels, FindsTheOutputsOfBlocksBehindRowsThatGiveKvAlone) {
  // The prompt's whole blocks and finished ones are read for their K/V, in passes with rows of the next
  // block.
  const auto folder = folder_.parent_path() / "mini-sdar";
  const Tokenizer tokenizer = Tokenizer::load(folder);
  const EvaluatedModel blocks{on_cpu(Model::load(folder, DType::kF32, threads_), default_table(), threads_),
                              tokenizer, load_chat_template(folder)};
  GenerationOptions fused, apart;
  apart.commit = "apart";
  const Comparison same = compare({blocks, fused}, {blocks, apart},
                                  {.task = "arithmetic", .task_options = {}, .samples = 3, .batch = 2});
  EXPECT_EQ(same.same_texts.successes, 3);
  EXPECT_GT(same.kl_positions, 3 * 8);
  EXPECT_EQ(same.kl_max, 0);
}

TEST_F(CompareMiniModels, MeasuresWhatALockChanges) {
  GenerationOptions plain;
  plain.gen_length = 16;
  GenerationOptions locked = plain;
  locked.lock = "eps=1e5,gate=off,min-age=1";
  const Comparison found = compare({model_, plain}, {model_, locked},
                                   {.task = "stories", .task_options = {}, .samples = 4, .batch = 4});
  EXPECT_LT(found.b.cost.rows, found.a.cost.rows);
  EXPECT_GT(found.kl_mean, 0);
  EXPECT_GE(found.kl_max, found.kl_mean);
  const nlohmann::ordered_json json = to_json(found);
  EXPECT_LT(json["b_over_a"]["rows"], 1);
  EXPECT_EQ(json["same_texts"]["of"], 4);
  EXPECT_EQ(json["a"]["accuracy"]["of"], 4);
}

TEST_F(CompareMiniModels, ChoosesTheSamplesThatEvaluateChooses) {
  GenerationOptions plain;
  plain.gen_length = 16;
  const Comparison found =
      compare({model_, plain}, {model_, plain},
              {.task = "arithmetic", .task_options = {}, .samples = 3, .batch = 2, .seed = 9});
  EvaluationSettings settings;
  settings.samples = 3;
  settings.generation = plain;
  settings.generation.seed = 9;
  const Evaluation evaluation = evaluate(model_, settings);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(found.a.records[i].result.tokens, evaluation.records[i].result.tokens);
  }
}

TEST_F(CompareMiniModels, ChangesNoAnswerByLookingAtOutputs) {
  for (const char* const name : {"mini-gidd", "mini-llada2", "mini-refusion"}) {
    const auto folder = folder_.parent_path() / name;
    const Tokenizer tokenizer = Tokenizer::load(folder);
    const EvaluatedModel model{on_cpu(Model::load(folder, DType::kF32, threads_), default_table(), threads_),
                               tokenizer, load_chat_template(folder)};
    const Comparison found =
        compare({model, {}}, {model, {}}, {.task = "arithmetic", .task_options = {}, .samples = 1});
    EvaluationSettings settings;
    settings.samples = 1;
    EXPECT_EQ(found.a.records[0].result.tokens, evaluate(model, settings).records[0].result.tokens) << name;
  }
}

}  // namespace
}  // namespace lacuna::compare_test
