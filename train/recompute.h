// Activation checkpointing (Chen et al. 2016, arXiv 1604.06174): a block keeps its input alone, and its
// backward pass computes the block again.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <vector>

namespace lacuna::train {

/// block(x), of which only `x` is kept for the backward pass. The gradients are those of block(x): of `x` and
/// of `parameters`, which must be all tensors with gradients that the block reads besides.
///   block  gives the same when it is called again; whether autocast was on is restored then
torch::Tensor recomputed(const std::function<torch::Tensor(const torch::Tensor&)>& block,
                         const torch::Tensor& x, const std::vector<torch::Tensor>& parameters);

}  // namespace lacuna::train
