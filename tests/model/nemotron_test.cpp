#include <gmock/gmock.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "gguf_bytes.h"
#include "model/adapters.h"
#include "model/family_config.h"
#include "model/gguf_model.h"
#include "model/parameters.h"
#include "model/tiny_models.h"
#include "temporary_folder.h"
#include "weights/checkpoint.h"
#include "weights/lora_files.h"

namespace lacuna::nemotron_test {
namespace {

using nlohmann::json;
using test::GgufBytes;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

json minitron() {
  return published_config("minitron-4b");
}

TEST(Nemotron, IsReadAsPublished) {
  const ModelConfig config = read_json_config(minitron());
  EXPECT_EQ(config.family, "nemotron");
  EXPECT_EQ(config.paradigm(), Paradigm::kCausal);
  EXPECT_TRUE(config.layer_norm && config.norm_offset);
  EXPECT_EQ(config.activation, Activation::kSquaredRelu);
  EXPECT_EQ(config.rotary_dim, 64) << "half of a head";
  EXPECT_EQ(config.rope.theta, 10000);
  EXPECT_EQ(config.mask_id, -1);
  EXPECT_THAT(config.end_ids, ElementsAre(3));
  EXPECT_FALSE(config.qkv_bias || config.attn_output_bias || config.ffn_bias);
  EXPECT_EQ(count_parameters(config),
            32LL * (4 * 3072 + 2 * 3072 * 3072 + 2 * 3072 * 1024 + 2 * 3072 * 9216) + 2LL * 256000 * 3072 +
                2 * 3072);
}

TEST(Nemotron, HasTheValuesOfItsClassWhereAFileHasNone) {
  json config = minitron();
  for (const char* const key : {"norm_eps", "partial_rotary_factor", "rope_theta", "head_dim", "hidden_act"})
    config.erase(key);
  EXPECT_EQ(read_json_config(config), read_json_config(minitron()));
  config["rope_parameters"] = {
      {"rope_type", "default"}, {"rope_theta", 5e5}, {"partial_rotary_factor", 0.25}};
  EXPECT_EQ(read_json_config(config).rotary_dim, 32);
  EXPECT_EQ(read_json_config(config).rope.theta, 5e5F);
}

TEST(Nemotron, TakesOlderKeysThatRepeatWhatIsComputed) {
  json config = minitron();
  config["kv_channels"] = 128;
  config["rope_percent"] = 0.5;
  config["layer_norm_eps"] = 1e-5;
  config["normalization"] = "layernorm1p";
  EXPECT_EQ(read_json_config(config), read_json_config(minitron()));
}

TEST(Nemotron, HasBiasesWhereTheFileSaysSo) {
  const ModelConfig attention = read_json_config(with_key(minitron(), "attention_bias", true));
  EXPECT_TRUE(attention.qkv_bias && attention.attn_output_bias);
  EXPECT_FALSE(attention.ffn_bias);
  EXPECT_TRUE(read_json_config(with_key(minitron(), "mlp_bias", true)).ffn_bias);
}

TEST(Nemotron, RefusesWhatItWouldComputeWrongly) {
  expect_config_refused(minitron(), "hidden_act", "silu", "is \"silu\"; expected \"relu2\"");
  expect_config_refused(minitron(), "mask_token_id", 3, "mask_token_id");
  expect_config_refused(minitron(), "rope_percent", 1.0, "rope_percent");
  expect_config_refused(minitron(), "kv_channels", 96, "kv_channels");
  expect_config_refused(minitron(), "use_rmsnorm", true, "use_rmsnorm");
  expect_config_refused(minitron(), "normalization", "rmsnorm", "normalization");
  expect_config_refused(minitron(), "layer_norm_eps", 1e-6, "layer_norm_eps");
}

/// The golden model in a GGUF file as llama.cpp's converter writes it: norms are 1 + w.
class NemotronFile : public testing::Test {
 protected:
  void write(const std::function<void(GgufBytes&)>& edit = {}) const {
    GgufBytes file;
    const auto number = [&](const char* name, int64_t value) {
      file.number(std::string("nemotron.") + name, static_cast<uint32_t>(value));
    };
    file.text("general.architecture", "nemotron");
    number("block_count", config_.num_layers);
    number("embedding_length", config_.hidden_dim);
    number("feed_forward_length", config_.ffn_dim);
    number("attention.head_count", config_.num_heads);
    number("attention.head_count_kv", config_.num_kv_heads);
    number("context_length", config_.max_positions);
    number("vocab_size", config_.vocab_size);
    number("rope.dimension_count", config_.rotary_dim);
    file.real("nemotron.rope.freq_base", config_.rope.theta);
    file.real("nemotron.attention.layer_norm_epsilon", config_.norm_eps);
    file.text("nemotron.rope.scaling.type", "none");
    const TensorNames from = family_entry("nemotron").tensors;
    const TensorNames to = gguf_tensor_names("nemotron");
    const int64_t hidden = config_.hidden_dim;
    copy(file, from.embedding, to.embedding, config_.vocab_size, hidden, false);
    copy(file, from.head, to.head, config_.vocab_size, hidden, false);
    copy_norm(file, from.final_norm, to.final_norm);
    for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
      const LayerTensorNames a = from.layer(layer), b = to.layer(layer);
      copy_norm(file, a.attn_norm, b.attn_norm);
      copy_norm(file, a.ffn_norm, b.ffn_norm);
      copy(file, a.q, b.q, config_.q_dim(), hidden);
      copy(file, a.k, b.k, config_.kv_dim(), hidden);
      copy(file, a.v, b.v, config_.kv_dim(), hidden);
      copy(file, a.o, b.o, hidden, config_.q_dim());
      copy(file, a.up, b.up, config_.ffn_dim, hidden);
      copy(file, a.down, b.down, hidden, config_.ffn_dim);
    }
    if (edit) edit(file);
    file.write(path_);
  }

  static void add(GgufBytes& file, const std::string& name, const std::vector<int64_t>& shape,
                  const std::vector<float>& values) {
    file.tensor(name, kGgmlF32, {shape.begin(), shape.end()},
                {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  }

  void copy_vector(GgufBytes& file, const std::string& from, const std::string& to, int64_t count,
                   float more = 0) const {
    std::vector<float> values = checkpoint_.values(from, std::vector{count});
    for (float& value : values) value += more;
    add(file, to, {count}, values);
  }

  void copy_norm(GgufBytes& file, std::string_view from, std::string_view to) const {
    copy_vector(file, std::string(from) + ".weight", std::string(to) + ".weight", config_.hidden_dim, 1);
    copy_vector(file, std::string(from) + ".bias", std::string(to) + ".bias", config_.hidden_dim);
  }

  void copy(GgufBytes& file, std::string_view from, std::string_view to, int64_t outputs, int64_t inputs,
            bool has_bias = true) const {
    const std::vector<int64_t> shape = {outputs, inputs};
    add(file, std::string(to) + ".weight", shape, checkpoint_.values(std::string(from) + ".weight", shape));
    if (has_bias) copy_vector(file, std::string(from) + ".bias", std::string(to) + ".bias", outputs);
  }

  std::vector<float> logits(const std::filesystem::path& model) const {
    ThreadPool threads(1);
    Runner run(Model::load(model, DType::kF32, threads), default_table(), 1);
    return run.logits(canvas_plan(random_tokens(3, 12, config_.vocab_size), OwnRows::kCausal));
  }

  std::filesystem::path source_ = golden_folder("nemotron");
  ModelConfig config_ = read_config(source_);
  Checkpoint checkpoint_ = Checkpoint::open(source_);
  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "model.gguf";
};

TEST_F(NemotronFile, IsTheModelOfItsFolder) {
  write();
  const ModelConfig config = read_config(path_);
  EXPECT_EQ(config.family, "nemotron");
  EXPECT_TRUE(config.layer_norm && config.qkv_bias && config.attn_output_bias && config.ffn_bias);
  EXPECT_FALSE(config.norm_offset);
  EXPECT_EQ(config.rotary_dim, config_.rotary_dim);
  EXPECT_EQ(logits(path_), logits(source_));
}

TEST_F(NemotronFile, RefusesWhatItDoesNotRead) {
  const auto load = [&] { (void)open_weights(path_, read_config(path_)); };
  write([&](GgufBytes& file) { add(file, "blk.0.ffn_gate.weight", {4}, {0, 0, 0, 0}); });
  EXPECT_THAT(load, ThrowsMessage<InputError>(HasSubstr("blk.0.ffn_gate.weight")));
  write([](GgufBytes& file) { file.number("nemotron.expert_count", 8); });
  EXPECT_THAT(load, ThrowsMessage<InputError>(HasSubstr("nemotron.expert_count")));
}

TEST_F(NemotronFile, RefusesAdaptersThatReplaceItsNorms) {
  write();
  const auto load = [&](const std::filesystem::path& model) {
    const std::vector<AdapterChoice> adapters = {{folder_.path() / "adapter", 1}};
    (void)open_weights(model, with_adapters(model, read_config(model), adapters).config);
  };
  LoraFiles files;
  files.config["modules_to_save"] = {"norm"};
  files.add("base_model.model.model.norm.weight", {config_.hidden_dim});
  files.write(folder_.path() / "adapter");
  EXPECT_NO_THROW(load(source_));
  EXPECT_THAT([&] { load(path_); }, ThrowsMessage<InputError>(HasSubstr("stored otherwise in GGUF files")));
}

}  // namespace
}  // namespace lacuna::nemotron_test
