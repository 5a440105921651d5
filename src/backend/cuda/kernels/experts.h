// Mixture-of-experts layers: routing, sorting by expert, grouped matmuls, and the weighted sum.
//
// An entry is one choice of one row: entry = row * choices + c, with a row's choices in ascending order of
// experts. Each entry has its own outputs, so the result of a row depends on no other row.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/product.h"
#include "backend/cuda/kernels/quantized_product.h"
#include "backend/cuda/runtime.h"

namespace lacuna::cuda {

inline constexpr int32_t kMaxExperts = 512;
inline constexpr int32_t kMaxChoices = 32;
inline constexpr int32_t kMaxExpertGroups = 32;

struct ChosenExpert {
  int32_t expert = 0;
  float weight = 0;
};

struct RouterArguments {
  const float* x = nullptr;        ///< [rows, hidden]
  const float* weights = nullptr;  ///< [experts, hidden]
  float* logits = nullptr;         ///< [rows, experts]
  int64_t hidden = 0;
  int32_t experts = 0;
};

/// logits = x weights^T in f32, for families whose router is not rounded to bf16.
void multiply_router(Stream& stream, const RouterArguments& arguments, uint32_t rows);

/// Range of rows, from one window of positions, that choose among the same experts.
struct RowWindow {
  int32_t begin = 0;
  int32_t end = 0;
};

struct RouteArguments {
  const float* logits = nullptr;   ///< [rows, experts]
  const float* bias = nullptr;     ///< [experts], added to scores only for the choice; null: none
  ChosenExpert* chosen = nullptr;  ///< [rows, choices], ascending
  int32_t experts = 0;
  int32_t choices = 0;
  int32_t groups = 1;          ///< number of expert groups, of equal size
  int32_t groups_per_row = 1;  ///< groups to choose, by the largest sum of their two best scores
  /// [rows] each row's window, which contains the row; null: every row chooses among all experts. Only with
  /// `sigmoid`, and groups are ignored.
  const RowWindow* windows = nullptr;
  int32_t experts_per_window = 0;  ///< experts of a window, by their largest biased score in any of its rows
  bool sigmoid = false;            ///< scores are sigmoid(logits), not softmax(logits)
  bool normalize = false;          ///< chosen scores are divided by their sum
  float scale = 1;
  const float* expert_scale = nullptr;  ///< [experts] factors of the weights of chosen experts; null: none
};

/// Chooses experts by the rules of model/router.h; ties go to the lowest expert or group.
void route(Stream& stream, const RouteArguments& arguments, uint32_t rows);

/// Entries of one expert, at most expert_tile_rows(), beginning at sorted entry `first`.
struct ExpertTile {
  int32_t expert = 0;
  int32_t first = 0;
  int32_t count = 0;
};

struct SortArguments {
  const ChosenExpert* chosen = nullptr;
  int32_t* sorted_entries = nullptr;  ///< [entries] by expert, then ascending
  int32_t* sorted_rows = nullptr;     ///< [entries] row of each sorted entry
  ExpertTile* tiles = nullptr;        ///< [most_tiles()]; unused tiles have count 0
  int32_t entries = 0;
  int32_t choices = 0;
  int32_t experts = 0;
  // Set by sort_by_expert():
  int32_t num_tiles = 0;
  int32_t tile_rows = 0;
};

inline constexpr int32_t kFewTileRows = 16;
inline constexpr int32_t kManyTileRows = 64;

/// Entries per tile: kManyTileRows if experts have more than 32 entries on average, to read weights fewer
/// times for a long prefix; else kFewTileRows. The tile size changes no bits of the results.
int32_t expert_tile_rows(int32_t entries, int32_t experts);
/// Maximum number of tiles for `entries` entries.
int32_t most_tiles(int32_t entries, int32_t experts);
void sort_by_expert(Stream& stream, const SortArguments& arguments);

/// Weights are bf16, 8-bit values (int8, e4m3), f32 (with `product.x_f32`), or quantized in groups. Weights
/// and scales of all experts are contiguous.
struct GroupedArguments {
  ProductArguments product;  ///< with the weights of expert 0; x, out and epilogue for all; `rows` is unused
  const ExpertTile* tiles = nullptr;
  const int32_t* rows = nullptr;      ///< [sorted entries] row of x
  const int32_t* out_rows = nullptr;  ///< [sorted entries] row of out
  int64_t expert_stride = 0;          ///< number of weights from one expert to the next
  int32_t tile_rows = kFewTileRows;   ///< maximum entries of a tile: kFewTileRows or kManyTileRows
  GroupedCodes codes = {};            ///< weights quantized in groups, instead of `product.weights`
};

void grouped_product(Stream& stream, const GroupedArguments& arguments, int32_t num_tiles);

struct CombineArguments {
  const ChosenExpert* chosen = nullptr;
  const float* outputs = nullptr;  ///< [entries, hidden]
  float* residual = nullptr;       ///< [.., hidden]
  int64_t hidden = 0;
  int32_t choices = 0;
  float scale = 1;
  const int32_t* rows = nullptr;  ///< [rows] of the residual; null: 0, 1, 2, ...
  bool adds = true;               ///< whether the sum is added to the residual; else it replaces it
};

/// residual[rows[r]] += scale * (sum of weight * output over the row's choices, in order).
void combine(Stream& stream, const CombineArguments& arguments, uint32_t rows);

}  // namespace lacuna::cuda
