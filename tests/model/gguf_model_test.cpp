// Llama and Gemma 3 in GGUF files: the golden Llama written as llama.cpp's converters do is the same model,
// and what a file adds to it is read or refused.
#include "model/gguf_model.h"

#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "gguf_bytes.h"
#include "model/adapters.h"
#include "model/config_texts.h"
#include "model/parameters.h"
#include "model/read_config.h"
#include "model/tiny_models.h"
#include "temporary_folder.h"
#include "weights/checkpoint.h"
#include "weights/lora_files.h"

namespace lacuna::gguf_model_test {
namespace {

using test::GgufBytes;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

/// A row of the model is in the file where llama.cpp rotates neighbouring dimensions: the halves of a head's
/// rows take turns.
std::vector<float> interleaved(const std::vector<float>& rows, int64_t heads, int64_t inputs) {
  const int64_t head_rows = std::ssize(rows) / inputs / heads;
  std::vector<float> result(rows.size());
  for (int64_t n = 0; n < heads * head_rows; ++n) {
    const int64_t r = n % head_rows;
    const int64_t from = n - r + r % 2 * (head_rows / 2) + r / 2;
    std::copy_n(rows.begin() + from * inputs, inputs, result.begin() + n * inputs);
  }
  return result;
}

class LlamaFile : public testing::Test {
 protected:
  using Edit = std::function<void(GgufBytes&)>;

  void write(const std::string& architecture = "llama", const Edit& edit = {}) const {
    GgufBytes file;
    const auto number = [&](const char* name, int64_t value) {
      file.number(architecture + '.' + name, static_cast<uint32_t>(value));
    };
    file.text("general.architecture", architecture);
    number("block_count", config_.num_layers);
    number("embedding_length", config_.hidden_dim);
    number("feed_forward_length", config_.ffn_dim);
    number("attention.head_count", config_.num_heads);
    number("attention.head_count_kv", config_.num_kv_heads);
    number("attention.key_length", config_.head_dim);
    number("rope.dimension_count", config_.head_dim);
    number("context_length", config_.max_positions);
    number("vocab_size", config_.vocab_size);
    file.real(architecture + ".rope.freq_base", config_.rope.theta);
    file.real(architecture + ".attention.layer_norm_rms_epsilon", config_.norm_eps);
    const TensorNames from = family_entry("llama").tensors;
    copy(file, from.embedding, "token_embd", config_.vocab_size, config_.hidden_dim);
    copy(file, from.final_norm, "output_norm", config_.hidden_dim, 0);
    if (!config_.tied_embeddings) copy(file, from.head, "output", config_.vocab_size, config_.hidden_dim);
    for (int64_t layer = 0; layer < config_.num_layers; ++layer)
      write_layer(file, from.layer(layer), "blk." + std::to_string(layer) + '.');
    if (edit) edit(file);
    file.write(path_);
  }

  void write_layer(GgufBytes& file, const LayerTensorNames& from, const std::string& block) const {
    const int64_t hidden = config_.hidden_dim;
    copy(file, from.attn_norm, block + "attn_norm", hidden, 0);
    copy(file, from.ffn_norm, block + "ffn_norm", hidden, 0);
    copy(file, from.q, block + "attn_q", config_.q_dim(), hidden, config_.num_heads);
    copy(file, from.k, block + "attn_k", config_.kv_dim(), hidden, config_.num_kv_heads);
    copy(file, from.v, block + "attn_v", config_.kv_dim(), hidden);
    copy(file, from.o, block + "attn_output", hidden, config_.q_dim());
    copy(file, from.gate, block + "ffn_gate", config_.ffn_dim, hidden);
    copy(file, from.up, block + "ffn_up", config_.ffn_dim, hidden);
    copy(file, from.down, block + "ffn_down", hidden, config_.ffn_dim);
  }

  /// inputs 0: a vector    heads 0: rows stay in order
  void copy(GgufBytes& file, std::string_view from, const std::string& to, int64_t outputs, int64_t inputs,
            int64_t heads = 0) const {
    std::vector<int64_t> shape = {outputs};
    if (inputs > 0) shape.push_back(inputs);
    std::vector<float> values = checkpoint_.values(std::string(from) + ".weight", shape);
    if (heads > 0) values = interleaved(values, heads, inputs);
    file.tensor(to + ".weight", kGgmlF32, {shape.begin(), shape.end()}, bytes_of(values));
  }

  std::vector<float> logits(const std::filesystem::path& model,
                            const std::vector<AdapterChoice>& adapters = {}) const {
    ThreadPool threads(1);
    const ModelConfig config = with_adapters(model, read_config(model), adapters).config;
    Runner run(Model::load(model, config, DType::kF32, threads), default_table(), 1);
    return run.logits(canvas_plan(tokens_, OwnRows::kCausal));
  }

  void expect_refused(const Edit& edit, const std::string& part) const {
    write("llama", edit);
    const auto load = [&] { open_weights(path_, read_config(path_)); };
    EXPECT_THAT(load, ThrowsMessage<InputError>(HasSubstr(part)));
  }

  std::filesystem::path source_ = golden_folder("llama");
  ModelConfig config_ = read_config(source_);
  Checkpoint checkpoint_ = Checkpoint::open(source_);
  std::vector<TokenId> tokens_ = random_tokens(3, 12, config_.vocab_size);
  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "model.gguf";
};

TEST_F(LlamaFile, IsTheModelOfItsFolder) {
  write();
  const ModelConfig config = read_config(path_);
  EXPECT_EQ(config.family, "llama");
  EXPECT_EQ(config.paradigm(), Paradigm::kCausal);
  EXPECT_EQ(logits(path_), logits(source_));
}

TEST_F(LlamaFile, IsChangedByAdaptersAsItsFolderIs) {
  write();
  LoraFiles files;
  files.add_update("model.layers.0.self_attn.q_proj", config_.q_dim(), config_.hidden_dim);
  files.add_update("model.layers.0.mlp.down_proj", config_.hidden_dim, config_.ffn_dim);
  files.add_update("lm_head", config_.vocab_size, config_.hidden_dim);
  files.write(folder_.path() / "adapter");
  const std::vector<AdapterChoice> adapters = {{folder_.path() / "adapter", 0.5F}};
  EXPECT_EQ(logits(path_, adapters), logits(source_, adapters));
  EXPECT_NE(logits(path_, adapters), logits(path_));
}

TEST_F(LlamaFile, DividesFrequenciesByItsTensor) {
  const size_t pairs = static_cast<size_t>(config_.head_dim / 2);
  std::vector<float> divisors(pairs, 1);
  const auto add = [&](GgufBytes& file) {
    file.tensor("rope_freqs.weight", kGgmlF32, {divisors.size()}, bytes_of(divisors));
  };
  write("llama", add);
  EXPECT_EQ(logits(path_), logits(source_));
  for (size_t j = 0; j < pairs; ++j) divisors[j] = static_cast<float>(1 + j);
  write("llama", add);
  const ModelConfig config = read_config(path_);
  EXPECT_EQ(config.rope.divisors, divisors);
  const std::vector<float> plain = rope_frequencies(config_.rope, config_.head_dim);
  const std::vector<float> divided = rope_frequencies(config.rope, config.head_dim);
  for (size_t j = 0; j < pairs; ++j) EXPECT_EQ(divided[j], plain[j] / divisors[j]);
  EXPECT_NE(logits(path_), logits(source_));
  EXPECT_EQ(read_config_texts({.config = gguf_config_text(GgufFile::open(path_))}, "copy").rope, config.rope);

  divisors[0] = 0;
  expect_refused(add, "\"rope_freqs\" has");
  divisors.assign(pairs + 1, 1);
  expect_refused(add, "\"rope_freqs\" has");
}

TEST_F(LlamaFile, PutsBiasesOfQAndKInOrder) {
  std::vector<float> bias(static_cast<size_t>(config_.q_dim()));
  for (size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i);
  const std::vector<float> stored = interleaved(bias, config_.num_heads, 1);
  write("llama", [&](GgufBytes& file) {
    for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
      const std::string block = "blk." + std::to_string(layer) + ".attn_";
      file.tensor(block + "q.bias", kGgmlF32, {bias.size()}, bytes_of(stored));
      const auto kv_dim = static_cast<size_t>(config_.kv_dim());
      for (const char* const name : {"k.bias", "v.bias"})
        file.tensor(block + name, kGgmlF32, {kv_dim}, bytes_of(std::vector<float>(kv_dim)));
    }
  });
  const ModelConfig config = read_config(path_);
  EXPECT_TRUE(config.qkv_bias);
  EXPECT_FALSE(config.attn_output_bias);
  const GgufFile file = GgufFile::open(path_);
  const GgufWeights weights = gguf_weights(file, config);
  EXPECT_EQ(weights.values("blk.0.attn_q.bias", std::array{config.q_dim()}), bias);
}

TEST_F(LlamaFile, RefusesTensorsThatItDoesNotRead) {
  const auto with = [](const char* name) {
    return [name](GgufBytes& file) { file.tensor(name, kGgmlF32, {4}, std::string(16, '\0')); };
  };
  expect_refused(with("blk.0.attn_sinks.weight"),
                 "holds tensor \"blk.0.attn_sinks.weight\", which is no part");
  expect_refused(with("blk.0.attn_q.scale"), "blk.0.attn_q.scale");
  expect_refused(with("blk.0.ffn_gate.bias"), "blk.0.ffn_gate.bias");
  expect_refused(with("blk.0.attn_norm.bias"), "blk.0.attn_norm.bias");
  expect_refused(with("rope_factors_long.weight"), "rope_factors_long.weight");
  expect_refused(with("blk.99.attn_norm.weight"), "blk.99.attn_norm.weight");
}

TEST_F(LlamaFile, ReadsScalingOfItsContext) {
  write("llama", [](GgufBytes& file) { file.real("llama.rope.scaling.factor", 4); });
  EXPECT_EQ(read_config(path_).rope.scaling, RopeConfig::Scaling::kLinear);
  EXPECT_EQ(read_config(path_).rope.factor, 4);
  write("llama", [](GgufBytes& file) { file.real("llama.rope.scale_linear", 2); });
  EXPECT_EQ(read_config(path_).rope.factor, 2);
  write("llama", [](GgufBytes& file) { file.text("llama.rope.scaling.type", "none"); });
  EXPECT_EQ(read_config(path_).rope.scaling, RopeConfig::Scaling::kNone);
  expect_refused([](GgufBytes& file) { file.number("llama.expert_count", 8); }, "llama.expert_count");
  expect_refused([](GgufBytes& file) { file.number("llama.attention.sliding_window", 2); },
                 "llama.attention.sliding_window");
}

TEST_F(LlamaFile, HasTheFactorOfItsAttentionOnTopOfYarns) {
  const auto factor_with = [&](const char* type, const char* key, double value) {
    write("llama", [&](GgufBytes& file) {
      file.text("llama.rope.scaling.type", type);
      file.real("llama.rope.scaling.factor", 4);
      if (key != nullptr) file.real(key, static_cast<float>(value));
    });
    return read_config(path_).rope.attention_scaling;
  };
  const float own = factor_with("yarn", nullptr, 0);
  EXPECT_NEAR(own, 0.1 * std::log(4.0) + 1, 1e-6);
  EXPECT_NEAR(factor_with("yarn", "llama.rope.scaling.attn_factor", 1), own, 1e-6);
  EXPECT_NEAR(factor_with("yarn", "llama.rope.scaling.attn_factor", 2), 2 * own, 1e-6);
  EXPECT_NEAR(factor_with("yarn", "llama.rope.scaling.yarn_attn_factor", 1.5), 1.5, 1e-6);
  EXPECT_EQ(factor_with("linear", "llama.rope.scaling.attn_factor", 1), 1);
  EXPECT_THROW(factor_with("linear", "llama.rope.scaling.attn_factor", 2), InputError);
}

TEST_F(LlamaFile, OfGemma3HasWindowsAndNormsOfOutputs) {
  write("gemma3", [&](GgufBytes& file) {
    file.number("gemma3.attention.sliding_window", 512);
    const std::string norm = bytes_of(std::vector<float>(static_cast<size_t>(config_.hidden_dim), 1));
    const std::string head = bytes_of(std::vector<float>(static_cast<size_t>(config_.head_dim), 1));
    for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
      const std::string block = "blk." + std::to_string(layer) + '.';
      for (const char* const name : {"post_attention_norm.weight", "post_ffw_norm.weight"})
        file.tensor(block + name, kGgmlF32, {static_cast<uint64_t>(config_.hidden_dim)}, norm);
      for (const char* const name : {"attn_q_norm.weight", "attn_k_norm.weight"})
        file.tensor(block + name, kGgmlF32, {static_cast<uint64_t>(config_.head_dim)}, head);
    }
  });
  const ModelConfig config = read_config(path_);
  EXPECT_EQ(config.family, "gemma3");
  EXPECT_EQ(config.paradigm(), Paradigm::kCausal);
  EXPECT_FALSE(config.norm_offset);
  EXPECT_EQ(config.sliding->window, 512);
  EXPECT_TRUE(config.slides(0));
  EXPECT_EQ(config.sliding->rope.theta, 10000);
  for (const float logit : logits(path_)) ASSERT_TRUE(std::isfinite(logit));
}

TEST(Gemma3Config, IsReadInBothFormsThatTheLibraryWrites) {
  const std::string sizes = R"("architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text",
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 7, "num_attention_heads": 4,
    "num_key_value_heads": 1, "head_dim": 16, "vocab_size": 100, "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6, "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 16,
    "sliding_window": 8, "attention_bias": false)";
  const auto read = [&](const std::string& more) {
    return read_config_texts({.config = "{" + sizes + more + "}"}, "gemma");
  };
  const ModelConfig old = read(R"(, "rope_theta": 1e6, "rope_local_base_freq": 20000,
    "sliding_window_pattern": 6, "rope_scaling": {"rope_type": "linear", "factor": 8})");
  EXPECT_TRUE(old.norm_offset);
  EXPECT_TRUE(old.tied_embeddings);
  EXPECT_EQ(old.attn_scale, 0.25F);
  EXPECT_EQ(old.embedding_scale, 8);
  EXPECT_EQ(old.sliding->layers, (std::vector<bool>{true, true, true, true, true, false, true}));
  EXPECT_EQ(old.sliding->rope.theta, 20000);
  EXPECT_EQ(old.sliding->rope.factor, 1);
  EXPECT_EQ(old.rope.theta, 1e6F);
  EXPECT_EQ(old.rope.factor, 8);
  const ModelConfig now = read(R"(, "rope_parameters": {
    "full_attention": {"rope_type": "linear", "factor": 8, "rope_theta": 1e6},
    "sliding_attention": {"rope_type": "default", "rope_theta": 20000}},
    "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention",
                    "sliding_attention", "full_attention", "sliding_attention"])");
  EXPECT_EQ(now, old);
  const std::string both = R"(, "rope_theta": 1e6, "rope_parameters": {
    "full_attention": {"rope_type": "linear", "factor": 8, "rope_theta": 1e6},
    "sliding_attention": {"rope_type": "default", "rope_theta": 20000}}, "rope_local_base_freq": )";
  EXPECT_EQ(read(both + "20000"), old);
  EXPECT_THAT([&] { read(both + "10000"); },
              ThrowsMessage<InputError>(HasSubstr("\"rope_local_base_freq\" is 10000 and ")));
  EXPECT_THAT([&] { read(R"(, "use_bidirectional_attention": true)"); },
              ThrowsMessage<InputError>(HasSubstr("use_bidirectional_attention")));
}

}  // namespace
}  // namespace lacuna::gguf_model_test
