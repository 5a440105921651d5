// State that sparse attention keeps per sequence besides its keys and values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/token.h"
#include "cache/kv_cache.h"

namespace lacuna {

/// The cells that sparse attention reads: for each layer and kv head the chosen cells, and contiguous copies
/// of their keys and values. Threads may use different layers and heads concurrently, except in reserve().
class ChosenCells {
 public:
  explicit ChosenCells(const KvShape& shape);

  /// Makes room for `count` cells of each layer and kv head. If it grows, the chosen cells are copied from
  /// `from` again.
  void reserve(int64_t count, const KvCache& from);

  /// Stores the cells (ascending, at most the reserved count) and copies their keys and values to places 0,
  /// 1, ...
  void choose(int64_t layer, int64_t kv_head, std::span<const int32_t> cells, const KvCache& from);
  std::span<const int32_t> cells(int64_t layer, int64_t kv_head) const;

  /// Copies one more cell to a place after the chosen ones.
  void place(int64_t layer, int64_t kv_head, int32_t cell, int64_t place, const KvCache& from);

  /// View of the copied keys and values.
  KvLayerView layer(int64_t layer) const { return copies_.layer(layer); }

 private:
  size_t index(int64_t layer, int64_t kv_head) const {
    return static_cast<size_t>(layer * shape_.num_kv_heads + kv_head);
  }

  KvShape shape_;
  KvCache copies_;
  std::vector<std::vector<int32_t>> cells_;  // [layers * kv heads]
};

/// Largest and smallest value of each key channel in pages of consecutive cells (Quest, Tang et al. 2024,
/// section 3.2), per layer and kv head. Keys are as stored: rotated and rounded.
class PageBounds {
 public:
  PageBounds(const KvShape& shape, int32_t page_size);

  int32_t page_size() const { return page_size_; }

  /// Adds the cells from the end of the last call up to, excluding, `num_cells`. Cells already added must not
  /// change.
  void extend(int64_t layer, int64_t kv_head, int32_t num_cells, const KvCache& from);
  /// Same, but reads keys by read(cell, key, value), both [head_dim].
  using CellReader = std::function<void(int32_t cell, float* key, float* value)>;
  void extend(int64_t layer, int64_t kv_head, int32_t num_cells, const CellReader& read);

  /// [pages, head_dim]; the last page may be incomplete.
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

/// Attention of the rows of one block to the cells before it, in one layer. Row i is that of the i-th cell
/// after these.
struct KeptAttention {
  std::vector<float> parts;     ///< [rows, query heads * Attention::part_dim()]
  std::vector<float> inputs;    ///< [rows, hidden_dim] the layer's input in the row's last pass
  std::vector<TokenId> tokens;  ///< [rows] token of the row when it kept its part; -1: it never did

  /// Makes room for `count` rows.
  void reserve(int64_t count, int64_t part_dim, int64_t input_dim) {
    const auto rows = std::max(static_cast<size_t>(count), tokens.size());
    parts.resize(rows * static_cast<size_t>(part_dim));
    inputs.resize(rows * static_cast<size_t>(input_dim));
    tokens.resize(rows, -1);
  }
};

/// Chosen cells, page bounds and kept attention of one sequence.
class SparseCells {
 public:
  explicit SparseCells(const KvShape& shape)
      : chosen(shape), kept(static_cast<size_t>(shape.num_layers)), shape_(shape) {}

  ChosenCells chosen;
  std::vector<KeptAttention> kept;  ///< [layers]

  /// Bounds of pages of this size; replaces bounds of another size. Not thread-safe.
  PageBounds& pages_of(int32_t page_size) {
    if (!pages_ || pages_->page_size() != page_size) pages_.emplace(shape_, page_size);
    return *pages_;
  }

 private:
  KvShape shape_;
  std::optional<PageBounds> pages_;
};

}  // namespace lacuna
