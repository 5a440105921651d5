#include "model/random_spec.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/json.h"
#include "model/family_parts.h"

namespace lacuna {
namespace {

constexpr std::string_view kPrefix = "random:";

/// A published config.json, without the keys that nobody reads.
struct PublishedConfig {
  std::string_view name;
  std::string_view json;
};

constexpr std::array kPublished = {
    PublishedConfig{"llada-8b", R"({"architectures": ["LLaDAModelLM"],
      "block_type": "llama", "layer_norm_type": "rms", "activation_type": "silu", "rope": true,
      "d_model": 4096, "mlp_hidden_size": 12288, "n_layers": 32, "n_heads": 32, "n_kv_heads": 32,
      "vocab_size": 126464, "embedding_size": 126464, "weight_tying": false, "max_sequence_length": 4096,
      "rope_theta": 500000.0, "rms_norm_eps": 1e-05,
      "mask_token_id": 126336, "eos_token_id": [126081, 126348], "pad_token_id": 126081})"},
    PublishedConfig{"llada-moe-7b", R"({"architectures": ["LLaDAMoEModelLM"],
      "hidden_size": 2048, "expert_intermediate_size": 1024, "num_experts": 64, "num_experts_per_tok": 8,
      "num_hidden_layers": 16, "num_attention_heads": 16, "num_key_value_heads": 16, "qk_layernorm": true,
      "vocab_size": 157184, "tie_word_embeddings": false, "max_position_embeddings": 8192,
      "rope_theta": 50000, "rms_norm_eps": 1e-05,
      "mask_token_id": 156895, "eos_token_id": 156892, "pad_token_id": 156892})"},
    PublishedConfig{"dream-7b", R"({"architectures": ["DreamModel"],
      "hidden_size": 3584, "intermediate_size": 18944,
      "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
      "vocab_size": 152064, "tie_word_embeddings": false, "max_position_embeddings": 131072,
      "rope_theta": 1000000.0, "rms_norm_eps": 1e-06,
      "mask_token_id": 151666, "bos_token_id": 151643, "eos_token_id": [151643, 151645], "pad_token_id": 151643})"},
    PublishedConfig{"qwen2.5-0.5b", R"({"architectures": ["Qwen2ForCausalLM"],
      "hidden_size": 896, "intermediate_size": 4864,
      "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
      "vocab_size": 151936, "tie_word_embeddings": true, "max_position_embeddings": 32768,
      "rope_theta": 1000000.0, "rms_norm_eps": 1e-06, "bos_token_id": 151643, "eos_token_id": [151645, 151643]})"},
    PublishedConfig{"qwen2.5-1.5b", R"({"architectures": ["Qwen2ForCausalLM"],
      "hidden_size": 1536, "intermediate_size": 8960,
      "num_hidden_layers": 28, "num_attention_heads": 12, "num_key_value_heads": 2,
      "vocab_size": 151936, "tie_word_embeddings": true, "max_position_embeddings": 131072,
      "rope_theta": 1000000.0, "rms_norm_eps": 1e-06, "bos_token_id": 151643, "eos_token_id": [151645, 151643]})"},
    PublishedConfig{"qwen2.5-7b", R"({"architectures": ["Qwen2ForCausalLM"],
      "hidden_size": 3584, "intermediate_size": 18944,
      "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
      "vocab_size": 152064, "tie_word_embeddings": false, "max_position_embeddings": 131072,
      "rope_theta": 1000000.0, "rms_norm_eps": 1e-06, "bos_token_id": 151643, "eos_token_id": [151645, 151643]})"},
    PublishedConfig{"qwen3-0.6b", R"({"architectures": ["Qwen3ForCausalLM"], "head_dim": 128,
      "hidden_size": 1024, "intermediate_size": 3072,
      "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8,
      "vocab_size": 151936, "tie_word_embeddings": true, "max_position_embeddings": 40960,
      "rope_theta": 1000000, "rms_norm_eps": 1e-06, "bos_token_id": 151643, "eos_token_id": [151645, 151643]})"},
    PublishedConfig{"qwen3-1.7b", R"({"architectures": ["Qwen3ForCausalLM"], "head_dim": 128,
      "hidden_size": 2048, "intermediate_size": 6144,
      "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8,
      "vocab_size": 151936, "tie_word_embeddings": true, "max_position_embeddings": 40960,
      "rope_theta": 1000000, "rms_norm_eps": 1e-06, "bos_token_id": 151643, "eos_token_id": [151645, 151643]})"},
    PublishedConfig{"qwen3-4b", R"({"architectures": ["Qwen3ForCausalLM"], "head_dim": 128,
      "hidden_size": 2560, "intermediate_size": 9728,
      "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
      "vocab_size": 151936, "tie_word_embeddings": true, "max_position_embeddings": 40960,
      "rope_theta": 1000000, "rms_norm_eps": 1e-06, "bos_token_id": 151643, "eos_token_id": [151645, 151643]})"},
    PublishedConfig{"qwen3-8b", R"({"architectures": ["Qwen3ForCausalLM"], "head_dim": 128,
      "hidden_size": 4096, "intermediate_size": 12288,
      "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
      "vocab_size": 151936, "tie_word_embeddings": false, "max_position_embeddings": 40960,
      "rope_theta": 1000000, "rms_norm_eps": 1e-06, "bos_token_id": 151643, "eos_token_id": [151645, 151643]})"},
    PublishedConfig{"sdar-1.7b", R"({"architectures": ["SDARForCausalLM"], "head_dim": 128,
      "hidden_size": 2048, "intermediate_size": 6144,
      "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8,
      "vocab_size": 151936, "tie_word_embeddings": false, "max_position_embeddings": 32768,
      "rope_theta": 1000000, "rms_norm_eps": 1e-06, "block_size": 4,
      "mask_token_id": 151669, "bos_token_id": 151643, "eos_token_id": [151645, 151643]})"},
    PublishedConfig{"sdar-4b", R"({"architectures": ["SDARForCausalLM"], "head_dim": 128,
      "hidden_size": 2560, "intermediate_size": 9728,
      "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
      "vocab_size": 151936, "tie_word_embeddings": false, "max_position_embeddings": 32768,
      "rope_theta": 1000000, "rms_norm_eps": 1e-06, "block_size": 4,
      "mask_token_id": 151669, "bos_token_id": 151643, "eos_token_id": [151645, 151643]})"},
    PublishedConfig{"sdar-8b", R"({"architectures": ["SDARForCausalLM"], "head_dim": 128,
      "hidden_size": 4096, "intermediate_size": 12288,
      "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
      "vocab_size": 151936, "tie_word_embeddings": false, "max_position_embeddings": 32768,
      "rope_theta": 1000000, "rms_norm_eps": 1e-06, "block_size": 4,
      "mask_token_id": 151669, "bos_token_id": 151643, "eos_token_id": [151645, 151643]})"},
    // Unverified but for the sizes of the layers: the rest is Qwen2.5-7B's.
    PublishedConfig{"fast-dllm-v2-7b", R"({"architectures": ["Fast_dLLM_QwenForCausalLM"],
      "hidden_size": 3584, "intermediate_size": 18944,
      "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
      "vocab_size": 152064, "tie_word_embeddings": false, "max_position_embeddings": 32768,
      "rope_theta": 1000000.0, "rms_norm_eps": 1e-06, "bd_size": 32,
      "mask_token_id": 151665, "bos_token_id": 151643, "eos_token_id": 151645, "pad_token_id": 151645})"},
    PublishedConfig{"llada2-mini", R"({"architectures": ["LLaDA2MoeModelLM"], "head_dim": 128,
      "hidden_size": 2048, "intermediate_size": 5120, "first_k_dense_replace": 1,
      "num_hidden_layers": 20, "num_attention_heads": 16, "num_key_value_heads": 4,
      "num_experts": 256, "num_experts_per_tok": 8, "num_shared_experts": 1, "moe_intermediate_size": 512,
      "n_group": 8, "topk_group": 4, "routed_scaling_factor": 2.5, "use_bias": false,
      "vocab_size": 157184, "tie_word_embeddings": false, "max_position_embeddings": 32768,
      "rope_theta": 600000, "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-06,
      "mask_token_id": 156895, "eos_token_id": 156892, "pad_token_id": 156892})"},
    PublishedConfig{"llada2-flash", R"({"architectures": ["LLaDA2MoeModelLM"], "head_dim": 128,
      "hidden_size": 4096, "intermediate_size": 9216, "first_k_dense_replace": 1,
      "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 4,
      "num_experts": 256, "num_experts_per_tok": 8, "num_shared_experts": 1, "moe_intermediate_size": 1024,
      "n_group": 8, "topk_group": 4, "routed_scaling_factor": 2.5, "use_bias": false,
      "vocab_size": 157184, "tie_word_embeddings": false, "max_position_embeddings": 32768,
      "rope_theta": 600000, "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-06,
      "mask_token_id": 156895, "eos_token_id": 156892, "pad_token_id": 156892})"},
    PublishedConfig{"gidd-3b", R"({"architectures": ["GiddForDiffusionLM"],
      "hidden_size": 3072, "num_hidden_layers": 19, "num_attention_heads": 24, "vocab_size": 131072,
      "max_position_embeddings": 2048, "attention_bias": true, "mlp_bias": true, "weight_scaling": 1.0,
      "head_scaling": 0.16666666666666666, "noise_type": 1000.0, "bos_token_id": 0, "eos_token_id": 1})"},
    PublishedConfig{"gidd-mask-3b", R"({"architectures": ["GiddForDiffusionLM"],
      "hidden_size": 3072, "num_hidden_layers": 18, "num_attention_heads": 24, "vocab_size": 131072,
      "max_position_embeddings": 2048, "attention_bias": true, "mlp_bias": true, "weight_scaling": 1.0,
      "head_scaling": 0.16666666666666666, "noise_type": -1000.0, "bos_token_id": 0, "eos_token_id": 1})"},
    PublishedConfig{"gidd-10b", R"({"architectures": ["GiddForDiffusionLM"],
      "hidden_size": 4608, "num_hidden_layers": 34, "num_attention_heads": 36, "vocab_size": 131072,
      "max_position_embeddings": 2048, "attention_bias": true, "mlp_bias": true, "weight_scaling": 1.0,
      "head_scaling": 0.1111111111111111, "noise_type": 1000.0, "bos_token_id": 0, "eos_token_id": 1})"},
    // Qwen3-8B with a smaller embedding and a mask token; max_position_embeddings is taken from Qwen3-8B.
    PublishedConfig{"refusion-8b", R"({"architectures": ["Qwen3ForCausalLM"], "head_dim": 128,
      "hidden_size": 4096, "intermediate_size": 12288,
      "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
      "vocab_size": 151671, "tie_word_embeddings": false, "max_position_embeddings": 40960,
      "rope_theta": 1000000, "rms_norm_eps": 1e-06,
      "mask_token_id": 151670, "bos_token_id": 151669, "eos_token_id": 151645, "pad_token_id": 151643})"},
};

std::string published_names() {
  std::string list;
  for (const PublishedConfig& published : kPublished) {
    list += list.empty() ? "" : ", ";
    list += published.name;
  }
  return list;
}

int64_t parse_layers(std::string_view option, std::string_view argument) {
  constexpr std::string_view kKey = "layers=";
  int64_t layers = 0;
  const char* const end = option.data() + option.size();
  const bool has_key = option.starts_with(kKey);
  if (has_key) {
    const auto [stop, error] = std::from_chars(option.data() + kKey.size(), end, layers);
    if (error == std::errc() && stop == end && layers >= kLayerCount.first && layers <= kLayerCount.last) {
      return layers;
    }
  }
  throw InputError("{}: option {} is not known; expected layers=N with N from {} to {}", in_quotes(argument),
                   in_quotes(option), kLayerCount.first, kLayerCount.last);
}

}  // namespace

bool is_random_spec(std::string_view argument) {
  return argument.starts_with(kPrefix);
}

ModelConfig parse_random_spec(std::string_view argument) {
  expects(is_random_spec(argument), "parse_random_spec() is given a random: argument");
  const std::string_view spec = argument.substr(kPrefix.size());
  const size_t comma = std::min(spec.find(','), spec.size());
  const std::string_view name = spec.substr(0, comma);
  const auto* published =
      std::find_if(kPublished.begin(), kPublished.end(),
                   [&](const PublishedConfig& candidate) { return candidate.name == name; });
  if (published == kPublished.end()) {
    throw InputError("{}: there is no published model {}; expected one of {}", in_quotes(argument),
                     in_quotes(name), published_names());
  }
  ModelConfig config = read_config_texts({.config = published->json}, std::string(argument));
  if (comma < spec.size()) {
    const int64_t published_layers = config.num_layers;
    config.num_layers = parse_layers(spec.substr(comma + 1), argument);
    // GIDD's is a number of its depth.
    if (config.residual_scale != 1) {
      config.residual_scale *= static_cast<float>(published_layers) / static_cast<float>(config.num_layers);
    }
  }
  return config;
}

}  // namespace lacuna
