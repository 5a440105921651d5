// AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101) and a moving average of the weights in one pass over
// memory: LibTorch's own takes about ten, which is a third of the step of a model of 100 million parameters
// with few rows.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace lacuna::train {

/// Numbers of one update.
struct AdamWNumbers {
  double gradient_scale = 1;  ///< gradients are multiplied by this first
  double average_decay = 0;   ///< of the moving average
};

/// A weight that is learned.
struct LearnedWeight {
  torch::Tensor values;   ///< f32, a parameter of the optimizer
  torch::Tensor average;  ///< the moving average of the values
  torch::Tensor rounded;  ///< bf16, follows the values; undefined where nothing reads it
};

/// Gradients of one weight by parts of the batch, which count together: of its shape, f32 or bf16.
using GradientParts = std::vector<torch::Tensor>;

/// sqrt of the sum of squares of all gradients.
double gradient_norm(const std::vector<GradientParts>& gradients);

/// One step of `optimizer` on its parameters, with its groups' options and its state, which stays as LibTorch
/// has it: with gradient g, weight w, moments m and v, step t,
///
///   m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2,
///   w = (1 - rate decay) w - rate / (1 - b1^t) * m / (sqrt(v / (1 - b2^t)) + epsilon),
///
/// and of each average a = w + average_decay (a - w). The same bits for any number of threads. On other
/// devices than the CPU LibTorch's operations do it.
///   weights    those of the optimizer in any order
///   gradients  one for each of `weights`
void update(torch::optim::AdamW& optimizer, const std::vector<LearnedWeight>& weights,
            const std::vector<GradientParts>& gradients, const AdamWNumbers& numbers);

}  // namespace lacuna::train
