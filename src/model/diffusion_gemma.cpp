// DiffusionGemma (google/diffusiongemma-26B-A4B-it; DiffusionGemmaForBlockDiffusion): Gemma 4's mixture of
// experts, which reads prompts and finished canvases causally and denoises a canvas in both directions, with
// the same weights. docs/methods/canvas_diffusion.md has the forward pass and its sources.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "model/family_parts.h"
#include "model/gguf_keys.h"

namespace lacuna {
namespace {

constexpr std::string_view kSlides = "sliding_attention";
constexpr std::string_view kSeesAll = "full_attention";
constexpr Range<int64_t> kCanvasLength{1, 1024};

/// The rotation of one kind of layer: "rope_parameters" holds one object for each.
RopeConfig read_rotation(const JsonObject& text, std::string_view kind, int64_t head_dim,
                         int64_t max_positions) {
  text.object("rope_parameters").object(kind);
  const RopeRules rules{
      .scales = false, .supports_proportional = true, .layers = kind, .is_only_kind = false};
  return read_rope(text, head_dim, max_positions, rules).rope;
}

/// Reads the heads of full-attention layers: separate keys or, as newer versions of the transformers library
/// write, one object per such layer.
void read_global_heads(const JsonObject& text, const SlidingAttention& sliding, ModelConfig& config) {
  if (!text.has("per_layer_config")) {
    config.num_kv_heads = text.integer("num_global_key_value_heads", kWidth, sliding.num_kv_heads);
    config.head_dim = text.integer("global_head_dim", kWidth);
    return;
  }
  text.expect_absent("num_global_key_value_heads");
  text.expect_absent("global_head_dim");
  const JsonObject by_layer = text.object("per_layer_config");
  const std::string each_layer = fmt::format("an object for each {} layer and no other", kSeesAll);
  std::vector<bool> slides(sliding.layers.size(), true);
  for (const std::string& key : by_layer.keys()) {  // layer number: "5" or, in deep models, "05"
    size_t layer = slides.size();
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), layer);
    if (error != std::errc() || end != key.data() + key.size() || layer >= slides.size() || !slides[layer])
      by_layer.refuse(key, each_layer);
    const JsonObject own = by_layer.object(key);
    const int64_t num_kv_heads = own.integer("num_key_value_heads", kWidth, sliding.num_kv_heads);
    const int64_t head_dim = own.integer("head_dim", kWidth, sliding.head_dim);
    const bool is_first = std::find(slides.begin(), slides.end(), false) == slides.end();
    if (!is_first && (num_kv_heads != config.num_kv_heads || head_dim != config.head_dim))
      by_layer.refuse(key, fmt::format("the heads of the other {} layers", kSeesAll));
    config.num_kv_heads = num_kv_heads;
    config.head_dim = head_dim;
    slides[layer] = false;
  }
  if (slides != sliding.layers || config.head_dim == 0) text.refuse("per_layer_config", each_layer);
}

void read_attention(const JsonObject& text, ModelConfig& config) {
  text.expect("attention_bias", false);
  text.expect("attention_k_eq_v", true);
  text.expect("num_kv_shared_layers", 0);
  const std::string bidirectional = text.text("use_bidirectional_attention", "vision");  // for images only
  if (bidirectional != "vision") text.refuse("use_bidirectional_attention", "\"vision\"");
  const std::vector<std::string> kinds = text.texts("layer_types");
  if (static_cast<int64_t>(kinds.size()) != config.num_layers)
    text.refuse("layer_types", fmt::format("a list of {}", config.num_layers));
  SlidingAttention sliding;
  for (const std::string& kind : kinds) {
    if (kind != kSlides && kind != kSeesAll)
      text.refuse("layer_types", fmt::format("a list of {} and {}", kSlides, kSeesAll));
    sliding.layers.push_back(kind == kSlides);
  }
  sliding.window = text.integer("sliding_window", kPositionCount);
  sliding.num_kv_heads = text.integer("num_key_value_heads", kWidth);
  sliding.head_dim = text.integer("head_dim", kWidth);
  read_global_heads(text, sliding, config);
  sliding.rope = read_rotation(text, kSlides, sliding.head_dim, config.max_positions);
  config.rope = read_rotation(text, kSeesAll, config.head_dim, config.max_positions);
  config.sliding = std::move(sliding);
  config.shares_keys = true;
  config.v_norm = true;
  config.qk_norm_per_head = true;
  config.attn_scale = 1;
}

void read_feed_forward(const JsonObject& text, ModelConfig& config) {
  text.expect("hidden_activation", "gelu_pytorch_tanh");
  text.expect("enable_moe_block", true);
  text.expect("use_double_wide_mlp", false);
  config.activation = Activation::kGeluTanh;
  config.ffn_dim = text.integer("intermediate_size", kWidth);
  config.moe.num_experts = text.integer("num_experts", kExpertCount);
  config.moe.experts_per_token = text.integer("top_k_experts", {1, config.moe.num_experts});
  config.moe.expert_ffn_dim = text.integer("moe_intermediate_size", kWidth);
  config.moe.normalize_weights = true;
  config.moe.router_in_f32 = true;
  config.moe.parallel_dense = true;
}

ModelConfig read_diffusion_gemma(const JsonObject& json) {
  const JsonObject text = json.object("text_config");
  const std::string type = text.text("model_type", "diffusion_gemma_text");
  if (type != "diffusion_gemma_text") text.refuse("model_type", "\"diffusion_gemma_text\"");
  text.expect("hidden_size_per_layer_input", 0);
  ModelConfig config = read_transformers_sizes(text);
  json.require("tie_word_embeddings", true);
  json.expect("is_encoder_decoder", false);
  text.expect("is_encoder_decoder", false);
  text.expect("tie_word_embeddings", true);
  config.tied_embeddings = true;
  read_attention(text, config);
  read_feed_forward(text, config);
  config.embedding_scale = std::sqrt(static_cast<float>(config.hidden_dim));
  config.rounds_embedding_scale = true;
  config.norms_outputs = true;
  config.layer_scalars = true;
  config.logit_soft_cap = text.number("final_logit_softcapping", {0, 1e6}, 0.0F);
  CanvasConfig canvas;
  canvas.length = json.integer("canvas_length", kCanvasLength);
  canvas.conditioning_dim = json.integer("self_conditioning_size", kWidth, config.ffn_dim);
  canvas.image_id = read_token_id(json, "image_token_id", config, -1);
  config.canvas = canvas;
  config.bos_id = read_token_id(text, "bos_token_id", config, -1);
  config.pad_id = read_token_id(text, "pad_token_id", config, -1);
  const std::vector<int64_t> ends = text.one_or_more_integers("eos_token_id", {-1, config.vocab_size - 1});
  if (!ends.empty()) config.eos_id = static_cast<TokenId>(ends.front());
  return config;
}

LayerTensorNames diffusion_gemma_layer(int64_t layer) {
  const std::string prefix = fmt::format("model.decoder.layers.{}.", layer);
  LayerTensorNames names;
  names.attn_norm = prefix + "input_layernorm";
  names.q = prefix + "self_attn.q_proj";
  names.k = prefix + "self_attn.k_proj";
  names.v = prefix + "self_attn.v_proj";
  names.o = prefix + "self_attn.o_proj";
  names.q_norm = prefix + "self_attn.q_norm";
  names.k_norm = prefix + "self_attn.k_norm";
  names.post_attn_norm = prefix + "post_attention_layernorm";
  names.ffn_norm = prefix + "pre_feedforward_layernorm";
  names.gate = prefix + "mlp.gate_proj";
  names.up = prefix + "mlp.up_proj";
  names.down = prefix + "mlp.down_proj";
  names.post_dense_norm = prefix + "post_feedforward_layernorm_1";
  names.expert_norm = prefix + "pre_feedforward_layernorm_2";
  names.post_expert_norm = prefix + "post_feedforward_layernorm_2";
  names.post_ffn_norm = prefix + "post_feedforward_layernorm";
  names.router = prefix + "router.proj";
  names.router_scale = prefix + "router.scale";
  names.expert_scale = prefix + "router.per_expert_scale";
  names.stacked_experts = {
      .gate = {}, .up = {}, .down = prefix + "experts.down_proj", .gate_up = prefix + "experts.gate_up_proj"};
  names.layer_scalar = prefix + "layer_scalar";
  names.encoder_scalar = fmt::format("model.encoder.language_model.layers.{}.layer_scalar", layer);
  return names;
}

/// Names in NVIDIA's quantized copy, which splits the original's stacked experts.
ExpertTensorNames diffusion_gemma_expert(int64_t layer, int64_t expert) {
  const std::string prefix = fmt::format("model.decoder.layers.{}.experts.{}.", layer, expert);
  return {prefix + "gate_proj", prefix + "up_proj", prefix + "down_proj"};
}

// GGUF files, as written by llama.cpp's draft converter (ggml-org/llama.cpp#24423).

/// Reads one value per layer, or a single one for all.
std::vector<int64_t> integers_by_layer(const GgufKeys& keys, std::string_view name, int64_t num_layers) {
  const GgufFile& file = keys.file();
  const std::string key = keys.key(name);
  if (!file.holds_list(key))
    return std::vector<int64_t>(static_cast<size_t>(num_layers), file.integer(key, kWidth));
  const std::vector<int64_t>& values = file.integers(key);
  if (static_cast<int64_t>(values.size()) != num_layers)
    file.refuse(key, fmt::format("a list of {}", num_layers));
  return values;
}

/// The share of a head's dimensions that RoPE rotates, from the frequency divisors, which are huge for the
/// others.
double turning_share(const GgufFile& file, int64_t head_dim) {
  constexpr std::string_view kName = "rope_freqs.weight";
  const GgufTensor* divisors = file.find(kName);
  const bool fits = divisors != nullptr && divisors->shape.size() == 1 &&
                    2 * divisors->shape[0] == head_dim &&
                    std::ssize(divisors->bytes) == 4 * divisors->shape[0];
  int64_t num_rotated_pairs = 0;
  bool is_step = fits;
  for (int64_t i = 0; fits && i < divisors->shape[0]; ++i) {
    float divisor = 0;
    std::memcpy(&divisor, divisors->bytes.data() + 4 * i, 4);
    if (divisor == 1 && num_rotated_pairs == i) ++num_rotated_pairs;
    is_step = is_step && (divisor == 1 ? num_rotated_pairs > i : divisor > 1e20F);
  }
  if (!is_step || num_rotated_pairs == 0) {
    throw InputError("{}: tensor {}: expected f32 [{}], ones followed by 1e30", file.name(), in_quotes(kName),
                     head_dim / 2);
  }
  // Adds a quarter of a pair, so that rounding the share loses no pair.
  const int64_t num_pairs = head_dim / 2;
  return std::min(1.0, (static_cast<double>(num_rotated_pairs) + 0.25) / static_cast<double>(num_pairs));
}

nlohmann::json read_diffusion_gemma_gguf(const GgufKeys& keys) {
  const GgufFile& file = keys.file();
  const int64_t num_layers = keys.integer("block_count", kLayerCount);
  const std::vector<int64_t> kv_heads = integers_by_layer(keys, "attention.head_count_kv", num_layers);
  const std::vector<int64_t> slides = integers_by_layer(keys, "attention.sliding_window_pattern", num_layers);
  nlohmann::json layer_types = nlohmann::json::array();
  int64_t sliding_heads = 0;
  int64_t global_heads = 0;
  for (size_t layer = 0; layer < slides.size(); ++layer) {
    layer_types.push_back(slides[layer] != 0 ? kSlides : kSeesAll);
    int64_t& of_kind = slides[layer] != 0 ? sliding_heads : global_heads;
    if (of_kind != 0 && of_kind != kv_heads[layer])
      file.refuse(keys.key("attention.head_count_kv"), "one number for all layers of a kind");
    of_kind = kv_heads[layer];
  }
  const int64_t head_dim = keys.integer("attention.key_length", kWidth);
  const int64_t sliding_dim = keys.integer("attention.key_length_swa", kWidth, head_dim);
  for (const char* name : {"attention.value_length", "rope.dimension_count"})
    keys.integer(name, {head_dim, head_dim}, head_dim);
  for (const char* name : {"attention.value_length_swa", "rope.dimension_count_swa"})
    keys.integer(name, {sliding_dim, sliding_dim}, sliding_dim);
  keys.integer("attention.shared_kv_layers", {0, 0}, 0);
  keys.integer("embedding_length_per_layer_input", {0, 0}, 0);
  const nlohmann::json text = {{"num_hidden_layers", num_layers},
                               {"hidden_size", keys.integer("embedding_length", kWidth)},
                               {"intermediate_size", keys.integer("feed_forward_length", kWidth)},
                               {"moe_intermediate_size", keys.integer("expert_feed_forward_length", kWidth)},
                               {"num_experts", keys.integer("expert_count", kExpertCount)},
                               {"top_k_experts", keys.integer("expert_used_count", kExpertCount)},
                               {"layer_types", layer_types},
                               {"num_attention_heads", keys.integer("attention.head_count", kWidth)},
                               {"num_key_value_heads", std::max<int64_t>(sliding_heads, 1)},
                               {"num_global_key_value_heads", std::max<int64_t>(global_heads, 1)},
                               {"head_dim", sliding_dim},
                               {"global_head_dim", head_dim},
                               {"sliding_window", keys.integer("attention.sliding_window", kPositionCount)},
                               {"rope_parameters",
                                {{kSlides, {{"rope_theta", keys.number("rope.freq_base_swa", 10000.0)}}},
                                 {kSeesAll,
                                  {{"rope_type", "proportional"},
                                   {"partial_rotary_factor", turning_share(file, head_dim)},
                                   {"rope_theta", keys.number("rope.freq_base")}}}}},
                               {"rms_norm_eps", keys.number("attention.layer_norm_rms_epsilon")},
                               {"final_logit_softcapping", keys.number("final_logit_softcapping", 0.0)},
                               {"vocab_size", gguf_rows(file, "token_embd.weight")},
                               {"max_position_embeddings", keys.integer("context_length", kPositionCount)}};
  return {{"architectures", nlohmann::json::array({"DiffusionGemmaForBlockDiffusion"})},
          {"canvas_length", file.integer("diffusion.canvas_length", kCanvasLength)},
          {"self_conditioning_size", gguf_rows(file, "self_cond_gate.weight")},
          {"tie_word_embeddings", true},
          {"text_config", text}};
}

nlohmann::json read_diffusion_gemma_generation(const GgufKeys& keys) {
  const GgufFile& file = keys.file();
  const CanvasConfig usual;
  constexpr Range<int64_t> kCount{0, 1 << 20};
  return {
      {"max_denoising_steps", file.integer("diffusion.eb_max_steps", kCount, usual.steps)},
      {"t_min", file.number("diffusion.eb_t_min", usual.last_temperature)},
      {"t_max", file.number("diffusion.eb_t_max", usual.first_temperature)},
      {"stability_threshold", file.integer("diffusion.eb_stability_threshold", kCount, usual.stable_steps)},
      {"confidence_threshold", file.number("diffusion.eb_confidence_threshold", usual.stop_entropy)},
      {"sampler_config",
       {{"entropy_bound", file.number("diffusion.eb_entropy_bound", usual.entropy_bound)}}}};
}

LayerTensorNames diffusion_gemma_gguf_layer(int64_t layer) {
  LayerTensorNames names = gguf_layer(layer);
  const std::string block = fmt::format("blk.{}.", layer);
  names.post_attn_norm = block + "post_attention_norm";
  names.post_dense_norm = block + "post_ffw_norm_1";
  names.expert_norm = block + "pre_ffw_norm_2";
  names.post_expert_norm = block + "post_ffw_norm_2";
  names.post_ffn_norm = block + "post_ffw_norm";
  names.router_scale = block + "ffn_gate_inp.scale";
  names.expert_scale = block + "ffn_down_exps.scale";
  names.stacked_experts.gate_up = block + "ffn_gate_up_exps";
  names.layer_scalar = block + "layer_output_scale.weight";
  names.encoder_scalar = block + "enc_layer_output_scale.weight";
  return names;
}

void rename_diffusion_gemma(TensorNames& names) {
  names.conditioning_norm = "self_cond_pre_norm";
  names.conditioning_gate = "self_cond_gate";
  names.conditioning_up = "self_cond_up";
  names.conditioning_down = "self_cond_down";
}

}  // namespace

FamilyEntry diffusion_gemma_family() {
  return {.name = "diffusion-gemma",
          .architecture = "DiffusionGemmaForBlockDiffusion",
          .read_config = read_diffusion_gemma,
          .tensors = {.embedding = "model.decoder.embed_tokens",
                      .final_norm = "model.decoder.norm",
                      .head = {},
                      .layer = diffusion_gemma_layer,
                      .expert = diffusion_gemma_expert,
                      .conditioning_norm = "model.decoder.self_conditioning.pre_norm",
                      .conditioning_gate = "model.decoder.self_conditioning.gate_proj",
                      .conditioning_up = "model.decoder.self_conditioning.up_proj",
                      .conditioning_down = "model.decoder.self_conditioning.down_proj"},
          .gguf = GgufDialect{.architecture = "diffusion-gemma",
                              .read_config = read_diffusion_gemma_gguf,
                              .layer = diffusion_gemma_gguf_layer,
                              .read_generation = read_diffusion_gemma_generation,
                              .rename = rename_diffusion_gemma},
          // Keys for images, which are refused in prompts: their encoder is not loaded.
          .harmless_keys = {"boi_token_id", "boi_token_index", "eoi_token_id", "eoi_token_index",
                            "image_token_index", "mask_token_id", "vision_config",
                            "vision_soft_tokens_per_image", "vocab_size_per_layer_input"},
          .model_types = {"diffusion_gemma"},
          .published = {
              PublishedConfig{"diffusion-gemma", R"({"architectures": ["DiffusionGemmaForBlockDiffusion"],
      "canvas_length": 256, "tie_word_embeddings": true, "eos_token_id": [1, 106], "text_config": {
      "vocab_size": 262144, "hidden_size": 2816, "intermediate_size": 2112, "moe_intermediate_size": 704,
      "num_experts": 128, "top_k_experts": 8, "num_hidden_layers": 30, "layer_types": [
      "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention",
      "full_attention",
      "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention",
      "full_attention",
      "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention",
      "full_attention",
      "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention",
      "full_attention",
      "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention",
      "full_attention"],
      "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256, "num_global_key_value_heads": 2,
      "global_head_dim": 512, "sliding_window": 1024, "rope_parameters": {
      "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
      "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000.0}},
      "rms_norm_eps": 1e-06, "hidden_activation": "gelu_pytorch_tanh", "attention_bias": false,
      "final_logit_softcapping": 30.0, "max_position_embeddings": 262144, "bos_token_id": 2,
      "eos_token_id": 1, "pad_token_id": 0}})"}}};
}

}  // namespace lacuna
