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

/// sqrt of the sum of squares of all gradients.
double gradient_norm(const std::vector<torch::Tensor>& parameters);

/// One step of `optimizer` on its parameters, with its groups' options and its state, which stays as LibTorch
/// has it: with gradient g, weight w, moments m and v, step t,
///
///   m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2,
///   w = (1 - rate decay) w - rate / (1 - b1^t) * m / (sqrt(v / (1 - b2^t)) + epsilon),
///
/// and of each average a = w + average_decay (a - w). The same bits for any number of threads. On other
/// devices than the CPU LibTorch's operations do it.
///   parameters  those of the optimizer in any order, f32 with gradients
///   averages    one for each of `parameters`
void update(torch::optim::AdamW& optimizer, const std::vector<torch::Tensor>& parameters,
            const std::vector<torch::Tensor>& averages, const AdamWNumbers& numbers);

}  // namespace lacuna::train
