// Rows of a pass by d2Cache (Jiang et al. 2025, arXiv 2509.23094; Kamichanw/d2Cache, d2cache.py):
// docs/methods/caches.md has the rule. The choice depends on the results of earlier passes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "decode/cache_policy.h"
#include "decode/canvas.h"

namespace lacuna {

class RolloutCache {
 public:
  ///   measures_entropy  whether confidences are negative entropies
  RolloutCache(const D2Cache& policy, bool measures_entropy, const Canvas& canvas);

  /// Chooses the rows of the next pass. Returns those of `masks` that it predicts, ascending.
  ///   masks           positions of the canvas to be written, ascending
  ///   num_candidates  the first ones, which the pass may write; at least 1
  ///   least           candidates that it must predict, if there are as many
  std::vector<int32_t> choose(const Canvas& canvas, const Block& block, std::span<const int32_t> masks,
                              size_t num_candidates, int32_t least);
  /// The chosen rows, ascending.
  std::span<const int32_t> rows() const { return rows_; }

  /// Remembers a pass: the samples of the masks that it predicted, and PassResult::rollout.
  void see(std::span<const Commit> predicted, std::span<const double> rollout);

 private:
  /// Marks the rows that are computed: the predictors of the best masks.
  void choose_masks(const Canvas& canvas, const Block& block, std::span<const int32_t> masks,
                    size_t num_candidates, int32_t least);
  /// Marks further rows by their share of the rollout.
  void choose_others();
  /// Marks rows between marked ones.
  void inflate();
  /// Share of known positions around a mask, by the normal distribution.
  double density(const Canvas& canvas, int32_t position) const;

  D2Cache policy_;
  bool measures_entropy_;
  std::vector<double> weights_;      // by distance
  std::vector<double> confidences_;  // [canvas] when the position was predicted last
  std::vector<double> rollout_;      // [canvas] of the last pass
  std::vector<bool> is_computed_;    // [canvas] of the next pass
  std::vector<int32_t> rows_;
};

}  // namespace lacuna
