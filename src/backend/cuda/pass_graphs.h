// CUDA graphs of a pass's layers: passes are padded to common shapes, so that they have the same launch
// arguments and one recorded graph serves them all, without the launch overhead between kernels.
#pragma once

#include <cstdint>
#include <functional>
#include <list>

#include "backend/cuda/runtime.h"

namespace lacuna::cuda {

/// Array sizes of one attention plan.
struct AttentionSize {
  int64_t tasks = 0;
  int64_t merges = 0;
  // The first tasks and merges, for the last layer's output rows:
  int64_t output_tasks = 0;
  int64_t output_merges = 0;
  int64_t runs = 0;
  int64_t masks = 0;

  bool operator==(const AttentionSize&) const = default;
};

/// Sizes of the arrays that a pass's layers read. Graphs need them rounded up (rows to multiples of 16, other
/// counts to powers of two): padded arrays lie at the same addresses in every pass.
struct PassShape {
  int64_t rows = 0;
  int64_t output_rows = 0;       ///< rows of the last layer, once it has written keys and values
  int64_t conditioned_rows = 0;  ///< rows of canvases that read soft embeddings
  int64_t pages = 0;
  AttentionSize attention = {};  ///< layers without a window
  AttentionSize sliding = {};    ///< layers with a sliding window
  bool measures_kv_drift = false;
  bool mixes = false;  ///< some rows are mixed with the mask

  bool operator==(const PassShape&) const = default;
};

/// Larger passes are not padded: their compute time hides the launch overhead.
inline constexpr int64_t kMaxGraphRows = 256;

/// Matmul kernels take 16, 32, 64 or 128 rows, so finer steps would save nothing.
inline constexpr int64_t kGraphRowStep = 16;

/// Shape of the padded arrays.
///   exact  sizes of the plan itself
PassShape rounded_up(const PassShape& exact);

/// Graphs of one PassMemory, at most kMax. Replacing a graph is safe: the previous pass with this memory has
/// finished before the next one begins.
class PassGraphs {
 public:
  static constexpr size_t kMax = 32;

  /// Whether a pass of this shape was sent before; remembers new shapes. The first pass of a shape should be
  /// sent directly: recording costs more than a pass, and many shapes never recur.
  bool has_seen(const PassShape& shape);

  /// Launches the graph of a shape that has_seen() knows. Records it for the first launch, and again whenever
  /// `place` has changed.
  ///   place  version number of all addresses in the launches
  ///   send   sends the launches
  void launch(Stream& stream, const PassShape& shape, uint64_t place, const std::function<void()>& send);

  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    PassShape shape;
    uint64_t place = 0;
    Graph graph;
  };
  std::list<Entry>::iterator find(const PassShape& shape);

  std::list<Entry> entries_;  // most recently used first
};

}  // namespace lacuna::cuda
