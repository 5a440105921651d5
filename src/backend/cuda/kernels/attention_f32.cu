#include "backend/cuda/kernels/attention.h"
#include "backend/cuda/kernels/attention_walk.h"

namespace lacuna::cuda {
namespace {

using namespace simt;  // NOLINT(google-build-using-namespace): a kernel's vocabulary

/// Running state of one query; each lane has every 32nd dimension of the output.
///   kHeadParts  dimensions per lane
template <int kHeadParts>
struct RunningQuery {
  const float* query = nullptr;
  int32_t row = 0;  // index within the group
  float max = kMinScore;
  float sum = 0;
  float out[kHeadParts] = {};
};

/// Adds one tile; each lane scores one cell. Cells that the row does not see change no bit.
template <CellFormat kFormat, int kHeadParts>
LACUNA_DEVICE void add_tile(const AttendArguments& a, const AttendTask& task, const TileWalk& walk,
                            RunningQuery<kHeadParts>& running) {
  const int64_t kv_head = block_index().y;
  const auto lane = static_cast<int32_t>(lane_index());
  const bool is_visible = walk.sees(a, running.row, lane);
  const int32_t cell = is_visible ? walked_cell(a, task, kv_head, walk.tile() * kPageCells + lane) : 0;
  float score = kMinScore;
  if (is_visible) {
    const Cell<kFormat> own = cell_of_sequence<kFormat>(a, task.first_page, kv_head, cell);
    float product = 0;
    for (int64_t i = 0; i < a.pool.head_dim; ++i) product += running.query[i] * widened(own.key[i]);
    score = scaled(a, product * own.key_scale());
  }
  const float tile_max = warp_max(score);
  const float max = running.max > tile_max ? running.max : tile_max;
  const float shrink = simt::exp2(running.max - max);
  const float weight = is_visible ? simt::exp2(score - max) : 0;
  running.max = max;
  running.sum = running.sum * shrink + warp_sum(weight);
  LACUNA_UNROLL
  for (int part = 0; part < kHeadParts; ++part) running.out[part] *= shrink;
  const uint32_t visible = ballot(is_visible);
  for (uint32_t other = 0; other < 32; ++other) {
    const int32_t other_cell = shuffle(cell, other);
    float other_weight = shuffle(weight, other);
    if ((visible >> other & 1) == 0) continue;  // its values may be NaN
    const Cell<kFormat> from = cell_of_sequence<kFormat>(a, task.first_page, kv_head, other_cell);
    other_weight *= from.value_scale();
    LACUNA_UNROLL
    for (int part = 0; part < kHeadParts; ++part) {
      const int64_t i = 32 * part + lane;
      if (i < a.pool.head_dim) running.out[part] += other_weight * widened(from.value[i]);
    }
  }
}

/// One warp per query and kv head, over all chunks.
template <CellFormat kFormat, int kHeadParts>
LACUNA_KERNEL attend_f32_kernel(AttendArguments a) {
  const MergeTask merge = a.merges[block_index().x];
  const int64_t kv_head = block_index().y;
  const int64_t group_size = a.num_heads / a.pool.num_kv_heads;
  const int64_t query = merge.first_query + block_index().z;
  if (query >= merge.num_rows * group_size) return;  // the whole warp
  const int64_t row = merge.first_row + query / group_size;
  const int64_t head = kv_head * group_size + query % group_size;
  RunningQuery<kHeadParts> running;
  running.query = a.queries_f32 + (row * a.num_heads + head) * a.pool.head_dim;
  running.row = static_cast<int32_t>(query / group_size);
  for (int32_t i = 0; i < merge.num_tasks; ++i) {
    const AttendTask task = a.tasks[merge.first_task + i];
    TileWalk walk{a.runs + task.first_run, a.runs + task.first_run + task.num_runs};
    for (; !walk.is_done(); walk.next()) add_tile<kFormat, kHeadParts>(a, task, walk, running);
  }
  if (a.row_max != nullptr && lane_index() == 0) {
    a.row_max[row * a.num_heads + head] = running.max;
    a.row_sum[row * a.num_heads + head] = running.sum;
  }
  float* out = a.out_f32 + row * a.out_stride + head * a.pool.head_dim;
  LACUNA_UNROLL
  for (int part = 0; part < kHeadParts; ++part) {
    const int64_t i = 32 * part + lane_index();
    if (i < a.pool.head_dim) out[i] = running.out[part] / running.sum;
  }
}

template <CellFormat kFormat>
auto* kernel_of(int64_t head_dim) {
  return head_dim <= 128 ? attend_f32_kernel<kFormat, 4> : attend_f32_kernel<kFormat, kMaxHeadDim / 32>;
}

}  // namespace

void attend_f32(Stream& stream, const AttendArguments& arguments, uint32_t num_merges) {
  const bool is_coded = arguments.pool.format == CellFormat::kInt8;
  const int64_t head_dim = arguments.pool.head_dim;
  launch(
      stream, is_coded ? kernel_of<CellFormat::kInt8>(head_dim) : kernel_of<CellFormat::kF32>(head_dim),
      {.grid = {num_merges, static_cast<uint32_t>(arguments.pool.num_kv_heads), kTaskQueries}, .threads = 32},
      arguments);
}

}  // namespace lacuna::cuda
