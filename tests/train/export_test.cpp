// Checkpoints that the trainer writes, read by the engine: two forward passes that share no code.
#include "train/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "temporary_folder.h"
#include "train/bpe.h"
#include "weights/checkpoint.h"

namespace lacuna::train::export_test {
namespace {

/// Logits of scale 10 in f32 (tests/reference/check_engine.py has the same bound).
constexpr float kTolerance = 2e-3F;

class CheckpointFolder : public ::testing::Test {
 protected:
  CheckpointFolder() : bpe_(learn_bpe({"Mia has 12 shells. 12+7=19."}, 300)) {}

  ModelShape shape(Family family) const {
    ModelShape shape;
    shape.family = family;
    shape.layers = 2;
    shape.width = 48;
    shape.heads = 3;
    shape.ffn_width = 40;
    shape.vocabulary = bpe_.total_size();
    shape.canvas = {.length = 7, .window = window_};
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
    if (model->shape().traits().has_canvases()) {
      for (const auto& item : model->named_parameters()) {
        torch::Tensor values = item.value();
        if (item.key().ends_with("scale") || item.key().ends_with("layer_scalar")) values.mul_(0.8);
        if (item.key().ends_with("_scale")) values.mul_(torch::rand_like(values) + 0.5);
      }
      model->named_parameters()["embedding.weight"].mul_(2);
    } else {
      torch::Tensor head = model->named_parameters()["head.weight"];
      head.mul_(3);
      if (model->shape().traits().interpolates()) head.normal_(0, 0.05);  // theirs begins with zeros
    }
    round_weights(model);
    return model;
  }

  void export_model(const Transformer& model) const {
    export_texts(folder_, model->shape(), bpe_);
    export_weights(folder_, model);
  }

  /// Row-major logits of `lacuna logits`. Without positions a token's is its index. `more`: other keys of the
  /// request.
  torch::Tensor engine_logits(const std::vector<int64_t>& tokens, const std::vector<int64_t>& positions = {},
                              const nlohmann::json& more = nlohmann::json::object()) const {
    nlohmann::json request{{"tokens", tokens}};
    if (!positions.empty()) request["positions"] = positions;
    request.update(more);
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

  TemporaryFolder temporary_;
  const std::filesystem::path& folder_ = temporary_.path();
  Bpe bpe_;
  int64_t window_ = 8;  // of diffusion-gemma
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
  window_ = 64;  // which rows are in it depends on their order
  Transformer model = random_model(GetParam());
  export_model(model);
  std::vector<int64_t> tokens, positions;
  for (int64_t i = 0; i < 23; ++i) {
    tokens.push_back(37 * i % bpe_.total_size());
    positions.push_back(i < 5 ? i : 5 + 7 * i % 18);  // like slots in any order after a prompt
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
                                           Family::kRefusion, Family::kSdar, Family::kFastDllm,
                                           Family::kLlada2, Family::kGidd, Family::kGiddMask,
                                           Family::kDiffusionGemma, Family::kIdlm),
                         [](const auto& instance) {
                           std::string name(traits_of(instance.param).name);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

class CanvasExportTest : public CheckpointFolder {
 protected:
  /// Writes float32 rows as NumPy does.
  void write_npy(const std::string& name, const torch::Tensor& rows) const {
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" +
                         std::to_string(rows.size(0)) + ", " + std::to_string(rows.size(1)) + "), }";
    header.resize(117, ' ');
    const std::string magic("\x93NUMPY\x01\x00\x76\x00", 10);
    std::ofstream file(folder_ / name, std::ios::binary);
    file << magic << header << '\n';
    const torch::Tensor values = rows.contiguous();
    file.write(static_cast<const char*>(values.data_ptr()), static_cast<std::streamsize>(values.nbytes()));
  }
};

TEST_F(CanvasExportTest, GivesTheEngineTheSameLogitsOfACanvasWithAndWithoutSelfConditioning) {
  Transformer model = random_model(Family::kDiffusionGemma);
  export_model(model);
  constexpr int64_t kBegin = 13;  // beyond the window of sliding layers
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < kBegin + model->shape().canvas.length; ++i)
    tokens.push_back(37 * i % bpe_.total_size());
  const torch::NoGradGuard no_grad;
  const torch::Tensor p =
      torch::softmax(4 * torch::randn({model->shape().canvas.length, bpe_.total_size()}), -1);
  write_npy("p.npy", p);
  torch::Tensor plain;
  for (const bool is_conditioned : {false, true}) {
    nlohmann::json more{{"canvas_begin", kBegin}};
    torch::Tensor soft;
    if (is_conditioned) {
      more["self_conditioning"] = (folder_ / "p.npy").string();
      soft = model->soft_embedding(p).unsqueeze(0);
    }
    const torch::Tensor hidden = model->hidden(torch::tensor(tokens).unsqueeze(0), {}, {}, {kBegin, soft});
    const torch::Tensor expected = model->logits(hidden).squeeze(0);
    EXPECT_LT((engine_logits(tokens, {}, more) - expected).abs().max().item<float>(), kTolerance);
    if (is_conditioned) {
      EXPECT_GT((plain - expected).abs().max().item<float>(), 100 * kTolerance);
    }
    plain = expected;
  }
}

TEST_F(CanvasExportTest, WritesThePublishedNamesAndTheScalarsOfBothModes) {
  Transformer model = random_model(Family::kDiffusionGemma);
  export_model(model);
  const ModelShape& shape = model->shape();
  const Checkpoint checkpoint = Checkpoint::open(folder_);
  const int64_t experts = shape.experts.count, inner = shape.experts.ffn_width, width = shape.width;
  const std::map<std::string, std::vector<int64_t>> tensors = {
      {"model.decoder.embed_tokens.weight", {shape.vocabulary, width}},
      {"model.decoder.self_conditioning.pre_norm.weight", {width}},
      {"model.decoder.layers.1.experts.gate_up_proj", {experts, 2 * inner, width}},
      {"model.decoder.layers.1.experts.down_proj", {experts, width, inner}},
      {"model.decoder.layers.1.router.per_expert_scale", {experts}},
      {"model.decoder.layers.1.layer_scalar", {1}},
      {"model.encoder.language_model.layers.1.layer_scalar", {1}}};
  for (const auto& [name, sizes] : tensors) EXPECT_NO_THROW(checkpoint.tensor(name, sizes)) << name;
  EXPECT_TRUE(checkpoint.contains("model.decoder.layers.0.self_attn.v_proj.weight"));
  EXPECT_FALSE(checkpoint.contains("model.decoder.layers.1.self_attn.v_proj.weight"));
  EXPECT_FALSE(checkpoint.contains("lm_head.weight"));
}

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

TEST_F(ImportTest, StartsAFastDllmModelFromAQwen3ModelThatIsNearlyTheSame) {
  Transformer qwen = random_model(Family::kQwen3);
  export_model(qwen);
  ModelShape causal = shape(Family::kFastDllm);
  causal.block_length = 1;  // so both see the same
  Transformer start(causal);
  import_weights(folder_, start);
  const torch::NoGradGuard no_grad;
  const torch::Tensor tokens = torch::arange(20).unsqueeze(0);
  const auto logits = [&](Transformer& model) { return model->logits(model->hidden(tokens)).flatten(); };
  const auto similarity = [](const torch::Tensor& a, const torch::Tensor& b) {
    return torch::nn::functional::cosine_similarity(
               a, b, torch::nn::functional::CosineSimilarityFuncOptions().dim(0))
        .item<double>();
  };
  const torch::Tensor expected = logits(qwen);
  const double folded = similarity(expected, logits(start));
  EXPECT_GT(folded, 0.95);
  for (const char* const name : {"blocks.0.q.weight", "blocks.1.q.weight"}) {
    start->named_parameters()[name].mul_(4);
  }
  EXPECT_LT(similarity(expected, logits(start)), folded - 0.02) << "the scale of q matters";
  EXPECT_EQ(start->named_parameters()["blocks.1.v.bias"].abs().max().item<float>(), 0);
}

TEST_F(ImportTest, StartsALladaModelFromASdarModelWhoseNormsItFolds) {
  Transformer sdar = random_model(Family::kSdar);
  export_model(sdar);
  Transformer start(shape(Family::kLlada));
  import_weights(folder_, start);
  const auto parameters = sdar->named_parameters();
  for (const auto& item : start->named_parameters()) {
    const torch::Tensor& from = parameters[item.key()];
    const bool is_folded = item.key().ends_with(".q.weight") || item.key().ends_with(".k.weight");
    EXPECT_NE(item.value().equal(from), is_folded) << item.key();
    if (is_folded) {  // rows keep their directions
      EXPECT_GT(torch::cosine_similarity(item.value(), from, 1).abs().min().item<float>(), 0.999F);
    }
  }
}

TEST_F(ImportTest, StartsAModelOfExpertsFromADenseOneWhoseTurningPairsItKeeps) {
  const torch::NoGradGuard no_grad;
  Transformer dense = random_model(Family::kSdar);
  // Without what does not train afterwards, and with a first layer alone, which is dense, both are the same.
  const int64_t half = dense->shape().head_width() / 2;
  for (int64_t i = 0; i < 2 * half; ++i) {
    if (i % half % 2 == 1) dense->named_parameters()["blocks.0.q_norm.weight"][i].zero_();
  }
  export_model(dense);
  ModelShape experts = shape(Family::kLlada2);
  experts.experts.ffn_width = experts.ffn_width / 2;
  Transformer start(experts);
  import_weights(folder_, start);
  const torch::Tensor tokens = torch::arange(20).unsqueeze(0);
  const auto first_layer = [&](Transformer model) {
    for (int64_t layer = 1; layer < model->shape().layers; ++layer) {
      for (const auto& item : model->named_parameters()) {
        if (item.key().starts_with("blocks.") && !item.key().starts_with("blocks.0.")) item.value().zero_();
      }
    }
    return model->logits(model->hidden(tokens));
  };
  const auto parameters = start->named_parameters();
  const auto of_dense = dense->named_parameters();
  EXPECT_TRUE(parameters["blocks.1.moe.shared.up.weight"].equal(
      of_dense["blocks.1.up.weight"].slice(0, 0, experts.experts.ffn_width)));
  EXPECT_TRUE(parameters["blocks.1.moe.experts.3.down.weight"].allclose(
      of_dense["blocks.1.down.weight"].slice(1, experts.experts.ffn_width) / kRoutedScale));
  EXPECT_LT((first_layer(start) - first_layer(dense)).abs().max().item<float>(), 1e-4);
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

TEST_F(ImportTest, StartsAGiddModelFromAMaskedOneAndFromAFirstPhase) {
  ModelShape first = shape(Family::kGiddMask);
  first.left_to_right = true;
  torch::manual_seed(1);
  Transformer start(first);
  const torch::NoGradGuard no_grad;
  for (torch::Tensor& values : start->parameters()) values.normal_(0, 0.5);
  round_weights(start);
  export_model(start);
  Transformer gidd(shape(Family::kGidd));
  import_weights(folder_, gidd);
  for (const auto& item : start->named_parameters())
    EXPECT_TRUE(gidd->named_parameters()[item.key()].equal(item.value())) << item.key();
}

TEST_F(ImportTest, FindsAGiddModelUnderItsPublishedNames) {
  export_model(Transformer(shape(Family::kGidd)));
  const Checkpoint checkpoint = Checkpoint::open(folder_);
  const int64_t width = 48, heads = 3, ffn_width = 40, vocabulary = bpe_.total_size();
  const std::map<std::string, std::vector<int64_t>> outside = {
      {"model.embed_tokens.weight", {vocabulary, width}},
      {"model.norm.weight", {width}},
      {"lm_head.weight", {vocabulary, width}}};
  const std::map<std::string, std::vector<int64_t>> of_layer = {
      {"attn_layernorm.weight", {width}},           {"mlp_layernorm.weight", {width}},
      {"self_attn.q_proj.weight", {width, width}},  {"self_attn.k_proj.weight", {width, width}},
      {"self_attn.v_proj.weight", {width, width}},  {"self_attn.o_proj.weight", {width, width}},
      {"self_attn.q_norm.weight", {width}},         {"self_attn.k_norm.weight", {width}},
      {"self_attn.k_bias", {heads, width / heads}}, {"self_attn.v_bias", {heads, width / heads}},
      {"mlp.up_proj.weight", {ffn_width, width}},   {"mlp.up_proj.bias", {ffn_width}},
      {"mlp.down_proj.weight", {width, ffn_width}}, {"mlp.down_proj.bias", {width}},
  };
  for (const auto& [name, sizes] : outside) EXPECT_NO_THROW(checkpoint.tensor(name, sizes)) << name;
  for (const auto& [name, sizes] : of_layer)
    EXPECT_NO_THROW(checkpoint.tensor("model.layers.1." + name, sizes)) << name;
  EXPECT_EQ(Transformer(shape(Family::kGidd))->parameters().size(), outside.size() + 2 * of_layer.size());
}

class ConfigTest : public CheckpointFolder {};

TEST_F(ConfigTest, OfAGiddModelHasThePublishedScalesAndNamesItsMask) {
  ModelShape shape = this->shape(Family::kGidd);
  shape.context = 64;
  const nlohmann::ordered_json config = config_json(shape, bpe_.ids());
  EXPECT_EQ(config["architectures"], nlohmann::json({"GiddForDiffusionLM"}));
  EXPECT_EQ(config["noise_type"], 1000.0);
  EXPECT_EQ(config["head_scaling"], 512.0 / 48);
  EXPECT_EQ(config["resid_scale"], 4.0);
  EXPECT_EQ(config["attn_soft_cap"], 30.0);
  EXPECT_EQ(config["max_position_embeddings"], 64);
  EXPECT_EQ(config["is_causal"], false);
  EXPECT_EQ(config["mask_token_id"], bpe_.mask_id());
  shape.family = Family::kGiddMask;
  shape.left_to_right = true;
  EXPECT_EQ(config_json(shape, bpe_.ids())["noise_type"], -1000.0);
  EXPECT_EQ(config_json(shape, bpe_.ids())["is_causal"], true);
}

TEST_F(ConfigTest, OfARefusionModelIsThatOfAQwen3ModelWithAMaskToken) {
  nlohmann::ordered_json config = config_json(shape(Family::kRefusion), bpe_.ids());
  EXPECT_EQ(config["mask_token_id"], bpe_.mask_id());
  EXPECT_EQ(config["lacuna"]["paradigm"], "slots");
  config.erase("mask_token_id");
  config.erase("lacuna");
  EXPECT_EQ(nlohmann::json(config), nlohmann::json(config_json(shape(Family::kQwen3), bpe_.ids())));
  EXPECT_EQ(config["architectures"], nlohmann::json({"Qwen3ForCausalLM"}));
}

}  // namespace
}  // namespace lacuna::train::export_test
