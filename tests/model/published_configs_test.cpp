// Every checkpoint of published_configs.json, a table of keys and values of published files and of copies
// that other programs saved: it is read as it is, and a random model with its keys and small sizes runs.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/config_texts.h"
#include "model/read_config.h"
#include "model/tiny_models.h"

namespace lacuna::published_configs_test {
namespace {

using nlohmann::json;

struct Checkpoint {
  std::string name;
  std::string folder;  ///< in which a file that says little of itself is known by its name
  json config, generation, tokens;
  int64_t mask = -1;
  std::string paradigm;
  std::vector<std::string> unknown_keys;
};

/// The config of an entry, which may be another's with keys set and dropped.
json config_of(const std::map<std::string, json>& entries, const json& entry) {
  json config = entry.contains("config") ? entry["config"] : config_of(entries, entries.at(entry["like"]));
  for (const json& key : entry.value("drop", json::array())) config.erase(key.get<std::string>());
  config.update(entry.value("set", json::object()));
  return config;
}

std::vector<Checkpoint> read_table() {
  const auto path = std::filesystem::path(LACUNA_SOURCE_DIR) / "tests/model/published_configs.json";
  const json table = json::parse(read_text(path))["checkpoints"];
  std::map<std::string, json> entries;
  for (const json& entry : table) entries[entry["name"]] = entry;
  std::vector<Checkpoint> checkpoints;
  for (const json& entry : table) {
    checkpoints.push_back({entry["name"], entry.value("folder", "folder"), config_of(entries, entry),
                           entry.value("generation", json()), entry.value("tokens", json()), entry["mask"],
                           entry["paradigm"], entry.value("warns", std::vector<std::string>())});
  }
  return checkpoints;
}

const std::vector<Checkpoint>& checkpoints() {
  static const std::vector<Checkpoint> kCheckpoints = read_table();
  return kCheckpoints;
}

ModelConfig read(const Checkpoint& from) {
  const std::string config = from.config.dump();
  const std::string generation = from.generation.is_null() ? "" : from.generation.dump();
  json added = json::array();
  for (const auto& [text, id] : from.tokens.items()) added.push_back({{"id", id}, {"content", text}});
  const std::string tokenizer = json{{"version", "1.0"}, {"added_tokens", added}, {"model", {}}}.dump();
  return read_config_texts({.config = config,
                            .generation_config = generation,
                            .tokenizer = from.tokens.is_null() ? "" : std::string_view(tokenizer)},
                           from.folder);
}

/// The same keys at sizes of a model that runs in a moment.
class Shrinker {
 public:
  void shrink(Checkpoint& checkpoint) {
    shrink_object(checkpoint.config);
    if (checkpoint.config.contains("text_config")) shrink_object(checkpoint.config["text_config"]);
    shrink_ids(checkpoint.generation);
    if (checkpoint.generation.contains("canvas_length")) checkpoint.generation["canvas_length"] = 32;
    for (auto& [text, id] : checkpoint.tokens.items()) id = small_id(id);
  }

  int64_t small_id(int64_t id) {
    if (id < 0) return id;
    return ids_.try_emplace(id, static_cast<int64_t>(ids_.size())).first->second;
  }

 private:
  static int64_t small_size(const std::string& key, const json& object) {
    static const std::map<std::string, int64_t> kSizes = {{"num_hidden_layers", 2},
                                                          {"n_layers", 2},
                                                          {"hidden_size", 64},
                                                          {"d_model", 64},
                                                          {"num_attention_heads", 4},
                                                          {"n_heads", 4},
                                                          {"head_dim", 16},
                                                          {"kv_channels", 16},
                                                          {"global_head_dim", 32},
                                                          {"rotary_dim", 8},
                                                          {"intermediate_size", 96},
                                                          {"mlp_hidden_size", 96},
                                                          {"dense_intermediate_size", 96},
                                                          {"moe_intermediate_size", 32},
                                                          {"expert_intermediate_size", 32},
                                                          {"num_experts", 8},
                                                          {"n_group", 4},
                                                          {"topk_group", 2},
                                                          {"num_experts_per_tok", 2},
                                                          {"top_k_experts", 2},
                                                          {"expert_capacity", 4},
                                                          {"vocab_size", 128},
                                                          {"embedding_size", 128},
                                                          {"max_position_embeddings", 128},
                                                          {"max_sequence_length", 128},
                                                          {"sliding_window", 64},
                                                          {"canvas_length", 32},
                                                          {"num_global_key_value_heads", 1}};
    if (key == "num_key_value_heads" || key == "n_kv_heads") {
      const bool is_one_each =
          object[key] == object.value("num_attention_heads", object.value("n_heads", json()));
      return is_one_each ? 4 : 2;
    }
    const auto found = kSizes.find(key);
    return found == kSizes.end() ? -1 : found->second;
  }

  void shrink_ids(json& object) {
    for (auto& [key, value] : object.items()) {
      if (!key.ends_with("_token_id")) continue;
      if (value.is_number()) value = small_id(value);
      if (!value.is_array()) continue;
      for (json& id : value) id = small_id(id);
    }
  }

  void shrink_object(json& object) {
    const json whole = object;
    shrink_ids(object);
    for (auto& [key, value] : object.items()) {
      const int64_t size = small_size(key, whole);
      if (size > 0 && value.is_number()) value = size;
      if (key == "layer_types") value = json{value.front(), value.back()};
    }
  }

  std::map<int64_t, int64_t> ids_;
};

TEST(PublishedConfigs, AreManyAndOfEveryFamily) {
  EXPECT_GE(checkpoints().size(), 60U);
  std::vector<std::string_view> families;
  for (const Checkpoint& checkpoint : checkpoints()) families.push_back(read(checkpoint).family);
  for (const char* const name : {"llada",
                                 "llada-moe",
                                 "dream",
                                 "coda",
                                 "llada2",
                                 "sdar",
                                 "sdar-moe",
                                 "fast-dllm",
                                 "stable-diffcoder",
                                 "nemotron-labs-diffusion",
                                 "diffusion-gemma",
                                 "sumi",
                                 "qwen2",
                                 "qwen3",
                                 "qwen3-moe",
                                 "llama",
                                 "nemotron",
                                 "rnd1",
                                 "gidd",
                                 "a2d-qwen2",
                                 "a2d-qwen3",
                                 "sdlm"})
    EXPECT_THAT(families, testing::Contains(name));
}

TEST(PublishedConfigs, AreReadAsTheyAre) {
  for (const Checkpoint& checkpoint : checkpoints()) {
    SCOPED_TRACE(checkpoint.name);
    ASSERT_NO_THROW((void)read(checkpoint));
    const ModelConfig config = read(checkpoint);
    EXPECT_EQ(config.mask_id, checkpoint.mask);
    EXPECT_EQ(name_of(config.paradigm()), checkpoint.paradigm);
    EXPECT_THAT(config.unknown_keys, testing::UnorderedElementsAreArray(checkpoint.unknown_keys));
    EXPECT_EQ(warning_of(config, "folder").empty(), checkpoint.unknown_keys.empty());
  }
}

TEST(PublishedConfigs, WithSmallSizesMakeModelsThatRun) {
  for (Checkpoint checkpoint : checkpoints()) {
    SCOPED_TRACE(checkpoint.name);
    const auto num_keys = checkpoint.config.size();
    Shrinker shrinker;
    // The published mask follows from the published vocabulary; here a tokenizer has to name it.
    const bool is_named = checkpoint.config.contains("mask_token_id") || !checkpoint.tokens.is_null();
    const int64_t mask = shrinker.small_id(checkpoint.mask);
    shrinker.shrink(checkpoint);
    if (!is_named && mask >= 0 && checkpoint.paradigm != "uniform")
      checkpoint.generation["mask_token_id"] = mask;
    EXPECT_EQ(checkpoint.config.size(), num_keys);
    const ModelConfig config = read(checkpoint);
    if (checkpoint.paradigm == "uniform" || config.canvas) {
      EXPECT_EQ(tiny_model(config)->config(), config);
      continue;
    }
    EXPECT_EQ(config.mask_id, mask);
    Runner runner(tiny_model(config), default_table(), 1, 32);
    const std::vector<TokenId> tokens = {1, 2, 3, 4, 5, 6, 7, 8};
    const std::vector<float> logits =
        runner.logits(config.block_causal ? blocks_plan(tokens, static_cast<int32_t>(config.block_length))
                                          : canvas_plan(tokens, own_rows_of(config)));
    EXPECT_TRUE(std::all_of(logits.begin(), logits.end(), [](float logit) { return std::isfinite(logit); }));
  }
}

}  // namespace
}  // namespace lacuna::published_configs_test
