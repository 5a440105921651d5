// The forward passes of a training step: an optional first pass for self-conditioning of canvases, then the
// logits of the rows that predict.
#pragma once

#include <torch/torch.h>

#include "train/model.h"
#include "train/objective.h"

namespace lacuna::train {

/// Self-conditioning of canvases, without gradients: mean embeddings [B, T - canvas_begin, width] under
/// softmax(logits / temperature) of a pass without self-conditioning; 0 for rows with temperature 0.
/// Undefined if all temperatures are 0 or there are no canvases.
torch::Tensor soft_embeddings(Transformer& model, const Examples& examples);

/// Logits [M, vocabulary] of the rows that predict (some from earlier layers: Examples::blocks_left). `soft`:
/// result of soft_embeddings().
torch::Tensor predict(Transformer& model, const Examples& examples, const torch::Tensor& soft = {});

/// weighted_loss() of predict(). Plain cross entropy in f32 on the CPU uses the fused cross_entropy().
torch::Tensor loss_of(Transformer& model, const Examples& examples, const torch::Tensor& soft = {});

}  // namespace lacuna::train
