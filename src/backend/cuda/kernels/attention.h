// Attention over the cells of paged sequences: softmax(q K^T * scale) V for groups of rows, each group with
// its own set of cells, in chunks that are merged in order.
//
// A page holds the keys and values of 32 cells of every layer and kv head. Cells are walked in tiles of one
// page, and chunks of tiles begin at fixed cells, so a row's bits depend on which cells it sees and on
// nothing else.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cuda/runtime.h"

namespace lacuna::cuda {

inline constexpr int32_t kPageCells = 32;
inline constexpr int32_t kNeverSeen = INT32_MAX;
inline constexpr int64_t kScaleBytes = 16;  ///< of one cell's scales

/// How the numbers of a cell are stored.
enum class CellFormat : uint8_t {
  kBf16,
  kF32,
  kInt8,  ///< 8-bit codes, with a scale for each kv head's key and value
};

/// Keys [32][head_dim] and then values [32][head_dim] for each page, layer and kv head; behind codes the
/// scales [32][4] f32 of both, of which the last two numbers are not used. Where a model's layers have heads
/// of different shapes, kernels get the part of the pages that belongs to one layer.
struct PagePool {
  uint16_t* memory = nullptr;  ///< of `first_layer` in page 0
  int64_t num_layers = 0;      ///< of the model
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  CellFormat format = CellFormat::kBf16;
  int64_t first_layer = 0;
  int64_t page_stride = 0;  ///< bytes from one page to the next; 0: page_bytes() of layers that are all alike

  /// Bytes of one cell's key, and of its value.
  constexpr int64_t number_bytes() const {
    return format == CellFormat::kInt8 ? head_dim : head_dim * (format == CellFormat::kF32 ? 4 : 2);
  }
  constexpr int64_t head_bytes() const {
    const int64_t scales = format == CellFormat::kInt8 ? kPageCells * kScaleBytes : 0;
    return 2 * kPageCells * number_bytes() + scales;
  }
  constexpr int64_t page_bytes() const {
    return page_stride > 0 ? page_stride : num_layers * num_kv_heads * head_bytes();
  }
  /// Bytes from `memory` to the cells of a page, layer and kv head.
  constexpr int64_t offset(int64_t page, int64_t layer, int64_t kv_head) const {
    return page * page_bytes() + ((layer - first_layer) * num_kv_heads + kv_head) * head_bytes();
  }
};

/// Consecutive tiles of cells that a group sees.
struct TileRun {
  int32_t first_tile = 0;
  int32_t count = 0;
  int32_t first_mask = -1;  ///< -1: every row sees every cell; else where the run's tiles begin in the masks
};

/// Up to 64 queries, of one kv head, and one chunk of cells. Query i of a group is head i % G of row i / G,
/// with G heads per kv head.
struct AttendTask {
  int32_t first_row = 0;    ///< of the group, in the plan
  int32_t num_rows = 0;     ///< of the group
  int32_t first_query = 0;  ///< of the task, in the group
  int32_t first_page = 0;   ///< of the group's sequence, in the page table
  int32_t first_run = 0;
  int32_t num_runs = 0;
  int32_t selection = -1;  ///< index of the selection with the group's cells; -1: the group visits all cells
};

/// The cells that a group is confined to, in the order in which it walks them: those that were chosen for the
/// layer and kv head, and some behind them. Cell i of a tile is then number i of this list.
struct CellSelection {
  const int32_t* chosen = nullptr;  ///< [layers, kv heads, num_chosen], on the device
  int32_t num_chosen = 0;
  int32_t first_behind = 0;  ///< where the others begin in AttendArguments::behind
};

/// The tasks of some queries, one for each chunk, ascending.
struct MergeTask {
  int32_t first_row = 0;
  int32_t num_rows = 0;
  int32_t first_query = 0;
  int32_t first_task = 0;
  int32_t num_tasks = 0;
};

/// Cells that the same rows of a group see.
struct SeenCells {
  int32_t begin = 0;
  int32_t end = 0;
  int32_t first_row = 0;         ///< the lowest row of the group that sees them
  int32_t end_row = kNeverSeen;  ///< the row of the group from which on they are not seen any more
};

/// Cells that one group sees, on the host.
struct GroupCells {
  int32_t first_row = 0;  ///< in the plan
  int32_t num_rows = 0;
  int32_t first_page = 0;       ///< index of its sequence's first page in the page table
  std::vector<SeenCells> seen;  ///< ascending and apart
  int32_t selection = -1;       ///< AttendTask::selection; the cells are then the list's
};

/// The work of one pass, the same for all layers and kv heads.
struct AttentionPlan {
  std::vector<AttendTask> tasks;
  std::vector<MergeTask> merges;
  std::vector<TileRun> runs;
  std::vector<int32_t> masks;  ///< [.., 32] the lowest row that sees each cell of a tile
  /// [masks] the row from which on it is not seen any more; empty if no group has such rows
  std::vector<int32_t> mask_ends;
};

/// Where chunks begin: every 512 cells, from 8,192 on every 1,024, from 16,384 on every 2,048.
int32_t chunk_end(int32_t cell);
/// Merges of a group.
size_t num_merges(const GroupCells& group, int32_t heads_per_kv_head);
AttentionPlan plan_attention(std::span<const GroupCells> groups, int32_t heads_per_kv_head);

struct AttendArguments {
  PagePool pool;
  const int32_t* page_table = nullptr;
  const uint16_t* queries = nullptr;   ///< [rows, heads * head_dim] bf16
  const float* queries_f32 = nullptr;  ///< in the place of `queries`; `out_f32` is then written
  const AttendTask* tasks = nullptr;
  const MergeTask* merges = nullptr;
  const TileRun* runs = nullptr;
  const int32_t* masks = nullptr;
  const int32_t* mask_ends = nullptr;  ///< null: cells are seen to the last row
  const CellSelection* selections = nullptr;
  const int32_t* behind = nullptr;  ///< cells of all selections
  // Results of the chunks; not used in f32.
  float* partial_out = nullptr;  ///< [tasks, kv heads, 64, head_dim]
  float* partial_max = nullptr;  ///< [tasks, kv heads, 64], in units of log2
  float* partial_sum = nullptr;  ///< [tasks, kv heads, 64]; 0: the query sees nothing of the chunk
  uint16_t* out = nullptr;       ///< [rows, out_stride] bf16
  float* out_f32 = nullptr;      ///< [rows, out_stride]
  /// [rows, heads] the largest score, in units of log2, and the sum of all weights relative to it; null: not
  /// wanted
  float* row_max = nullptr;
  float* row_sum = nullptr;
  int64_t out_stride = 0;
  int64_t layer = 0;
  int64_t num_heads = 0;
  float scale = 1;
  float soft_cap = 0;  ///< c: scaled scores s become c tanh(s / c); 0: they stay
};

inline constexpr int32_t kTaskQueries = 64;

/// Dimensions of heads that attend() is built for.
constexpr bool has_attention(int64_t head_dim) {
  return head_dim == 16 || head_dim == 32 || head_dim == 64 || head_dim == 128 || head_dim == 256 ||
         head_dim == 512;
}
inline constexpr int64_t kMaxHeadDim = 512;

/// has_attention(head_dim); cells in f32 need queries in f32, and bf16 those in bf16.
void attend(Stream& stream, const AttendArguments& arguments, uint32_t num_tasks, uint32_t num_merges);

/// Shared memory of a block of attend(). Cells in f32 need none.
int64_t attend_shared_bytes(int64_t head_dim, CellFormat format);

/// attend() in f32, without tensor cores: for tests and comparisons. One warp walks all chunks of a query.
void attend_f32(Stream& stream, const AttendArguments& arguments, uint32_t num_merges);

}  // namespace lacuna::cuda
