// The engine on a device that shows nothing of its memory and gives results late: every paradigm writes what
// it writes on this machine, so nothing above the backend looks behind it.
#include "backend/fake_device.h"

#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "engine/engine.h"
#include "model/tiny_models.h"
#include "options/choose.h"

namespace lacuna::fake_device_test {
namespace {

using Canvases = std::vector<std::vector<TokenId>>;

GenerationOptions sampled(uint64_t seed) {
  GenerationOptions options;
  options.gen_length = 16;
  options.temperature = 0.8;
  options.seed = seed;
  return options;
}

/// Three requests, two of which share a prefix.
Canvases run(const std::shared_ptr<const BackendModel>& model, GenerationOptions options) {
  Engine engine(model, 2);
  engine.share_prefixes(1 << 24);
  for (const uint64_t text : {1, 2, 1}) {
    std::vector<TokenId> prompt = random_tokens(text, 40, 80);
    options.seed = *options.seed + 1;
    engine.add(make_decoder(model->config(), options, std::move(prompt)));
  }
  engine.run();
  Canvases canvases;
  for (size_t i = 0; i < 3; ++i) {
    canvases.emplace_back(engine.decoder(i).canvas().begin(), engine.decoder(i).canvas().end());
  }
  return canvases;
}

void expect_same(const ModelConfig& config, const GenerationOptions& options, const std::string& name) {
  ThreadPool threads(1);
  const auto cpu = on_cpu(tiny_model(config), default_table(), threads);
  const Canvases expected = run(cpu, options);
  EXPECT_EQ(run(std::make_shared<FakeDevice>(cpu), options), expected) << name;
}

TEST(FakeDeviceEngine, WritesWhatThisMachineWritesInEveryParadigm) {
  for (const ModelConfig& config : tiny_configs()) expect_same(config, sampled(5), config.architecture);
  expect_same(tiny_refusion_config(), sampled(5), "slots");
  expect_same(tiny_gidd_config(1000), sampled(5), "uniform");
  expect_same(tiny_block_config(4), sampled(5), "blocks");
}

TEST(FakeDeviceEngine, WritesWhatThisMachineWritesWithLocksGuidanceCachesAndSparseAttention) {
  GenerationOptions options = sampled(5);
  options.cfg_scale = 1.5;
  options.lock = "eps=1e-3,gate=50";
  expect_same(tiny_configs()[0], options, "locked and guided");
  options = sampled(5);
  options.cache = "dual";
  options.block_length = 8;
  expect_same(tiny_configs()[0], options, "dual cache");
  options.cache = "sparse-dllm=0.2";
  expect_same(tiny_configs()[0], options, "sparse cache");
  options = sampled(5);
  options.cache = "uniform";
  options.drift = "tau=1e-6,page=4,budget=8";
  expect_same(tiny_gidd_config(1000), options, "uniform cache");
  options.drift.reset();
  expect_same(tiny_sumi_config(), options, "whole canvas");
  for (const char* sparse : {"mage=8,dense-layers=1", "quest=8,page=4", "sparsed=8,exact=0.1"}) {
    options = sampled(5);
    options.sparse = sparse;
    expect_same(tiny_block_config(4), options, sparse);
  }
  for (const char* sparse : {"flashblock=2", "losa=8,page=4,dense-layers=1"}) {
    options = sampled(5);
    options.sparse = sparse;
    EXPECT_THROW(expect_same(tiny_block_config(4), options, sparse), InputError);
  }
  options = sampled(5);
  options.cache = "dllm-cache";
  EXPECT_THROW(expect_same(tiny_configs()[0], options, "reused layers"), InputError);
  options = sampled(5);
  options.pipeline = "add=0.25";
  options.unmask = "dynamic=0.02";
  expect_same(tiny_d2f_config(4), options, "several blocks at once");
  expect_same(tiny_d2f_config(4, true), options, "several blocks at once, shifted");
}

}  // namespace
}  // namespace lacuna::fake_device_test
