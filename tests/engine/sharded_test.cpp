// The engine on models over several ranks: every paradigm, cache, lock and sparse policy writes what it
// writes on one, with several requests at once that share prefixes.
#include "backend/sharded.h"

#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "options/choose.h"

namespace lacuna::sharded_test {
namespace {

using Canvases = std::vector<std::vector<TokenId>>;

GenerationOptions sampled() {
  GenerationOptions options;
  options.gen_length = 16;
  options.temperature = 0.8;
  options.seed = 5;
  return options;
}

/// Three requests, two of which share a prefix.
Canvases run(const std::shared_ptr<const BackendModel>& model, GenerationOptions options) {
  Engine engine(model, 2);
  engine.share_prefixes(1 << 24);
  for (const uint64_t text : {1, 2, 1}) {
    options.seed = *options.seed + 1;
    const int32_t length = model->config().denoises_whole_canvas() ? 40 : 70;  // of more than a page of cells
    engine.add(make_decoder(model->config(), options, random_tokens(text, length, 80)));
  }
  engine.run();
  Canvases canvases;
  for (size_t i = 0; i < 3; ++i) {
    canvases.emplace_back(engine.decoder(i).canvas().begin(), engine.decoder(i).canvas().end());
  }
  return canvases;
}

void expect_same(const ModelConfig& config, const GenerationOptions& options, const std::string& name,
                 const std::vector<int>& rank_counts) {
  ThreadPool threads(1);
  for (const ShardBy by : kAllWaysToShard) {
    for (const int ranks : rank_counts) {
      const ModelConfig wanted = with_layers_for(config, by, ranks);
      const Canvases expected = run(on_cpu(tiny_model(wanted), default_table(), threads), options);
      ShardedOverThreads sharded(wanted, by, ranks);
      EXPECT_EQ(run(sharded.model(), options), expected)
          << name << " by " << static_cast<int>(by) << ", " << ranks << " ranks";
      EXPECT_EQ(sharded.stop(), "") << name;
    }
  }
}

TEST(ShardedEngine, WritesWhatOneProcessWritesInEveryParadigm) {
  for (const ModelConfig& config : tiny_configs_of_all_kinds()) {
    GenerationOptions options = sampled();
    if (config.canvas) options.temperature = 1;  // it has a schedule of its own
    expect_same(config, options, std::string(config.family), {3});
  }
}

TEST(ShardedEngine, WritesWhatOneProcessWritesWithLocksGuidanceCachesAndSparseAttention) {
  GenerationOptions options = sampled();
  options.cfg_scale = 1.5;
  options.lock = "eps=1e-3,gate=50";
  expect_same(tiny_configs()[0], options, "locked and guided", {3});
  options = sampled();
  options.cache = "dual";
  options.block_length = 8;
  expect_same(tiny_configs()[0], options, "dual cache", {2, 4});
  options.cache = "sparse-dllm=0.2";
  expect_same(tiny_configs()[0], options, "sparse cache", {2, 4});
  options.cache = "d2cache";
  EXPECT_THROW(expect_same(tiny_configs()[0], options, "d2cache", {2}), InputError);
  options = sampled();
  options.cache = "uniform";
  options.drift = "tau=1e-6,page=4,budget=8";
  expect_same(tiny_gidd_config(1000), options, "uniform cache", {2, 3});
  for (const char* sparse : {"mage=8,dense-layers=1", "quest=8,page=4", "sparsed=8,exact=0.1"}) {
    options = sampled();
    options.sparse = sparse;
    expect_same(tiny_block_config(4), options, sparse, {2, 3});
  }
  options.sparse = "flashblock=2";
  EXPECT_THROW(expect_same(tiny_block_config(4), options, "flashblock", {2}), InputError);
}

}  // namespace
}  // namespace lacuna::sharded_test
