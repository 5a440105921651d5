// Open-dCoder is published under Qwen2's class and computes what Dream does.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/model.h"
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

}  // namespace
}  // namespace lacuna::borrowed_class_test
