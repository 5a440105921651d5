#include <gmock/gmock.h>

#include <cmath>

#include "model/family_config.h"
#include "model/parameters.h"

namespace lacuna::nemotron_labs_test {
namespace {

using nlohmann::json;
using testing::ElementsAre;

json nemotron() {
  return published_config("nemotron-labs-diffusion-8b");
}

json with_rope(const std::string& key, const json& value) {
  json config = nemotron();
  config["rope_parameters"][key] = value;
  return config;
}

TEST(NemotronLabs, IsReadAsPublished) {
  const ModelConfig config = read_json_config(nemotron());
  EXPECT_EQ(config.family, "nemotron-labs-diffusion");
  EXPECT_EQ(config.paradigm(), Paradigm::kBlocks);
  EXPECT_TRUE(config.causal_context);
  EXPECT_EQ(config.block_length, 32);
  EXPECT_EQ(config.mask_id, 100);
  EXPECT_THAT(config.end_ids, ElementsAre(11));
  EXPECT_EQ(config.rope.scaling, RopeConfig::Scaling::kYarn);
  EXPECT_EQ(config.rope.original_positions, 16384);
  EXPECT_EQ(config.rope.attention_scaling, 1) << "not 0.1 ln 16 + 1";
  EXPECT_EQ(config.rope.query_growth, 0.1F);
  EXPECT_EQ(
      count_parameters(config),
      34LL * (2 * 4096 + 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336) + 2LL * 131072 * 4096 + 4096);
  const ModelConfig base = read_json_config(published_config("nemotron-labs-diffusion-3b-base"));
  EXPECT_EQ(base.rope.factor, 0.25F);
  EXPECT_EQ(count_parameters(base), 7'663'319'040 / 2);
  // Published as 14B; the projection of q is narrower than the model.
  const ModelConfig largest = read_json_config(published_config("nemotron-labs-diffusion-14b"));
  EXPECT_EQ(config.rope.theta, 1e6);
  EXPECT_EQ(largest.rope.theta, 1e9);
  EXPECT_EQ(
      count_parameters(largest),
      40LL * (2 * 5120 + 2 * 5120 * 4096 + 2 * 5120 * 1024 + 3 * 5120 * 16384) + 2LL * 131072 * 5120 + 5120);
  EXPECT_EQ(family_entry("nemotron-labs-diffusion").tensors.layer(25).gate,
            "encoder.layers.25.mlp.gate_proj");
}

TEST(NemotronLabs, IsLeftToRightOnRequest) {
  const ModelConfig causal = read_json_config(with_key(nemotron(), "lacuna", {{"paradigm", "causal"}}));
  EXPECT_EQ(causal.paradigm(), Paradigm::kCausal);
  EXPECT_EQ(causal.mask_id, -1);
  EXPECT_EQ(causal.rope, read_json_config(nemotron()).rope);
  EXPECT_EQ(read_json_config(with_key(nemotron(), "dlm_paradigm", "autoregressive")).paradigm(),
            Paradigm::kCausal);
}

TEST(NemotronLabs, ReadsYarnsScalesOfAttention) {
  EXPECT_NEAR(read_json_config(with_rope("mscale_all_dim", 0.5)).rope.attention_scaling,
              (0.1 * std::log(16) + 1) / (0.05 * std::log(16) + 1), 1e-6);
  EXPECT_NEAR(read_json_config(with_rope("mscale", nullptr)).rope.attention_scaling, 0.1 * std::log(16) + 1,
              1e-6);
  EXPECT_EQ(read_json_config(with_rope("attention_factor", 1.5)).rope.attention_scaling, 1.5F);
  EXPECT_EQ(read_json_config(with_rope("llama_4_scaling_beta", nullptr)).rope.query_growth, 0);
}

TEST(NemotronLabs, RefusesWhatItWouldComputeWrongly) {
  expect_config_refused(nemotron(), "dlm_paradigm", "block_diff", "bidirectional or autoregressive");
  EXPECT_EQ(read_json_config(with_key(nemotron(), "mask_token_id", nullptr)).mask_id, 100)
      << "by the published vocabulary";
  expect_config_refused(nemotron(), "attention_bias", true, "expected false");
  EXPECT_THROW(read_json_config(with_rope("llama_4_scaling_gamma", 2)), InputError) << "an unknown key";
}

}  // namespace
}  // namespace lacuna::nemotron_labs_test
