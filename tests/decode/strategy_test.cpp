#include "decode/strategy.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "model/tiny_models.h"

namespace lacuna::strategy_test {
namespace {

using testing::HasSubstr;

ModelConfig llada() {
  return tiny_configs()[0];
}
ModelConfig qwen() {
  return tiny_configs()[5];
}

/// A model and the default strategy of its paradigm, for each paradigm.
std::vector<std::pair<ModelConfig, Strategy>> each_paradigm() {
  return {{llada(), MaskedStrategy()},
          {tiny_block_config(4), BlockStrategy()},
          {tiny_gidd_config(1000), UniformStrategy()},
          {tiny_canvas_config(), CanvasStrategy()},
          {tiny_refusion_config(), SlotStrategy()},
          {qwen(), CausalStrategy()}};
}

TEST(Strategy, EqualsAnotherOfTheSameValuesAlone) {
  MaskedStrategy strategy;
  EXPECT_EQ(Strategy(strategy), Strategy(MaskedStrategy()));
  strategy.lock = SureLock();
  EXPECT_NE(Strategy(strategy), Strategy(MaskedStrategy()));
  EXPECT_NE(Strategy(SlotStrategy()), Strategy(CausalStrategy()));
}

TEST(Strategy, IsPrintedOnOneLineWithEveryPolicy) {
  MaskedStrategy strategy;
  strategy.commit = UnmaskRule{{Threshold{0.75}}};
  strategy.cache = DkvCache{4};
  strategy.lock = SureLock();
  const nlohmann::ordered_json json = to_json(Strategy(strategy));
  EXPECT_EQ(json["paradigm"], "masked");
  EXPECT_EQ(json["unmask"]["count"], "threshold");
  EXPECT_EQ(json["unmask"]["tau"], 0.75);
  EXPECT_EQ(json["cache"], nlohmann::ordered_json({{"kind", "dkv"}, {"refresh", 4}}));
  EXPECT_EQ(json["lock"]["gate"], 20);
  strategy.cache = SparseDllm{0.25, 5, 8};
  EXPECT_EQ(to_json(Strategy(strategy))["cache"],
            nlohmann::ordered_json({{"kind", "sparse-dllm"}, {"keep", 0.25}, {"pool", 5}, {"refresh", 8}}));
  strategy.cache = DllmCache{.ratio = 0.5, .answer = 3, .refresh = 20};
  EXPECT_EQ(to_json(Strategy(strategy))["cache"],
            nlohmann::ordered_json({{"kind", "dllm-cache"}, {"ratio", 0.5}, {"answer", 3}, {"refresh", 20}}));
  strategy.cache = D2Cache{4, 0.5, 2, 3, 8};
  EXPECT_EQ(to_json(Strategy(strategy))["cache"], nlohmann::ordered_json({{"kind", "d2cache"},
                                                                          {"current", 4},
                                                                          {"rollout", 0.5},
                                                                          {"sigma", 2.0},
                                                                          {"inflate", 3},
                                                                          {"refresh", 8}}));
  EXPECT_FALSE(json.contains("steps"));
  EXPECT_FALSE(json.contains("delimiter"));
  strategy.delimiters = {"\n", "."};
  EXPECT_EQ(to_json(Strategy(strategy))["delimiter"], nlohmann::ordered_json({"\n", "."}));
  for (const auto& [config, each] : each_paradigm()) {
    EXPECT_THAT(describe(each), testing::StartsWith("{\"paradigm\":\""));
    EXPECT_THAT(describe(each), testing::Not(HasSubstr("\n")));
    EXPECT_THAT(describe(each), testing::Not(HasSubstr("null")));
  }
}

TEST(Strategy, OfACanvasIsPrintedWithWhatWasSet) {
  EXPECT_EQ(describe(CanvasStrategy()),
            R"({"paradigm":"canvases","temperature":1.0,"soft_embedding_slack":1e-06,"ignore_eos":false})");
  CanvasStrategy strategy;
  strategy.block_length = 64;
  strategy.steps = 12;
  strategy.entropy_bound = 0.25;
  strategy.stop_entropy = 0.5;
  strategy.temperature = 0;
  strategy.soft_embedding_slack = 0;
  strategy.ignore_eos = true;
  EXPECT_EQ(describe(strategy),
            R"({"paradigm":"canvases","block_length":64,"steps":12,"entropy_bound":0.25,"stop_entropy":0.5,)"
            R"("temperature":0.0,"soft_embedding_slack":0.0,"ignore_eos":true})");
}

}  // namespace
}  // namespace lacuna::strategy_test
