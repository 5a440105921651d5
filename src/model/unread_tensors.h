// Tensors of a checkpoint that its config.json leaves out of the model, so that the model would run and write
// nonsense: a config.json with too few layers, or without biases that the weights have.
#pragma once

#include <string_view>

#include "model/config.h"
#include "weights/stored_matrix.h"

namespace lacuna {

/// Throws InputError, which names the tensor, where a checkpoint has a layer after the config's last one, or
/// a part of a layer that the family can have and the config says is absent: biases, norms of q and k,
/// learned keys and values, a bias of experts, a shared expert. Tied embeddings may have a head that is their
/// copy, for which both are read. Other tensors, such as those of an image
/// encoder, are not looked at.
///   place  the checkpoint, for the message
void expect_no_unread_tensors(const ModelConfig& config, const WeightSource& weights, std::string_view place);

}  // namespace lacuna
