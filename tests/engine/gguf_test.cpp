// Models that ship with the repository, written as GGUF files: they must be the same models.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "backend/sharded.h"
#include "base/error.h"
#include "gguf_bytes.h"
#include "model/adapters.h"
#include "model/counting_source.h"
#include "model/gguf_model.h"
#include "model/read_config.h"
#include "model/tiny_models.h"
#include "temporary_folder.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"
#include "weights/quantize.h"

namespace lacuna::gguf_test {
namespace {

using test::GgufBytes;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::filesystem::path zoo_folder(const std::string& name) {
  return std::filesystem::path(LACUNA_SOURCE_DIR) / "models" / name;
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Turns a checkpoint folder into one GGUF file, as llama.cpp's converters do.
class GgufWriter {
 public:
  GgufWriter(const std::string& model, const std::string& architecture, uint32_t type)
      : folder_(zoo_folder(model)),
        config_(read_config(folder_)),
        checkpoint_(Checkpoint::open(folder_)),
        architecture_(architecture),
        type_(type) {}

  void write(const std::filesystem::path& path) {
    add_keys();
    add_tensors();
    file_.write(path);
  }

 private:
  void add_keys() {
    const auto key = [&](const char* name) { return architecture_ + '.' + name; };
    const auto number = [&](const char* name, int64_t value) {
      file_.number(key(name), static_cast<uint32_t>(value));
    };
    file_.text("general.architecture", architecture_);
    number("block_count", config_.num_layers);
    number("embedding_length", config_.hidden_dim);
    number("feed_forward_length", config_.ffn_dim);
    number("attention.head_count", config_.num_heads);
    number("attention.head_count_kv", config_.num_kv_heads);
    number("attention.key_length", config_.head_dim);
    number("context_length", config_.max_positions);
    if (config_.has_experts()) add_expert_keys(number);
    file_.real(key("rope.freq_base"), config_.rope.theta);
    file_.real(key("attention.layer_norm_rms_epsilon"), config_.norm_eps);
    if (!config_.causal) file_.flag(key("attention.causal"), false);
    const auto token = [&](const char* name, TokenId id) {
      if (id >= 0)
        file_.number(std::string("tokenizer.ggml.") + name + "_token_id", static_cast<uint32_t>(id));
    };
    token("eos", config_.eos_id);
    for (const TokenId end : config_.end_ids) {
      if (end != config_.eos_id) token("eot", end);
    }
    token("padding", config_.pad_id);
    token("mask", config_.mask_id);
    file_.text("tokenizer.huggingface.json", read_text(folder_ / "tokenizer.json"));
    const auto tokenizer = nlohmann::json::parse(read_text(folder_ / "tokenizer_config.json"));
    if (tokenizer.contains("chat_template"))
      file_.text("tokenizer.chat_template", tokenizer["chat_template"].get<std::string>());
  }

  void add_expert_keys(const auto& number) {
    const MoeConfig& moe = config_.moe;
    number("rope.dimension_count", config_.rotary_dim);
    number("leading_dense_block_count", moe.first_dense_layers);
    number("expert_count", moe.num_experts);
    number("expert_used_count", moe.experts_per_token);
    number("expert_feed_forward_length", moe.expert_ffn_dim);
    number("expert_shared_feed_forward_length", moe.shared_ffn_dim);
    number("expert_shared_count", moe.shared_ffn_dim / moe.expert_ffn_dim);
    number("expert_group_count", moe.num_groups);
    number("expert_group_used_count", moe.groups_per_token);
    number("expert_gating_func", 2);
    file_.real(architecture_ + ".expert_weights_scale", moe.routed_scale);
    file_.flag(architecture_ + ".expert_weights_norm", true);
    file_.number("diffusion.block_length", static_cast<uint32_t>(config_.block_length));
  }

  void add_tensors() {
    const TensorNames from = family_entry(config_.family).tensors;
    const TensorNames to = gguf_tensor_names(config_.family);
    const int64_t hidden = config_.hidden_dim;
    matrix(from.embedding, to.embedding, config_.vocab_size, hidden);
    vector(from.final_norm, to.final_norm, ".weight", hidden);
    if (!config_.tied_embeddings) matrix(from.head, to.head, config_.vocab_size, hidden);
    const bool is_llada = config_.family == "llada";
    for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
      const LayerTensorNames a = from.layer(layer);
      const LayerTensorNames b = to.layer(layer);
      vector(a.attn_norm, b.attn_norm, ".weight", hidden);
      vector(a.ffn_norm, b.ffn_norm, ".weight", hidden);
      if (a.qkv.empty()) {
        matrix(a.q, b.q, config_.q_dim(), hidden, is_llada ? config_.num_heads : 0);
        matrix(a.k, b.k, config_.kv_dim(), hidden, is_llada ? config_.num_kv_heads : 0);
        matrix(a.v, b.v, config_.kv_dim(), hidden);
      } else {
        matrix(a.qkv, b.qkv, config_.q_dim() + 2 * config_.kv_dim(), hidden);
      }
      matrix(a.o, b.o, hidden, config_.q_dim());
      if (config_.layer_has_experts(layer)) {
        add_experts(layer, a, b);
      } else {
        feed_forward({a.gate, a.up, a.down}, {b.gate, b.up, b.down}, config_.ffn_dim);
      }
      if (config_.qkv_bias) {
        vector(a.q, b.q, ".bias", config_.q_dim());
        vector(a.k, b.k, ".bias", config_.kv_dim());
        vector(a.v, b.v, ".bias", config_.kv_dim());
      }
      if (config_.qk_norm_per_head) {
        vector(a.q_norm, b.q_norm, ".weight", config_.head_dim);
        vector(a.k_norm, b.k_norm, ".weight", config_.head_dim);
      }
    }
  }

  void add_experts(int64_t layer, const LayerTensorNames& from, const LayerTensorNames& to) {
    const MoeConfig& moe = config_.moe;
    const auto experts = static_cast<uint64_t>(moe.num_experts);
    const auto hidden = static_cast<uint64_t>(config_.hidden_dim);
    const auto width = static_cast<uint64_t>(moe.expert_ffn_dim);
    vector(from.expert_bias, to.expert_bias, "", moe.num_experts);
    feed_forward(from.shared, to.shared, moe.shared_ffn_dim);
    std::string router;
    for (const float value :
         checkpoint_.values(from.router + ".weight", std::array{moe.num_experts, config_.hidden_dim}))
      GgufBytes::append(router, value);
    file_.tensor(to.router + ".weight", kGgmlF32, {experts, hidden}, router);
    std::string gate, up, down;
    for (int64_t e = 0; e < moe.num_experts; ++e) {
      const ExpertTensorNames expert = family_entry(config_.family).tensors.expert(layer, e);
      gate += rows(expert.gate, moe.expert_ffn_dim, config_.hidden_dim);
      up += rows(expert.up, moe.expert_ffn_dim, config_.hidden_dim);
      down += rows(expert.down, config_.hidden_dim, moe.expert_ffn_dim);
    }
    file_.tensor(to.stacked_experts.gate + ".weight", type_, {experts, width, hidden}, gate);
    file_.tensor(to.stacked_experts.up + ".weight", type_, {experts, width, hidden}, up);
    file_.tensor(to.stacked_experts.down + ".weight", type_, {experts, hidden, width}, down);
  }

  void feed_forward(const ExpertTensorNames& from, const ExpertTensorNames& to, int64_t width) {
    matrix(from.gate, to.gate, width, config_.hidden_dim);
    matrix(from.up, to.up, width, config_.hidden_dim);
    matrix(from.down, to.down, config_.hidden_dim, width);
  }

  void vector(std::string_view from, std::string_view to, const std::string& suffix, int64_t count) {
    const std::vector<float> values = checkpoint_.values(std::string(from) + suffix, std::array{count});
    std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    file_.tensor(std::string(to) + suffix, kGgmlF32, {static_cast<uint64_t>(count)}, bytes);
  }

  void matrix(std::string_view from, std::string_view to, int64_t count, int64_t inputs, int64_t heads = 0) {
    file_.tensor(std::string(to) + ".weight", type_,
                 {static_cast<uint64_t>(count), static_cast<uint64_t>(inputs)},
                 rows(from, count, inputs, heads));
  }

  /// With heads, row j + s * half of each goes to row 2j + s.
  std::string rows(std::string_view from, int64_t count, int64_t inputs, int64_t heads = 0) {
    const auto stored = checkpoint_.matrix(from, count, inputs);
    std::vector<float> row(static_cast<size_t>(inputs));
    std::string bytes;
    for (int64_t n = 0; n < count; ++n) {
      int64_t source = n;
      if (heads > 0) {
        const int64_t width = count / heads;
        source = n / width * width + n % width % 2 * (width / 2) + n % width / 2;
      }
      stored->read(source, row.data());
      append_row(row, bytes);
    }
    return bytes;
  }

  void append_row(const std::vector<float>& row, std::string& bytes) const {
    if (type_ == kGgmlQ8_0) {
      QuantizedRow codes;
      quantize({.bits = 8, .group = 32}, row, codes);
      for (size_t k = 0; k < row.size(); ++k) {
        if (k % 32 == 0) GgufBytes::append(bytes, to_f16(codes.scales[k / 32]));
        bytes += static_cast<char>(codes.codes[k] - 128);
      }
      return;
    }
    for (const float value : row) {
      if (type_ == kGgmlF32) GgufBytes::append(bytes, value);
      if (type_ == kGgmlF16) GgufBytes::append(bytes, to_f16(value));
      if (type_ == kGgmlBf16) GgufBytes::append(bytes, bf16(value));
    }
  }

  std::filesystem::path folder_;
  ModelConfig config_;
  Checkpoint checkpoint_;
  std::string architecture_;
  uint32_t type_;
  GgufBytes file_;
};

struct Case {
  std::string model;
  std::string architecture;
};

void PrintTo(const Case& value, std::ostream* out) {
  *out << value.model;
}

class GgufModels : public testing::TestWithParam<Case> {
 protected:
  std::vector<float> logits(const std::filesystem::path& model, const WeightFormats& formats) {
    ThreadPool threads(2);
    Runner runner(Model::load(model, formats, threads), default_table(), 2);
    const ModelConfig& config = runner.model().config();
    return runner.logits(canvas_plan(random_tokens(1, 24, config.vocab_size), own_rows_of(config)));
  }

  void write(uint32_t type) { GgufWriter(GetParam().model, GetParam().architecture, type).write(path_); }

  const TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "model.gguf";
};

TEST_P(GgufModels, OfBf16AreTheFoldersModel) {
  write(kGgmlBf16);
  const ModelConfig folder = read_config(zoo_folder(GetParam().model));
  const ModelConfig file = read_config(path_);
  EXPECT_EQ(file.family, folder.family);
  EXPECT_EQ(file.mask_id, folder.mask_id);
  EXPECT_EQ(file.end_ids, folder.end_ids);
  EXPECT_EQ(file.max_positions, folder.max_positions);
  EXPECT_EQ(file.block_length, folder.block_length);
  EXPECT_EQ(logits(path_, DType::kBF16), logits(zoo_folder(GetParam().model), DType::kBF16));
}

TEST_P(GgufModels, OfQ8HaveTheBitsOfInt8Weights) {
  write(kGgmlQ8_0);
  WeightFormats int8(DType::kF32);
  int8.layers = *weight_format("int8-group");
  int8.embedding = *weight_format("int8-group");
  EXPECT_EQ(logits(path_, DType::kF32), logits(zoo_folder(GetParam().model), int8));
}

TEST_P(GgufModels, HaveTheSameBitsInAPackedCopy) {
  write(kGgmlQ8_0);
  const ModelConfig config = read_config(path_);
  ThreadPool threads(1);
  const TemporaryFolder copy;
  ShardWriter writer(copy.path());
  pack_parameters(config, *open_weights(path_, config), DType::kBF16, threads, {},
                  [&](HeldTensors held) { writer.add(std::move(held)); });
  writer.finish();
  auto written = nlohmann::json::parse(gguf_config_text(GgufFile::open(path_)));
  written["quantization_config"] = {
      {"quant_method", "lacuna-packed"}, {"version", 2}, {"dtype", "bf16"}, {"names", "gguf"}};
  copy.write("config.json", written.dump());
  EXPECT_EQ(logits(copy.path(), DType::kBF16), logits(path_, DType::kBF16));
}

TEST_P(GgufModels, AreReadByEachRankAsFarAsTheRankNeedsThem) {
  for (const uint32_t type : {kGgmlBf16, kGgmlQ8_0}) {
    write(type);
    const ModelConfig config = read_config(path_);
    if (!config.has_experts()) expect_fair_shares(path_, config, DType::kBF16);  // their panels divide evenly
    for (const ShardBy by : kAllWaysToShard) {
      ThreadPool threads(1);
      const auto plan = canvas_plan(random_tokens(1, 24, config.vocab_size), own_rows_of(config));
      const auto samples_of = [&](const BackendModel& model) {
        const auto pool = model.make_pool();
        const auto sequence = pool->make_sequence({24});
        KvSequence* sequences[] = {sequence.get()};
        const auto ticket = model.submit(plan, sequences);
        return std::vector(ticket->wait().samples.begin(), ticket->wait().samples.end());
      };
      const auto whole = on_cpu(Model::load(path_, DType::kBF16, threads), default_table(), threads);
      ShardedOverThreads sharded(config, by, 3, DType::kBF16, {}, path_);
      EXPECT_TRUE(samples_of(*sharded.model()) == samples_of(*whole)) << name_of(by);
      EXPECT_EQ(sharded.stop(), "");
    }
  }
}

TEST_P(GgufModels, BringTheirTokenizer) {
  write(kGgmlF16);
  const Tokenizer folder = Tokenizer::load(zoo_folder(GetParam().model));
  const Tokenizer file = Tokenizer::load(path_);
  const std::string text = "Tom has 12 apples and buys 7 more. How many apples does he have?";
  EXPECT_EQ(file.encode(text), folder.encode(text));
  EXPECT_EQ(load_chat_template(path_).program(), load_chat_template(zoo_folder(GetParam().model)).program());
}

INSTANTIATE_TEST_SUITE_P(Zoo, GgufModels,
                         testing::Values(Case{"mini-llada", "llada"}, Case{"mini-dream", "dream"},
                                         Case{"mini-qwen", "qwen2"}, Case{"mini-qwen3", "qwen3"},
                                         Case{"mini-llada2", "llada2"}),
                         [](const auto& test) { return test.param.architecture; });

TEST(GgufModel, OfAnotherArchitectureIsRefused) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "other.gguf";
  GgufBytes file;
  file.text("general.architecture", "mamba");
  file.write(path);
  EXPECT_THAT([&] { read_config(path); },
              ThrowsMessage<InputError>(HasSubstr("\"general.architecture\" is \"mamba\"; expected llada")));
}

/// The config of a file of architecture llada2 with Ling 2.0's keys, but for `changed` ones and those that
/// are 0.
class GgufLlada2 : public testing::Test {
 protected:
  ModelConfig read(const std::map<std::string, uint32_t>& changed = {}) {
    std::map<std::string, uint32_t> numbers = {{"block_count", 3},
                                               {"embedding_length", 48},
                                               {"feed_forward_length", 64},
                                               {"attention.head_count", 6},
                                               {"attention.head_count_kv", 2},
                                               {"attention.key_length", 10},
                                               {"context_length", 128},
                                               {"rope.dimension_count", 6},
                                               {"expert_count", 8},
                                               {"expert_used_count", 2},
                                               {"expert_group_count", 4},
                                               {"expert_group_used_count", 2},
                                               {"expert_feed_forward_length", 32},
                                               {"expert_shared_count", 2},
                                               {"expert_shared_feed_forward_length", 64},
                                               {"leading_dense_block_count", 1},
                                               {"expert_gating_func", 2}};
    for (const auto& [key, value] : changed) numbers[key] = value;
    GgufBytes file;
    file.text("general.architecture", "llada2");
    for (const auto& [key, value] : numbers) {
      if (value != 0) file.number("llada2." + key, value);
    }
    file.real("llada2.attention.layer_norm_rms_epsilon", 1e-6F);
    file.real("llada2.rope.freq_base", 600000);
    file.real("llada2.expert_weights_scale", 2.5F);
    file.number("tokenizer.ggml.mask_token_id", 63);
    file.number("tokenizer.ggml.eos_token_id", 62);
    file.tensor("token_embd.weight", kGgmlF32, {64, 48}, std::string(64 * 48 * sizeof(float), '\0'));
    file.tensor("blk.1.exp_probs_b.bias", kGgmlF32, {8}, std::string(8 * sizeof(float), '\0'));
    file.write(path_);
    return read_config(path_);
  }

  const TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "model.gguf";
};

TEST_F(GgufLlada2, HasTheExpertsThatItsKeysName) {
  const ModelConfig config = read();
  EXPECT_EQ(config.family, "llada2");
  EXPECT_EQ(config.rotary_dim, 6);
  EXPECT_EQ(config.block_length, 32);
  EXPECT_EQ(config.mask_id, 63);
  EXPECT_EQ(config.end_ids, std::vector<TokenId>{62});
  EXPECT_EQ(config.ffn_dim, 64);
  EXPECT_FALSE(config.qkv_bias);
  EXPECT_FALSE(config.attn_output_bias);
  EXPECT_EQ(config.moe.num_experts, 8);
  EXPECT_EQ(config.moe.experts_per_token, 2);
  EXPECT_EQ(config.moe.expert_ffn_dim, 32);
  EXPECT_EQ(config.moe.shared_ffn_dim, 64);
  EXPECT_EQ(config.moe.first_dense_layers, 1);
  EXPECT_EQ(config.moe.num_groups, 4);
  EXPECT_EQ(config.moe.groups_per_token, 2);
  EXPECT_EQ(config.moe.routed_scale, 2.5F);
  EXPECT_TRUE(config.moe.selection_bias);
  EXPECT_TRUE(config.moe.sigmoid_scores);
}

TEST_F(GgufLlada2, TurnsAsManyDimensionsAsItsKeySays) {
  for (uint32_t rotary_dim = 2; rotary_dim <= 82; rotary_dim += 2) {
    const ModelConfig config = read({{"attention.key_length", 82}, {"rope.dimension_count", rotary_dim}});
    EXPECT_EQ(config.rotary_dim, rotary_dim);
  }
}

// The keys that llama.cpp reads.
TEST_F(GgufLlada2, TurnsWholeHeadsWithoutThatKey) {
  EXPECT_EQ(read({{"rope.dimension_count", 0}}).rotary_dim, 10);
}

TEST_F(GgufLlada2, WhoseLayersWouldBeComputedOtherwiseIsRefused) {
  const auto refused = [&](const char* key, uint32_t value) {
    EXPECT_THAT([&] { read({{key, value}}); }, ThrowsMessage<InputError>(HasSubstr(key))) << value;
  };
  refused("expert_gating_func", 1);
  refused("expert_shared_feed_forward_length", 32);
  refused("nextn_predict_layers", 1);
  refused("rope.dimension_count", 12);
  refused("expert_used_count", 9);
  refused("expert_group_count", 9);
  refused("attention.value_length", 12);
}

TEST_F(GgufLlada2, IsRefusedByAKeyThatIsNotKnown) {
  EXPECT_THAT(
      [&] {
        read({{"attn_logit_softcapping", 30}});
      },
      ThrowsMessage<InputError>(HasSubstr("\"llada2.attn_logit_softcapping\" is not known")));
  EXPECT_NO_THROW(read({{"vocab_size", 64}}));
  const ConfigChoices choices = {.ignored_keys = {"llada2.attn_logit_softcapping"}};
  EXPECT_EQ(read_config(path_, choices), read());
}

}  // namespace
}  // namespace lacuna::gguf_test
