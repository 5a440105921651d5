#include "model/unread_tensors.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/adapters.h"
#include "model/config.h"
#include "model/parameters.h"
#include "model/read_config.h"
#include "model/tiny_models.h"
#include "temporary_folder.h"
#include "weights/checkpoint.h"
#include "weights/safetensors_writer.h"

namespace lacuna::unread_tensors_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Opens the golden weights of a family with one key of their config.json changed.
void open_with(const std::string& family, const std::string& key, const json& value,
               const ConfigChoices& choices = {}) {
  const TemporaryFolder folder;
  json config = read_golden_json(family, "config.json");
  config[key] = value;
  std::ofstream(folder.path() / "config.json") << config.dump();
  for (const auto& entry : fs::directory_iterator(golden_folder(family))) {
    const fs::path name = entry.path().filename();
    if (name != "config.json") fs::copy(entry.path(), folder.path() / name);
  }
  (void)open_weights(folder.path(), read_config(folder.path(), choices));
}

std::string refusal(const std::string& family, const std::string& key, const json& value,
                    const ConfigChoices& choices = {}) {
  try {
    open_with(family, key, value, choices);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(UnreadTensors, AreFoundInNoGoldenCheckpoint) {
  for (const char* const family :
       {"llada", "llada_moe", "llada2", "dream", "gidd", "sumi", "qwen3", "qwen3_moe", "fast_dllm",
        "nemotron_labs", "nemotron", "diffusion_gemma", "lfm2"}) {
    EXPECT_NO_THROW((void)open_weights(golden_folder(family), read_config(golden_folder(family)))) << family;
  }
}

TEST(UnreadTensors, OfALayerAfterTheLastAreRefused) {
  const auto layers = read_golden_json("qwen3", "config.json").at("num_hidden_layers").get<int>();
  EXPECT_THAT(refusal("qwen3", "num_hidden_layers", layers - 1),
              testing::HasSubstr("input_layernorm.weight\", and its configuration describes a model of " +
                                 std::to_string(layers - 1) + " layers"));
}

TEST(UnreadTensors, OfPartsThatTheConfigLeavesOutAreRefused) {
  using testing::HasSubstr;
  EXPECT_THAT(refusal("llada_moe", "qk_layernorm", false), HasSubstr("without norms of q and k"));
  EXPECT_THAT(refusal("llada2", "num_shared_experts", 0), HasSubstr("without a shared expert"));
  EXPECT_THAT(refusal("llada2", "moe_router_enable_expert_bias", false),
              HasSubstr("without a bias of experts"));
  EXPECT_THAT(refusal("gidd", "mlp_bias", false), HasSubstr("without biases of feed-forward layers"));
  EXPECT_THAT(refusal("gidd", "attention_bias", false), HasSubstr("without learned keys and values"));
  EXPECT_THAT(refusal("nemotron", "mlp_bias", false), HasSubstr("without biases of feed-forward layers"));
  EXPECT_THAT(refusal("sumi", "add_qkv_bias", false), HasSubstr("without biases of q, k and v"));
}

TEST(UnreadTensors, OfAHeadThatIsNoCopyOfTiedEmbeddingsAreRefused) {
  using testing::HasSubstr;
  EXPECT_THAT(refusal("qwen3", "tie_word_embeddings", true),
              HasSubstr("holds tensor \"lm_head.weight\", which differs from \"model.embed_tokens.weight\""));
  EXPECT_THAT(refusal("llada", "weight_tying", true), HasSubstr("model.transformer.ff_out.weight"));
  const ConfigChoices choices = {.ignored_keys = {"tie_word_embeddings"}};
  EXPECT_EQ(refusal("qwen3", "tie_word_embeddings", true, choices), "accepted");
  EXPECT_EQ(refusal("llada", "weight_tying", true, choices), "accepted");
}

/// Writes the golden weights of Qwen3 with tied embeddings, and a head whose last value is another by `step`.
void write_with_copied_head(const fs::path& folder, uint8_t step) {
  json config = read_golden_json("qwen3", "config.json");
  config["tie_word_embeddings"] = true;
  std::ofstream(folder / "config.json") << config.dump();
  const Checkpoint golden = Checkpoint::open(golden_folder("qwen3"));
  const RawTensor embedding = golden.raw("model.embed_tokens.weight");
  std::vector<std::byte> head(embedding.bytes.begin(), embedding.bytes.end());
  head.back() = static_cast<std::byte>(static_cast<uint8_t>(head.back()) ^ step);
  std::vector<std::string> types;
  std::vector<TensorToWrite> tensors;
  types.reserve(golden.names().size());
  for (const std::string_view name : golden.names()) {
    const RawTensor tensor = golden.raw(name);
    types.push_back(tensor.type);
    tensors.push_back({std::string(name), DType::kF32, tensor.shape, tensor.bytes, types.back()});
    if (name == "lm_head.weight") tensors.back().bytes = head;
  }
  write_safetensors(folder / "model.safetensors", tensors, {});
}

TEST(UnreadTensors, OfAHeadThatIsACopyAreIgnored) {
  const TemporaryFolder folder;
  write_with_copied_head(folder.path(), 0);
  EXPECT_NO_THROW((void)open_weights(folder.path(), read_config(folder.path())));
  write_with_copied_head(folder.path(), 0x80);  // its sign
  EXPECT_THROW((void)open_weights(folder.path(), read_config(folder.path())), InputError);
}

}  // namespace
}  // namespace lacuna::unread_tensors_test
