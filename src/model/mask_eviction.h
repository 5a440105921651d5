// FOCUS (arXiv 2601.23278; sands-lab/FOCUS, lmdeploy/pytorch/kernels/cuda/focus.py): masks to which little
// attention grows between the first two layers are not written soon, and need not be computed on.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention.h"
#include "kernels/matmul.h"

namespace lacuna {

/// Attention of masks to each of them, summed over queries and heads. Masks see masks alone; a key scores the
/// best score of itself and its neighbors among the masks.
///   q, k   [rows, heads of the shape] as rotated
///   masks  rows, ascending
std::vector<double> attention_among_masks(const KernelContext& context, const AttentionShape& shape,
                                          ConstMatrix<float> q, ConstMatrix<float> k,
                                          std::span<const int32_t> masks);

/// Which masks stay: those whose attention grew by at least the mean and a standard deviation, if these are
/// `target` or more, else the `target` that grew most, ties to the lowest; each mask whose next cell is one
/// of these; and all cells from `unread` on that precede the last that stays. All, if they are not more than
/// `target`.
///   growth  [masks]      cells  [masks] ascending
std::vector<bool> masks_that_stay(std::span<const double> growth, std::span<const int32_t> cells,
                                  int32_t target, int32_t unread);

}  // namespace lacuna
