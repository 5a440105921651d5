// Attention over paged KV cells: softmax(q K^T * scale) V for groups of rows, each group with its own set of
// cells, in chunks that are merged in order.
//
// A page holds 32 cells of every layer and kv head, and is a tile. Chunks of tiles begin at fixed cells, so
// the result of a row depends bitwise only on the cells that it sees (batch invariance).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cuda/runtime.h"

namespace lacuna::cuda {

inline constexpr int32_t kPageCells = 32;
inline constexpr int32_t kNoRow = INT32_MAX;
inline constexpr int64_t kScaleBytes = 16;  ///< bytes of one cell's scales

/// How the numbers of a cell are stored.
enum class CellFormat : uint8_t {
  kBf16,
  kF32,
  kInt8,  ///< 8-bit quantized values, with one scale per kv head for a key and one for a value
};

/// Per page, layer and kv head: keys [32][head_dim], values [32][head_dim], and for kInt8 scales [32][4] f32
/// (key, value, two unused). If the layers' heads have different shapes, the pool describes a single layer's
/// part of the pages.
struct PagePool {
  uint16_t* memory = nullptr;  ///< address of `first_layer` in page 0
  int64_t num_layers = 0;      ///< layers of the model
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  CellFormat format = CellFormat::kBf16;
  int64_t first_layer = 0;
  int64_t page_stride = 0;  ///< bytes from one page to the next; 0: computed, all layers have one shape

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
  int32_t first_mask = -1;  ///< index of the run's first mask; -1: every row sees every cell
};

/// Up to 64 queries of one kv head, and one chunk of cells. With G query heads per kv head, query i of a
/// group is head i % G of row i / G.
struct AttendTask {
  int32_t first_row = 0;    ///< the group's first row in the plan
  int32_t num_rows = 0;     ///< rows of the group
  int32_t first_query = 0;  ///< the task's first query in the group
  int32_t first_page = 0;   ///< index in the page table of the sequence's first page
  int32_t first_run = 0;
  int32_t num_runs = 0;
  int32_t selection = -1;  ///< index of the selection with the group's cells; -1: the group visits all cells
};

/// Cells that a group is confined to, in order: those chosen for the layer and kv head, then further cells
/// common to all layers and heads. Tiles of the group then index this list instead of the sequence's cells.
struct CellSelection {
  const int32_t* chosen = nullptr;  ///< [layers, kv heads, num_chosen], on the device
  int32_t num_chosen = 0;
  int32_t first_behind = 0;  ///< index in AttendArguments::behind of the first further cell
};

/// Merges the tasks of up to 64 queries, one task per chunk, ascending.
struct MergeTask {
  int32_t first_row = 0;
  int32_t num_rows = 0;
  int32_t first_query = 0;
  int32_t first_task = 0;
  int32_t num_tasks = 0;
};

/// Range of cells that the same rows of a group see.
struct SeenCells {
  int32_t begin = 0;
  int32_t end = 0;
  int32_t first_row = 0;     ///< first row of the group that sees the cells
  int32_t end_row = kNoRow;  ///< one past the last row of the group that sees them
};

/// Cells that one group sees, on the host.
struct GroupCells {
  int32_t first_row = 0;  ///< in the plan
  int32_t num_rows = 0;
  int32_t first_page = 0;       ///< index of its sequence's first page in the page table
  std::vector<SeenCells> seen;  ///< ascending and disjoint
  int32_t selection = -1;       ///< AttendTask::selection; if not -1, `seen` indexes the selection
};

/// The work of one pass, the same for all layers and kv heads.
struct AttentionPlan {
  std::vector<AttendTask> tasks;
  std::vector<MergeTask> merges;
  std::vector<TileRun> runs;
  std::vector<int32_t> masks;  ///< [tiles, 32] first row that sees each cell of a tile
  /// [masks.size()] one past the last row that sees the cell; empty if no cell has an end_row
  std::vector<int32_t> mask_ends;
};

/// End of the chunk with this cell. Chunks have 512 cells, from cell 8,192 on 1,024, from 16,384 on 2,048.
int32_t chunk_end(int32_t cell);
/// Number of MergeTasks of a group.
size_t num_merges(const GroupCells& group, int32_t heads_per_kv_head);
AttentionPlan plan_attention(std::span<const GroupCells> groups, int32_t heads_per_kv_head);

struct AttendArguments {
  PagePool pool;
  const int32_t* page_table = nullptr;
  const uint16_t* queries = nullptr;   ///< [rows, heads * head_dim] bf16
  const float* queries_f32 = nullptr;  ///< used instead of `queries`; then `out_f32` is written
  const AttendTask* tasks = nullptr;
  const MergeTask* merges = nullptr;
  const TileRun* runs = nullptr;
  const int32_t* masks = nullptr;
  const int32_t* mask_ends = nullptr;  ///< null: the last row sees every cell that an earlier row sees
  const CellSelection* selections = nullptr;
  const int32_t* behind = nullptr;  ///< further cells of all selections
  // Partial results of chunks; unused in f32:
  float* partial_out = nullptr;  ///< [tasks, kv heads, 64, head_dim]
  float* partial_max = nullptr;  ///< [tasks, kv heads, 64], in units of log2
  float* partial_sum = nullptr;  ///< [tasks, kv heads, 64]; 0: the query sees nothing of the chunk
  uint16_t* out = nullptr;       ///< [rows, out_stride] bf16
  float* out_f32 = nullptr;      ///< [rows, out_stride]
  /// [rows, heads] maximum score in units of log2, and sum of the weights relative to it; null: not wanted
  float* row_max = nullptr;
  float* row_sum = nullptr;
  int64_t out_stride = 0;
  int64_t layer = 0;
  int64_t num_heads = 0;
  float scale = 1;
  float soft_cap = 0;  ///< c: scaled scores s become c tanh(s / c); 0: no cap
};

inline constexpr int32_t kTaskQueries = 64;

/// Whether attend() supports this head dimension.
constexpr bool has_attention(int64_t head_dim) {
  return head_dim == 16 || head_dim == 32 || head_dim == 64 || head_dim == 128 || head_dim == 256 ||
         head_dim == 512;
}
inline constexpr int64_t kMaxHeadDim = 512;

/// Computes attention. Requires has_attention(head_dim). f32 cells need f32 queries, other cells bf16
/// queries.
void attend(Stream& stream, const AttendArguments& arguments, uint32_t num_tasks, uint32_t num_merges);

/// Bytes of shared memory of a block of attend(); 0 for f32 cells.
int64_t attend_shared_bytes(int64_t head_dim, CellFormat format);

/// attend() in f32, without tensor cores: for tests and comparisons. One warp walks all chunks of a query.
void attend_f32(Stream& stream, const AttendArguments& arguments, uint32_t num_merges);

}  // namespace lacuna::cuda
