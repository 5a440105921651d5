#include "model/gguf_keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "model/family_parts.h"

namespace lacuna {

std::vector<std::string> GgufKeys::unread() const {
  std::vector<std::string> names;
  for (const std::string_view name : file_.keys()) {
    if (name.starts_with(prefix_) && asked_->count(std::string(name)) == 0) names.emplace_back(name);
  }
  return names;
}

int64_t gguf_rows(const GgufFile& file, std::string_view tensor) {
  const GgufTensor* found = file.find(tensor);
  if (found == nullptr || found->shape.size() != 2)
    throw InputError("{}: holds no matrix {}; expected a whole model", file.name(), in_quotes(tensor));
  return found->shape[0];
}

nlohmann::json gguf_sizes(const GgufKeys& keys, std::string_view architecture, bool slides,
                          bool has_layer_norm) {
  const GgufFile& file = keys.file();
  const int64_t hidden = keys.integer("embedding_length", kWidth);
  const int64_t heads = keys.integer("attention.head_count", kWidth);
  const int64_t head_dim = keys.integer("attention.key_length", kWidth, std::max<int64_t>(1, hidden / heads));
  keys.integer("attention.value_length", {head_dim, head_dim}, head_dim);
  const int64_t positions = keys.integer("context_length", kPositionCount);
  if (!slides) keys.integer("attention.sliding_window", {positions, kPositionCount.last}, positions);
  return {
      {"architectures", nlohmann::json::array({architecture})},
      {"num_hidden_layers", keys.integer("block_count", kLayerCount)},
      {"hidden_size", hidden},
      {"num_attention_heads", heads},
      {"num_key_value_heads", keys.integer("attention.head_count_kv", kWidth, heads)},
      {"head_dim", head_dim},
      {"vocab_size", gguf_rows(file, "token_embd.weight")},
      {"tie_word_embeddings", file.find("output.weight") == nullptr},
      {"max_position_embeddings", positions},
      {"rope_theta", keys.number("rope.freq_base", 10000.0)},
      {has_layer_norm ? "norm_eps" : "rms_norm_eps",
       keys.number(has_layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon")}};
}

nlohmann::json gguf_dense_config(const GgufKeys& keys, std::string_view architecture, bool has_layer_norm) {
  nlohmann::json config = gguf_sizes(keys, architecture, false, has_layer_norm);
  config["intermediate_size"] = keys.integer("feed_forward_length", kWidth);
  return config;
}

LayerTensorNames gguf_layer(int64_t layer) {
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

}  // namespace lacuna
