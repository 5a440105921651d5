// Detects tensors of a checkpoint that its config.json leaves out, without which output would be wrong: a
// config.json with too few layers, or without biases that the weights have.
#pragma once

#include <string_view>

#include "model/config.h"
#include "weights/stored_matrix.h"

namespace lacuna {

/// Throws InputError naming the tensor if a checkpoint has a layer beyond the config's last one, or a part of
/// a layer that the config says is absent: biases, norms of q and k, learned keys and values, a bias of
/// experts, a shared expert. Also throws if embeddings are tied and a head tensor differs from the embedding;
/// both are read to compare them. Other tensors, such as those of an image encoder, are ignored.
///   place  the checkpoint, for the message
void expect_no_unread_tensors(const ModelConfig& config, const WeightSource& weights, std::string_view place);

}  // namespace lacuna
