#include "model/families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "model/read_config.h"

namespace lacuna::families_test {
namespace {

namespace fs = std::filesystem;

TEST(Families, HaveOneEntryEach) {
  std::set<std::string_view> architectures;
  for (const FamilyEntry& entry : families()) {
    EXPECT_EQ(&family_entry(entry.name), &entry);
    EXPECT_TRUE(architectures.insert(entry.architecture).second) << entry.architecture;
  }
  EXPECT_EQ(families().size(), 25U);
}

TEST(Families, NameTheirTensorsAsPublished) {
  const TensorNames& llada = family_entry("llada").tensors;
  EXPECT_EQ(llada.head, "model.transformer.ff_out");
  EXPECT_EQ(llada.layer(3).gate, "model.transformer.blocks.3.ff_proj");
  EXPECT_EQ(llada.layer(3).down, "model.transformer.blocks.3.ff_out");
  EXPECT_EQ(llada.expert, nullptr);

  const TensorNames& moe = family_entry("llada-moe").tensors;
  EXPECT_EQ(moe.layer(0).router, "model.layers.0.mlp.gate");
  EXPECT_EQ(moe.layer(0).q_norm, "model.layers.0.self_attn.q_norm");
  EXPECT_EQ(moe.expert(1, 63).down, "model.layers.1.mlp.experts.63.down_proj");

  EXPECT_EQ(family_entry("qwen3").tensors.layer(27).k_norm, "model.layers.27.self_attn.k_norm");
  EXPECT_EQ(family_entry("qwen2").tensors.layer(27).k_norm, "");

  const TensorNames& llada2 = family_entry("llada2").tensors;
  EXPECT_EQ(llada2.embedding, "model.word_embeddings");
  EXPECT_EQ(llada2.layer(0).qkv, "model.layers.0.attention.query_key_value");
  EXPECT_EQ(llada2.layer(0).q, "");
  EXPECT_EQ(llada2.layer(0).o, "model.layers.0.attention.dense");
  EXPECT_EQ(llada2.layer(0).k_norm, "model.layers.0.attention.key_layernorm");
  EXPECT_EQ(llada2.layer(0).gate, "model.layers.0.mlp.gate_proj");
  EXPECT_EQ(llada2.layer(19).router, "model.layers.19.mlp.gate");
  EXPECT_EQ(llada2.layer(19).expert_bias, "model.layers.19.mlp.gate.expert_bias");
  EXPECT_EQ(llada2.layer(19).shared.down, "model.layers.19.mlp.shared_experts.down_proj");
  EXPECT_EQ(llada2.expert(19, 255).up, "model.layers.19.mlp.experts.255.up_proj");

  const TensorNames& nemotron = family_entry("nemotron").tensors;
  EXPECT_EQ(nemotron.layer(31).gate, "");
  EXPECT_EQ(nemotron.layer(31).up, "model.layers.31.mlp.up_proj");

  const TensorNames& gemma = family_entry("diffusion-gemma").tensors;
  EXPECT_EQ(gemma.embedding, "model.decoder.embed_tokens");
  EXPECT_EQ(gemma.head, "") << "tied";
  EXPECT_EQ(gemma.conditioning_down, "model.decoder.self_conditioning.down_proj");
  EXPECT_EQ(gemma.layer(29).layer_scalar, "model.decoder.layers.29.layer_scalar");
  EXPECT_EQ(gemma.layer(29).encoder_scalar, "model.encoder.language_model.layers.29.layer_scalar");
  EXPECT_EQ(gemma.layer(29).stacked_experts.gate_up, "model.decoder.layers.29.experts.gate_up_proj");
}

/// Every tensor that `config` calls for, as the paths and biases of `names` say.
std::set<std::string> tensors_of(const ModelConfig& config, const TensorNames& names) {
  std::set<std::string> result;
  for (const std::string_view path : {names.embedding, names.final_norm, names.head}) {
    result.insert(std::string(path) + ".weight");
  }
  for (int64_t i = 0; i < config.num_layers; ++i) {
    const LayerTensorNames layer = names.layer(i);
    for (const std::string& path : {layer.attn_norm, layer.q, layer.k, layer.v, layer.o, layer.ffn_norm,
                                    layer.gate, layer.up, layer.down}) {
      result.insert(path + ".weight");
    }
    if (!config.qkv_bias) continue;
    for (const std::string& path : {layer.q, layer.k, layer.v}) result.insert(path + ".bias");
  }
  return result;
}

class PublishedIndex : public testing::TestWithParam<const char*> {};

TEST_P(PublishedIndex, ListsExactlyTheTensorsOfItsConfig) {
  const fs::path folder = fs::path(LACUNA_SHARED_DIR) / "hub" / GetParam();
  if (!fs::exists(folder)) GTEST_SKIP() << "no published files in " << folder;
  const ModelConfig config = read_config(folder);
  std::ifstream file(folder / "model.safetensors.index.json");
  const nlohmann::json index = nlohmann::json::parse(file);
  std::set<std::string> listed;
  for (const auto& item : index.at("weight_map").items()) listed.insert(item.key());
  EXPECT_EQ(tensors_of(config, family_entry(config.family).tensors), listed);
}

INSTANTIATE_TEST_SUITE_P(Hub, PublishedIndex, testing::Values("LLaDA-8B-Instruct", "Dream-v0-Instruct-7B"),
                         [](const auto& tested) { return tested.index == 0 ? "LLaDA" : "Dream"; });

}  // namespace
}  // namespace lacuna::families_test
