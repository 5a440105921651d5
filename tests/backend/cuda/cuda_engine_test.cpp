// Whole requests on the simulator of CUDA threads, several at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "cuda_models.h"
#include "engine/engine.h"
#include "engine/inference_session.h"
#include "options/choose.h"

namespace lacuna::cuda::cuda_engine_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Canvases = std::vector<std::vector<TokenId>>;

GenerationOptions options_of(double temperature) {
  GenerationOptions options;
  options.gen_length = 4;
  options.temperature = temperature;
  options.seed = 5;
  return options;
}

/// Requests of prompts of different lengths, `together` at a time.
Canvases run(const std::shared_ptr<const BackendModel>& model, GenerationOptions options, int32_t together,
             const StepObserver& observe = {}) {
  Engine engine(model, together);
  engine.share_prefixes(1 << 20);
  const int32_t lengths[] = {12, 9};
  const auto plain_tokens = std::min<int64_t>(80, model->config().vocab_size - 8);
  for (const int32_t length : lengths) {
    options.seed = *options.seed + 1;
    engine.add(make_decoder(model->config(), options, random_tokens(*options.seed, length, plain_tokens)));
  }
  engine.run(observe);
  Canvases canvases;
  for (size_t i = 0; i < std::size(lengths); ++i)
    canvases.emplace_back(engine.decoder(i).canvas().begin(), engine.decoder(i).canvas().end());
  return canvases;
}

TEST(CudaEngine, WritesForEachOfSeveralRequestsWhatItWritesForEachAlone) {
  for (const char* family : {"llada", "llada2", "llada2.2", "nemotron-labs-diffusion", "sdar"}) {
    const auto model = cuda_model(config_of(family));
    EXPECT_EQ(run(model, options_of(0.8), 2), run(model, options_of(0.8), 1)) << family;
  }
}

// With these seeds, the two largest logits of every position that is written differ by more than the two
// machines do: otherwise either token would be right. DiffusionGemma, whose passes read the probabilities of
// the pass before, amplifies roundings: with each of the seeds 5 to 16 the CPU's own text in bf16 differs
// from its text in f32, in 2 to 7 of 29 tokens, and the device's in 2 to 8.
TEST(CudaEngine, WritesTheCpusGreedyTokens) {
  for (const ModelConfig& config : supported_configs()) {
    if (config.noise) continue;  // whole contexts of hundreds of positions
    GenerationOptions options = options_of(0);
    if (config.canvas) options.seed = 15;
    EXPECT_EQ(run(cuda_model(config), options, 2), run(cpu_model(config), options, 2)) << config.architecture;
  }
}

TEST(CudaEngine, LocksRowsAndGuidesThem) {
  const auto model = cuda_model(config_of("llada"));
  const auto cpu = cpu_model(config_of("llada"));
  GenerationOptions options = options_of(0);
  options.cfg_scale = 1.5;
  options.lock = "eps=1e-3,gate=50";
  EXPECT_EQ(run(model, options, 2), run(cpu, options, 2));
}

// Greedy tokens agree with these seeds, whose two largest logits differ by more than the machines do.
TEST(CudaEngine, WritesTheGreedyTokensOfTheWeightsThatFp8StandsFor) {
  WeightFormats formats = bf16_with_layers("fp8");
  formats.embedding = formats.layers;
  for (const char* family : {"llada", "sdar", "llada2"}) {
    const ModelConfig config = config_of(family);
    const auto model = cuda_model(config, formats);
    const Canvases together = run(model, options_of(0), 2);
    EXPECT_EQ(together, run(model, options_of(0), 1)) << family;
    EXPECT_EQ(together, run(expanded_cpu_model(config, formats), options_of(0), 2)) << family;
  }
}

/// By name of the cache's and the rows' formats.
WeightFormats formats_of(DType dtype, bool kv_int8) {
  WeightFormats formats = dtype;
  formats.kv_int8 = kv_int8;
  return formats;
}

// In f32, no seeds have to be looked for.
TEST(CudaEngine, WritesTheCpusGreedyTokensInF32) {
  for (const ModelConfig& config : supported_configs()) {
    if (config.noise) continue;  // whole contexts of hundreds of positions
    for (const bool kv_int8 : {false, true}) {
      const WeightFormats formats = formats_of(DType::kF32, kv_int8);
      const auto cpu = load_on_cpu(one_thread(), {}, config, formats, kWeightSeed, {});
      EXPECT_EQ(run(cuda_model(config, formats), options_of(0), 2), run(cpu, options_of(0), 2))
          << config.architecture << (kv_int8 ? ", int8 keys and values" : "");
    }
  }
}

/// The same model in f32 on both.
struct BothMachines {
  std::shared_ptr<const BackendModel> cpu, cuda;

  explicit BothMachines(const ModelConfig& config)
      : cpu(cpu_model(config, DType::kF32)), cuda(cuda_model(config, DType::kF32)) {}

  /// The canvases that both write, whether requests share passes or not.
  Canvases run_all(const GenerationOptions& options, const std::string& name,
                   const StepObserver& observe = {}) const {
    Canvases together = run(cuda, options, 2, observe);
    EXPECT_EQ(together, run(cpu, options, 2)) << name;
    EXPECT_EQ(together, run(cuda, options, 1)) << name;
    return together;
  }
};

TEST(CudaEngine, WritesTheCpusTokensInEveryModeOfNemotronLabs) {
  const BothMachines blocks(config_of("nemotron-labs-diffusion"));
  const BothMachines causal(config_of("nemotron-causal"));
  GenerationOptions options = options_of(0);
  options.gen_length = 12;  // two blocks
  const Canvases from_left = causal.run_all(options, "from left to right");
  const Canvases denoised = blocks.run_all(options, "blocks");
  EXPECT_NE(denoised, from_left);
  options.accept = "exact";
  EXPECT_EQ(blocks.run_all(options, "self-speculation"), from_left);
  options.unmask = "low-confidence";
  options.steps = 3;
  EXPECT_EQ(blocks.run_all(options, "drafts in three steps"), from_left);
}

/// Vocabularies in which DELETE and SPLIT are often the best token.
ModelConfig few_tokens() {
  ModelConfig config = config_of("llada2.2");
  config.vocab_size = 20;
  config.mask_id = 14;
  config.delete_id = 15;
  config.split_id = 16;
  config.eos_id = 17;
  config.end_ids = {17};
  return config;
}

/// Counts the positions that a pass turns back into masks: DELETE leaves them at the end of the block, SPLIT
/// in the place of the token that it moves.
struct EditCounts {
  TokenId mask_id = 0;
  int64_t deleted = 0, split = 0;
  std::map<size_t, std::vector<TokenId>> canvases = {};

  void see(const StepEvent& event) {
    const std::span<const TokenId> now = event.decoder.canvas();
    std::vector<TokenId>& before = canvases[event.request];
    for (size_t i = 0; i + 1 < std::min(now.size(), before.size()); ++i) {
      if (now[i] != mask_id || before[i] == mask_id) continue;
      ++(now[i + 1] == before[i] ? split : deleted);
    }
    before.assign(now.begin(), now.end());
  }
};

TEST(CudaEngine, DeletesAndSplitsTokensAsTheCpuDoes) {
  const BothMachines machines(few_tokens());
  GenerationOptions options = options_of(0);
  options.gen_length = 12;
  EditCounts counts{.mask_id = few_tokens().mask_id};
  const auto run_all = [&](int32_t block_length, const char* edit) {
    options.block_length = block_length;
    options.edit = edit;
    counts.canvases.clear();
    machines.run_all(options, edit, [&](const StepEvent& event) { counts.see(event); });
  };
  run_all(8, "tau=0,most=6");
  run_all(16, "tau=0.1,most=3");  // two windows in a block
  EXPECT_GT(counts.deleted, 0);
  EXPECT_GT(counts.split, 0);
}

TEST(CudaEngine, WritesTheCpusTokensWhereAttentionIsSparse) {
  ModelConfig config = config_of("sdar");
  config.num_layers = 4;
  const WeightFormats formats = formats_of(DType::kF32, false);
  const auto cpu = load_on_cpu(one_thread(), {}, config, formats, kWeightSeed, {});
  const auto cuda = cuda_model(config, formats);
  GenerationOptions options = options_of(0);
  options.gen_length = 8;
  for (const char* sparse : {"mage=6,dense-layers=1", "quest=8,page=4", "sparsed=6,exact=0.3"}) {
    options.sparse = sparse;
    const Canvases together = run(cuda, options, 2);
    EXPECT_EQ(together, run(cpu, options, 2)) << sparse;
    EXPECT_EQ(together, run(cuda, options, 1)) << sparse;
  }
}

TEST(CudaEngine, WritesTheCpusTokensWhereACacheKeepsAShareOfTheCells) {
  const ModelConfig config = config_of("llada");
  const WeightFormats formats = formats_of(DType::kF32, false);
  const auto cpu = load_on_cpu(one_thread(), {}, config, formats, kWeightSeed, {});
  const auto cuda = cuda_model(config, formats);
  GenerationOptions options = options_of(0);
  options.gen_length = 12;
  options.block_length = 6;
  for (const char* cache : {"sparse-dllm=0.1", "sparse-dllm=0.3,pool=1"}) {
    options.cache = cache;
    const Canvases together = run(cuda, options, 2);
    EXPECT_EQ(together, run(cpu, options, 2)) << cache;
    EXPECT_EQ(together, run(cuda, options, 1)) << cache;
  }
}

TEST(CudaEngine, RefusesRequestsThatTheDeviceHasNoRoomFor) {
  ModelConfig config = config_of("sdar");
  config.num_layers = 4;
  Engine small(cuda_model(config, DType::kBF16, 100000));
  EXPECT_THAT([&] { small.add(make_decoder(config, options_of(0), random_tokens(1, 400, 80))); },
              ThrowsMessage<InputError>(HasSubstr("needs 416.0 KiB of keys and values, and the device has")));
}

}  // namespace
}  // namespace lacuna::cuda::cuda_engine_test
