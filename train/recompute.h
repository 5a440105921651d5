// Activation checkpointing (Chen et al. 2016, arXiv 1604.06174): only a block's input is kept, and the
// backward pass recomputes the block.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <vector>

namespace lacuna::train {

/// Computes block(x), keeping only `x` for the backward pass.
///   block       must be deterministic; recomputed with the autocast state of the forward pass
///   parameters  all tensors besides `x` that the block reads and that require gradients
torch::Tensor recomputed(const std::function<torch::Tensor(const torch::Tensor&)>& block,
                         const torch::Tensor& x, const std::vector<torch::Tensor>& parameters);

}  // namespace lacuna::train
