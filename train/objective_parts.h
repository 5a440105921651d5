// Shared by the objectives: the coordinates of their random numbers, ratios of masks and weights of tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "train/objective.h"

namespace lacuna::train {

/// Coordinates that keep the streams of random numbers apart.
enum Purpose : uint8_t {
  kRatioOffset,
  kMasking,
  kSlotSize,
  kSlotMasking,
  kSlotOrder,
  kBlockRatio = 32,  // 16 to 31 belong to data.cpp
  kBlockMasking,
  kNoiseKind,
  kNoiseBegin,
  kNoiseWindow,
  kNoiseLevel,
  kNoiseCoin,
  kNoiseToken,
  kCopies,
  kCanvasPart,
  kCanvasCoin,
  kCanvasToken,
  kConditioning,
  kHalfWritten,
  kWritten,
  kSlotChoice,
  kNoiseIsUniform,
  kTrajectoryBlock,
  kTrajectoryRatio,
};

/// The sums of the weights of the tokens to learn, [B].
torch::Tensor response_lengths(const Batch& batch);

/// The weight of one token of a row.
double weight_of(const Batch& batch, int64_t row, int64_t at);

/// One ratio per row, evenly spread over [kMinRatio, 1].
std::vector<double> spread_ratios(int64_t rows, uint64_t seed, uint64_t step);

torch::Tensor to_tensor(const std::vector<int64_t>& values);

/// Collects the rows of a pass that predict a token each.
struct Predictions {
  std::vector<int64_t> rows, targets;
  std::vector<double> weights;

  void add(int64_t row, int64_t target, double weight) {
    rows.push_back(row);
    targets.push_back(target);
    weights.push_back(weight);
  }
  torch::Tensor weight_tensor() const { return torch::tensor(weights, torch::kFloat64).to(torch::kFloat32); }
};

/// A pass over rows of T clean tokens, each followed by `copies` of its tokens from position `begin` on, at
/// the same positions. Callers mask tokens of the copies. `begin` starts the first block in which a row of
/// the batch has tokens to learn.
struct BlockPass {
  torch::Tensor inputs;     ///< [B, T + copies (T - begin)]: clean tokens, in the copies as well
  torch::Tensor positions;  ///< shape of `inputs`
  torch::Tensor unseen;     ///< [pass_length, pass_length], the same for all rows of the batch
  int64_t begin = 0;
  int64_t length = 0;  ///< T
  int64_t pass_length = 0;

  /// Index within the pass of the row in which `copy` holds position `at` >= begin.
  int64_t row_of(int64_t copy, int64_t at) const { return length + copy * (length - begin) + (at - begin); }
  Examples examples(const Predictions& predictions) const;
};
///   causal  whether attention is causal within a row's own block
BlockPass block_pass(const Batch& batch, int64_t block_length, int64_t copies, bool causal);

}  // namespace lacuna::train
