// Whole requests on the simulator of CUDA threads, several at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

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
Canvases run(const std::shared_ptr<const BackendModel>& model, GenerationOptions options, int32_t together) {
  Engine engine(model, together);
  engine.share_prefixes(1 << 20);
  const int32_t lengths[] = {12, 9};
  for (const int32_t length : lengths) {
    options.seed = *options.seed + 1;
    engine.add(make_decoder(model->config(), options, random_tokens(*options.seed, length, 80)));
  }
  engine.run();
  Canvases canvases;
  for (size_t i = 0; i < std::size(lengths); ++i)
    canvases.emplace_back(engine.decoder(i).canvas().begin(), engine.decoder(i).canvas().end());
  return canvases;
}

TEST(CudaEngine, WritesForEachOfSeveralRequestsWhatItWritesForEachAlone) {
  for (const char* family : {"llada", "llada2", "sdar"}) {
    const auto model = cuda_model(config_of(family));
    EXPECT_EQ(run(model, options_of(0.8), 2), run(model, options_of(0.8), 1)) << family;
  }
}

// With these seeds, the two largest logits of every position that is written differ by more than the two
// machines do: otherwise either token would be right.
TEST(CudaEngine, WritesTheCpusGreedyTokens) {
  for (const ModelConfig& config : supported_configs()) {
    if (config.noise) continue;  // whole contexts of hundreds of positions
    EXPECT_EQ(run(cuda_model(config), options_of(0), 2), run(cpu_model(config), options_of(0), 2))
        << config.family;
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
WeightFormats formats_of(DType dtype, bool kv_in_codes) {
  WeightFormats formats = dtype;
  formats.kv_in_codes = kv_in_codes;
  return formats;
}

// In f32, no seeds have to be looked for.
TEST(CudaEngine, WritesTheCpusGreedyTokensInF32) {
  for (const ModelConfig& config : supported_configs()) {
    if (config.noise) continue;  // whole contexts of hundreds of positions
    for (const bool kv_in_codes : {false, true}) {
      const WeightFormats formats = formats_of(DType::kF32, kv_in_codes);
      const auto cpu = load_on_cpu(one_thread(), {}, config, formats, kWeightSeed, {});
      EXPECT_EQ(run(cuda_model(config, formats), options_of(0), 2), run(cpu, options_of(0), 2))
          << config.family << (kv_in_codes ? ", int8 keys and values" : "");
    }
  }
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

TEST(CudaEngine, RefusesRequestsThatTheDeviceHasNoRoomFor) {
  ModelConfig config = config_of("sdar");
  config.num_layers = 4;
  Engine small(cuda_model(config, DType::kBF16, 100000));
  EXPECT_THAT([&] { small.add(make_decoder(config, options_of(0), random_tokens(1, 400, 80))); },
              ThrowsMessage<InputError>(HasSubstr("needs 416.0 KiB of keys and values, and the device has")));
}

}  // namespace
}  // namespace lacuna::cuda::cuda_engine_test
