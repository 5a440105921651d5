#include "train/canvas_config.h"

#include "train/canvas_model.h"
#include "train/objective.h"

namespace lacuna::train {

nlohmann::ordered_json canvas_config(const ModelShape& shape, const SpecialIds& ids) {
  constexpr const char *kSliding = "sliding_attention", *kFull = "full_attention";
  nlohmann::ordered_json kinds = nlohmann::ordered_json::array();
  CanvasLayer sliding = canvas_layer(shape, 0), full = sliding;
  for (int64_t i = 0; i < shape.layers; ++i) {
    const CanvasLayer layer = canvas_layer(shape, i);
    kinds.push_back(layer.slides ? kSliding : kFull);
    (layer.slides ? sliding : full) = layer;
  }
  const nlohmann::ordered_json text = {
      {"attention_bias", false},
      {"attention_dropout", 0.0},
      {"attention_k_eq_v", true},
      {"bos_token_id", ids.start},
      {"dtype", "bfloat16"},
      {"eos_token_id", ids.end},
      {"final_logit_softcapping", shape.traits().logit_soft_cap},
      {"global_head_dim", full.head_width},
      {"head_dim", sliding.head_width},
      {"hidden_activation", "gelu_pytorch_tanh"},
      {"hidden_size", shape.width},
      {"initializer_range", 0.02},
      {"intermediate_size", shape.ffn_width},
      {"layer_types", kinds},
      {"max_position_embeddings", shape.context},
      {"model_type", "diffusion_gemma_text"},
      {"moe_intermediate_size", shape.experts.ffn_width},
      {"num_attention_heads", shape.heads},
      {"num_experts", shape.experts.count},
      {"num_global_key_value_heads", full.kv_heads},
      {"num_hidden_layers", shape.layers},
      {"num_key_value_heads", sliding.kv_heads},
      {"pad_token_id", ids.end},
      {"rms_norm_eps", shape.traits().norm_epsilon},
      {"rope_parameters",
       {{kFull,
         {{"partial_rotary_factor",
           2.0 * static_cast<double>(full.rotated_pairs) / static_cast<double>(full.head_width)},
          {"rope_theta", full.rope_theta},
          {"rope_type", "proportional"}}},
        {kSliding, {{"rope_theta", sliding.rope_theta}, {"rope_type", "default"}}}}},
      {"sliding_window", shape.canvas.window},
      {"tie_word_embeddings", true},
      {"top_k_experts", shape.experts.per_token},
      {"use_bidirectional_attention", "vision"},
      {"vocab_size", shape.vocabulary}};
  return {{"architectures", {"DiffusionGemmaForBlockDiffusion"}},
          {"canvas_length", shape.canvas.length},
          {"dtype", "bfloat16"},
          {"eos_token_id", {ids.end}},
          {"model_type", "diffusion_gemma"},
          {"self_conditioning_size", shape.ffn_width},
          {"text_config", text},
          {"tie_word_embeddings", true},
          {"transformers_version", "5.3.0"}};
}

nlohmann::ordered_json canvas_generation_config(const ModelShape& shape, const SpecialIds& ids) {
  constexpr int64_t kSteps = 24, kCanvases = 2;
  return {{"bos_token_id", ids.start},
          {"confidence_threshold", 0.005},
          {"eos_token_id", {ids.end}},
          {"max_denoising_steps", kSteps},
          {"max_new_tokens", kCanvases * shape.canvas.length},
          {"pad_token_id", ids.end},
          {"sampler_config", {{"_cls_name", "EntropyBoundSamplerConfig"}, {"entropy_bound", 0.1}}},
          {"stability_threshold", 1},
          {"t_max", kFirstTemperature},
          {"t_min", kLastTemperature},
          {"transformers_version", "5.3.0"}};
}

}  // namespace lacuna::train
