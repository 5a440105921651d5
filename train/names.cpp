#include "train/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"

namespace lacuna::train {
namespace {

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
    {"router", "", "mlp.gate.weight"},  // "router" and "expert_bias" get no ".weight"
    {"expert_bias", "", "mlp.gate.expert_bias"},
    {"gate", "ff_proj", "mlp.gate_proj"},
    {"up", "up_proj", "mlp.up_proj"},
    {"down", "ff_out", "mlp.down_proj"},
};

/// Names of DiffusionGemma's parameters, without the ".weight" of norms and matrices.
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

constexpr std::pair<std::string_view, std::string_view> kGgufNames[] = {{"embedding", "token_embd"},
                                                                        {"final_norm", "output_norm"},
                                                                        {"head", "output"},
                                                                        {"attn_norm", "attn_norm"},
                                                                        {"q", "attn_q"},
                                                                        {"k", "attn_k"},
                                                                        {"v", "attn_v"},
                                                                        {"o", "attn_output"},
                                                                        {"q_norm", "attn_q_norm"},
                                                                        {"k_norm", "attn_k_norm"},
                                                                        {"ffn_norm", "ffn_norm"},
                                                                        {"gate", "ffn_gate"},
                                                                        {"up", "ffn_up"},
                                                                        {"down", "ffn_down"}};

}  // namespace

std::string published_name(Family family, std::string_view parameter) {
  constexpr std::string_view kBlocks = "blocks.", kExperts = "experts.", kMlp = "mlp.";
  std::string_view kind;  // ".weight", ".bias" or nothing
  for (const std::string_view ending : {".weight", ".bias"}) {
    if (parameter.ends_with(ending)) kind = ending;
  }
  std::string_view part = parameter.substr(0, parameter.size() - kind.size());
  const std::string_view root = family == Family::kDiffusionGemma ? "model.decoder." : "";
  if (!part.starts_with(kBlocks)) return fmt::format("{}{}{}", root, published_part(family, part), kind);
  const auto take = [&part](std::string_view end) {  // removes and returns the prefix up to and with `end`
    const size_t at = part.find(end);
    const std::string_view taken = at == std::string_view::npos ? "" : part.substr(0, at + end.size());
    part.remove_prefix(taken.size());
    return taken;
  };
  take(kBlocks);
  const std::string_view layer = take(".");
  take("moe.");
  std::string owner;  // which expert a feed-forward parameter belongs to
  if (!take(kExperts).empty()) owner = fmt::format("experts.{}", take("."));
  if (!take("shared.").empty()) owner = "shared_experts.";
  std::string published(published_part(family, part));
  if (!owner.empty()) published.insert(kMlp.size(), owner);
  const std::string_view layers = family == Family::kLlada            ? "model.transformer.blocks"
                                  : family == Family::kDiffusionGemma ? "model.decoder.layers"
                                                                      : "model.layers";
  return fmt::format("{}.{}{}{}", layers, layer, published, kind);
}

std::string gguf_name(std::string_view parameter) {
  constexpr std::string_view kBlocks = "blocks.";
  const size_t kind = parameter.rfind('.');
  std::string_view part = parameter.substr(0, kind);
  std::string layer;  // "blk.2."
  if (part.starts_with(kBlocks)) {
    const size_t dot = part.find('.', kBlocks.size());
    layer = fmt::format("blk.{}.", part.substr(kBlocks.size(), dot - kBlocks.size()));
    part.remove_prefix(dot + 1);
  }
  const auto* const name = std::find_if(std::begin(kGgufNames), std::end(kGgufNames),
                                        [&](const auto& candidate) { return candidate.first == part; });
  expects(name != std::end(kGgufNames), "every part of a dense model has a name in GGUF files");
  return fmt::format("{}{}{}", layer, name->second, parameter.substr(kind));
}

std::vector<PublishedTensor> published_tensors(const Transformer& model,
                                               const std::function<std::string(std::string_view)>& name_of) {
  std::vector<PublishedTensor> tensors;
  for (const auto& item : model->named_parameters()) {
    if (item.key().find(kUpdate) != std::string::npos) continue;
    std::string name = name_of(item.key());
    if (tensors.empty() || tensors.back().name != name) tensors.push_back({std::move(name), {}});
    tensors.back().parts.push_back(item.value());
    constexpr std::string_view kDecoder = "model.decoder.", kScalar = ".layer_scalar";
    if (!tensors.back().name.ends_with(kScalar)) continue;
    // DiffusionGemma publishes layer_scalar twice, for the encoder too; training has one.
    const std::string of_reading =
        "model.encoder.language_model." + tensors.back().name.substr(kDecoder.size());
    tensors.push_back({of_reading, {item.value()}});
  }
  return tensors;
}

std::vector<PublishedTensor> published_tensors(const Transformer& model, Family family) {
  return published_tensors(
      model, [family](std::string_view parameter) { return published_name(family, parameter); });
}

UpdateName update_name(Family family, const std::string& parameter) {
  constexpr std::string_view kWeight = ".weight";
  UpdateName name;
  name.module = published_name(family, parameter.substr(0, parameter.find(kUpdate)) + std::string(kWeight));
  name.module.resize(name.module.size() - kWeight.size());
  name.tensor =
      fmt::format("base_model.model.{}.lora_{}.weight", name.module, parameter.ends_with("_a") ? "A" : "B");
  return name;
}

}  // namespace lacuna::train
