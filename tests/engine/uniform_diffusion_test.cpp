// Uniform diffusion and its caches, on models with random weights: each shortcut that is exact compared with
// the plain way, bit for bit.
#include "decode/uniform_diffusion.h"

#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "engine/engine.h"
#include "model/locate.h"
#include "model/tiny_models.h"
#include "options/choose.h"

namespace lacuna::uniform_diffusion_test {
namespace {

using testing::ElementsAre;
using testing::Gt;
using testing::IsEmpty;
using testing::Lt;
using testing::Not;

constexpr int32_t kContext = 60;

std::shared_ptr<const Model> gidd(ThreadPool& threads, float uniform_shift, DType dtype = DType::kF32) {
  return Model::random(tiny_gidd_config(uniform_shift, kContext), 3, dtype, threads);
}

GenerationOptions plain_options() {
  GenerationOptions options;
  options.gen_length = 21;
  options.block_length = 8;
  options.steps = 6;
  options.ignore_eos = true;
  return options;
}

struct Decoding {
  std::vector<TokenId> canvas;
  std::vector<std::vector<int32_t>> rows;  // positions of each pass
  std::vector<std::vector<Commit>> committed;
  int64_t num_rows = 0;
  StopReason stop_reason = StopReason::kLength;
};

std::vector<Decoding> decode_all(const std::shared_ptr<const Model>& model, ThreadPool& threads,
                                 const std::vector<std::vector<TokenId>>& prompts,
                                 const std::vector<GenerationOptions>& options) {
  Engine engine(on_cpu(model, default_table(), threads), static_cast<int32_t>(prompts.size()));
  for (size_t i = 0; i < prompts.size(); ++i) {
    engine.add(make_decoder(model->config(), options[i], prompts[i]));
  }
  std::vector<Decoding> runs(prompts.size());
  engine.run([&](const StepEvent& event) {
    Decoding& run = runs[event.request];
    run.rows.push_back(event.plan.positions);
    run.committed.push_back(event.report.committed);
    run.num_rows += event.plan.num_rows();
  });
  for (size_t i = 0; i < prompts.size(); ++i) {
    const std::span<const TokenId> canvas = engine.decoder(i).canvas();
    runs[i].canvas.assign(canvas.begin(), canvas.end());
    runs[i].stop_reason = engine.decoder(i).stop_reason();
  }
  return runs;
}

Decoding decode(const std::shared_ptr<const Model>& model, ThreadPool& threads,
                const GenerationOptions& options, const std::vector<TokenId>& prompt = {1, 2, 3, 4, 5}) {
  return decode_all(model, threads, {prompt}, {options}).front();
}

std::vector<int32_t> range(int32_t begin, int32_t end) {
  std::vector<int32_t> positions;
  for (int32_t position = begin; position < end; ++position) positions.push_back(position);
  return positions;
}

class UniformDiffusionOf : public testing::TestWithParam<std::tuple<float, DType>> {
 protected:
  ThreadPool threads_{2};
  std::shared_ptr<const Model> model_ = gidd(threads_, std::get<0>(GetParam()), std::get<1>(GetParam()));
};

TEST_P(UniformDiffusionOf, WritesTheSameWithAPrefixCacheAsWithoutAny) {
  for (const char* sampler : {"adaptive", "ancestral", "threshold=0.3"}) {
    for (const double temperature : {0.0, 0.8}) {
      GenerationOptions options = plain_options();
      options.sampler = sampler;
      options.temperature = temperature;
      const Decoding plain = decode(model_, threads_, options);
      options.cache = "prefix";
      const Decoding cached = decode(model_, threads_, options);
      EXPECT_EQ(cached.canvas, plain.canvas) << sampler << temperature;
      EXPECT_EQ(cached.committed, plain.committed) << sampler << temperature;
      EXPECT_LT(cached.num_rows, plain.num_rows);
    }
  }
}

TEST_P(UniformDiffusionOf, WritesTheSameWhicheverExactShortcutsAreTaken) {
  for (const char* cache : {"none", "prefix", "uniform"}) {
    GenerationOptions options = plain_options();
    options.steps = 40;  // so that blocks reach their fixed points
    options.cache = cache;
    const Decoding quick = decode(model_, threads_, options);
    options.block_exit = "steps";
    options.last_layer = "all";
    const Decoding thorough = decode(model_, threads_, options);
    EXPECT_EQ(quick.canvas, thorough.canvas) << cache;
    EXPECT_EQ(thorough.rows.size(), 3 * 40) << cache;
  }
}

TEST_P(UniformDiffusionOf, GivesARequestTheSameTextAloneAndInABatch) {
  std::vector<std::vector<TokenId>> prompts;
  std::vector<GenerationOptions> options;
  for (const char* cache : {"none", "prefix", "uniform"}) {
    for (const char* sampler : {"adaptive", "ancestral", "threshold=0.3"}) {
      GenerationOptions each = plain_options();
      each.cache = cache;
      each.sampler = sampler;
      each.temperature = 0.5;
      each.seed = prompts.size();
      each.steps = 3 + static_cast<int32_t>(prompts.size());
      options.push_back(each);
      prompts.push_back(random_tokens(prompts.size(), 2 + static_cast<int32_t>(prompts.size()), 80));
    }
  }
  ThreadPool more_threads(3);
  const std::vector<Decoding> together = decode_all(model_, more_threads, prompts, options);
  for (size_t i = 0; i < prompts.size(); ++i) {
    const Decoding alone = decode(model_, threads_, options[i], prompts[i]);
    EXPECT_EQ(together[i].canvas, alone.canvas) << i;
    EXPECT_EQ(together[i].rows, alone.rows) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Noises, UniformDiffusionOf,
                         testing::Combine(testing::Values(1000.0F, -1000.0F, 0.0F),
                                          testing::Values(DType::kF32, DType::kBF16)));

class UniformDiffusionTest : public testing::Test {
 protected:
  ThreadPool threads_{2};
  std::shared_ptr<const Model> model_ = gidd(threads_, 1000);
};

// Algorithm 1 of the thesis: steps count from 1, absolute positions, no refresh in the last block.
TEST_F(UniformDiffusionTest, ComputesTheRowsOfAlgorithmOne) {
  GenerationOptions options = plain_options();
  options.steps = 5;
  options.cache = "uniform";
  options.refresh = 2;
  options.block_exit = "steps";
  const Decoding run = decode(model_, threads_, options);
  EXPECT_THAT(run.rows,
              ElementsAre(range(0, kContext), range(5, 21), range(5, 13), range(5, 21), range(5, 13),
                          range(0, kContext), range(13, 29), range(13, 21), range(13, 29), range(13, 21),
                          range(0, kContext), range(21, 29), range(21, 29), range(21, 29), range(21, 29)));
}

TEST_F(UniformDiffusionTest, NeverRefreshesWithAnIntervalOfZero) {
  GenerationOptions options = plain_options();
  options.cache = "uniform";
  options.refresh = 0;
  const Decoding run = decode(model_, threads_, options);
  for (const auto& rows : run.rows) EXPECT_TRUE(rows.size() == kContext || rows.size() == 8);
}

// With nothing after the next block, a refresh at every step leaves nothing stale.
TEST_F(UniformDiffusionTest, EqualsNoCacheWhereEverythingIsRefreshedAtEveryStep) {
  GenerationOptions options = plain_options();
  options.gen_length = 16;
  options.context = 21;
  const Decoding plain = decode(model_, threads_, options);
  options.cache = "uniform";
  options.refresh = 1;
  const Decoding cached = decode(model_, threads_, options);
  EXPECT_EQ(cached.canvas, plain.canvas);
  EXPECT_EQ(cached.committed, plain.committed);
  EXPECT_LT(cached.num_rows, plain.num_rows);
}

TEST_F(UniformDiffusionTest, ComputesOnlyTheBlocksAtABoundary) {
  GenerationOptions options = plain_options();
  options.steps = 2;
  options.cache = "uniform";
  options.refresh = 0;
  options.boundary = "blocks=3,full-every=2";
  options.block_exit = "steps";
  const Decoding run = decode(model_, threads_, options);
  EXPECT_THAT(run.rows, ElementsAre(range(0, kContext), range(5, 13),  //
                                    range(5, 29), range(13, 21),       //
                                    range(0, kContext), range(21, 29)));
}

TEST_F(UniformDiffusionTest, ComputesPagesAgainThatMoveFast) {
  GenerationOptions options = plain_options();
  options.cache = "uniform";
  options.drift = "tau=0,page=4,budget=8";
  options.context = 57;  // whole pages after each block
  options.block_exit = "steps";
  const Decoding run = decode(model_, threads_, options);
  EXPECT_EQ(run.rows[1].size(), 8) << "nothing is known in the first block";
  EXPECT_EQ(run.rows[7].size(), 16) << "the budget is spent where any drift is too much";
  options.drift = "tau=2";
  for (const auto& rows : decode(model_, threads_, options).rows) {
    EXPECT_TRUE(rows.size() == 57 || rows.size() == 8);
  }
}

TEST_F(UniformDiffusionTest, WritesNoEndTokenBeforeTheLeastLength) {
  GenerationOptions options = plain_options();
  options.ignore_eos = false;
  options.min_length = 21;
  const std::vector<TokenId>& ends = model_->config().end_ids;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    options.seed = seed;
    const Decoding run = decode(model_, threads_, options);
    EXPECT_EQ(run.canvas.size(), 26) << seed;
    for (const auto& committed : run.committed) {
      for (const Commit& commit : committed) EXPECT_THAT(ends, Not(testing::Contains(commit.token)));
    }
  }
}

TEST_F(UniformDiffusionTest, StopsAfterTheBlockThatEndsTheAnswer) {
  GenerationOptions options = plain_options();
  options.ignore_eos = false;
  bool has_stopped = false;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    options.seed = seed;
    options.temperature = 2;
    options.sampler = "ancestral";
    const Decoding run = decode(model_, threads_, options);
    if (run.stop_reason != StopReason::kEndToken) continue;
    has_stopped = has_stopped || run.canvas.size() < 26;
  }
  EXPECT_TRUE(has_stopped);
}

TEST_F(UniformDiffusionTest, BeginsWithNoiseThatHoldsNoSpecialTokens) {
  const ModelConfig& config = model_->config();
  GenerationOptions options = plain_options();
  const auto noise_of = [&](uint64_t seed) {
    options.seed = seed;
    const std::unique_ptr<Decoder> decoder = make_decoder(config, options, {1});
    return std::vector<TokenId>(decoder->canvas().begin(), decoder->canvas().end());
  };
  bool shows_special = false;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    options.noise = "safe";
    for (const TokenId token : noise_of(seed)) {
      EXPECT_NE(token, config.mask_id);
      EXPECT_THAT(config.end_ids, Not(testing::Contains(token)));
    }
    options.noise = "hub";
    for (const TokenId token : noise_of(seed)) shows_special = shows_special || token == config.mask_id;
  }
  EXPECT_TRUE(shows_special) << "the published noise may show the mask";
}

TEST_F(UniformDiffusionTest, CorrectsOneTokenAtATimeUntilPatienceEnds) {
  GenerationOptions options = plain_options();
  options.self_correct = "most=12,patience=3,temperature=0.5";
  const Decoding run = decode(model_, threads_, options);
  EXPECT_THAT(run.committed.back().size(), testing::Le(1));
  options.self_correct.reset();
  const Decoding written = decode(model_, threads_, options);
  EXPECT_THAT(run.rows.size(), Gt(written.rows.size()));
  EXPECT_NE(run.canvas, written.canvas);
}

TEST_F(UniformDiffusionTest, CorrectsFewerRowsBetweenFullPasses) {
  GenerationOptions options = plain_options();
  options.self_correct = "most=12,patience=12,temperature=0.5";
  const Decoding full = decode(model_, threads_, options);
  options.self_correct = "most=12,patience=12,temperature=0.5,full-every=4";
  EXPECT_THAT(decode(model_, threads_, options).num_rows, Lt(full.num_rows));
}

/// Clean rows see each other, noisy rows everything.
StepPlan structured_plan(const std::vector<TokenId>& tokens, int32_t clean) {
  StepPlan plan = canvas_plan(tokens, OwnRows::kNone);
  const auto rows = static_cast<int32_t>(tokens.size());
  plan.groups = {{0, {0, clean}, {{0, clean}}, OwnRows::kNone},
                 {0, {clean, rows}, {{0, rows}}, OwnRows::kNone}};
  return plan;
}

// EZ:notebooks/test_jax_inference.ipynb of dvruette/gidd-easydel: ids 0 to 7, the first four clean; the logit
// of each id at its own position, by JAX in highest precision. bf16 weights and activations differ by 0.2.
TEST(PublishedGidd, HasTheLogitsOfThePublishedNotebook) {
  std::filesystem::path folder;
  try {
    folder = locate_model("dvruette/gidd-unif-3b");
  } catch (const InputError&) {
    GTEST_SKIP() << "dvruette/gidd-unif-3b is not in the hub cache";
  }
  ThreadPool threads(2);
  Runner runner(Model::load(folder, DType::kBF16, threads), default_table(), 2);
  const std::vector<float> logits = runner.logits(structured_plan({0, 1, 2, 3, 4, 5, 6, 7}, 4));
  const std::vector<float> published = {-8.8125F, 3.84375F, -8.25F, 0, 11.875F, 10.3125F, 8, 3.5F};
  for (size_t i = 0; i < published.size(); ++i) {
    EXPECT_NEAR(logits[i * static_cast<size_t>(runner.vocab()) + i], published[i], 0.25) << i;
  }
}

}  // namespace
}  // namespace lacuna::uniform_diffusion_test
