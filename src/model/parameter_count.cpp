// The number of a model's parameters, from its config alone.
#include "model/parameters.h"

namespace lacuna {
namespace {

int64_t count_of_feed_forward(const ModelConfig& config, int64_t dim) {
  int64_t count = (config.activation == Activation::kSquaredRelu ? 2 : 3) * config.hidden_dim * dim;
  if (config.ffn_bias) count += dim + config.hidden_dim;
  return count;
}

int64_t count_of_layer(const ModelConfig& config, int64_t layer) {
  const int64_t hidden = config.hidden_dim;
  const int64_t q_dim = config.q_dim_of(layer);
  const int64_t kv_dim = config.kv_dim_of(layer);
  const MoeConfig& moe = config.moe;
  if (config.convolves(layer)) {
    return hidden * (4 * hidden + config.convolution->taps + 2) +
           count_of_feed_forward(config, config.ffn_dim);
  }
  int64_t count = 2 * hidden + hidden * (2 * q_dim + kv_dim);
  if (config.has_value_projection(layer)) count += hidden * kv_dim;
  if (config.qkv_bias) count += q_dim + 2 * kv_dim;
  if (config.attn_output_bias) count += hidden;
  if (config.qk_norm_per_head) count += 2 * config.head_dim_of(layer);
  if (config.qk_norm_full) count += q_dim + kv_dim;
  if (config.kv_sink) count += 2 * kv_dim;
  if (config.norms_outputs) count += 2 * hidden;
  if (config.layer_norm) count += 2 * hidden;
  if (config.layer_scalars) count += 2;
  if (!config.layer_has_experts(layer)) return count + count_of_feed_forward(config, config.ffn_dim);
  count += moe.num_experts * (hidden + 3 * hidden * moe.expert_ffn_dim);
  count += 3 * hidden * moe.shared_ffn_dim;
  if (moe.selection_bias) count += moe.num_experts;
  if (moe.parallel_dense) {
    count += count_of_feed_forward(config, config.ffn_dim) + 4 * hidden + moe.num_experts;
  }
  return count;
}

}  // namespace

int64_t count_parameters(const ModelConfig& config) {
  const int64_t hidden = config.hidden_dim;
  int64_t count = (config.tied_embeddings ? 1 : 2) * config.vocab_size * hidden + hidden;
  for (int64_t layer = 0; layer < config.num_layers; ++layer) count += count_of_layer(config, layer);
  if (config.layer_norm) count += hidden;
  if (!config.canvas) return count;
  count += hidden;
  if (!config.canvas->ancestral)
    return count + count_of_feed_forward(config, config.canvas->conditioning_dim);
  const auto& [noise, frequencies, has_bias, num_tokens] = *config.canvas->ancestral;
  const int64_t width = 3 * hidden;
  count += 2 * hidden * hidden + (has_bias ? hidden : 0);
  return count + noise * (frequencies + noise + 2) + width * (noise + 1 + config.num_layers);
}

}  // namespace lacuna
