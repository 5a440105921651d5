// Layers of passes as graphs: passes of about the same size are launched with the same arguments, so that one
// recorded graph computes them all, and the device does not wait between kernels for the host's launches.
#pragma once

#include <cstdint>
#include <functional>
#include <list>

#include "backend/cuda/runtime.h"

namespace lacuna::cuda {

/// The work of one plan of attention.
struct AttentionSize {
  int64_t tasks = 0;
  int64_t merges = 0;
  // The first of them, for the rows of the last layer.
  int64_t output_tasks = 0;
  int64_t output_merges = 0;
  int64_t runs = 0;
  int64_t masks = 0;

  bool operator==(const AttentionSize&) const = default;
};

/// How many elements the arrays have that the layers of a pass read, rounded up: 16 kinds of row counts, and
/// powers of two. Arrays are padded to these sizes, and then lie at the same addresses in every pass.
struct PassShape {
  int64_t rows = 0;
  int64_t output_rows = 0;       ///< rows of the last layer, once it has written keys and values
  int64_t conditioned_rows = 0;  ///< rows of canvases that read soft embeddings
  int64_t pages = 0;
  AttentionSize attention = {};  ///< of layers that see everything
  AttentionSize sliding = {};    ///< of layers with a window
  bool measures_kv_drift = false;

  bool operator==(const PassShape&) const = default;
};

/// Passes of more rows are not padded: next to what they compute, launches cost little.
inline constexpr int64_t kMaxGraphRows = 256;

/// Products have kernels for 16, 32, 64 and 128 rows; finer steps would save nothing.
inline constexpr int64_t kGraphRowStep = 16;

/// Shapes are rounded up; `exact` has the plan's own numbers.
PassShape rounded_up(const PassShape& exact);

/// The graphs of one PassMemory. A graph outlives what was launched of it: passes that use the memory have
/// been waited for when the next one begins.
class PassGraphs {
 public:
  static constexpr size_t kMax = 32;

  /// Whether a pass of this shape was sent before. A shape that was not is remembered, and its first pass is
  /// best sent directly: recording costs more than a pass, and many shapes never come back.
  bool has_seen(const PassShape& shape);

  /// Launches the graph of a shape that has_seen() knows, recorded if it is not yet, or if addresses have
  /// changed since.
  ///   place  changes whenever an address does that the launches name
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

  std::list<Entry> entries_;  // the last used first
};

}  // namespace lacuna::cuda
