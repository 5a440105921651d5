// Attention over cells: softmax(q K^T * scale) V for groups of rows, each group with its own set of cells.
//
// Keys and values are stored as panels (panels.h), so scores and outputs are computed by the GEMM kernels.
// Cells are processed in tiles of 32 at fixed cell numbers, and a hidden cell adds exactly zero: the bits of
// a row depend on the cells that it sees, not on the rows, groups or ranges of the call.
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

/// Cells per page; sequences share whole pages.
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
  /// Number of those cells that are less than `cell`.
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
/// Cells may be quantized to int8, with a scale per head for each key and each value; panels then have an
/// int8_t for every element. Before the GEMM they are converted to `dtype`, which is exact. The scale of a
/// key multiplies its scores, the scale of a value its softmax weights.
struct KvLayerView {
  const std::byte* const* pages = nullptr;  ///< address of each page
  DType dtype = DType::kF32;
  int64_t head_dim = 0;
  // Byte offsets in a page; kv heads are contiguous:
  int64_t keys = 0;
  int64_t key_head_bytes = 0;
  int64_t values = 0;
  int64_t value_head_bytes = 0;
  int64_t key_scales = -1;  ///< f32 [kv heads, kPageCells]; -1 if cells are not quantized
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
  float soft_cap = 0;  ///< c: scaled scores s become c tanh(s / c) before the softmax; 0: no cap
};

/// Attention weights of one query head of one row, for observers.
struct AttentionRow {
  size_t group = 0;  ///< index among the groups given to prepare()
  int32_t row = 0;   ///< index of the row in q
  int32_t head = 0;
  std::span<const float> query;           ///< [head_dim]
  std::span<const IndexRange> tile_runs;  ///< tiles of kCellTile cells, contiguous in `weights`
  std::span<const float> weights;  ///< one per cell of these tiles, 0 for hidden cells; their sum is `sum`
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
    bool causal = false;                   ///< whether row i sees only the first i + 1 own cells
    bool wants_mass = false;               ///< whether run() computes mass()
    std::span<const int32_t> begins = {};  ///< first visible cell of each row; empty: all cells are visible
    int32_t part_end = 0;                  ///< run() gives the part of the cells below it; 0: no part
    int32_t weights_at = -1;               ///< row of run()'s weights for the first row; -1: none wanted
  };

  /// Size of the part of one query head of one row: its attention to some of its cells, which parts of
  /// other cells complete. First [head_dim] the sums of exp(score - largest) * value over these cells, then
  /// `largest`, the largest score of all cells that the row sees, then the sum of exp(score - largest).
  static constexpr int64_t part_dim(int64_t head_dim) { return head_dim + 2; }

  void prepare(const KernelContext& context, const AttentionShape& shape, DType dtype,
               std::span<const Group> groups);

  /// Computes the attention of one layer.
  ///   q, out  [rows, num_heads * head_dim] f32     kv  one view per group
  ///   parts   [rows, num_heads * part_dim()], written for groups with a part; empty if there are none
  ///   weights  rows of groups that want them, one number per cell of their tiles: the sum of the softmax
  ///            weights of all heads, in the order of the heads, is added to it
  void run(const KernelContext& context, ConstMatrix<float> q, std::span<const KvLayerView> kv,
           Matrix<float> out, const AttentionProbe& probe = {}, Matrix<float> parts = {},
           Matrix<float> weights = {});

  /// After run(), for a group with wants_mass: for each cell of its tiles the sum of softmax weights over
  /// rows and query heads of the kv head, 0 for hidden cells. [visible(group).num_cells()]
  std::span<const float> mass(size_t group, int64_t kv_head) const;
  const VisibleCells& visible(size_t group) const { return visible_[group]; }

 private:
  /// Some rows of a group and the query heads of one kv head: they share every key and value they load.
  struct Task {
    int32_t group;
    int32_t kv_head;
    IndexRange rows;
    int64_t mass = -1;  // offset in mass_ of the task's sums of weights; -1: not computed
  };
  struct Scratch {
    Buffer<std::byte> queries;        // packed, [stacked rows, padded head_dim]
    Buffer<float> scores;             // [stacked rows, cells]
    Buffer<std::byte> probabilities;  // packed, [stacked rows, cells]; unused in f32
    Buffer<float> sums;               // [stacked rows]
    Buffer<float> out;                // [stacked rows, padded head_dim]
    Buffer<float> part;               // same, of the cells below the group's part_end
    Buffer<std::byte> cut_tile;       // [stacked rows, kCellTile] packed: the tile that part_end divides
    Buffer<float> part_sums;          // [stacked rows, 2]: largest score, and the part's sum
    Buffer<std::byte> widened;        // quantized cells converted to panels of the dtype
    Buffer<float> key_scales;         // [cells]
    Buffer<float> value_scales;       // [cells]
    std::vector<int32_t> first_row;   // [cells] for one row, if the group has `begins`
  };

  class TaskRun;

  void reserve_for_codes(const KernelContext& context);
  void add_up_mass(const KernelContext& context);

  AttentionShape shape_;
  DType dtype_ = DType::kF32;
  std::vector<IndexRange> group_rows_;
  std::vector<std::span<const int32_t>> begins_;
  std::vector<int32_t> part_ends_;
  std::vector<int32_t> weights_at_;
  std::vector<VisibleCells> visible_;
  std::vector<Task> tasks_;
  std::vector<IndexRange> in_turn_;  // tasks that one thread runs one after another
  Buffer<float> mass_;            // [tasks with mass, cells]; the total of a kv head goes to its first task
  std::vector<Scratch> scratch_;  // one per thread
};

}  // namespace lacuna
