// Checkpoints that the trainer writes, read by the engine: two forward passes that share no code.
#include "train/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "train/bpe.h"

namespace lacuna::train {
namespace {

namespace fs = std::filesystem;

/// Logits of scale 10 in f32 (tests/reference/check_engine.py has the same bound).
constexpr float kTolerance = 2e-3F;

class CheckpointFolder : public ::testing::Test {
 protected:
  CheckpointFolder() : bpe_(learn_bpe({"Mia has 12 shells. 12+7=19."}, 300)) {
    std::string pattern = fs::temp_directory_path() / "lacuna_export_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~CheckpointFolder() override { fs::remove_all(folder_); }

  ModelShape shape(Family family) const {
    ModelShape shape;
    shape.family = family;
    shape.layers = 2;
    shape.width = 48;
    shape.heads = 3;
    shape.ffn_width = 40;
    shape.vocabulary = bpe_.total_size();
    return shape;
  }

  /// Random weights of every kind: norms and biases would be ones and zeros in a new model.
  Transformer random_model(Family family) const {
    torch::manual_seed(1);
    Transformer model(shape(family));
    const torch::NoGradGuard no_grad;
    for (const auto& item : model->named_parameters()) {
      torch::Tensor values = item.value();
      if (item.key().ends_with("norm.weight")) values.uniform_(0.7, 1.3);
      if (item.key().ends_with("bias")) values.normal_(0, 0.5);
    }
    model->named_parameters()["head.weight"].mul_(3);
    round_weights(model);
    return model;
  }

  void export_model(const Transformer& model) const {
    export_texts(folder_, model->shape(), bpe_);
    export_weights(folder_, model);
  }

  /// Row-major logits of `lacuna logits`. Without positions a token's is its index.
  torch::Tensor engine_logits(const std::vector<int64_t>& tokens,
                              const std::vector<int64_t>& positions = {}) const {
    nlohmann::json request{{"tokens", tokens}};
    if (!positions.empty()) request["positions"] = positions;
    std::ofstream(folder_ / "request.json") << request;
    const std::string out = (folder_ / "logits.npy").string();
    const std::string command = LACUNA_BINARY " logits --dtype f32 --threads 1 -m " + folder_.string() +
                                " --request " + (folder_ / "request.json").string() + " --out " + out;
    EXPECT_EQ(std::system(command.c_str()), 0);
    std::ifstream file(out, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    torch::Tensor logits = torch::zeros({static_cast<int64_t>(tokens.size()), bpe_.total_size()});
    const size_t size = logits.nbytes();  // the end of an .npy file
    EXPECT_GT(bytes.size(), size);
    if (bytes.size() > size) std::memcpy(logits.data_ptr(), &bytes[bytes.size() - size], size);
    return logits;
  }

  Bpe bpe_;
  fs::path folder_;
};

class ExportTest : public CheckpointFolder, public ::testing::WithParamInterface<Family> {};

TEST_P(ExportTest, GivesTheEngineTheSameLogits) {
  Transformer model = random_model(GetParam());
  export_model(model);
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < 23; ++i) tokens.push_back(37 * i % bpe_.total_size());
  const torch::NoGradGuard no_grad;
  const torch::Tensor expected = model->logits(model->hidden(torch::tensor(tokens).unsqueeze(0))).squeeze(0);
  EXPECT_GT(expected.abs().max().item<float>(), 3);
  EXPECT_LT((engine_logits(tokens) - expected).abs().max().item<float>(), kTolerance);
}

TEST_P(ExportTest, GivesTheEngineTheSameLogitsAtShuffledPositions) {
  Transformer model = random_model(GetParam());
  export_model(model);
  std::vector<int64_t> tokens, positions;
  for (int64_t i = 0; i < 23; ++i) {
    tokens.push_back(37 * i % bpe_.total_size());
    positions.push_back(i < 5 ? i : 5 + 7 * i % 18);  // as of slots in any order behind a prompt
  }
  const torch::NoGradGuard no_grad;
  const torch::Tensor hidden =
      model->hidden(torch::tensor(tokens).unsqueeze(0), torch::tensor(positions).unsqueeze(0));
  const torch::Tensor expected = model->logits(hidden).squeeze(0);
  EXPECT_LT((engine_logits(tokens, positions) - expected).abs().max().item<float>(), kTolerance);
  EXPECT_GT((engine_logits(tokens) - expected).abs().max().item<float>(), 100 * kTolerance);
}

TEST_P(ExportTest, IsReadBackAsItWasWritten) {
  Transformer model = random_model(GetParam());
  export_model(model);
  Transformer copy(shape(GetParam()));
  import_weights(folder_, copy);
  for (const auto& item : model->named_parameters())
    EXPECT_TRUE(copy->named_parameters()[item.key()].equal(item.value())) << item.key();
}

INSTANTIATE_TEST_SUITE_P(Families, ExportTest,
                         ::testing::Values(Family::kLlada, Family::kDream, Family::kQwen2, Family::kQwen3,
                                           Family::kRefusion, Family::kSdar),
                         [](const auto& instance) { return std::string(traits_of(instance.param).name); });

class ImportTest : public CheckpointFolder {};

TEST_F(ImportTest, StartsADreamModelFromAQwen2Model) {
  Transformer qwen = random_model(Family::kQwen2);
  export_model(qwen);
  Transformer dream(shape(Family::kDream));
  import_weights(folder_, dream);
  EXPECT_TRUE(dream->parameters().back().equal(qwen->parameters().back()));
}

TEST_F(ImportTest, StartsARefusionModelFromAQwen3Model) {
  Transformer qwen = random_model(Family::kQwen3);
  export_model(qwen);
  Transformer refusion(shape(Family::kRefusion));
  import_weights(folder_, refusion);
  for (const auto& item : qwen->named_parameters())
    EXPECT_TRUE(refusion->named_parameters()[item.key()].equal(item.value())) << item.key();
}

TEST_F(ImportTest, RefusesWeightsOfAnotherShapeOrLayout) {
  Transformer qwen = random_model(Family::kQwen2);
  export_model(qwen);
  ModelShape wide = shape(Family::kQwen2);
  wide.ffn_width = 64;
  Transformer wider(wide);
  EXPECT_THROW(import_weights(folder_, wider), InputError);
  Transformer llada(shape(Family::kLlada));
  EXPECT_THROW(import_weights(folder_, llada), InputError);
}

class ConfigTest : public CheckpointFolder {};

TEST_F(ConfigTest, OfARefusionModelIsThatOfAQwen3ModelWithAMaskToken) {
  nlohmann::ordered_json config = config_json(shape(Family::kRefusion), bpe_);
  EXPECT_EQ(config["mask_token_id"], bpe_.mask_id());
  config.erase("mask_token_id");
  EXPECT_EQ(nlohmann::json(config), nlohmann::json(config_json(shape(Family::kQwen3), bpe_)));
  EXPECT_EQ(config["architectures"], nlohmann::json({"Qwen3ForCausalLM"}));
}

}  // namespace
}  // namespace lacuna::train
