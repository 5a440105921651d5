#include "train/export.h"

#include <fstream>
#include <span>
#include <vector>

#include "base/error.h"
#include "weights/safetensors_writer.h"

namespace lacuna::train {
namespace {

constexpr int64_t kMaxSequence = 1024;  // positions; training uses fewer

void write_json(const std::filesystem::path& path, const nlohmann::ordered_json& json) {
  std::ofstream file(path);
  file << json.dump(2) << '\n';
  file.close();
  if (!file) throw InputError("cannot write {}", path.string());
}

}  // namespace

nlohmann::ordered_json config_json(const ModelShape& shape, const Bpe& bpe) {
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
          {"max_sequence_length", kMaxSequence},
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
          {"rms_norm_eps", shape.norm_epsilon},
          {"rope", true},
          {"rope_full_precision", true},
          {"rope_theta", shape.rope_theta},
          {"scale_logits", false},
          {"transformers_version", "4.46.3"},
          {"use_cache", false},
          {"vocab_size", shape.vocabulary},
          {"weight_tying", false}};
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

void export_weights(const std::filesystem::path& folder, const Llada& model) {
  std::vector<std::vector<bf16>> storage;
  std::vector<TensorToWrite> tensors;
  for (const auto& item : model->named_parameters()) {
    const torch::Tensor values = item.value().detach().contiguous();
    storage.push_back(to_bf16({values.data_ptr<float>(), static_cast<size_t>(values.numel())}));
    tensors.push_back(
        {item.key(), DType::kBF16, values.sizes().vec(), std::as_bytes(std::span(storage.back()))});
  }
  write_safetensors(folder / "model.safetensors", tensors, {{"format", "pt"}});
}

void round_weights(Llada& model) {
  const torch::NoGradGuard no_grad;
  for (const torch::Tensor& parameter : model->parameters()) parameter.copy_(parameter.to(torch::kBFloat16));
}

}  // namespace lacuna::train
