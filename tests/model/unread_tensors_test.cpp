#include "model/unread_tensors.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "model/config.h"
#include "model/parameters.h"
#include "model/tiny_models.h"
#include "temporary_folder.h"

namespace lacuna::unread_tensors_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Opens the golden weights of a family with one key of their config.json changed.
void open_with(const std::string& family, const std::string& key, const json& value) {
  const TemporaryFolder folder;
  json config = read_golden_json(family, "config.json");
  config[key] = value;
  std::ofstream(folder.path() / "config.json") << config.dump();
  for (const auto& entry : fs::directory_iterator(golden_folder(family))) {
    const fs::path name = entry.path().filename();
    if (name != "config.json") fs::copy(entry.path(), folder.path() / name);
  }
  (void)open_weights(folder.path(), read_config(folder.path()));
}

std::string refusal(const std::string& family, const std::string& key, const json& value) {
  try {
    open_with(family, key, value);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(UnreadTensors, AreFoundInNoGoldenCheckpoint) {
  for (const char* const family : {"llada", "llada_moe", "llada2", "dream", "gidd", "sumi", "qwen3",
                                   "qwen3_moe", "fast_dllm", "nemotron_labs", "diffusion_gemma"}) {
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
  EXPECT_THAT(refusal("sumi", "add_qkv_bias", false), HasSubstr("without biases of q, k and v"));
}

}  // namespace
}  // namespace lacuna::unread_tensors_test
