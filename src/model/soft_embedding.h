// The mean embedding under a distribution over tokens, the input of self-conditioning.
#pragma once

#include <span>

#include "base/matrix.h"
#include "kernels/matmul.h"
#include "weights/packed_matrix.h"

namespace lacuna {

/// Sets the smallest weights to 0, up to a total probability of `slack`. Returns the previous sum of the
/// weights.
///   weights  [vocab] non-negative, proportional to probabilities
double leave_out_least_likely(std::span<float> weights, double slack);

/// out[r] = sum over tokens of factors[r] * weights[r, token] * embedding[token], in ascending order of
/// tokens.
///   weights  [rows, vocab]; tokens of weight 0 are not read
///   out      [rows] of [hidden] each; null: the row is left out
void mean_embeddings(const KernelContext& context, const PackedMatrix& embedding, ConstMatrix<float> weights,
                     std::span<const float> factors, std::span<float* const> out);

}  // namespace lacuna
