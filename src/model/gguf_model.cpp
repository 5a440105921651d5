#include "model/gguf_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "model/family_parts.h"

namespace lacuna {
namespace {

using Json = nlohmann::json;

constexpr int64_t kControlToken = 3;
constexpr int64_t kSigmoidGating = 2;

LayerTensorNames name_gguf_layer(int64_t layer) {
  const std::string block = fmt::format("blk.{}.", layer);
  LayerTensorNames names;
  names.attn_norm = block + "attn_norm";
  names.q = block + "attn_q";
  names.k = block + "attn_k";
  names.v = block + "attn_v";
  names.o = block + "attn_output";
  names.q_norm = block + "attn_q_norm";
  names.k_norm = block + "attn_k_norm";
  names.ffn_norm = block + "ffn_norm";
  names.gate = block + "ffn_gate";
  names.up = block + "ffn_up";
  names.down = block + "ffn_down";
  names.router = block + "ffn_gate_inp";
  names.expert_bias = block + "exp_probs_b.bias";
  names.shared = {block + "ffn_gate_shexp", block + "ffn_up_shexp", block + "ffn_down_shexp"};
  names.stacked_experts = {block + "ffn_gate_exps", block + "ffn_up_exps", block + "ffn_down_exps"};
  return names;
}

LayerTensorNames name_gguf_layer_of_llada2(int64_t layer) {
  LayerTensorNames names = name_gguf_layer(layer);
  names.q = names.k = names.v = "";
  names.qkv = fmt::format("blk.{}.attn_qkv", layer);
  return names;
}

/// A file's keys under its architecture's prefix.
class ArchitectureKeys {
 public:
  explicit ArchitectureKeys(const GgufFile& file)
      : file_(file), prefix_(std::string(file.text("general.architecture")) + '.') {}

  std::string key(std::string_view name) const { return prefix_ + std::string(name); }
  bool has(std::string_view name) const { return file_.has(key(name)); }
  int64_t integer(std::string_view name, Range<int64_t> range, std::optional<int64_t> fallback = {}) const {
    return file_.integer(key(name), range, fallback);
  }
  double number(std::string_view name, std::optional<double> fallback = {}) const {
    return file_.number(key(name), fallback);
  }
  /// Only this value is supported, and it is what a file without the key means.
  void expect(std::string_view name, bool value) const {
    if (file_.flag(key(name), value) != value) file_.refuse(key(name), value ? "true" : "false");
  }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

int64_t rows_of(const GgufFile& file, std::string_view tensor) {
  const GgufTensor* found = file.find(tensor);
  if (found == nullptr || found->shape.size() != 2)
    throw InputError("{}: holds no matrix {}; expected a whole model", file.name(), in_quotes(tensor));
  return found->shape[0];
}

/// Sizes under the names of the transformers library.
Json transformers_sizes(const GgufFile& file, const ArchitectureKeys& keys) {
  const int64_t hidden = keys.integer("embedding_length", kWidth);
  const int64_t heads = keys.integer("attention.head_count", kWidth);
  return {{"num_hidden_layers", keys.integer("block_count", kLayerCount)},
          {"hidden_size", hidden},
          {"num_attention_heads", heads},
          {"num_key_value_heads", keys.integer("attention.head_count_kv", kWidth, heads)},
          {"head_dim", keys.integer("attention.key_length", kWidth, std::max<int64_t>(1, hidden / heads))},
          {"vocab_size", rows_of(file, "token_embd.weight")},
          {"tie_word_embeddings", file.find("output.weight") == nullptr},
          {"max_position_embeddings", keys.integer("context_length", kPositionCount)},
          {"rope_theta", keys.number("rope.freq_base", 10000.0)},
          {"rms_norm_eps", keys.number("attention.layer_norm_rms_epsilon")}};
}

/// Kept only where it says something: families that know no scaling refuse any.
void add_rope_scaling(const GgufFile& file, const ArchitectureKeys& keys, Json& config) {
  const std::string_view type = file.text(keys.key("rope.scaling.type"), "none");
  if (type == "none") return;
  Json scaling = {{"rope_type", type}, {"factor", keys.number("rope.scaling.factor")}};
  if (keys.has("rope.scaling.original_context_length")) {
    scaling["original_max_position_embeddings"] =
        keys.integer("rope.scaling.original_context_length", kPositionCount);
  }
  config["rope_scaling"] = scaling;
}

Json llada_config(const GgufFile& file, const ArchitectureKeys& keys) {
  const Json sizes = transformers_sizes(file, keys);
  return {{"architectures", Json::array({"LLaDAModelLM"})},
          {"block_type", "llama"},
          {"layer_norm_type", "rms"},
          {"activation_type", "silu"},
          {"rope", true},
          {"n_layers", sizes["num_hidden_layers"]},
          {"d_model", sizes["hidden_size"]},
          {"n_heads", sizes["num_attention_heads"]},
          {"n_kv_heads", sizes["num_key_value_heads"]},
          {"head_dim", sizes["head_dim"]},
          {"mlp_hidden_size", keys.integer("feed_forward_length", kWidth)},
          {"vocab_size", sizes["vocab_size"]},
          {"weight_tying", sizes["tie_word_embeddings"]},
          {"max_sequence_length", sizes["max_position_embeddings"]},
          {"rope_theta", sizes["rope_theta"]},
          {"rms_norm_eps", sizes["rms_norm_eps"]}};
}

Json llada_moe_config(const GgufFile& file, const ArchitectureKeys& keys) {
  Json config = transformers_sizes(file, keys);
  config["architectures"] = Json::array({"LLaDAMoEModelLM"});
  config["num_experts"] = keys.integer("expert_count", kExpertCount);
  config["num_experts_per_tok"] = keys.integer("expert_used_count", kExpertCount);
  config["expert_intermediate_size"] = keys.integer("expert_feed_forward_length", kWidth);
  config["qk_layernorm"] = file.find("blk.0.attn_q_norm.weight") != nullptr;
  return config;
}

/// Ling 2.0's keys (llama.cpp's bailingmoe2), which LLaDA 2 shares but for the name of the architecture.
Json llada2_config(const GgufFile& file, const ArchitectureKeys& keys) {
  Json config = transformers_sizes(file, keys);
  const auto head_dim = config["head_dim"].get<int64_t>();
  const int64_t rotary_dim = keys.integer("rope.dimension_count", {1, head_dim}, head_dim);
  config["architectures"] = Json::array({"LLaDA2MoeModelLM"});
  config["rotary_dim"] = rotary_dim;
  // The half more is cut off again, and makes up for rounding.
  config["partial_rotary_factor"] =
      std::min(1.0, (static_cast<double>(rotary_dim) + 0.5) / static_cast<double>(head_dim));
  config["intermediate_size"] = keys.integer("feed_forward_length", kWidth);

  const int64_t experts = keys.integer("expert_count", kExpertCount);
  const int64_t expert_width = keys.integer("expert_feed_forward_length", kWidth);
  const int64_t shared = keys.integer("expert_shared_count", {0, kExpertCount.last}, 0);
  const int64_t dense_layers = keys.integer("leading_dense_block_count", {0, kLayerCount.last}, 0);
  const int64_t shared_width = shared * expert_width;
  keys.integer("expert_shared_feed_forward_length", {shared_width, shared_width}, shared_width);
  keys.integer("expert_gating_func", {kSigmoidGating, kSigmoidGating}, kSigmoidGating);
  keys.expect("expert_weights_norm", true);
  keys.integer("nextn_predict_layers", {0, 0}, 0);
  config["num_experts"] = experts;
  config["num_experts_per_tok"] = keys.integer("expert_used_count", {1, experts});
  config["moe_intermediate_size"] = expert_width;
  config["num_shared_experts"] = shared;
  config["first_k_dense_replace"] = dense_layers;
  config["n_group"] = keys.integer("expert_group_count", {1, experts}, 1);
  config["topk_group"] = keys.integer("expert_group_used_count", {1, experts}, 1);
  config["routed_scaling_factor"] = keys.number("expert_weights_scale");
  const std::string bias = name_gguf_layer(dense_layers).expert_bias;
  config["moe_router_enable_expert_bias"] = file.find(bias) != nullptr;
  config["use_qkv_bias"] = file.find("blk.0.attn_qkv.bias") != nullptr;
  config["use_bias"] = file.find("blk.0.attn_output.bias") != nullptr;
  if (file.has("diffusion.block_length"))
    config["block_length"] = file.integer("diffusion.block_length", kPositionCount);
  return config;
}

Json dense_config(const GgufFile& file, const ArchitectureKeys& keys, const char* architecture) {
  Json config = transformers_sizes(file, keys);
  config["architectures"] = Json::array({architecture});
  config["intermediate_size"] = keys.integer("feed_forward_length", kWidth);
  return config;
}

struct Architecture {
  std::string_view name;
  bool is_causal;
  bool shifts_logits;
  int64_t usual_mask;  ///< the published one, which converters may leave out; -1: none
  Json (*config)(const GgufFile& file, const ArchitectureKeys& keys);
};

const std::array kArchitectures = {
    Architecture{"llada", false, false, 126336, llada_config},
    Architecture{"llada-moe", false, false, 156895, llada_moe_config},
    Architecture{"llada2", false, false, 156895, llada2_config},
    Architecture{"dream", false, true, 151666,
                 [](const GgufFile& file, const ArchitectureKeys& keys) {
                   return dense_config(file, keys, "DreamModel");
                 }},
    Architecture{"qwen2", true, false, -1,
                 [](const GgufFile& file, const ArchitectureKeys& keys) {
                   return dense_config(file, keys, "Qwen2ForCausalLM");
                 }},
    Architecture{"qwen3", true, false, -1,
                 [](const GgufFile& file, const ArchitectureKeys& keys) {
                   return dense_config(file, keys, "Qwen3ForCausalLM");
                 }},
};

const Architecture& architecture_of(const GgufFile& file) {
  const std::string_view name = file.text("general.architecture");
  const auto* found = std::find_if(kArchitectures.begin(), kArchitectures.end(),
                                   [&](const Architecture& known) { return known.name == name; });
  if (found == kArchitectures.end())
    file.refuse("general.architecture", "llada, llada-moe, llada2, dream, qwen2 or qwen3");
  return *found;
}

void add_token_ids(const GgufFile& file, const Architecture& architecture, Json& config) {
  const int64_t last = config["vocab_size"].get<int64_t>() - 1;
  const auto add = [&](const char* key, const char* name) {
    const std::string full = std::string("tokenizer.ggml.") + name;
    if (file.has(full)) config[key] = file.integer(full, {0, last});
  };
  add("bos_token_id", "bos_token_id");
  add("pad_token_id", "padding_token_id");
  add("mask_token_id", "mask_token_id");
  if (!config.contains("mask_token_id") && architecture.usual_mask >= 0 && architecture.usual_mask <= last)
    config["mask_token_id"] = architecture.usual_mask;
  Json ends = Json::array();
  for (const char* name : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    if (file.has(name)) ends.push_back(file.integer(name, {0, last}));
  }
  config["eos_token_id"] = ends;
}

/// The special tokens, as tokenizer_config.json would list them.
Json special_tokens(const GgufFile& file, int64_t vocab_size) {
  Json tokens = Json::object();
  if (!file.has("tokenizer.ggml.tokens") || !file.has("tokenizer.ggml.token_type")) return tokens;
  const auto& texts = file.texts("tokenizer.ggml.tokens");
  const auto& types = file.integers("tokenizer.ggml.token_type");
  const size_t count = std::min({texts.size(), types.size(), static_cast<size_t>(vocab_size)});
  for (size_t id = 0; id < count; ++id) {
    if (types[id] == kControlToken) tokens[std::to_string(id)] = {{"content", texts[id]}};
  }
  return {{"added_tokens_decoder", tokens}};
}

/// Texts of a file may be ill-formed.
std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string gguf_config_text(const GgufFile& file) {
  const Architecture& architecture = architecture_of(file);
  const ArchitectureKeys keys(file);
  keys.expect("attention.causal", architecture.is_causal);
  const std::string shift = "diffusion.shift_logits";
  if (!architecture.is_causal && file.flag(shift, architecture.shifts_logits) != architecture.shifts_logits) {
    file.refuse(shift, architecture.shifts_logits ? "true" : "false");
  }
  Json config = architecture.config(file, keys);
  if (keys.has("rope.dimension_count") && !config.contains("rotary_dim")) {
    const auto head_dim = config["head_dim"].get<int64_t>();
    keys.integer("rope.dimension_count", {head_dim, head_dim});
  }
  add_rope_scaling(file, keys, config);
  add_token_ids(file, architecture, config);
  return text_of(config);
}

ModelConfig read_gguf_config(const GgufFile& file) {
  const std::string config_text = gguf_config_text(file);
  const std::string tokens_text = text_of(special_tokens(file, rows_of(file, "token_embd.weight")));
  ModelConfig config =
      read_config_texts({.config = config_text, .tokenizer_config = tokens_text}, file.name());
  config.gguf_names = true;
  return config;
}

TensorNames gguf_tensor_names(Family family) {
  return {.embedding = "token_embd",
          .final_norm = "output_norm",
          .head = "output",
          .layer = family == Family::kLlada2 ? name_gguf_layer_of_llada2 : name_gguf_layer,
          .expert = nullptr};
}

GgufWeights gguf_weights(const GgufFile& file, const ModelConfig& config) {
  std::map<std::string, int64_t, std::less<>> interleaved;
  for (int64_t layer = 0; config.family == Family::kLlada && layer < config.num_layers; ++layer) {
    const LayerTensorNames names = name_gguf_layer(layer);
    interleaved[names.q] = config.num_heads;
    interleaved[names.k] = config.num_kv_heads;
  }
  return GgufWeights(file, std::move(interleaved));
}

}  // namespace lacuna
