// The passes of a step: the logits of the rows that predict and, before them, what canvases read of an
// earlier pass.
#pragma once

#include <torch/torch.h>

#include "train/model.h"
#include "train/objective.h"

namespace lacuna::train {

/// Mean embeddings [B, T - canvas_begin, width] under what a pass without them predicts for the canvases,
/// softmax(logits / temperature), without gradients; 0 for rows whose temperature is 0. Undefined where all
/// are, or where there are no canvases.
torch::Tensor soft_embeddings(Transformer& model, const Examples& examples);

/// Logits [M, vocabulary] of the rows that predict, some of them before the last blocks. `soft`: as
/// soft_embeddings() has it.
torch::Tensor predict(Transformer& model, const Examples& examples, const torch::Tensor& soft = {});

/// weighted_loss() of what predict() gives. The plain cross entropy of a model in f32 on the CPU is computed
/// with the logits of a few rows at a time.
torch::Tensor loss_of(Transformer& model, const Examples& examples, const torch::Tensor& soft = {});

}  // namespace lacuna::train
