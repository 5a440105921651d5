// AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101) and a moving average of the weights in one pass over
// memory. LibTorch's AdamW takes about ten passes: a third of the step time of a model with 100 million
// parameters and small batches.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace lacuna::train {

/// Scalars of one update.
struct AdamWNumbers {
  double gradient_scale = 1;  ///< gradients are multiplied by this first
  double average_decay = 0;   ///< of the moving average
};

/// A trainable weight.
struct LearnedWeight {
  torch::Tensor values;   ///< f32, a parameter of the optimizer
  torch::Tensor average;  ///< the moving average of the values
  torch::Tensor rounded;  ///< bf16 copy of the values; undefined if the model uses f32
};

/// Gradients of one weight, one per part of the batch, to be summed: of the weight's shape, f32 or bf16.
using GradientParts = std::vector<torch::Tensor>;

/// sqrt of the sum of squares of all gradients.
double gradient_norm(const std::vector<GradientParts>& gradients);

/// One step of `optimizer` with the options of its parameter groups; its state keeps LibTorch's layout. With
/// gradient g, weight w, moments m and v, betas b1 and b2, step t:
///
///   m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2,
///   w = (1 - rate decay) w - rate / (1 - b1^t) * m / (sqrt(v / (1 - b2^t)) + epsilon),
///
/// and each average becomes a = w + average_decay (a - w). Bitwise identical for any number of threads. On
/// devices other than the CPU, LibTorch's operations do the update.
///   weights    the optimizer's parameters, in any order
///   gradients  one entry for each of `weights`
void update(torch::optim::AdamW& optimizer, const std::vector<LearnedWeight>& weights,
            const std::vector<GradientParts>& gradients, const AdamWNumbers& numbers);

}  // namespace lacuna::train
