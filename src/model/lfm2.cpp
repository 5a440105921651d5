// LFM2.5-350M-Diffusion (LiquidAI/lfm2.5-350m-diffusion-exp; Lfm2ForBlockDiffusion): LFM2's short
// convolutions and grouped attention, which read text causally and denoise blocks of uniform noise, with the
// same weights. docs/methods/canvas_diffusion.md, section 9, has the forward pass and its sources.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/family_parts.h"

namespace lacuna {
namespace {

constexpr std::string_view kAttends = "full_attention";
constexpr std::string_view kConvolves = "conv";
// Defaults of the class.
constexpr float kLfm2NormEps = 1e-5F;
constexpr float kLfm2Theta = 1e6F;
// The tokens that SGLang's port samples; the transformers code reads "real_vocab_size".
constexpr int64_t kPublishedTokens = 64400;
constexpr int64_t kPublishedRows = 65536;

/// Which layers convolve: "layer_types", or the other layers' numbers in "full_attn_idxs".
std::vector<bool> read_layers(const JsonObject& json, int64_t num_layers) {
  std::vector<bool> convolves(static_cast<size_t>(num_layers), json.has("full_attn_idxs"));
  for (const int64_t layer : json.one_or_more_integers("full_attn_idxs", {0, num_layers - 1}))
    convolves[static_cast<size_t>(layer)] = false;
  if (!json.has("layer_types")) return convolves;
  const std::vector<std::string> kinds = json.texts("layer_types");
  if (std::ssize(kinds) != num_layers) json.refuse("layer_types", fmt::format("a list of {}", num_layers));
  for (size_t layer = 0; layer < kinds.size(); ++layer) {
    if (kinds[layer] != kAttends && kinds[layer] != kConvolves)
      json.refuse("layer_types", fmt::format("a list of {} and {}", kConvolves, kAttends));
    const bool is_convolution = kinds[layer] == kConvolves;
    if (json.has("full_attn_idxs") && convolves[layer] != is_convolution)
      json.refuse("full_attn_idxs", fmt::format("the layers that \"layer_types\" calls {}", kAttends));
    convolves[layer] = is_convolution;
  }
  return convolves;
}

int64_t read_ffn_dim(const JsonObject& json) {
  constexpr const char* kOlderKey = "block_ff_dim";
  const bool is_older = json.has(kOlderKey);
  int64_t dim = json.integer(is_older ? kOlderKey : "intermediate_size", kWidth);
  if (is_older && json.has("intermediate_size")) json.integer("intermediate_size", kWidth);  // not used
  const int64_t multiple = json.integer("block_multiple_of", kWidth, 256);
  const float factor = json.number("block_ffn_dim_multiplier", {1e-3, 1e3}, 1.0F);
  if (!json.flag("block_auto_adjust_ff_dim", true)) return dim;
  dim = static_cast<int64_t>(double{factor} * static_cast<double>(2 * dim / 3));
  return std::max<int64_t>(1, (dim + multiple - 1) / multiple) * multiple;
}

/// Sizes that files repeat.
void expect_repeated(const JsonObject& json, const ModelConfig& config) {
  for (const char* key : {"block_dim", "conv_dim", "conv_dim_out"})
    json.integer(key, {config.hidden_dim, config.hidden_dim}, config.hidden_dim);
  json.integer("num_heads", {config.num_heads, config.num_heads}, config.num_heads);
  json.expect("block_use_swiglu", true);
  json.expect("use_pos_enc", true);
  json.expect("conv_bias", false);
  expect_silu(json);
}

CanvasConfig read_canvas(const JsonObject& json, const ModelConfig& config) {
  constexpr Range<int64_t> kLength{1, 1024};
  json.expect("adaln_conditioning", true);
  json.expect("self_conditioning", true);
  AncestralCanvas ancestral;
  ancestral.noise_dim = json.integer("sigma_cond_dim", kWidth, ancestral.noise_dim);
  ancestral.frequency_dim = json.integer("sigma_freq_embedding_size", kWidth, ancestral.frequency_dim);
  if (ancestral.frequency_dim % 2 != 0) json.refuse("sigma_freq_embedding_size", "an even number");
  ancestral.conditioning_bias = json.flag("selfcond_ffn_bias", true);
  ancestral.num_tokens =
      json.integer("real_vocab_size", {1, config.vocab_size},
                   config.vocab_size == kPublishedRows ? kPublishedTokens : config.vocab_size);
  CanvasConfig canvas;
  canvas.length = json.integer("diffusion_block_size", kLength, 32);
  canvas.conditioning_dim = config.hidden_dim;
  canvas.steps = 8;
  canvas.ancestral = ancestral;
  return canvas;
}

ModelConfig read_lfm2(const JsonObject& json) {
  ModelConfig config = read_transformers_sizes(json, "norm_eps", kLfm2NormEps);
  if (config.hidden_dim % 2 != 0) json.refuse("hidden_size", "an even number");
  // Both keys may be given, as may "block_norm_eps", which the class does not read.
  const bool is_tied = json.flag("tie_word_embeddings", true);
  config.tied_embeddings = json.flag("tie_embedding", is_tied);
  config.head_dim = read_head_dim(json, config);
  set_rope(json, config, {.usual_theta = kLfm2Theta});
  config.qk_norm_per_head = true;
  config.ffn_dim = read_ffn_dim(json);
  ShortConvolution convolution;
  convolution.layers = read_layers(json, config.num_layers);
  convolution.taps = json.integer("conv_L_cache", {1, 16}, convolution.taps);
  config.convolution = std::move(convolution);
  expect_repeated(json, config);
  config.canvas = read_canvas(json, config);
  config.pad_id = 0;
  config.bos_id = 1;
  config.eos_id = 2;
  return config;
}

LayerTensorNames name_lfm2_layer(int64_t layer) {
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  LayerTensorNames names;
  names.attn_norm = prefix + "operator_norm";
  names.q = prefix + "self_attn.q_proj";
  names.k = prefix + "self_attn.k_proj";
  names.v = prefix + "self_attn.v_proj";
  names.o = prefix + "self_attn.out_proj";
  names.q_norm = prefix + "self_attn.q_layernorm";
  names.k_norm = prefix + "self_attn.k_layernorm";
  names.convolution_in = prefix + "conv.in_proj";
  names.convolution_out = prefix + "conv.out_proj";
  names.taps = prefix + "conv.conv.weight";
  names.ffn_norm = prefix + "ffn_norm";
  names.gate = prefix + "feed_forward.w1";
  names.up = prefix + "feed_forward.w3";
  names.down = prefix + "feed_forward.w2";
  return names;
}

}  // namespace

FamilyEntry lfm2_family() {
  return {
      .name = "lfm2",
      .architecture = "Lfm2ForBlockDiffusion",
      .read_config = read_lfm2,
      .tensors = {.embedding = "model.embed_tokens",
                  .final_norm = "model.embedding_norm",
                  .head = "lm_head",
                  .layer = name_lfm2_layer,
                  .expert = nullptr,
                  .conditioning_norm = "model.selfcond_norm",
                  .conditioning_up = "model.selfcond_ffn.0",
                  .conditioning_down = "model.selfcond_ffn.2",
                  .noise_in = "model.sigma_embed.mlp.0",
                  .noise_out = "model.sigma_embed.mlp.2",
                  .noise_projection = "model.adaln_proj.1",
                  .noise_layers = "model.adaln_block_emb"},
      // Initialization; the class does not read "block_norm_eps".
      .harmless_keys = {"block_mlp_init_scale", "block_norm_eps", "block_out_init_scale",
                        "block_use_xavier_init", "conv_use_xavier_init"},
      .model_types = {"lfm2_diffusion"},
      // The keys of LFM2.5-350M with the defaults of the diffusion class.
      .published = {PublishedConfig{"lfm2.5-350m-diffusion", R"({"architectures": ["Lfm2ForBlockDiffusion"],
      "hidden_size": 1024, "intermediate_size": 6656, "block_auto_adjust_ff_dim": true,
      "block_multiple_of": 256, "block_ffn_dim_multiplier": 1.0, "num_hidden_layers": 16,
      "num_attention_heads": 16, "num_key_value_heads": 8, "conv_L_cache": 3, "conv_bias": false,
      "layer_types": ["conv", "conv", "full_attention", "conv", "conv", "full_attention", "conv", "conv",
      "full_attention", "conv", "full_attention", "conv", "full_attention", "conv", "full_attention", "conv"],
      "vocab_size": 65536, "real_vocab_size": 64400, "max_position_embeddings": 128000,
      "rope_theta": 1000000.0, "norm_eps": 1e-05, "tie_word_embeddings": true, "sigma_cond_dim": 256,
      "sigma_freq_embedding_size": 256, "selfcond_ffn_bias": true, "self_conditioning": true,
      "adaln_conditioning": true, "diffusion_block_size": 32, "bos_token_id": 1, "eos_token_id": 7,
      "pad_token_id": 0})"}}};
}

}  // namespace lacuna
