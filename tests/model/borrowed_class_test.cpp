// Diffusion models under the classes of others. Open-dCoder is published under Qwen2's and computes what
// Dream does; files whose class is not what the rest of them says are refused.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/config_texts.h"
#include "model/family_config.h"
#include "model/model.h"
#include "model/read_config.h"
#include "model/tiny_models.h"
#include "temporary_folder.h"

namespace lacuna::borrowed_class_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::vector<float> logits_of(const fs::path& folder, const std::vector<TokenId>& tokens,
                             const ConfigChoices& choices) {
  ThreadPool threads(1);
  const ModelConfig config = read_config(folder, choices);
  EXPECT_EQ(config.paradigm(), Paradigm::kMasked);
  Runner runner(Model::load(folder, config, DType::kF32, threads), default_table(), 1);
  return runner.logits(canvas_plan(tokens, own_rows_of(config)));
}

TEST(BorrowedClass, OfQwen2ComputesWhatDreamDoesWhereTheUserSaysSo) {
  const TemporaryFolder folder;
  json config = read_golden_json("dream", "config.json");
  config["architectures"] = {"Qwen2ForCausalLM"};
  config["model_type"] = "qwen2";
  config.erase("mask_token_id");
  const std::string mask = std::to_string(read_config(golden_folder("dream")).mask_id);
  const json tokenizer = {{"added_tokens_decoder", {{mask, {{"content", "<M>"}}}}}};
  std::ofstream(folder.path() / "config.json") << config.dump();
  std::ofstream(folder.path() / "tokenizer_config.json") << tokenizer.dump();
  fs::copy(golden_folder("dream") / "model.safetensors", folder.path());

  const auto tokens = read_golden_json("dream", "tokens.json").at("tokens").get<std::vector<TokenId>>();
  EXPECT_EQ(logits_of(folder.path(), tokens, {.paradigm = Paradigm::kMasked}),
            logits_of(golden_folder("dream"), tokens, {}));
}

json tokenizer_with(const std::string& token) {
  return {{"added_tokens_decoder", {{"99", {{"content", token}}}}}};
}

json tiny_config(const std::string& architecture) {
  json config = {{"architectures", {architecture}},
                 {"hidden_size", 64},
                 {"intermediate_size", 96},
                 {"num_hidden_layers", 2},
                 {"num_attention_heads", 4},
                 {"num_key_value_heads", 2},
                 {"vocab_size", 100},
                 {"max_position_embeddings", 128},
                 {"rms_norm_eps", 1e-6},
                 {"rope_theta", 1e6}};
  if (architecture.find("Moe") == architecture.npos) return config;
  config.erase("intermediate_size");
  config.update({{"num_experts", 4},
                 {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", 8},
                 {"norm_topk_prob", true}});
  return config;
}

constexpr const char* kLibraryClasses[] = {"LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM",
                                           "Qwen3MoeForCausalLM"};

TEST(BorrowedClass, OfALeftToRightModelIsRefusedWhereTheTokenizerHasAMask) {
  for (const char* const architecture : kLibraryClasses) {
    const json config = tiny_config(architecture);
    for (const char* const mask : {"<|mask|>", "<|MASK|>", "<M>", "[MASK]"}) {
      EXPECT_THAT([&] { read_json_config(config, {}, tokenizer_with(mask)); },
                  testing::ThrowsMessage<InputError>(testing::AllOf(
                      testing::HasSubstr("folder/tokenizer_config.json"), testing::HasSubstr("--paradigm"))))
          << architecture << ' ' << mask;
    }
    EXPECT_EQ(read_json_config(config, {}, tokenizer_with("<|im_end|>")).paradigm(), Paradigm::kCausal);
    const json causal = with_key(config, "lacuna", {{"paradigm", "causal"}});
    EXPECT_EQ(read_json_config(causal, {}, tokenizer_with("<|mask|>")).paradigm(), Paradigm::kCausal);
  }
}

TEST(BorrowedClass, IsRefusedWhereTheFileBringsCodeOfAnotherModel) {
  const auto code = [](const std::string& name) { return json{{"AutoModelForCausalLM", name}}; };
  for (const char* const architecture : kLibraryClasses) {
    const json config = tiny_config(architecture);
    expect_config_refused(config, "auto_map", code("modeling_seed.SeedDiffcoderForCausalLM"),
                          "--paradigm causal");
    expect_config_refused(config, "auto_map", code(std::string("modeling_own.") + architecture),
                          "no code of its own");
    EXPECT_NO_THROW(read_json_config(with_key(config, "auto_map", {{"AutoTokenizer", {"a.B", nullptr}}})));
  }
  const json dream = with_key(tiny_config("DreamModel"), "mask_token_id", 99);
  EXPECT_NO_THROW(
      read_json_config(with_key(dream, "auto_map", {{"AutoModel", "modeling_dream.DreamModel"}})));
  const json other = with_key(dream, "auto_map", {{"AutoModel", "modeling_other.OtherModel"}});
  EXPECT_THAT([&] { read_json_config(other); },
              testing::ThrowsMessage<InputError>(testing::HasSubstr("\"auto_map.AutoModel\"")));
  const std::string text = other.dump();
  EXPECT_NO_THROW(read_config_texts({.config = text}, "folder", {.ignored_keys = {"auto_map"}}));
}

TEST(BorrowedClass, OfSdarIsIdlmsByTheNameOfTheFolder) {
  for (const char* const architecture : {"SDARForCausalLM", "SDARMoeForCausalLM"}) {
    json config = with_key(tiny_config(architecture), "mask_token_id", 99);
    const auto read_in = [&](const char* folder) {
      const std::string text = config.dump();
      return read_config_texts({.config = text}, folder).paradigm();
    };
    EXPECT_EQ(read_in("SDAR-8B"), Paradigm::kBlocks);
    EXPECT_THROW(read_in("I-DLM-8B"), InputError) << "a copy of the file elsewhere would be SDAR's";
    config["block_size"] = 3;
    EXPECT_THROW(read_in("SDAR-8B"), InputError);
    EXPECT_EQ(read_in("I-DLM-8B"), Paradigm::kCausal);
    EXPECT_EQ(read_in("models--yifanyu--I-DLM-8B/snapshots/0a"), Paradigm::kCausal);
    expect_config_refused(config, "block_size", 3, "I-DLM");
    config["lacuna"] = {{"paradigm", "blocks"}};
    EXPECT_EQ(read_in("I-DLM-8B"), Paradigm::kBlocks);
  }
}

TEST(BorrowedClass, OfLlada20IsRefusedForLlada22WithoutItsCapacity) {
  const json config = published_config("llada2.2-mini");
  const auto read_in = [](const json& file) {
    const std::string text = file.dump();
    return read_config_texts({.config = text}, "hub/LLaDA2.2-mini").moe.window;
  };
  EXPECT_EQ(read_in(config), 32);
  EXPECT_THAT([&] { read_in(with_key(config, "expert_capacity", nullptr)); },
              testing::ThrowsMessage<InputError>(testing::HasSubstr("\"expert_capacity\"")));
}

TEST(BorrowedClass, OfLlada20IsRefusedForTokensThatEditWithoutACapacityWhateverTheFolder) {
  const json llada22 = published_config("llada2.2-mini");
  const json none = with_key(llada22, "expert_capacity", nullptr);
  for (const json& config :
       {none, with_key(none, "delete_token_id", nullptr), with_key(none, "split_token_id", nullptr),
        with_key(llada22, "expert_capacity", 0)}) {
    EXPECT_THAT([&] { read_json_config(config); }, testing::ThrowsMessage<InputError>(testing::HasSubstr(
                                                       "folder/config.json: \"expert_capacity\" is ")));
  }
  // LLaDA2.1 has neither.
  const json llada21 = published_config("llada2-mini");
  EXPECT_EQ(read_json_config(llada21).moe.num_groups, 8);
  for (const char* const text : {"<|delete|>", "<|split|>", "<|DELETE|>", "[SPLIT]"}) {
    EXPECT_THAT([&] { read_json_config(llada21, {}, tokenizer_with(text)); },
                testing::ThrowsMessage<InputError>(
                    testing::AllOf(testing::HasSubstr("folder/config.json: \"expert_capacity\" is missing"),
                                   testing::HasSubstr(text))));
    EXPECT_NO_THROW(
        read_json_config(llada21, {}, tokenizer_with(text), {.ignored_keys = {"expert_capacity"}}));
    EXPECT_NO_THROW(read_json_config(llada22, {}, tokenizer_with(text)));
  }
  EXPECT_NO_THROW(read_json_config(llada21, {}, tokenizer_with("<|role_end|>")));
}

// The class's own constructor never ties the head, whatever a library's default says.
TEST(BorrowedClass, OfCodaHasAHeadOfItsOwn) {
  const json config = with_key(tiny_config("CoDALanguageModel"), "mask_token_id", 99);
  EXPECT_FALSE(read_json_config(with_key(config, "tie_word_embeddings", true)).tied_embeddings);
}

}  // namespace
}  // namespace lacuna::borrowed_class_test
