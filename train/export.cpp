#include "train/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "train/canvas_config.h"
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
  std::string_view part, llada, transformers, gidd = transformers, llada2 = transformers;
};

constexpr PublishedName kNames[] = {
    {"embedding", "model.transformer.wte", "model.embed_tokens", "model.embed_tokens",
     "model.word_embeddings"},
    {"final_norm", "model.transformer.ln_f", "model.norm"},
    {"head", "model.transformer.ff_out", "lm_head"},
    // Parameters of one transformer block.
    {"attn_norm", "attn_norm", "input_layernorm", "attn_layernorm"},
    {"q", "q_proj", "self_attn.q_proj", "self_attn.q_proj", "attention.query_key_value"},
    {"k", "k_proj", "self_attn.k_proj", "self_attn.k_proj", "attention.query_key_value"},
    {"v", "v_proj", "self_attn.v_proj", "self_attn.v_proj", "attention.query_key_value"},
    {"q_norm", "", "self_attn.q_norm", "self_attn.q_norm", "attention.query_layernorm"},
    {"k_norm", "", "self_attn.k_norm", "self_attn.k_norm", "attention.key_layernorm"},
    {"k_sink", "", "", "self_attn.k_bias"},
    {"v_sink", "", "", "self_attn.v_bias"},
    {"o", "attn_out", "self_attn.o_proj", "self_attn.o_proj", "attention.dense"},
    {"ffn_norm", "ff_norm", "post_attention_layernorm", "mlp_layernorm"},
    {"router", "", "mlp.gate.weight"},  // these two name a whole parameter
    {"expert_bias", "", "mlp.gate.expert_bias"},
    {"gate", "ff_proj", "mlp.gate_proj"},
    {"up", "up_proj", "mlp.up_proj"},
    {"down", "ff_out", "mlp.down_proj"},
};

/// Those of DiffusionGemma, without a kind: norms and matrices have ".weight" behind theirs.
constexpr std::pair<std::string_view, std::string_view> kCanvasNames[] = {
    {"embedding", "embed_tokens"},
    {"final_norm", "norm"},
    {"conditioning.norm", "self_conditioning.pre_norm"},
    {"conditioning.gate", "self_conditioning.gate_proj"},
    {"conditioning.up", "self_conditioning.up_proj"},
    {"conditioning.down", "self_conditioning.down_proj"},
    {"attn_norm", "input_layernorm"},
    {"q", "self_attn.q_proj"},
    {"k", "self_attn.k_proj"},
    {"v", "self_attn.v_proj"},
    {"o", "self_attn.o_proj"},
    {"q_norm", "self_attn.q_norm"},
    {"k_norm", "self_attn.k_norm"},
    {"post_attn_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"gate", "mlp.gate_proj"},
    {"up", "mlp.up_proj"},
    {"down", "mlp.down_proj"},
    {"post_dense_norm", "post_feedforward_layernorm_1"},
    {"expert_norm", "pre_feedforward_layernorm_2"},
    {"post_expert_norm", "post_feedforward_layernorm_2"},
    {"post_ffn_norm", "post_feedforward_layernorm"},
    {"router", "router.proj"},
    {"router_scale", "router.scale"},
    {"expert_scale", "router.per_expert_scale"},
    {"expert_gate_up", "experts.gate_up_proj"},
    {"expert_down", "experts.down_proj"},
    {"layer_scalar", "layer_scalar"},
};

std::string_view published_part(Family family, std::string_view part) {
  if (family == Family::kDiffusionGemma) {
    const auto* const name = std::find_if(std::begin(kCanvasNames), std::end(kCanvasNames),
                                          [&](const auto& candidate) { return candidate.first == part; });
    expects(name != std::end(kCanvasNames), "every part of the model has a published name");
    return name->second;
  }
  const auto* const name =
      std::find_if(std::begin(kNames), std::end(kNames),
                   [&](const PublishedName& candidate) { return candidate.part == part; });
  expects(name != std::end(kNames), "every part of the model has a published name");
  switch (family) {
    case Family::kLlada:
      return name->llada;
    case Family::kLlada2:
      return name->llada2;
    case Family::kGidd:
    case Family::kGiddMask:
      return name->gidd;
    default:
      return name->transformers;
  }
}

/// "blocks.2.q.weight" -> "model.layers.2.self_attn.q_proj.weight", "blocks.2.moe.experts.0.up.weight" ->
/// "model.layers.2.mlp.experts.0.up_proj.weight". LLaDA has names of its own, the other families those of the
/// transformers library; GIDD and LLaDA2 mix in some, and DiffusionGemma's are in a decoder.
std::string published_name(Family family, std::string_view parameter) {
  constexpr std::string_view kBlocks = "blocks.", kExperts = "experts.", kMlp = "mlp.";
  std::string_view kind;  // ".weight", ".bias" or nothing
  for (const std::string_view ending : {".weight", ".bias"}) {
    if (parameter.ends_with(ending)) kind = ending;
  }
  std::string_view part = parameter.substr(0, parameter.size() - kind.size());
  const std::string_view root = family == Family::kDiffusionGemma ? "model.decoder." : "";
  if (!part.starts_with(kBlocks)) return fmt::format("{}{}{}", root, published_part(family, part), kind);
  const auto take = [&part](std::string_view end) {  // what is before and with `end`
    const size_t at = part.find(end);
    const std::string_view taken = at == std::string_view::npos ? "" : part.substr(0, at + end.size());
    part.remove_prefix(taken.size());
    return taken;
  };
  take(kBlocks);
  const std::string_view layer = take(".");
  take("moe.");
  std::string owner;  // of a feed-forward part among several
  if (!take(kExperts).empty()) owner = fmt::format("experts.{}", take("."));
  if (!take("shared.").empty()) owner = "shared_experts.";
  std::string published(published_part(family, part));
  if (!owner.empty()) published.insert(kMlp.size(), owner);
  const std::string_view layers = family == Family::kLlada            ? "model.transformer.blocks"
                                  : family == Family::kDiffusionGemma ? "model.decoder.layers"
                                                                      : "model.layers";
  return fmt::format("{}.{}{}{}", layers, layer, published, kind);
}

constexpr std::string_view kUpdate = ".lora_";

/// Neighbouring parameters of the model that are one published tensor, one behind the other.
struct PublishedTensor {
  std::string name;
  std::vector<torch::Tensor> parts;

  std::vector<int64_t> sizes() const {
    std::vector<int64_t> sizes = parts.front().sizes().vec();
    for (size_t i = 1; i < parts.size(); ++i) sizes.front() += parts[i].size(0);
    return sizes;
  }
};

/// The tensors of a checkpoint of this family that hold the model's parameters.
std::vector<PublishedTensor> published_tensors(const Transformer& model, Family family) {
  std::vector<PublishedTensor> tensors;
  for (const auto& item : model->named_parameters()) {
    if (item.key().find(kUpdate) != std::string::npos) continue;
    std::string name = published_name(family, item.key());
    if (tensors.empty() || tensors.back().name != name) tensors.push_back({std::move(name), {}});
    tensors.back().parts.push_back(item.value());
    constexpr std::string_view kDecoder = "model.decoder.", kScalar = ".layer_scalar";
    if (!tensors.back().name.ends_with(kScalar)) continue;
    // DiffusionGemma has one more for rows that are read: published twice, trained as one.
    const std::string of_reading =
        "model.encoder.language_model." + tensors.back().name.substr(kDecoder.size());
    tensors.push_back({of_reading, {item.value()}});
  }
  return tensors;
}

/// For inputs h_j = g_j x_j with independent x_j of variance 1, where g are the weights of the norm before,
/// the mean square of q over a head is that of sum over j of (W_ij g_j)^2.
void fold_head_norms(const Checkpoint& checkpoint, Transformer& model) {
  const ModelShape& shape = model->shape();
  auto parameters = model->named_parameters();
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    const std::string block = fmt::format("blocks.{}.", layer);
    for (const char* const part : {"q", "k"}) {
      std::vector<float> norm(static_cast<size_t>(shape.head_width()));
      const std::string name = published_name(Family::kQwen3, fmt::format("{}{}_norm.weight", block, part));
      widen(checkpoint.tensor(name, {shape.head_width()}), 0, norm);
      const torch::Tensor heads =
          parameters[block + part + ".weight"].view({-1, shape.head_width(), shape.width});
      const torch::Tensor mean_square =
          (heads * parameters[block + "attn_norm.weight"]).square().sum(-1).mean(1).view({-1, 1, 1});
      heads.mul_(torch::tensor(norm).view({1, -1, 1}) * torch::rsqrt(mean_square));
    }
  }
}

/// Permutation of a dense head's dimensions for a head with partial rotary embedding: every n-th of the pairs
/// (i, i + half) keeps rotating at its frequency, the others no longer rotate.
torch::Tensor kept_rotations(const ModelShape& shape) {
  const int64_t half = shape.head_width() / 2;
  const int64_t every = shape.head_width() / shape.rotary_width();
  std::vector<int64_t> order;
  for (const int64_t begin : {int64_t{0}, half}) {
    for (int64_t i = 0; i < half; i += every) order.push_back(begin + i);
  }
  for (int64_t i = 0; i < 2 * half; ++i) {
    if (i % half % every != 0) order.push_back(i);
  }
  return torch::tensor(order);
}

/// Rows of an embedding or a head: each is the mean of the rows that spell its token.
void import_rows(const Checkpoint& checkpoint, const std::string& name, const WordRows& words,
                 torch::Tensor out) {
  const int64_t width = out.size(1);
  const TensorView stored = checkpoint.tensor(name, std::vector<int64_t>{words.vocabulary, width});
  torch::Tensor values = torch::empty({words.vocabulary, width});
  widen(stored, 0, {values.data_ptr<float>(), static_cast<size_t>(values.numel())});
  for (int64_t row = 0; row < out.size(0); ++row) {
    const std::vector<TokenId>& spelled = words.spelled[static_cast<size_t>(row)];
    const std::vector<int64_t> indices(spelled.begin(), spelled.end());
    if (!indices.empty()) out[row].copy_(values.index_select(0, torch::tensor(indices)).mean(0));
  }
}

/// See import_weights().
void import_dense_weights(const std::filesystem::path& folder, Transformer& model, const WordRows* words) {
  const ModelShape& shape = model->shape();
  const int64_t expert_width = shape.experts.ffn_width;
  const int64_t slices = shape.ffn_width / expert_width;
  if (slices < 2 || shape.ffn_width % expert_width != 0) {
    throw InputError("--expert-width {}: expected a half, a third, ... of --ffn-width {} to start from {}",
                     expert_width, shape.ffn_width, folder.string());
  }
  ModelShape dense_shape = shape;
  dense_shape.family = Family::kQwen3;
  dense_shape.left_to_right = false;
  Transformer dense_model(dense_shape);
  import_weights(folder, dense_model, words);
  const auto dense = dense_model->named_parameters();
  const torch::Tensor rotations = kept_rotations(shape);
  constexpr std::string_view kExperts = "moe.", kExpert = "moe.experts.", kShared = "moe.shared.";
  for (const auto& item : model->named_parameters()) {
    const std::string& name = item.key();
    torch::Tensor weights = item.value();
    const auto is = [&](std::string_view part) { return name.find(part) != std::string::npos; };
    const auto slice = [&](int64_t index) {  // "blocks.1.moe.shared.up.weight" is one of "blocks.1.up.weight"
      const std::string part = name.substr(name.rfind('.', name.rfind('.') - 1) + 1);
      const torch::Tensor whole = dense[name.substr(0, name.find(kExperts)) + part];
      return whole.slice(is(".down.") ? 1 : 0, index * expert_width, (index + 1) * expert_width);
    };
    if (is(".q.") || is(".k.")) {
      weights.copy_(
          dense[name].view({shape.heads, shape.head_width(), -1}).index_select(1, rotations).flatten(0, 1));
    } else if (is("q_norm") || is("k_norm")) {
      weights.copy_(dense[name].index_select(0, rotations));
    } else if (is(kShared)) {
      weights.copy_(slice(0));
    } else if (is(kExpert)) {
      const int64_t expert = std::stoll(name.substr(name.find(kExpert) + kExpert.size()));
      weights.copy_(slice(1 + expert % (slices - 1)));
      // Selected experts have weight kRoutedScale in total; in the dense model each of these slices had
      // weight 1.
      if (is(".down.")) weights.mul_(static_cast<double>(slices - 1) / kRoutedScale);
    } else if (dense.contains(name)) {
      weights.copy_(dense[name]);
    }
  }
}

}  // namespace

WordRows match_words(const Tokenizer& from, const Tokenizer& to) {
  WordRows rows{from.size(), {}};
  for (TokenId id = 0; id < to.size(); ++id)
    rows.spelled.push_back(
        from.encode(to.decode(std::array{id}, /*skip_special=*/false), SpecialTokens::kAsAtoms));
  return rows;
}

void export_texts(const std::filesystem::path& folder, const ModelShape& shape, const Bpe& bpe) {
  const SpecialIds ids = bpe.ids();
  write_json(folder / "config.json", config_json(shape, ids));
  write_json(folder / "tokenizer.json", tokenizer_json(bpe));
  write_json(folder / "tokenizer_config.json", tokenizer_config_json(bpe));
  write_json(folder / "special_tokens_map.json", special_tokens_map_json(bpe));
  if (shape.traits().has_canvases()) {
    write_json(folder / "generation_config.json", canvas_generation_config(shape, ids));
    return;
  }
  write_json(folder / "generation_config.json", {{"_from_model_config", true},
                                                 {"bos_token_id", ids.start},
                                                 {"eos_token_id", ids.end},
                                                 {"transformers_version", "4.46.3"}});
}

void export_weights(const std::filesystem::path& folder, const Transformer& updated) {
  const Transformer model = merged_model(updated);
  std::vector<std::vector<bf16>> storage;
  std::vector<TensorToWrite> tensors;
  for (const PublishedTensor& tensor : published_tensors(model, model->shape().family)) {
    const torch::Tensor values = torch::cat(tensor.parts).detach().cpu().contiguous();
    storage.push_back(to_bf16({values.data_ptr<float>(), static_cast<size_t>(values.numel())}));
    tensors.push_back(
        {tensor.name, DType::kBF16, values.sizes().vec(), std::as_bytes(std::span(storage.back()))});
  }
  write_safetensors(folder / "model.safetensors", tensors, {{"format", "pt"}});
}

void export_adapter(const std::filesystem::path& folder, const Transformer& model, const std::string& base) {
  constexpr std::string_view kWeight = ".weight";
  std::vector<torch::Tensor> storage;
  std::vector<TensorToWrite> tensors;
  std::set<std::string> modules;
  for (const auto& item : model->named_parameters()) {
    const size_t update = item.key().find(kUpdate);
    if (update == std::string::npos) continue;
    std::string module =
        published_name(model->shape().family, item.key().substr(0, update) + std::string(kWeight));
    module.resize(module.size() - kWeight.size());
    modules.insert(module.substr(module.rfind('.') + 1));
    const bool is_a = item.key().ends_with("_a");
    storage.push_back(item.value().detach().cpu().contiguous());
    const torch::Tensor& values = storage.back();
    const std::span<const float> floats(values.data_ptr<float>(), static_cast<size_t>(values.numel()));
    tensors.push_back({fmt::format("base_model.model.{}.lora_{}.weight", module, is_a ? "A" : "B"),
                       DType::kF32, values.sizes().vec(), std::as_bytes(floats)});
  }
  write_safetensors(folder / "adapter_model.safetensors", tensors, {{"format", "pt"}});
  write_json(folder / "adapter_config.json", {{"base_model_name_or_path", base},
                                              {"bias", "none"},
                                              {"fan_in_fan_out", false},
                                              {"inference_mode", true},
                                              {"lora_alpha", model->lora().alpha},
                                              {"lora_dropout", 0.0},
                                              {"modules_to_save", nullptr},
                                              {"peft_type", "LORA"},
                                              {"r", model->lora().rank},
                                              {"target_modules", modules},
                                              {"task_type", "CAUSAL_LM"},
                                              {"use_dora", false},
                                              {"use_rslora", false}});
}

void import_weights(const std::filesystem::path& folder, Transformer& model, const WordRows* words) {
  const torch::NoGradGuard no_grad;
  const Checkpoint checkpoint = Checkpoint::open(folder);
  const ModelShape& shape = model->shape();
  const bool is_dense = checkpoint.contains(published_name(Family::kQwen3, "embedding.weight"));
  if (shape.family == Family::kLlada2 && is_dense) return import_dense_weights(folder, model, words);
  const bool has_more_norms = shape.traits().qk_norm == QkNorm::kNone &&
                              checkpoint.contains(published_name(Family::kQwen3, "blocks.0.q_norm.weight"));
  if (!shape.traits().qkv_bias && checkpoint.contains(published_name(Family::kQwen2, "blocks.0.q.bias")))
    throw InputError("{}: its q, k and v have biases, which {} has not", folder.string(),
                     shape.traits().name);
  const bool has_own_names = checkpoint.contains(published_name(shape.family, "embedding.weight"));
  const Family names = has_own_names ? shape.family : Family::kQwen3;
  for (const PublishedTensor& tensor : published_tensors(model, names)) {
    if (tensor.name.ends_with("_proj.bias") && !checkpoint.contains(tensor.name)) {
      for (torch::Tensor part : tensor.parts) part.zero_();
      continue;
    }
    if (words != nullptr && tensor.sizes().front() == shape.vocabulary) {
      import_rows(checkpoint, tensor.name, *words, tensor.parts.front());
      continue;
    }
    const TensorView stored = checkpoint.tensor(tensor.name, tensor.sizes());
    int64_t first = 0;
    for (const torch::Tensor& part : tensor.parts) {
      torch::Tensor values = torch::empty_like(part, torch::kCPU);
      widen(stored, first, {values.data_ptr<float>(), static_cast<size_t>(values.numel())});
      part.copy_(values);
      first += part.numel();
    }
  }
  if (has_more_norms) fold_head_norms(checkpoint, model);
}

void round_weights(Transformer& model) {
  const torch::NoGradGuard no_grad;
  for (const torch::Tensor& parameter : model->parameters()) parameter.copy_(parameter.to(torch::kBFloat16));
}

}  // namespace lacuna::train
