// Names of the model's parameters in checkpoints.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "train/family.h"
#include "train/model.h"

namespace lacuna::train {

/// "blocks.2.q.weight" -> "model.layers.2.self_attn.q_proj.weight", "blocks.2.moe.experts.0.up.weight" ->
/// "model.layers.2.mlp.experts.0.up_proj.weight". LLaDA has its own names; the other families use those of
/// the transformers library, with some differences in GIDD and LLaDA2. DiffusionGemma's are inside a decoder.
std::string published_name(Family family, std::string_view parameter);

/// "blocks.2.q.weight" -> "blk.2.attn_q.weight": llama.cpp's names for dense models.
std::string gguf_name(std::string_view parameter);

/// Part of the names of low-rank update parameters, and of no others.
inline constexpr std::string_view kUpdate = ".lora_";

/// PEFT's names for a parameter of a low-rank update.
struct UpdateName {
  std::string module;  ///< "model.layers.2.self_attn.q_proj"
  std::string tensor;  ///< "base_model.model.model.layers.2.self_attn.q_proj.lora_A.weight"
};
UpdateName update_name(Family family, const std::string& parameter);

/// Adjacent parameters of the model that one published tensor holds, concatenated.
struct PublishedTensor {
  std::string name;
  std::vector<torch::Tensor> parts;

  std::vector<int64_t> sizes() const {
    std::vector<int64_t> sizes = parts.front().sizes().vec();
    for (size_t i = 1; i < parts.size(); ++i) sizes.front() += parts[i].size(0);
    return sizes;
  }
};

/// The tensors of a checkpoint that hold the model's parameters.
///   name  maps a parameter to its name in the checkpoint; adjacent parameters with one name share a tensor
std::vector<PublishedTensor> published_tensors(const Transformer& model,
                                               const std::function<std::string(std::string_view)>& name);
std::vector<PublishedTensor> published_tensors(const Transformer& model, Family family);

}  // namespace lacuna::train
