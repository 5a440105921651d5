#include "backend/cuda/kernels/attention_walk.h"
#include "backend/cuda/kernels/sparse_cells.h"

namespace lacuna::cuda {
namespace {

using namespace simt;  // NOLINT(google-build-using-namespace): a kernel's vocabulary

constexpr uint32_t kWarps = 4;
constexpr uint32_t kMassThreads = 32 * kWarps;
constexpr uint32_t kChooseThreads = 256;

struct MassShared {
  float keys[kPageCells][kMaxSparseHeadDim + 1];
  float scales[kPageCells];
  float sums[kWarps][kPageCells];
};

template <CellFormat kFormat>
LACUNA_DEVICE void load_keys(const MassArguments& a, int32_t first_cell, MassShared& memory) {
  const auto dim = static_cast<int32_t>(a.attention.pool.head_dim);
  const auto cells = static_cast<uint32_t>(kPageCells * dim);
  for (uint32_t i = thread_index(); i < cells; i += kMassThreads) {
    const int32_t index = static_cast<int32_t>(i) / dim;
    const int32_t at = static_cast<int32_t>(i) % dim;
    if (first_cell + index >= a.num_cells) continue;
    const Cell<kFormat> cell =
        cell_of_sequence<kFormat>(a.attention, a.first_page, block_index().y, first_cell + index);
    memory.keys[index][at] = widened(cell.key[at]);
    if (at == 0) memory.scales[index] = cell.key_scale();
  }
}

/// One block per tile of cells and kv head: each lane has a cell, and the warps distribute the queries.
template <CellFormat kFormat>
LACUNA_KERNEL mass_kernel(MassArguments a) {
  auto& memory = shared<MassShared>();
  const AttendArguments& attention = a.attention;
  const int64_t dim = attention.pool.head_dim;
  const int64_t kv_head = block_index().y;
  const auto first_cell = static_cast<int32_t>(block_index().x) * kPageCells;
  const auto lane = static_cast<int32_t>(lane_index());
  const bool exists = first_cell + lane < a.num_cells;
  load_keys<kFormat>(a, first_cell, memory);
  sync_threads();
  const int64_t group_size = attention.num_heads / attention.pool.num_kv_heads;
  float sum = 0;
  for (int64_t query = warp_index(); exists && query < a.num_rows * group_size; query += kWarps) {
    const int64_t row = a.first_row + query / group_size;
    const int64_t head = row * attention.num_heads + kv_head * group_size + query % group_size;
    float product = 0;
    for (int64_t i = 0; i < dim; ++i) {
      const float number = attention.queries_f32 != nullptr ? attention.queries_f32[head * dim + i]
                                                            : from_bf16(attention.queries[head * dim + i]);
      product += number * memory.keys[lane][i];
    }
    const float score = scaled(attention, product * memory.scales[lane]);
    sum += simt::exp2(score - attention.row_max[head]) / attention.row_sum[head];
  }
  memory.sums[warp_index()][lane] = sum;
  sync_threads();
  if (warp_index() != 0 || !exists) return;
  for (uint32_t warp = 1; warp < kWarps; ++warp) sum += memory.sums[warp][lane];
  a.mass[kv_head * a.num_cells + first_cell + lane] = sum;
}

/// One block per page and kv head; one thread per channel.
template <CellFormat kFormat>
LACUNA_KERNEL bounds_kernel(PageBoundsArguments a) {
  const int64_t channel = thread_index();
  const int64_t dim = a.pool.head_dim;
  const int64_t kv_head = block_index().y;
  const int32_t page = a.first_page + static_cast<int32_t>(block_index().x);
  const int32_t begin = page * a.page_size;
  const int32_t end = begin + a.page_size < a.num_cells ? begin + a.page_size : a.num_cells;
  float largest = -as_float(0x7f800000U);
  float smallest = as_float(0x7f800000U);
  for (int32_t at = begin; at < end; ++at) {
    const int64_t memory_page = a.page_table[a.first_memory_page + at / kPageCells];
    const Cell<kFormat> cell = cell_of_page<kFormat>(a.pool, memory_page, a.layer, kv_head, at % kPageCells);
    const float number = widened(cell.key[channel]) * cell.key_scale();
    largest = number > largest ? number : largest;
    smallest = number < smallest ? number : smallest;
  }
  float* bounds = a.bounds + ((a.layer * a.pool.num_kv_heads + kv_head) * a.most_pages + page) * 2 * dim;
  bounds[channel] = largest;
  bounds[dim + channel] = smallest;
}

/// One block per kv head; one thread per channel.
LACUNA_KERNEL means_kernel(PageScoresArguments a) {
  const int64_t channel = thread_index();
  const int64_t kv_head = block_index().x;
  const int64_t group_size = a.num_heads / a.num_kv_heads;
  float above = 0;
  float below = 0;
  for (int64_t query = 0; query < a.num_rows * group_size; ++query) {
    const int64_t row = a.first_row + query / group_size;
    const int64_t head = row * a.num_heads + kv_head * group_size + query % group_size;
    const int64_t at = head * a.head_dim + channel;
    const float number = a.queries_f32 != nullptr ? a.queries_f32[at] : from_bf16(a.queries[at]);
    above += number > 0 ? number : 0;
    below += number < 0 ? -number : 0;
  }
  const auto count = static_cast<float>(a.num_rows * group_size);
  a.means[2 * kv_head * a.head_dim + channel] = above / count;
  a.means[(2 * kv_head + 1) * a.head_dim + channel] = below / count;
}

/// One warp per page and kv head.
LACUNA_KERNEL scores_kernel(PageScoresArguments a) {
  const int64_t page = block_index().x;
  const int64_t kv_head = block_index().y;
  const float* means = a.means + 2 * kv_head * a.head_dim;
  const float* bounds =
      a.bounds + ((a.layer * a.num_kv_heads + kv_head) * a.most_pages + page) * 2 * a.head_dim;
  float score = 0;
  for (int64_t i = lane_index(); i < a.head_dim; i += 32)
    score += means[i] * bounds[i] - means[a.head_dim + i] * bounds[a.head_dim + i];
  score = warp_sum(score);
  if (lane_index() == 0) a.scores[kv_head * a.num_pages + page] = score;
}

/// One block per kv head; one thread per channel.
LACUNA_KERNEL head_means_kernel(CandidateScoresArguments a) {
  const int64_t channel = thread_index();
  const int64_t kv_head = block_index().x;
  const AttendArguments& attention = a.attention;
  const int64_t dim = attention.pool.head_dim;
  const int64_t group_size = attention.num_heads / attention.pool.num_kv_heads;
  float sum = 0;
  for (int64_t query = 0; query < a.num_rows * group_size; ++query) {
    const int64_t row = a.first_row + query / group_size;
    const int64_t head = row * attention.num_heads + kv_head * group_size + query % group_size;
    const int64_t at = head * dim + channel;
    sum += attention.queries_f32 != nullptr ? attention.queries_f32[at] : from_bf16(attention.queries[at]);
  }
  a.means[kv_head * dim + channel] = sum / static_cast<float>(a.num_rows);
}

/// One warp per candidate.
template <CellFormat kFormat>
LACUNA_KERNEL candidate_kernel(CandidateScoresArguments a) {
  const auto candidate = static_cast<int32_t>(block_index().x);
  const int32_t cell_index = candidate < a.except_begin ? candidate : candidate + a.except_cells;
  const int64_t dim = a.attention.pool.head_dim;
  float score = 0;
  for (int64_t kv_head = 0; kv_head < a.attention.pool.num_kv_heads; ++kv_head) {
    const Cell<kFormat> cell = cell_of_sequence<kFormat>(a.attention, a.first_page, kv_head, cell_index);
    float product = 0;
    for (int64_t i = lane_index(); i < dim; i += 32)
      product += a.means[kv_head * dim + i] * widened(cell.key[i]);
    score += warp_sum(product) * cell.key_scale();
  }
  if (lane_index() == 0) a.scores[candidate] = score / static_cast<float>(a.attention.num_heads);
}

/// One thread per candidate.
LACUNA_KERNEL pool_kernel(CandidateScoresArguments a) {
  const auto first = static_cast<int32_t>(block_index().x * kChooseThreads);
  const int32_t candidate = first + static_cast<int32_t>(thread_index());
  if (candidate >= a.num_candidates) return;
  float best = a.scores[candidate];
  for (int32_t i = candidate - a.reach; i <= candidate + a.reach; ++i) {
    if (i >= 0 && i < a.num_candidates && a.scores[i] > best) best = a.scores[i];
  }
  a.pooled[candidate] = best;
}

struct ChooseShared {
  int32_t parts[kChooseThreads / 32];
  int32_t above[kChooseThreads];
  int32_t equal[kChooseThreads];
};

/// Maps a float to an integer with the same order.
LACUNA_DEVICE uint32_t ordered(float value) {
  const uint32_t bits = as_bits(value + 0.0F);  // -0 becomes +0
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

/// Counts the values of at least `least`; called by the whole block.
LACUNA_DEVICE int32_t count_from(const float* values, int32_t count, uint32_t least, int32_t* parts) {
  int32_t own = 0;
  for (auto i = static_cast<int32_t>(thread_index()); i < count; i += static_cast<int32_t>(kChooseThreads))
    own += ordered(values[i]) >= least ? 1 : 0;
  const int32_t all = block_sum(own, parts);
  sync_threads();
  return all;
}

/// Chooses from a thread's contiguous values those above the threshold, and equal ones while there is room.
/// Returns their number.
///   place  output position of the first; -1: only counts
LACUNA_DEVICE int32_t take_values(const ChooseArguments& a, const float* values, uint32_t threshold,
                                  int32_t equals_before, int32_t room, int32_t place, int32_t* out) {
  const int32_t each =
      (a.num_values + static_cast<int32_t>(kChooseThreads) - 1) / static_cast<int32_t>(kChooseThreads);
  const int32_t begin = static_cast<int32_t>(thread_index()) * each;
  int32_t taken = 0;
  for (int32_t i = begin; i < begin + each && i < a.num_values; ++i) {
    const uint32_t bits = ordered(values[i]);
    const bool is_taken = bits > threshold || (bits == threshold && equals_before++ < room);
    if (!is_taken) continue;
    const int32_t shift = i < a.except_begin ? 0 : a.except_cells;
    for (int32_t cell = 0; place >= 0 && cell < a.page_size; ++cell)
      out[(place + taken) * a.page_size + cell] = i * a.page_size + cell + shift;
    ++taken;
  }
  return taken;
}

/// One block per kv head.
LACUNA_KERNEL choose_kernel(ChooseArguments a) {
  auto& memory = shared<ChooseShared>();
  const auto thread = static_cast<int32_t>(thread_index());
  const int64_t kv_head = block_index().x;
  const float* values = a.values + kv_head * a.stride;
  const int32_t first_behind = a.num_values * a.page_size;
  const int32_t behind = a.page_size > 1 ? a.num_cells - first_behind : 0;
  int32_t* out = a.chosen + kv_head * (a.num_chosen * a.page_size + behind);
  // Radix search for the largest threshold that num_chosen values reach.
  uint32_t threshold = 0;
  for (uint32_t bit = 0x80000000U; bit != 0; bit /= 2) {
    if (count_from(values, a.num_values, threshold | bit, memory.parts) >= a.num_chosen) threshold |= bit;
  }
  const int32_t above =
      threshold == 0xffffffffU ? 0 : count_from(values, a.num_values, threshold + 1, memory.parts);
  const int32_t room = a.num_chosen - above;
  // Counts per thread, to compute the number of equal values before it and its output position.
  memory.above[thread] = take_values(a, values, threshold, 0, 0, -1, nullptr);
  memory.equal[thread] =
      take_values(a, values, threshold, 0, a.num_values, -1, nullptr) - memory.above[thread];
  sync_threads();
  int32_t equals_before = 0;
  int32_t place = 0;
  for (int32_t other = 0; other < thread; ++other) {
    equals_before += memory.equal[other];
    place += memory.above[other];
  }
  place += equals_before < room ? equals_before : room;
  take_values(a, values, threshold, equals_before, room, place, out);
  for (int32_t i = thread; i < behind; i += static_cast<int32_t>(kChooseThreads))
    out[a.num_chosen * a.page_size + i] = first_behind + i;
}

/// Launches the kernel for the pool's format.
template <typename Arguments>
void launch_for(Stream& stream, CellFormat format, void (*bf16_kernel)(Arguments),
                void (*f32_kernel)(Arguments), void (*int8_kernel)(Arguments), const LaunchShape& shape,
                const Arguments& arguments) {
  const auto kernel = format == CellFormat::kBf16  ? bf16_kernel
                      : format == CellFormat::kF32 ? f32_kernel
                                                   : int8_kernel;
  launch(stream, kernel, shape, arguments);
}

}  // namespace

void attention_mass(Stream& stream, const MassArguments& arguments) {
  const auto tiles = static_cast<uint32_t>((arguments.num_cells + kPageCells - 1) / kPageCells);
  const auto kv_heads = static_cast<uint32_t>(arguments.attention.pool.num_kv_heads);
  launch_for(stream, arguments.attention.pool.format, mass_kernel<CellFormat::kBf16>,
             mass_kernel<CellFormat::kF32>, mass_kernel<CellFormat::kInt8>,
             {.grid = {tiles, kv_heads, 1}, .threads = kMassThreads, .shared_bytes = sizeof(MassShared)},
             arguments);
}

void page_bounds(Stream& stream, const PageBoundsArguments& arguments) {
  const int32_t pages = (arguments.num_cells + arguments.page_size - 1) / arguments.page_size;
  if (pages <= arguments.first_page) return;
  launch_for(stream, arguments.pool.format, bounds_kernel<CellFormat::kBf16>, bounds_kernel<CellFormat::kF32>,
             bounds_kernel<CellFormat::kInt8>,
             {.grid = {static_cast<uint32_t>(pages - arguments.first_page),
                       static_cast<uint32_t>(arguments.pool.num_kv_heads), 1},
              .threads = static_cast<uint32_t>(arguments.pool.head_dim)},
             arguments);
}

void page_scores(Stream& stream, const PageScoresArguments& arguments) {
  const auto kv_heads = static_cast<uint32_t>(arguments.num_kv_heads);
  launch(stream, means_kernel,
         {.grid = {kv_heads, 1, 1}, .threads = static_cast<uint32_t>(arguments.head_dim)}, arguments);
  launch(stream, scores_kernel,
         {.grid = {static_cast<uint32_t>(arguments.num_pages), kv_heads, 1}, .threads = 32}, arguments);
}

void candidate_scores(Stream& stream, const CandidateScoresArguments& arguments) {
  const PagePool& pool = arguments.attention.pool;
  const auto candidates = static_cast<uint32_t>(arguments.num_candidates);
  launch(stream, head_means_kernel,
         {.grid = {static_cast<uint32_t>(pool.num_kv_heads), 1, 1},
          .threads = static_cast<uint32_t>(pool.head_dim)},
         arguments);
  launch_for(stream, pool.format, candidate_kernel<CellFormat::kBf16>, candidate_kernel<CellFormat::kF32>,
             candidate_kernel<CellFormat::kInt8>, {.grid = {candidates, 1, 1}, .threads = 32}, arguments);
  launch(stream, pool_kernel,
         {.grid = {(candidates + kChooseThreads - 1) / kChooseThreads, 1, 1}, .threads = kChooseThreads},
         arguments);
}

void choose_largest(Stream& stream, const ChooseArguments& arguments, uint32_t num_kv_heads) {
  launch(stream, choose_kernel,
         {.grid = {num_kv_heads, 1, 1}, .threads = kChooseThreads, .shared_bytes = sizeof(ChooseShared)},
         arguments);
}

}  // namespace lacuna::cuda
