// Each key of a published config.json, changed alone: the model that is read differs, or the file is refused
// by that key, or the key is declared to change nothing. Nothing passes unread.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/config.h"
#include "model/config_keys.h"
#include "model/config_texts.h"
#include "model/families.h"
#include "model/tiny_models.h"

namespace lacuna::config_key_changes_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Other values that a file could hold.
std::vector<json> other_values(const json& value) {
  if (value.is_boolean()) return {!value.get<bool>()};
  if (value.is_number_integer()) return {2 * value.get<int64_t>() + 2, value.get<int64_t>() + 1};
  if (value.is_number()) return {2 * value.get<double>() + 1e-3};
  if (value.is_string()) return {"another"};
  if (value.is_array()) return {json::array({"another"})};
  if (value.is_object()) return {{{"another", 1}}};
  return {48, true};  // null
}

bool is_harmless(const FamilyEntry& family, std::string_view key) {
  const auto& harmless = family.harmless_keys;
  return is_bookkeeping_key(key) || std::find(harmless.begin(), harmless.end(), key) != harmless.end();
}

/// Keys that another key of the same file overrules.
bool is_overruled(const json& config, const std::string& key) {
  return (key == "vocab_size" && config.contains("embedding_size")) ||
         (key == "mlp_ratio" && config.contains("mlp_hidden_size")) ||
         (key == "multi_query_attention" && config.contains("n_kv_heads")) ||
         (key == "text_config.eos_token_id" && config.contains("eos_token_id"));
}

/// The key that a message names if the two no longer match.
std::string partner_of(const std::string& key) {
  const std::map<std::string, std::string> partners = {{"head_dim", "\"rotary_dim\""},
                                                       {"num_experts", "\"n_group\""},
                                                       {"num_experts_per_tok", "\"topk_group\""},
                                                       {"block_length", "blocks"},
                                                       {"rope_parameters", "\"rope_theta\""},
                                                       {"text_config.num_hidden_layers", "layer_types"},
                                                       {"num_hidden_layers", "layer_types"},
                                                       {"hidden_size", "\"block_dim\""}};
  const auto found = partners.find(key);
  return found == partners.end() ? key : found->second;
}

/// Every key, with that of the object that a model which sees images keeps those of its language model in:
/// "text_config.hidden_size".
std::vector<std::string> keys_of(const json& config) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : config.items()) {
    keys.push_back(key);
    if (key != "text_config") continue;
    for (const auto& [inner, ignored] : value.items()) keys.push_back(key + '.' + inner);
  }
  return keys;
}

json::json_pointer pointer_to(std::string key) {
  std::replace(key.begin(), key.end(), '.', '/');
  return json::json_pointer('/' + key);
}

class ConfigKeys : public testing::TestWithParam<fs::path> {};

TEST_P(ConfigKeys, ChangeTheModelOrAreRefusedOrAreDeclaredHarmless) {
  const fs::path folder = GetParam();
  if (!fs::exists(folder)) GTEST_SKIP() << "no published files in " << folder;
  const json config = json::parse(read_text(folder / "config.json"));
  const fs::path tokenizer_path = folder / "tokenizer_config.json";
  const std::string tokenizer = fs::exists(tokenizer_path) ? read_text(tokenizer_path) : "";
  const auto read = [&](const json& changed) {
    const std::string text = changed.dump();
    return read_config_texts({.config = text, .tokenizer_config = tokenizer}, folder);
  };
  const ModelConfig base = read(config);
  const FamilyEntry& family = family_entry(base.family);
  for (const std::string& key : keys_of(config)) {
    const json value = config.at(pointer_to(key));
    // The first two say which reader reads; a class of generation alone would be another test.
    if (key == "architectures" || key == "model_type" || key == "lacuna" || key == "_name_or_path") continue;
    if (key == "text_config.model_type") continue;
    for (const json& other : other_values(value)) {
      json changed = config;
      changed[pointer_to(key)] = other;
      SCOPED_TRACE(fmt::format("{}: {} instead of {}", key, other.dump(), value.dump()));
      try {
        const bool is_same = read(changed) == base;
        if (is_same) {
          EXPECT_TRUE(is_harmless(family, key) || is_overruled(config, key));
        } else if (key != "intermediate_size") {  // harmless where no layer is dense
          EXPECT_FALSE(is_harmless(family, key));
        }
      } catch (const InputError& error) {
        EXPECT_FALSE(is_harmless(family, key)) << error.what();
        EXPECT_THAT(error.what(),
                    testing::AnyOf(testing::HasSubstr('"' + key + '"'), testing::HasSubstr('"' + key + '.'),
                                   testing::HasSubstr("heads"), testing::HasSubstr(partner_of(key))));
      }
    }
  }
}

std::vector<fs::path> folders() {
  std::vector<fs::path> found;
  for (const std::string& name : golden_families()) found.push_back(golden_folder(name));
  for (const std::string& name : golden_block_families()) found.push_back(golden_folder(name));
  for (const char* const name : {"gidd", "sumi", "nemotron_labs", "diffusion_gemma", "lfm2"})
    found.push_back(golden_folder(name));
  for (const char* const name : {"mini-refusion", "mini-sdar"})
    found.push_back(fs::path(LACUNA_SOURCE_DIR) / "models" / name);
  for (const char* const name : {"LLaDA-8B-Instruct", "Dream-v0-Instruct-7B"})
    found.push_back(fs::path(LACUNA_SHARED_DIR) / "hub" / name);
  return found;
}

INSTANTIATE_TEST_SUITE_P(Published, ConfigKeys, testing::ValuesIn(folders()), [](const auto& tested) {
  std::string name = tested.param.filename().string();
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

}  // namespace
}  // namespace lacuna::config_key_changes_test
