// Attention over cells: softmax(q K^T * scale) V for groups of rows, each group with its own set of cells.
//
// Keys and values lie in panels (see panels.h), so scores and outputs are two products by the same kernels as
// every other matrix. Cells are walked in tiles of 32 that are anchored at absolute cell numbers, and a
// hidden cell adds exactly zero: a row's bits depend on which cells it sees, not on which rows, groups or
// ranges share the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/matrix.h"
#include "kernels/matmul.h"
#include "kernels/panels.h"

namespace lacuna {

inline constexpr int64_t kCellTile = 32;

/// Keys and values lie in pages of this many cells, so that sequences can share those that they have in
/// common.
inline constexpr int64_t kPageCells = 64;

struct IndexRange {
  int32_t begin = 0;
  int32_t end = 0;  ///< one past the last
  int32_t size() const { return end - begin; }
  bool operator==(const IndexRange&) const = default;
};

/// Which of a sequence's cells the rows of one group see, prepared once per pass and used in every layer.
class VisibleCells {
 public:
  /// Every row sees the cells in `ranges`. Row i of the group also sees own_cells[j] for all j, or, where
  /// `causal`, for j <= i.
  void assign(std::span<const IndexRange> ranges, std::span<const int32_t> own_cells, bool causal);

  /// Consecutive tiles that hold a visible cell, ascending.
  std::span<const IndexRange> tile_runs() const { return runs_; }
  /// [num_cells()] for each cell of those tiles, contiguous: the lowest row of the group that sees it.
  const int32_t* first_row() const { return first_row_.data(); }
  /// How many of those cells lie before `cell`.
  int64_t num_cells_before(int32_t cell) const;
  int64_t num_cells() const { return static_cast<int64_t>(first_row_.size()); }

 private:
  std::vector<IndexRange> runs_;
  std::vector<int32_t> first_row_;
  std::vector<int32_t> first_row_by_cell_;
};

/// One layer's keys and values of one sequence, page by page: for each kv head, keys as a matrix of cells by
/// head_dim and values as one of head_dim by cells.
///
/// Cells may be 8-bit quantized values, each head's key and value of a cell with a scale: an int8_t stands
/// where panels of `dtype` would have an element. Products read the codes as exact numbers of that dtype; a
/// key's scale multiplies its scores, a value's its softmax weights.
struct KvLayerView {
  const std::byte* const* pages = nullptr;  ///< where each page begins
  DType dtype = DType::kF32;
  int64_t head_dim = 0;
  // Places in a page, in bytes from its beginning; those of one kv head follow those of another.
  int64_t keys = 0;
  int64_t key_head_bytes = 0;
  int64_t values = 0;
  int64_t value_head_bytes = 0;
  int64_t key_scales = -1;  ///< f32 [kv heads, kPageCells] of codes, else -1; values' likewise
  int64_t value_scales = -1;

  bool holds_codes() const { return key_scales >= 0; }
  PanelView key_panels(int64_t page, int64_t kv_head) const {
    return {pages[page] + keys + kv_head * key_head_bytes, dtype, kPageCells, head_dim,
            padded_depth(dtype, head_dim) * kPanelWidth};
  }
  PanelView value_panels(int64_t page, int64_t kv_head) const {
    return {pages[page] + values + kv_head * value_head_bytes, dtype, head_dim, kPageCells,
            kPageCells * kPanelWidth};
  }
  const float* key_scales_of(int64_t page, int64_t kv_head) const {
    return reinterpret_cast<const float*>(pages[page] + key_scales) + kv_head * kPageCells;
  }
  const float* value_scales_of(int64_t page, int64_t kv_head) const {
    return reinterpret_cast<const float*>(pages[page] + value_scales) + kv_head * kPageCells;
  }
};

struct AttentionShape {
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;  ///< divides num_heads; query head h reads kv head h / (num_heads / num_kv_heads)
  int64_t head_dim = 0;
  float scale = 1;     ///< usually 1 / sqrt(head_dim)
  float soft_cap = 0;  ///< c: scaled scores s become c tanh(s / c) before the softmax; 0: they stay
};

/// Attention weights of one query head of one row, for instruments.
struct AttentionRow {
  size_t group = 0;  ///< as prepared
  int32_t row = 0;   ///< index of the row in q
  int32_t head = 0;
  std::span<const float> query;           ///< [head_dim]
  std::span<const IndexRange> tile_runs;  ///< tiles of kCellTile cells, contiguous in `weights`
  std::span<const float> weights;  ///< of each cell of those tiles, 0 where hidden; they add up to `sum`
  float sum = 1;
};

/// Called by several threads at once.
using AttentionProbe = std::function<void(const AttentionRow&)>;

/// The attention of one pass: prepare() once, run() in every layer.
class Attention {
 public:
  struct Group {
    IndexRange rows;                       ///< rows of q and out
    std::span<const IndexRange> ranges;    ///< cells that every row sees
    std::span<const int32_t> own_cells;    ///< cells of the group's own rows, in row order
    bool causal = false;                   ///< own cells are seen in row order
    bool wants_mass = false;               ///< whether mass() is asked for
    std::span<const int32_t> begins = {};  ///< first visible cell of each row; empty: all cells are visible
  };

  void prepare(const KernelContext& context, const AttentionShape& shape, DType dtype,
               std::span<const Group> groups);

  /// q, out  [rows, num_heads * head_dim] f32     kv  one view per group
  void run(const KernelContext& context, ConstMatrix<float> q, std::span<const KvLayerView> kv,
           Matrix<float> out, const AttentionProbe& probe = {});

  /// For a group that wanted it, after run(): for each cell of its tiles, contiguous, the softmax weights of
  /// all its rows and of the kv head's query heads, added up; 0 where hidden. [visible(group).num_cells()]
  std::span<const float> mass(size_t group, int64_t kv_head) const;
  const VisibleCells& visible(size_t group) const { return visible_[group]; }

 private:
  /// Some rows of a group and the query heads of one kv head: they share every key and value they load.
  struct Task {
    int32_t group;
    int32_t kv_head;
    IndexRange rows;
    int64_t mass = -1;  // where in mass_ the task adds up its rows' weights; -1: it does not
  };
  struct Scratch {
    Buffer<std::byte> queries;        // packed, [stacked rows, padded head_dim]
    Buffer<float> scores;             // [stacked rows, cells]
    Buffer<std::byte> probabilities;  // packed, [stacked rows, cells]; unused in f32
    Buffer<float> sums;               // [stacked rows]
    Buffer<float> out;                // [stacked rows, padded head_dim]
    Buffer<std::byte> widened;        // codes of some cells as panels of the dtype
    Buffer<float> key_scales;         // [cells]
    Buffer<float> value_scales;       // [cells]
    std::vector<int32_t> first_row;   // [cells] of one row, where the group has begins
  };

  class TaskRun;

  void reserve_for_codes(const KernelContext& context);
  void add_up_mass(const KernelContext& context);

  AttentionShape shape_;
  DType dtype_ = DType::kF32;
  std::vector<IndexRange> group_rows_;
  std::vector<std::span<const int32_t>> begins_;
  std::vector<VisibleCells> visible_;
  std::vector<Task> tasks_;
  Buffer<float> mass_;  // [tasks that want it, cells]; the first task of a kv head gets the sum of all
  std::vector<Scratch> scratch_;  // one per thread
};

}  // namespace lacuna
