#include <stdexcept>
#include <type_traits>

#include "backend/cuda/kernels/attention.h"
#include "backend/cuda/kernels/attention_walk.h"

namespace lacuna::cuda {
namespace {

using namespace simt;  // NOLINT(google-build-using-namespace): a kernel's vocabulary

constexpr int kStages = 2;
constexpr uint32_t kQueryWarps = 4;  // sixteen queries per warp

/// Work distribution. Outputs with head_dim 512 do not fit the registers of a warp, so two warps share
/// sixteen queries: both compute all scores, and each accumulates half of the output.
template <int kHeadDim>
struct Heads {
  static constexpr int kValueParts = kHeadDim > 256 ? 2 : 1;
  static constexpr int kOutDim = kHeadDim / kValueParts;  // output dimensions per warp
  static constexpr int kColumns =
      kOutDim > 128 ? 16 : kOutDim / 8;  // tiles of eight outputs per multiply_block()
  static constexpr int kBlocks = kOutDim / (8 * kColumns);
  static constexpr uint32_t kThreads = 32 * kQueryWarps * kValueParts;
  static constexpr bool kKeepsQueries =
      kHeadDim <= 128;  // whether queries stay in registers; else they are reloaded for each tile

  /// The warp's group of sixteen queries, and its part of their outputs.
  static LACUNA_DEVICE uint32_t query_warp() { return warp_index() % kQueryWarps; }
  static LACUNA_DEVICE uint32_t value_part() { return kValueParts == 1 ? 0 : warp_index() / kQueryWarps; }
};
constexpr int kMerged = 128;  // threads of merge_kernel

/// Keys and values of two tiles as loaded, and as read by matmuls.
template <int kHeadDim, CellFormat kFormat>
struct TileShared {
  alignas(128) uint16_t keys[kStages][kPageCells][kHeadDim + 8];
  alignas(128) uint16_t values[kStages][kPageCells][kHeadDim + 8];

  LACUNA_DEVICE uint16_t* key(int stage, int cell) { return keys[stage][cell]; }
  LACUNA_DEVICE uint16_t* value(int stage, int cell) { return values[stage][cell]; }
  /// Converts the tile of a stage for matmuls if needed. Returns its place.
  LACUNA_DEVICE int widen(int stage) { return stage; }
  LACUNA_DEVICE float key_scale(int, int32_t) const { return 1; }
  LACUNA_DEVICE float value_scale(int, int32_t) const { return 1; }
};

template <int kHeadDim>
struct TileShared<kHeadDim, CellFormat::kInt8> {
  alignas(128) int8_t key_codes[kStages][kPageCells][kHeadDim + 16];
  alignas(128) int8_t value_codes[kStages][kPageCells][kHeadDim + 16];
  alignas(16) float scales[kStages][kPageCells][4];
  alignas(128) uint16_t keys[1][kPageCells][kHeadDim + 8];
  alignas(128) uint16_t values[1][kPageCells][kHeadDim + 8];

  LACUNA_DEVICE int8_t* key(int stage, int cell) { return key_codes[stage][cell]; }
  LACUNA_DEVICE int8_t* value(int stage, int cell) { return value_codes[stage][cell]; }
  LACUNA_DEVICE int widen(int stage) {
    for (uint32_t i = thread_index(); i < kPageCells * kHeadDim; i += Heads<kHeadDim>::kThreads) {
      const uint32_t cell = i / kHeadDim;
      const uint32_t at = i % kHeadDim;
      keys[0][cell][at] = to_bf16(key_codes[stage][cell][at]);
      values[0][cell][at] = to_bf16(value_codes[stage][cell][at]);
    }
    sync_threads();
    return 0;
  }
  LACUNA_DEVICE float key_scale(int stage, int32_t cell) const { return scales[stage][cell][0]; }
  LACUNA_DEVICE float value_scale(int stage, int32_t cell) const { return scales[stage][cell][1]; }
};

template <int kHeadDim, CellFormat kFormat>
struct AttendShared {
  alignas(128) uint16_t queries[kTaskQueries][kHeadDim + 8];
  TileShared<kHeadDim, kFormat> tiles;
};

template <int kHeadDim, CellFormat kFormat>
LACUNA_DEVICE void load_queries(const AttendArguments& a, const AttendTask& task,
                                AttendShared<kHeadDim, kFormat>& memory) {
  const auto group_size = static_cast<int32_t>(a.num_heads / a.pool.num_kv_heads);
  const auto kv_head = static_cast<int32_t>(block_index().y);
  constexpr int kPieces = kHeadDim / 8;
  for (int piece = static_cast<int>(thread_index()); piece < kTaskQueries * kPieces;
       piece += Heads<kHeadDim>::kThreads) {
    const int query = task.first_query + piece / kPieces;
    const int part = piece % kPieces * 8;
    const bool valid = query < task.num_rows * group_size;
    const int64_t row = valid ? task.first_row + query / group_size : 0;
    const int64_t head = kv_head * group_size + query % group_size;
    const uint16_t* from = a.queries + (row * a.num_heads + head) * kHeadDim + part;
    copy_async_16(&memory.queries[piece / kPieces][part], valid ? from : a.queries, valid);
  }
}

/// Loads a tile; zeros for cells that no row sees, because their memory may hold NaN.
template <int kHeadDim, CellFormat kFormat>
LACUNA_DEVICE void load_tile(const AttendArguments& a, const AttendTask& task, const TileWalk& walk,
                             int stage, AttendShared<kHeadDim, kFormat>& memory) {
  const int64_t kv_head = block_index().y;
  constexpr int kNumbers = 16 / sizeof(typename CellNumber<kFormat>::Type);  // numbers per piece
  constexpr int kPieces = kHeadDim / kNumbers;
  for (int piece = static_cast<int>(thread_index()); piece < kPageCells * kPieces;
       piece += Heads<kHeadDim>::kThreads) {
    const int index = piece / kPieces;
    const int part = piece % kPieces * kNumbers;
    const bool valid = walk.first_row(a.masks, index) < task.num_rows;
    Cell<kFormat> from;
    if (valid) {
      const int32_t cell = walked_cell(a, task, kv_head, walk.tile() * kPageCells + index);
      from = cell_of_sequence<kFormat>(a, task.first_page, kv_head, cell);
    }
    copy_async_16(memory.tiles.key(stage, index) + part, valid ? from.key + part : nullptr, valid);
    copy_async_16(memory.tiles.value(stage, index) + part, valid ? from.value + part : nullptr, valid);
    if constexpr (kFormat == CellFormat::kInt8) {
      if (part == 0) copy_async_16(memory.tiles.scales[stage][index], valid ? from.scales : nullptr, valid);
    }
  }
}

/// Running state of a warp's sixteen queries; each thread has two rows of every fragment.
template <int kHeadDim>
struct Running {
  uint32_t queries[Heads<kHeadDim>::kKeepsQueries ? kHeadDim / 16 : 1][1][4];
  float out[Heads<kHeadDim>::kBlocks][1][Heads<kHeadDim>::kColumns][4];
  float max[2];
  float sum[2];  // over this thread's columns
  int32_t row[2];
};

/// Loads dimensions [16 k, 16 k + 16) of the warp's queries.
template <int kHeadDim, CellFormat kFormat>
LACUNA_DEVICE void read_queries(const AttendShared<kHeadDim, kFormat>& memory, uint32_t k,
                                uint32_t (&to)[4]) {
  const uint32_t lane = lane_index();
  load_matrix_x4(to, &memory.queries[Heads<kHeadDim>::query_warp() * 16 + lane % 16][k * 16 + lane / 16 * 8]);
}

///   place  result of TileShared::widen()
template <int kHeadDim, CellFormat kFormat>
LACUNA_DEVICE void score_tile(const AttendShared<kHeadDim, kFormat>& memory, int place,
                              Running<kHeadDim>& running, float (&scores)[1][4][4]) {
  const TileShared<kHeadDim, kFormat>& tiles = memory.tiles;
  constexpr bool kKeepsQueries = Heads<kHeadDim>::kKeepsQueries;
  const uint32_t lane = lane_index();
  LACUNA_UNROLL
  for (uint32_t k = 0; k < kHeadDim / 16; ++k) {
    if constexpr (!kKeepsQueries) read_queries(memory, k, running.queries[0][0]);
    uint32_t keys[2][4];
    LACUNA_UNROLL
    for (uint32_t half = 0; half < 2; ++half) {
      load_matrix_x4(keys[half],
                     &tiles.keys[place][half * 16 + lane % 8 + lane / 16 * 8][k * 16 + lane / 8 % 2 * 8]);
    }
    const uint32_t b[4][2] = {{keys[0][0], keys[0][1]},
                              {keys[0][2], keys[0][3]},
                              {keys[1][0], keys[1][1]},
                              {keys[1][2], keys[1][3]}};
    multiply_block(scores, running.queries[kKeepsQueries ? k : 0], b);
  }
}

/// Online softmax step: converts scores to weights for this thread's two queries. A tile that a query does
/// not see leaves its state bitwise unchanged. For int8 cells, weights are multiplied by the scales of
/// values.
template <int kHeadDim, CellFormat kFormat>
LACUNA_DEVICE void weigh_tile(const AttendArguments& a, const TileWalk& walk,
                              const TileShared<kHeadDim, kFormat>& tiles, int stage, float (&scores)[1][4][4],
                              Running<kHeadDim>& running) {
  const auto column = static_cast<int32_t>(2 * (lane_index() % 4));
  bool visible[4][4];
  float max[2] = {running.max[0], running.max[1]};
  LACUNA_UNROLL
  for (int j = 0; j < 4; ++j) {
    LACUNA_UNROLL
    for (int part = 0; part < 4; ++part) {
      const int query = part / 2;
      const int32_t cell = j * 8 + column + part % 2;
      visible[j][part] = walk.sees(a, running.row[query], cell);
      scores[0][j][part] = scaled(a, scores[0][j][part] * tiles.key_scale(stage, cell));
      if (visible[j][part] && scores[0][j][part] > max[query]) max[query] = scores[0][j][part];
    }
  }
  float shrink[2];
  LACUNA_UNROLL
  for (int query = 0; query < 2; ++query) {
    max[query] = fmaxf(max[query], shuffle_xor(max[query], 1));
    max[query] = fmaxf(max[query], shuffle_xor(max[query], 2));
    shrink[query] = simt::exp2(running.max[query] - max[query]);
    running.max[query] = max[query];
    running.sum[query] *= shrink[query];
  }
  LACUNA_UNROLL
  for (int j = 0; j < 4; ++j) {
    LACUNA_UNROLL
    for (int part = 0; part < 4; ++part) {
      const float weight = visible[j][part] ? simt::exp2(scores[0][j][part] - max[part / 2]) : 0;
      scores[0][j][part] = weight * tiles.value_scale(stage, j * 8 + column + part % 2);
      running.sum[part / 2] += weight;
    }
  }
  LACUNA_UNROLL
  for (int block = 0; block < Heads<kHeadDim>::kBlocks; ++block) {
    LACUNA_UNROLL
    for (int j = 0; j < Heads<kHeadDim>::kColumns; ++j) {
      LACUNA_UNROLL
      for (int part = 0; part < 4; ++part) running.out[block][0][j][part] *= shrink[part / 2];
    }
  }
}

/// out += weights V. Score fragments, rounded to bf16, have the layout of a left operand.
template <int kHeadDim, CellFormat kFormat>
LACUNA_DEVICE void add_values(const TileShared<kHeadDim, kFormat>& tiles, int place,
                              const float (&weights)[1][4][4], Running<kHeadDim>& running) {
  constexpr uint32_t kColumns = Heads<kHeadDim>::kColumns;
  const uint32_t lane = lane_index();
  const uint32_t first = Heads<kHeadDim>::value_part() * Heads<kHeadDim>::kOutDim + lane / 16 * 8;
  LACUNA_UNROLL
  for (uint32_t k = 0; k < 2; ++k) {
    const float(&low)[4] = weights[0][2 * k];
    const float(&high)[4] = weights[0][2 * k + 1];
    const uint32_t left[1][4] = {{pack_bf16(low[0], low[1]), pack_bf16(low[2], low[3]),
                                  pack_bf16(high[0], high[1]), pack_bf16(high[2], high[3])}};
    LACUNA_UNROLL
    for (uint32_t block = 0; block < Heads<kHeadDim>::kBlocks; ++block) {
      uint32_t b[kColumns][2];
      LACUNA_UNROLL
      for (uint32_t j = 0; j < kColumns / 2; ++j) {
        uint32_t values[4];
        load_matrix_x4<true>(values,
                             &tiles.values[place][k * 16 + lane % 16][first + block * 8 * kColumns + j * 16]);
        b[2 * j][0] = values[0];
        b[2 * j][1] = values[1];
        b[2 * j + 1][0] = values[2];
        b[2 * j + 1][1] = values[3];
      }
      multiply_block(running.out[block], left, b);
    }
  }
}

template <int kHeadDim, CellFormat kFormat>
LACUNA_DEVICE void start_running(const AttendArguments& a, const AttendTask& task,
                                 const AttendShared<kHeadDim, kFormat>& memory, Running<kHeadDim>& running) {
  const uint32_t lane = lane_index();
  const auto group_size = static_cast<int32_t>(a.num_heads / a.pool.num_kv_heads);
  if constexpr (Heads<kHeadDim>::kKeepsQueries) {
    LACUNA_UNROLL
    for (uint32_t k = 0; k < kHeadDim / 16; ++k) read_queries(memory, k, running.queries[k][0]);
  }
  LACUNA_UNROLL
  for (int block = 0; block < Heads<kHeadDim>::kBlocks; ++block) {
    LACUNA_UNROLL
    for (int j = 0; j < Heads<kHeadDim>::kColumns; ++j) {
      LACUNA_UNROLL
      for (int part = 0; part < 4; ++part) running.out[block][0][j][part] = 0;
    }
  }
  LACUNA_UNROLL
  for (int query = 0; query < 2; ++query) {
    running.max[query] = kMinScore;
    running.sum[query] = 0;
    const int32_t index =
        task.first_query + static_cast<int32_t>(Heads<kHeadDim>::query_warp() * 16 + lane / 4) + query * 8;
    running.row[query] = index / group_size;
  }
}

template <int kHeadDim>
LACUNA_DEVICE void store_partial(const AttendArguments& a, const Running<kHeadDim>& running) {
  const uint32_t lane = lane_index();
  const int64_t task = int64_t{block_index().x} * a.pool.num_kv_heads + block_index().y;
  LACUNA_UNROLL
  for (int query = 0; query < 2; ++query) {
    float sum = running.sum[query];
    sum += shuffle_xor(sum, 1);
    sum += shuffle_xor(sum, 2);
    const int64_t index = task * kTaskQueries + Heads<kHeadDim>::query_warp() * 16 + lane / 4 + query * 8;
    if (lane % 4 == 0 && Heads<kHeadDim>::value_part() == 0) {
      a.partial_max[index] = running.max[query];
      a.partial_sum[index] = sum;
    }
    float* out = a.partial_out + index * kHeadDim + Heads<kHeadDim>::value_part() * Heads<kHeadDim>::kOutDim +
                 2 * (lane % 4);
    LACUNA_UNROLL
    for (int block = 0; block < Heads<kHeadDim>::kBlocks; ++block) {
      LACUNA_UNROLL
      for (int j = 0; j < Heads<kHeadDim>::kColumns; ++j) {
        float* to = out + (block * Heads<kHeadDim>::kColumns + j) * 8;
        to[0] = running.out[block][0][j][2 * query];
        to[1] = running.out[block][0][j][2 * query + 1];
      }
    }
  }
}

/// One block per task and kv head.
template <int kHeadDim, CellFormat kFormat>
LACUNA_KERNEL attend_kernel(AttendArguments a) {
  auto& memory = shared<AttendShared<kHeadDim, kFormat>>();
  const AttendTask task = a.tasks[block_index().x];
  TileWalk walk{a.runs + task.first_run, a.runs + task.first_run + task.num_runs};
  TileWalk ahead = walk;
  load_queries(a, task, memory);
  load_tile(a, task, ahead, 0, memory);
  commit_copies();
  ahead.next();
  wait_copies<0>();
  sync_threads();
  Running<kHeadDim> running;
  start_running(a, task, memory, running);
  for (int stage = 0; !walk.is_done(); stage ^= 1) {
    wait_copies<0>();
    sync_threads();  // this tile has arrived, and the next load may overwrite the other stage
    if (!ahead.is_done()) {
      load_tile(a, task, ahead, stage ^ 1, memory);
      ahead.next();
    }
    commit_copies();
    float scores[1][4][4] = {};
    const int place = memory.tiles.widen(stage);
    score_tile(memory, place, running, scores);
    weigh_tile(a, walk, memory.tiles, stage, scores, running);
    add_values(memory.tiles, place, scores, running);
    walk.next();
  }
  store_partial<kHeadDim>(a, running);
}

/// One block per query and kv head: merges its chunks in order.
LACUNA_KERNEL merge_kernel(AttendArguments a) {
  const MergeTask merge = a.merges[block_index().x];
  const auto kv_head = static_cast<int64_t>(block_index().y);
  const int64_t group_size = a.num_heads / a.pool.num_kv_heads;
  const int64_t place = block_index().z;
  const int64_t query = merge.first_query + place;
  if (query >= merge.num_rows * group_size) return;
  const auto index_of = [&](int64_t chunk) {
    return ((merge.first_task + chunk) * a.pool.num_kv_heads + kv_head) * kTaskQueries + place;
  };
  float max = kMinScore;
  for (int64_t chunk = 0; chunk < merge.num_tasks; ++chunk) {
    if (a.partial_sum[index_of(chunk)] > 0) max = fmaxf(max, a.partial_max[index_of(chunk)]);
  }
  float sum = 0;
  for (int64_t chunk = 0; chunk < merge.num_tasks; ++chunk) {
    const int64_t index = index_of(chunk);
    if (a.partial_sum[index] > 0) sum += simt::exp2(a.partial_max[index] - max) * a.partial_sum[index];
  }
  const int64_t row = merge.first_row + query / group_size;
  const int64_t head = kv_head * group_size + query % group_size;
  if (a.row_max != nullptr && thread_index() == 0) {
    a.row_max[row * a.num_heads + head] = max;
    a.row_sum[row * a.num_heads + head] = sum;
  }
  for (int64_t d = thread_index(); d < a.pool.head_dim; d += num_threads()) {
    float out = 0;
    for (int64_t chunk = 0; chunk < merge.num_tasks; ++chunk) {
      const int64_t index = index_of(chunk);
      if (a.partial_sum[index] == 0) continue;  // does not skip NaN
      out += simt::exp2(a.partial_max[index] - max) * a.partial_out[index * a.pool.head_dim + d];
    }
    a.out[row * a.out_stride + head * a.pool.head_dim + d] = to_bf16(out / sum);
  }
}

template <int kHeadDim, CellFormat kFormat>
void launch_attend(Stream& stream, const AttendArguments& a, uint32_t num_tasks) {
  launch(stream, attend_kernel<kHeadDim, kFormat>,
         {.grid = {num_tasks, static_cast<uint32_t>(a.pool.num_kv_heads), 1},
          .threads = Heads<kHeadDim>::kThreads,
          .shared_bytes = sizeof(AttendShared<kHeadDim, kFormat>)},
         a);
}

/// Calls use(head_dim, format) with both as compile-time constants.
template <int kHeadDim, typename Use>
auto with_format(CellFormat format, const Use& use) {
  using Width = std::integral_constant<int, kHeadDim>;
  if (format == CellFormat::kInt8) {
    return use(Width{}, std::integral_constant<CellFormat, CellFormat::kInt8>{});
  }
  return use(Width{}, std::integral_constant<CellFormat, CellFormat::kBf16>{});
}

template <typename Use>
auto with_kind(int64_t head_dim, CellFormat format, const Use& use) {
  switch (head_dim) {
    case 16:
      return with_format<16>(format, use);
    case 32:
      return with_format<32>(format, use);
    case 64:
      return with_format<64>(format, use);
    case 128:
      return with_format<128>(format, use);
    case 256:
      return with_format<256>(format, use);
    case 512:
      return with_format<512>(format, use);
    default:
      throw std::logic_error("attention: has_attention(head_dim)");
  }
}

}  // namespace

int64_t attend_shared_bytes(int64_t head_dim, CellFormat format) {
  if (format == CellFormat::kF32) return 0;
  return with_kind(head_dim, format, [](auto width, auto kind) -> int64_t {
    return sizeof(AttendShared<decltype(width)::value, decltype(kind)::value>);
  });
}

void attend(Stream& stream, const AttendArguments& arguments, uint32_t num_tasks, uint32_t num_merges) {
  if (arguments.queries_f32 != nullptr) return attend_f32(stream, arguments, num_merges);
  const int64_t head_dim = arguments.pool.head_dim;
  with_kind(head_dim, arguments.pool.format, [&](auto width, auto kind) {
    launch_attend<decltype(width)::value, decltype(kind)::value>(stream, arguments, num_tasks);
  });
  launch(stream, merge_kernel,
         {.grid = {num_merges, static_cast<uint32_t>(arguments.pool.num_kv_heads), kTaskQueries},
          .threads = head_dim >= 128 ? kMerged : 32U},
         arguments);
}

}  // namespace lacuna::cuda
