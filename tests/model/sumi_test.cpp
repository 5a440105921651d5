#include <gmock/gmock.h>

#include "model/family_config.h"
#include "model/parameters.h"

namespace lacuna::sumi_test {
namespace {

using nlohmann::json;
using testing::ElementsAre;

/// Published, with a small vocabulary.
json sumi() {
  json config = published_config("sumi-7b");
  config["vocab_size"] = 100;
  config["bos_token_id"] = 56;
  config["eos_token_id"] = 57;
  config["pad_token_id"] = 77;
  return config;
}

TEST(Sumi, IsReadAsPublished) {
  const ModelConfig config = read_json_config(sumi());
  EXPECT_EQ(config.family, "sumi");
  EXPECT_EQ(config.paradigm(), Paradigm::kUniform);
  EXPECT_TRUE(config.zero_sink && config.denoises_whole_canvas());
  EXPECT_FALSE(config.causal || config.kv_sink || config.qkv_bias || config.shifted_logits);
  EXPECT_EQ(*config.noise, (NoiseProcess{1000, -9, 9, WholeCanvas{2048, 128}}));
  EXPECT_EQ(config.rope.theta, 500000);
  EXPECT_EQ(config.mask_id, -1);
  EXPECT_EQ(config.bos_id, 56);
  EXPECT_THAT(config.end_ids, ElementsAre(57));
  EXPECT_EQ(config.default_tokens_per_step, 1);
  EXPECT_TRUE(read_json_config(with_key(sumi(), "add_qkv_bias", true)).qkv_bias);
  EXPECT_EQ(read_json_config(with_key(sumi(), "max_position_embeddings", 512)).noise->whole_canvas->length,
            512);
}

TEST(Sumi, TakesItsCanvasAndStepsFromTheGenerationConfig) {
  const ModelConfig chosen = read_json_config(sumi(), {{"canvas_length", 9000},
                                                       {"num_denoising_steps", 64},
                                                       {"tokens_per_step", 2},
                                                       {"min_log_snr", -5},
                                                       {"max_log_snr", 4},
                                                       {"sampler", "adaptive"}});
  EXPECT_EQ(*chosen.noise, (NoiseProcess{1000, -5, 4, WholeCanvas{4864, 64}}));
  EXPECT_EQ(chosen.default_tokens_per_step, 2);
  EXPECT_THROW(read_json_config(sumi(), {{"canvas_length", 0}}), InputError);
}

TEST(Sumi, RefusesWhatItWouldComputeWrongly) {
  expect_config_refused(sumi(), "mask_token_id", 3, "mask_token_id");
  expect_config_refused(sumi(), "attention_bias", true, "is true; expected false");
  expect_config_refused(sumi(), "mlp_bias", true, "is true; expected false");
  expect_config_refused(sumi(), "bos_token_id", nullptr, "bos_token_id");
  expect_config_refused(sumi(), "eos_token_id", nullptr, "eos_token_id");
  EXPECT_THROW(read_json_config(sumi(), {{"anchor_eosbos", false}}), InputError);
}

TEST(Sumi, HasTheParametersOfThePublishedShape) {
  EXPECT_EQ(count_parameters(read_json_config(published_config("sumi-7b"))), 7'767'543'808);
}

}  // namespace
}  // namespace lacuna::sumi_test
