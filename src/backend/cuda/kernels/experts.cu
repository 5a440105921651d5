#include <algorithm>

#include "backend/cuda/kernels/experts.h"
#include "backend/cuda/kernels/f32_product_block.h"
#include "backend/cuda/kernels/quantized_product_block.h"

namespace lacuna::cuda {
namespace {

using namespace simt;  // NOLINT(google-build-using-namespace): a kernel's vocabulary

constexpr uint32_t kThreads = 256;
constexpr float kNoDivisionByZero = 1e-20F;  // as on the CPU

struct RouteShared {
  float scores[kMaxExperts];
  float ranks[kMaxExperts];
  float window_ranks[kMaxExperts];
  float groups[kMaxExpertGroups];
  int32_t best[kMaxChoices];
};

LACUNA_DEVICE float least() {
  return -as_float(0x7f800000U);
}

/// Place of `index` in a descending order of the first `count` ranks, with ties in ascending order of index.
LACUNA_DEVICE int32_t place_of(const float* ranks, int32_t count, int32_t index) {
  int32_t before = 0;
  for (int32_t i = 0; i < count; ++i) {
    before += ranks[i] > ranks[index] || (ranks[i] == ranks[index] && i < index) ? 1 : 0;
  }
  return before;
}

LACUNA_DEVICE float sigmoid(float logit) {
  return 1 / (1 + simt::exp(-logit));
}

/// Biased score by which experts are chosen.
LACUNA_DEVICE float rank_of(const RouteArguments& a, int32_t expert, float score) {
  const float rank = a.bias != nullptr ? score + a.bias[expert] : score;
  return rank == rank ? rank : least();  // NaN ranks lowest
}

LACUNA_DEVICE void score_experts(const RouteArguments& a, const float* logits, RouteShared& memory) {
  const auto lane = static_cast<int32_t>(lane_index());
  float largest = least();
  for (int32_t e = lane; e < a.experts; e += 32) largest = logits[e] > largest ? logits[e] : largest;
  largest = warp_max(largest);
  float sum = 0;
  for (int32_t e = lane; e < a.experts; e += 32) {
    memory.scores[e] = a.sigmoid ? sigmoid(logits[e]) : simt::exp(logits[e] - largest);
    sum += memory.scores[e];
  }
  sum = warp_sum(sum);
  for (int32_t e = lane; e < a.experts; e += 32) {
    if (!a.sigmoid) memory.scores[e] /= sum;
    memory.ranks[e] = rank_of(a, e, memory.scores[e]);
  }
  sync_warp();
}

/// Excludes the experts of all but the best groups.
LACUNA_DEVICE void keep_best_groups(const RouteArguments& a, RouteShared& memory) {
  if (a.groups == a.groups_per_row) return;
  const auto lane = static_cast<int32_t>(lane_index());
  const int32_t size = a.experts / a.groups;
  if (lane < a.groups) {
    float first = least();
    float second = least();
    for (int32_t e = lane * size; e < (lane + 1) * size; ++e) {
      const float rank = memory.ranks[e];
      if (rank > first) {
        second = first;
        first = rank;
      } else if (rank > second) {
        second = rank;
      }
    }
    memory.groups[lane] = first + second;
  }
  sync_warp();
  const bool is_kept = lane >= a.groups || place_of(memory.groups, a.groups, lane) < a.groups_per_row;
  for (int32_t e = lane * size; !is_kept && e < (lane + 1) * size; ++e) memory.ranks[e] = least();
  sync_warp();
}

/// Excludes the experts that the row's window has not chosen.
LACUNA_DEVICE void keep_experts_of_window(const RouteArguments& a, RowWindow window, RouteShared& memory) {
  const auto lane = static_cast<int32_t>(lane_index());
  for (int32_t e = lane; e < a.experts; e += 32) {
    // The maximum logit suffices: the sigmoid is monotonic, and the bias is the same for all rows.
    float largest = least();
    for (int64_t row = window.begin; row < window.end; ++row) {
      const float logit = a.logits[row * a.experts + e];
      largest = logit > largest ? logit : largest;
    }
    memory.window_ranks[e] = rank_of(a, e, sigmoid(largest));
  }
  sync_warp();
  for (int32_t e = lane; e < a.experts; e += 32) {
    if (place_of(memory.window_ranks, a.experts, e) >= a.experts_per_window) memory.ranks[e] = least();
  }
  sync_warp();
}

/// One block per row; its warps distribute the experts.
LACUNA_KERNEL router_kernel(RouterArguments a) {
  const int64_t row = block_index().x;
  const float* x = a.x + row * a.hidden;
  for (int64_t e = warp_index(); e < a.experts; e += kThreads / 32) {
    const float* weights = a.weights + e * a.hidden;
    float sum = 0;
    for (int64_t i = lane_index(); i < a.hidden; i += 32) sum += x[i] * weights[i];
    sum = warp_sum(sum);
    if (lane_index() == 0) a.logits[row * a.experts + e] = sum;
  }
}

/// One warp per row.
LACUNA_KERNEL route_kernel(RouteArguments a) {
  auto& memory = shared<RouteShared>();
  const auto lane = static_cast<int32_t>(lane_index());
  const int64_t row = block_index().x;
  score_experts(a, a.logits + row * a.experts, memory);
  if (a.windows != nullptr) {
    keep_experts_of_window(a, a.windows[row], memory);
  } else {
    keep_best_groups(a, memory);
  }
  for (int32_t e = lane; e < a.experts; e += 32) {
    const int32_t place = place_of(memory.ranks, a.experts, e);
    if (place < a.choices) memory.best[place] = e;
  }
  sync_warp();
  float sum = 0;
  for (int32_t i = 0; i < a.choices; ++i) sum += memory.scores[memory.best[i]];
  const float scale = a.scale / (a.normalize ? sum + kNoDivisionByZero : 1);
  if (lane >= a.choices) return;
  const int32_t expert = memory.best[lane];
  int32_t place = 0;
  for (int32_t i = 0; i < a.choices; ++i) place += memory.best[i] < expert ? 1 : 0;
  const float weight = memory.scores[expert] * scale;
  a.chosen[row * a.choices + place] = {expert,
                                       a.expert_scale != nullptr ? weight * a.expert_scale[expert] : weight};
}

struct SortShared {
  int32_t first_entry[kMaxExperts + 1];
  int32_t first_tile[kMaxExperts + 1];
};

/// A single block with one thread per expert, which scans all entries.
LACUNA_KERNEL sort_kernel(SortArguments a) {
  auto& memory = shared<SortShared>();
  const auto thread = static_cast<int32_t>(thread_index());
  for (int32_t e = thread; e < a.experts; e += kThreads) {
    int32_t count = 0;
    for (int32_t i = 0; i < a.entries; ++i) count += a.chosen[i].expert == e ? 1 : 0;
    memory.first_entry[e + 1] = count;
    memory.first_tile[e + 1] = (count + a.tile_rows - 1) / a.tile_rows;
  }
  sync_threads();
  if (thread == 0) {
    memory.first_entry[0] = 0;
    memory.first_tile[0] = 0;
    for (int32_t e = 0; e < a.experts; ++e) {
      memory.first_entry[e + 1] += memory.first_entry[e];
      memory.first_tile[e + 1] += memory.first_tile[e];
    }
  }
  sync_threads();
  for (int32_t e = thread; e < a.experts; e += kThreads) {
    int32_t next = memory.first_entry[e];
    for (int32_t i = 0; i < a.entries; ++i) {
      if (a.chosen[i].expert != e) continue;
      a.sorted_entries[next] = i;
      a.sorted_rows[next++] = i / a.choices;
    }
    for (int32_t tile = memory.first_tile[e]; tile < memory.first_tile[e + 1]; ++tile) {
      const int32_t first = memory.first_entry[e] + (tile - memory.first_tile[e]) * a.tile_rows;
      const int32_t left = memory.first_entry[e + 1] - first;
      a.tiles[tile] = {e, first, left < a.tile_rows ? left : a.tile_rows};
    }
  }
  for (int32_t tile = memory.first_tile[a.experts] + thread; tile < a.num_tiles; tile += kThreads)
    a.tiles[tile] = {};
}

/// Arguments for one tile: its expert's weights and its rows.
LACUNA_DEVICE ProductArguments product_of(const GroupedArguments& a, const ExpertTile& tile) {
  ProductArguments product = a.product;
  const int64_t skipped = tile.expert * a.expert_stride;
  if (product.weights != nullptr) product.weights += skipped;
  if (product.weights_f32 != nullptr) product.weights_f32 += skipped;
  if (product.codes != nullptr) {
    product.codes += skipped;
    product.scales += tile.expert * product.num_outputs;
  }
  product.rows = a.rows + tile.first;
  product.out_rows = a.out_rows + tile.first;
  product.num_rows = tile.count;
  return product;
}

template <int kRowTiles>
LACUNA_KERNEL LACUNA_BLOCK_OF(kProductThreads, 1) grouped_kernel(GroupedArguments a) {
  const ExpertTile tile = a.tiles[block_index().y];
  if (tile.count == 0) return;  // for the whole block
  product_block<kRowTiles>(product_of(a, tile));
}

template <int kRowTiles, CodeFormat kFormat>
LACUNA_KERNEL LACUNA_BLOCK_OF(kProductThreads, 1) grouped_code_kernel(GroupedArguments a) {
  const ExpertTile tile = a.tiles[block_index().y];
  if (tile.count == 0) return;
  product_block<kRowTiles, CodeProductShared<kRowTiles, kFormat>>(product_of(a, tile));
}

template <int kRowTiles, GroupFormat kFormat>
LACUNA_KERNEL LACUNA_BLOCK_OF(kProductThreads, 1) grouped_quantized_kernel(GroupedArguments a) {
  const ExpertTile tile = a.tiles[block_index().y];
  if (tile.count == 0) return;
  const int64_t skipped = tile.expert * a.expert_stride;
  GroupedCodes codes = a.codes;
  codes.values += skipped * bits_of(kFormat) / 8;
  codes.scales += skipped / kCodeGroup;
  if (codes.minimums != nullptr) codes.minimums += skipped / kCodeGroup;
  quantized_product_block<kRowTiles, kFormat>({product_of(a, tile), codes});
}

LACUNA_KERNEL grouped_f32_kernel(GroupedArguments a) {
  const ExpertTile tile = a.tiles[block_index().y];
  if (tile.count == 0) return;
  for (int32_t row = 0; row < tile.count; row += kF32Rows) f32_product_block(product_of(a, tile), row);
}

LACUNA_KERNEL combine_kernel(CombineArguments a) {
  const int64_t row = block_index().x;
  for (int64_t i = thread_index(); i < a.hidden; i += kThreads) {
    float sum = 0;
    for (int64_t c = 0; c < a.choices; ++c) {
      const int64_t entry = row * a.choices + c;
      sum += a.chosen[entry].weight * a.outputs[entry * a.hidden + i];
    }
    const int64_t to = a.rows != nullptr ? int64_t{a.rows[row]} : row;
    float& out = a.residual[to * a.hidden + i];
    out = a.adds ? out + a.scale * sum : a.scale * sum;
  }
}

template <int kRowTiles>
void launch_grouped(Stream& stream, const GroupedArguments& arguments, int32_t num_tiles) {
  const auto blocks =
      static_cast<uint32_t>((arguments.product.num_outputs + kProductOutputs - 1) / kProductOutputs);
  const auto send = [&](void (*kernel)(GroupedArguments), size_t shared_bytes) {
    launch(stream, kernel,
           {.grid = {blocks, static_cast<uint32_t>(num_tiles), 1},
            .threads = kProductThreads,
            .shared_bytes = shared_bytes},
           arguments);
  };
  if (arguments.codes.values != nullptr) {
    return for_format(arguments.codes.format, [&](auto format) {
      constexpr GroupFormat kFormat = decltype(format)::value;
      send(grouped_quantized_kernel<kRowTiles, kFormat>, sizeof(CodeShared<kRowTiles, kFormat>));
    });
  }
  if (arguments.product.codes != nullptr) {
    const bool is_int8 = arguments.product.code_format == CodeFormat::kInt8;
    return send(is_int8 ? grouped_code_kernel<kRowTiles, CodeFormat::kInt8>
                        : grouped_code_kernel<kRowTiles, CodeFormat::kE4m3>,
                sizeof(CodeProductShared<kRowTiles, CodeFormat::kInt8>));
  }
  if (arguments.product.x_f32 != nullptr) return send(grouped_f32_kernel, sizeof(F32ProductShared));
  send(grouped_kernel<kRowTiles>, sizeof(ProductShared<kRowTiles>));
}

}  // namespace

void multiply_router(Stream& stream, const RouterArguments& arguments, uint32_t rows) {
  launch(stream, router_kernel, {.grid = {rows, 1, 1}, .threads = kThreads}, arguments);
}

void route(Stream& stream, const RouteArguments& arguments, uint32_t rows) {
  launch(stream, route_kernel, {.grid = {rows, 1, 1}, .threads = 32, .shared_bytes = sizeof(RouteShared)},
         arguments);
}

int32_t expert_tile_rows(int32_t entries, int32_t experts) {
  return entries > kManyTileRows / 2 * experts ? kManyTileRows : kFewTileRows;
}

int32_t most_tiles(int32_t entries, int32_t experts) {
  return std::min(entries, experts) + entries / expert_tile_rows(entries, experts);
}

void sort_by_expert(Stream& stream, const SortArguments& arguments) {
  SortArguments sized = arguments;
  sized.num_tiles = most_tiles(arguments.entries, arguments.experts);
  sized.tile_rows = expert_tile_rows(arguments.entries, arguments.experts);
  launch(stream, sort_kernel, {.threads = kThreads, .shared_bytes = sizeof(SortShared)}, sized);
}

void grouped_product(Stream& stream, const GroupedArguments& arguments, int32_t num_tiles) {
  if (arguments.tile_rows == kFewTileRows) return launch_grouped<1>(stream, arguments, num_tiles);
  launch_grouped<kManyTileRows / 16>(stream, arguments, num_tiles);
}

void combine(Stream& stream, const CombineArguments& arguments, uint32_t rows) {
  launch(stream, combine_kernel, {.grid = {rows, 1, 1}, .threads = kThreads}, arguments);
}

}  // namespace lacuna::cuda
