// State that sparse attention keeps per sequence besides its keys and values.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "cache/kv_cache.h"

namespace lacuna {

/// Cells that attention is confined to: for each layer and kv head which ones, and their keys and values side
/// by side, so that a pass reads them and nothing else. Different layers and heads may be used by different
/// threads at once, but for reserve().
class ChosenCells {
 public:
  explicit ChosenCells(const KvShape& shape);

  /// Makes room for `count` cells of each layer and kv head. Growing copies what is chosen anew from `from`.
  void reserve(int64_t count, const KvCache& from);

  /// Remembers the cells (ascending, at most as many as there is room for) and copies them to places 0, 1,
  /// ...
  void choose(int64_t layer, int64_t kv_head, std::span<const int32_t> cells, const KvCache& from);
  std::span<const int32_t> cells(int64_t layer, int64_t kv_head) const;

  /// Copies one more cell to a place after those that are chosen.
  void place(int64_t layer, int64_t kv_head, int32_t cell, int64_t place, const KvCache& from);

  /// The copies.
  KvLayerView layer(int64_t layer) const { return copies_.layer(layer); }

 private:
  size_t index(int64_t layer, int64_t kv_head) const {
    return static_cast<size_t>(layer * shape_.num_kv_heads + kv_head);
  }

  KvShape shape_;
  KvCache copies_;
  std::vector<std::vector<int32_t>> cells_;  // [layers * kv heads]
};

/// The largest and the smallest value of each channel of the keys in pages of neighbouring cells (Quest, Tang
/// et al. 2024, section 3.2), for each layer and kv head; keys as they are stored, rotated and rounded.
class PageBounds {
 public:
  PageBounds(const KvShape& shape, int32_t page_size);

  int32_t page_size() const { return page_size_; }

  /// Reads cells that are new since the last call, up to and without `num_cells`. Cells once read must not
  /// change.
  void extend(int64_t layer, int64_t kv_head, int32_t num_cells, const KvCache& from);
  /// The same by a reader of one cell: read(cell, key, value), both [head_dim].
  using CellReader = std::function<void(int32_t cell, float* key, float* value)>;
  void extend(int64_t layer, int64_t kv_head, int32_t num_cells, const CellReader& read);

  /// [head_dim] of each page, one after the other; the last page may be short.
  std::span<const float> largest(int64_t layer, int64_t kv_head) const { return of(layer, kv_head).largest; }
  std::span<const float> smallest(int64_t layer, int64_t kv_head) const {
    return of(layer, kv_head).smallest;
  }

 private:
  struct Bounds {
    int32_t num_cells = 0;
    std::vector<float> largest, smallest;
  };

  const Bounds& of(int64_t layer, int64_t kv_head) const {
    return bounds_[static_cast<size_t>(layer * shape_.num_kv_heads + kv_head)];
  }

  KvShape shape_;
  int32_t page_size_;
  std::vector<Bounds> bounds_;  // [layers * kv heads]
};

/// Both, of one sequence.
class SparseCells {
 public:
  explicit SparseCells(const KvShape& shape) : chosen(shape), shape_(shape) {}

  ChosenCells chosen;

  /// Bounds of pages of this size; those of another size are forgotten. Not for several threads at once.
  PageBounds& pages_of(int32_t page_size) {
    if (!pages_ || pages_->page_size() != page_size) pages_.emplace(shape_, page_size);
    return *pages_;
  }

 private:
  KvShape shape_;
  std::optional<PageBounds> pages_;
};

}  // namespace lacuna
