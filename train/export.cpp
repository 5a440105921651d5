#include "train/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "train/objective.h"
#include "weights/checkpoint.h"
#include "weights/safetensors_writer.h"

namespace lacuna::train {
namespace {

void write_json(const std::filesystem::path& path, const nlohmann::ordered_json& json) {
  std::ofstream file(path);
  file << json.dump(2) << '\n';
  file.close();
  if (!file) throw InputError("cannot write {}", path.string());
}

struct PublishedName {
  std::string_view part, llada, transformers, gidd = transformers;
};

constexpr PublishedName kNames[] = {
    {"embedding", "model.transformer.wte", "model.embed_tokens"},
    {"final_norm", "model.transformer.ln_f", "model.norm"},
    {"head", "model.transformer.ff_out", "lm_head"},
    // Of a block.
    {"attn_norm", "attn_norm", "input_layernorm", "attn_layernorm"},
    {"q", "q_proj", "self_attn.q_proj"},
    {"k", "k_proj", "self_attn.k_proj"},
    {"v", "v_proj", "self_attn.v_proj"},
    {"q_norm", "", "self_attn.q_norm"},
    {"k_norm", "", "self_attn.k_norm"},
    {"k_sink", "", "", "self_attn.k_bias"},
    {"v_sink", "", "", "self_attn.v_bias"},
    {"o", "attn_out", "self_attn.o_proj"},
    {"ffn_norm", "ff_norm", "post_attention_layernorm", "mlp_layernorm"},
    {"gate", "ff_proj", "mlp.gate_proj"},
    {"up", "up_proj", "mlp.up_proj"},
    {"down", "ff_out", "mlp.down_proj"},
};

/// "blocks.2.q.weight" -> "model.layers.2.self_attn.q_proj.weight". LLaDA has names of its own, the other
/// families those of the transformers library; GIDD mixes in some.
std::string published_name(Family family, std::string_view parameter) {
  constexpr std::string_view kBlocks = "blocks.";
  const bool llada = family == Family::kLlada;
  // ".weight" or ".bias"; sinks have neither.
  const size_t kind = parameter.ends_with("_sink") ? parameter.size() : parameter.rfind('.');
  const size_t block = parameter.rfind('.', kind - 1);  // the end of "blocks.2"; npos outside of the blocks
  const std::string_view part = parameter.substr(block + 1, kind - block - 1);
  const auto* const name =
      std::find_if(std::begin(kNames), std::end(kNames),
                   [&](const PublishedName& candidate) { return candidate.part == part; });
  expects(name != std::end(kNames), "every part of the model has a published name");
  const std::string_view published = llada                              ? name->llada
                                     : traits_of(family).interpolates() ? name->gidd
                                                                        : name->transformers;
  if (block == std::string_view::npos) return fmt::format("{}{}", published, parameter.substr(kind));
  return fmt::format("{}.{}.{}{}", llada ? "model.transformer.blocks" : "model.layers",
                     parameter.substr(kBlocks.size(), block - kBlocks.size()), published,
                     parameter.substr(kind));
}

nlohmann::ordered_json llada_config(const ModelShape& shape, const Bpe& bpe) {
  return {{"activation_type", "silu"},
          {"alibi", false},
          {"alibi_bias_max", 8.0},
          {"architectures", {"LLaDAModelLM"}},
          {"attention_dropout", 0.0},
          {"attention_layer_norm", false},
          {"attention_layer_norm_with_affine", true},
          {"auto_map",
           {{"AutoConfig", "configuration_llada.LLaDAConfig"},
            {"AutoModelForCausalLM", "modeling_llada.LLaDAModelLM"},
            {"AutoModel", "modeling_llada.LLaDAModelLM"}}},
          {"bias_for_layer_norm", false},
          {"block_group_size", 1},
          {"block_type", "llama"},
          {"d_model", shape.width},
          {"embedding_dropout", 0.0},
          {"embedding_size", shape.vocabulary},
          {"eos_token_id", bpe.end_id()},
          {"flash_attention", false},
          {"include_bias", false},
          {"include_qkv_bias", false},
          {"init_cutoff_factor", nullptr},
          {"init_device", "cpu"},
          {"init_fn", "mitchell"},
          {"init_std", 0.02},
          {"input_emb_norm", false},
          {"layer_norm_type", "rms"},
          {"layer_norm_with_affine", true},
          {"mask_token_id", bpe.mask_id()},
          {"max_sequence_length", shape.context},
          {"mlp_hidden_size", shape.ffn_width},
          {"mlp_ratio", 4},
          {"model_type", "llada"},
          {"multi_query_attention", nullptr},
          {"n_heads", shape.heads},
          {"n_kv_heads", shape.heads},
          {"n_layers", shape.layers},
          {"pad_token_id", bpe.end_id()},
          {"precision", "amp_bf16"},
          {"residual_dropout", 0.0},
          {"rms_norm_eps", shape.traits().norm_epsilon},
          {"rope", true},
          {"rope_full_precision", true},
          {"rope_theta", shape.rope_theta},
          {"scale_logits", false},
          {"transformers_version", "4.46.3"},
          {"use_cache", false},
          {"vocab_size", shape.vocabulary},
          {"weight_tying", false}};
}

/// Of Qwen2.5, Qwen3, ReFusion and Dream: the keys that all have, then those of each.
nlohmann::ordered_json transformers_config(const ModelShape& shape, const Bpe& bpe) {
  nlohmann::ordered_json config = {{"attention_dropout", 0.0},
                                   {"bos_token_id", bpe.start_id()},
                                   {"eos_token_id", bpe.end_id()},
                                   {"hidden_act", "silu"},
                                   {"hidden_size", shape.width},
                                   {"initializer_range", 0.02},
                                   {"intermediate_size", shape.ffn_width},
                                   {"max_position_embeddings", shape.context},
                                   {"max_window_layers", shape.layers},
                                   {"num_attention_heads", shape.heads},
                                   {"num_hidden_layers", shape.layers},
                                   {"num_key_value_heads", shape.heads},
                                   {"rms_norm_eps", shape.traits().norm_epsilon},
                                   {"rope_scaling", nullptr},
                                   {"rope_theta", shape.rope_theta},
                                   {"sliding_window", nullptr},
                                   {"tie_word_embeddings", false},
                                   {"torch_dtype", "bfloat16"},
                                   {"use_cache", true},
                                   {"use_sliding_window", false},
                                   {"vocab_size", shape.vocabulary}};
  switch (shape.family) {
    case Family::kDream:
      config.update(
          {{"architectures", {"DreamModel"}},
           {"auto_map",
            {{"AutoConfig", "configuration_dream.DreamConfig"}, {"AutoModel", "modeling_dream.DreamModel"}}},
           {"mask_token_id", bpe.mask_id()},
           {"model_type", "Dream"},
           {"pad_token_id", bpe.end_id()},
           {"transformers_version", "4.46.2"},
           {"use_mrope", false}});
      break;
    case Family::kQwen2:
      config.update({{"architectures", {"Qwen2ForCausalLM"}},
                     {"model_type", "qwen2"},
                     {"transformers_version", "4.43.1"},
                     {"use_mrope", false}});
      break;
    case Family::kRefusion:  // a Qwen3 model that knows a mask token
      config["mask_token_id"] = bpe.mask_id();
      [[fallthrough]];
    case Family::kQwen3:
      config.update({{"architectures", {"Qwen3ForCausalLM"}},
                     {"attention_bias", false},
                     {"head_dim", shape.head_width()},
                     {"model_type", "qwen3"},
                     {"transformers_version", "4.51.0"}});
      break;
    case Family::kSdar:
      config.update({{"architectures", {"SDARForCausalLM"}},
                     {"attention_bias", false},
                     {"block_size", shape.block_length},
                     {"head_dim", shape.head_width()},
                     {"mask_token_id", bpe.mask_id()},
                     {"model_type", "sdar"},
                     {"transformers_version", "4.52.4"}});
      break;
    case Family::kLlada:
    case Family::kGidd:
    case Family::kGiddMask:
      break;
  }
  return config;
}

/// The published configs leave mask and padding to the arguments of their generate(), as the tokenizer's ids
/// 3 and 2. Here they are other ids, so the config has to name them.
nlohmann::ordered_json gidd_config(const ModelShape& shape, const Bpe& bpe) {
  const FamilyTraits& traits = shape.traits();
  constexpr double kPureNoise = 1000;  // a shift that leaves no other kind of noise at any level
  return {
      {"architectures", {"GiddForDiffusionLM"}},
      {"attention_bias", traits.kv_sink},
      {"attn_performer", "eager"},
      {"attn_soft_cap", traits.attn_soft_cap},
      {"auto_map",
       {{"AutoConfig", "configuration_gidd.GiddConfig"},
        {"AutoModel", "modeling_gidd.GiddForDiffusionLM"},
        {"AutoModelForCausalLM", "modeling_gidd.GiddForDiffusionLM"}}},
      {"bos_token_id", -1},  // prompts begin with their first word here; the published ones with this token
      {"emb_init_scale", kGiddEmbeddings},
      {"eos_token_id", bpe.end_id()},
      {"head_dim", shape.head_width()},
      {"head_init_scale", 0.0},
      {"head_scaling", traits.head_scale_width / static_cast<double>(shape.width)},
      {"hidden_size", shape.width},
      {"init_scale", kGiddMatrices / std::sqrt(static_cast<double>(shape.width))},
      {"intermediate_size", shape.ffn_width},
      {"is_causal", shape.causal()},
      {"mask_token_id", bpe.mask_id()},
      {"max_log_snr", kMaxLogSnr},
      {"max_position_embeddings", shape.context},
      {"min_log_snr", -kMaxLogSnr},
      {"mlp_bias", traits.squared_relu},
      {"model_type", "gidd"},
      {"noise_type", traits.uniform_noise ? kPureNoise : -kPureNoise},
      {"num_attention_heads", shape.heads},
      {"num_hidden_layers", shape.layers},
      {"pad_token_id", bpe.end_id()},
      {"resid_scale", traits.residual_scale},
      {"rms_norm_eps", traits.norm_epsilon},
      {"rope_scaling", nullptr},
      {"rope_theta", shape.rope_theta},
      {"tie_word_embeddings", false},
      {"torch_dtype", "bfloat16"},
      {"use_qk_norm", traits.qk_norm == QkNorm::kWidth},
      {"vocab_size", shape.vocabulary},
      {"weight_scaling", 1.0}};
}

}  // namespace

nlohmann::ordered_json config_json(const ModelShape& shape, const Bpe& bpe) {
  if (shape.family == Family::kLlada) return llada_config(shape, bpe);
  return shape.traits().interpolates() ? gidd_config(shape, bpe) : transformers_config(shape, bpe);
}

void export_texts(const std::filesystem::path& folder, const ModelShape& shape, const Bpe& bpe) {
  write_json(folder / "config.json", config_json(shape, bpe));
  write_json(folder / "tokenizer.json", tokenizer_json(bpe));
  write_json(folder / "tokenizer_config.json", tokenizer_config_json(bpe));
  write_json(folder / "special_tokens_map.json", special_tokens_map_json());
  write_json(folder / "generation_config.json", {{"_from_model_config", true},
                                                 {"bos_token_id", bpe.start_id()},
                                                 {"eos_token_id", bpe.end_id()},
                                                 {"transformers_version", "4.46.3"}});
}

void export_weights(const std::filesystem::path& folder, const Transformer& model) {
  std::vector<std::vector<bf16>> storage;
  std::vector<TensorToWrite> tensors;
  for (const auto& item : model->named_parameters()) {
    const torch::Tensor values = item.value().detach().contiguous();
    storage.push_back(to_bf16({values.data_ptr<float>(), static_cast<size_t>(values.numel())}));
    tensors.push_back({published_name(model->shape().family, item.key()), DType::kBF16, values.sizes().vec(),
                       std::as_bytes(std::span(storage.back()))});
  }
  write_safetensors(folder / "model.safetensors", tensors, {{"format", "pt"}});
}

void import_weights(const std::filesystem::path& folder, Transformer& model) {
  const torch::NoGradGuard no_grad;
  const Checkpoint checkpoint = Checkpoint::open(folder);
  for (const auto& item : model->named_parameters()) {
    torch::Tensor values = torch::empty_like(item.value());
    const TensorView stored =
        checkpoint.tensor(published_name(model->shape().family, item.key()), values.sizes().vec());
    widen(stored, 0, {values.data_ptr<float>(), static_cast<size_t>(values.numel())});
    item.value().copy_(values);
  }
}

void round_weights(Transformer& model) {
  const torch::NoGradGuard no_grad;
  for (const torch::Tensor& parameter : model->parameters()) parameter.copy_(parameter.to(torch::kBFloat16));
}

}  // namespace lacuna::train
