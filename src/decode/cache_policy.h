// Cache policies: which rows a pass computes; all other cells keep their K/V. docs/methods/caches.md has the
// rules and the differences between papers and their code.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "decode/canvas.h"
#include "model/plan.h"

namespace lacuna {

/// Every row, every pass.
struct NoCache {
  bool operator==(const NoCache&) const = default;
};

/// Fast-dLLM (arXiv 2505.22618), section 3.2: what precedes the block keeps the K/V of the block's first
/// pass.
struct PrefixCache {
  int32_t refresh = 0;  ///< passes of a block between full recomputations; 0: only the first pass
  bool operator==(const PrefixCache&) const = default;
};

/// Fast-dLLM, section 3.2: what follows the block keeps its K/V too.
struct DualCache {
  int32_t refresh = 0;  ///< as in PrefixCache
  bool operator==(const DualCache&) const = default;
};

/// FlashDLM (arXiv 2505.21467), section 3.2.1: the prompt and finished blocks are no longer computed. With a
/// delay (hao-ai-lab/d3LLM, generate_multi_block_kv_cache) every pass computes everything while a block waits
/// to be frozen, except for the one whose K/V of that block are kept.
struct FreeCache {
  int32_t block = 32;    ///< positions that freeze together, counted from the end of the prompt
  bool literal = false;  ///< as released: freeze K/V computed while the position was masked
  int32_t refresh = 0;   ///< passes of the request between full recomputations; 0: never
  int32_t delay = 0;     ///< passes over a finished block before the one whose K/V are kept
  bool operator==(const FreeCache&) const = default;
};

/// dKV-Cache (arXiv 2505.15781), the decode variant: a token's K/V are kept once a pass has computed its row.
struct DkvCache {
  int32_t refresh = 8;  ///< passes of the request between full recomputations, at least 1
  bool operator==(const DkvCache&) const = default;
};

/// Sparse-dLLM (arXiv 2508.02558): DualCache whose later passes attend to the block and to a share of all
/// other cells, which the block's second pass chooses in each layer.
struct SparseDllm {
  static constexpr double kMinKeep = 0.01;
  static constexpr int32_t kMaxPool = 99;
  double keep = 0.5;    ///< share of the other cells, [kMinKeep, 1]; at least one cell
  int32_t pool = 3;     ///< window of max-pooling over the cells' scores; odd, at most kMaxPool
  int32_t refresh = 0;  ///< passes of a block between choices of cells; 0: it chooses once
  bool operator==(const SparseDllm&) const = default;
};

/// dLLM-Cache (arXiv 2506.06295): the prompt's rows and the answer's are computed at intervals of their own.
/// Between its own, each layer but the first computes the rows of the answer whose values changed most.
struct DllmCache {
  double ratio = 0.25;   ///< share of the answer's rows, [SparseDllm::kMinKeep, 1], rounded down
  int32_t answer = 7;    ///< passes of the request between full computations of the answer, at least 1
  int32_t refresh = 50;  ///< same for the prompt
  bool operator==(const DllmCache&) const = default;
};

/// d2Cache (arXiv 2509.23094): the most certain masks, what was just written, and the positions that all
/// others attend to most. decode/rollout_cache.h chooses the rows.
struct D2Cache {
  static constexpr double kMinSigma = 0.1, kMaxSigma = 100;
  int32_t current = 32;  ///< minimum number of masks that a pass predicts, >= 1; all if there are fewer
  double rollout = 0.1;  ///< share of the attention to all others that goes to computed ones, [0, 1]
  double sigma = 10;     ///< of the density of written positions, in positions, [kMinSigma, kMaxSigma]
  int32_t inflate = 0;   ///< computes all rows between two that are at most this far apart
  int32_t refresh = 0;   ///< passes of the request between full recomputations; 0: never
  bool operator==(const D2Cache&) const = default;
};

using CachePolicy =
    std::variant<NoCache, PrefixCache, DualCache, FreeCache, DkvCache, SparseDllm, DllmCache, D2Cache>;

/// The positions whose rows keep what layers add to them.
IndexRange kept_layers(const CachePolicy& policy, const Canvas& canvas);

struct CachedPass {
  std::vector<int32_t> rows;  ///< to compute, ascending
  /// Whether the K/V of all rows that are not computed are final; only then does an unchanged posterior mean
  /// that a row has converged.
  bool nothing_is_stale = true;
  /// For the rows of `live`; all others attend to everything, and their layers reuse nothing.
  SparseAttention sparse = {};
  LayerReuse reuse = {};
  IndexRange live = {};
};

/// The rows of the next pass: the policy's, the predictors of `drawn_positions`, and all rows from
/// Canvas::first_moved() on. A request's first pass computes everything.
CachedPass choose_rows(const CachePolicy& policy, const Canvas& canvas, const Block& block,
                       std::span<const int32_t> drawn_positions);

}  // namespace lacuna
