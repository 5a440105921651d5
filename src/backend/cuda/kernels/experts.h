// Feed-forward layers of experts: the choice, the rows of each expert gathered, their products, and the
// sum.
//
// An entry is one choice of one row: entry = row * choices + c, a row's choices in ascending order of
// experts. Each entry has outputs of its own, so that what a row becomes depends on no other row.
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

/// Rows of a pass that choose among the same experts, those of a window of positions.
struct RowWindow {
  int32_t begin = 0;
  int32_t end = 0;
};

struct RouteArguments {
  const float* logits = nullptr;   ///< [rows, experts]
  const float* bias = nullptr;     ///< [experts], joins a score for the choice alone; null: none
  ChosenExpert* chosen = nullptr;  ///< [rows, choices], ascending
  int32_t experts = 0;
  int32_t choices = 0;
  int32_t groups = 1;          ///< of equal size
  int32_t groups_per_row = 1;  ///< those with the largest sums of two best scores
  /// [rows] each row's window, which holds the row itself; null: every row chooses among all experts. Only
  /// with `sigmoid`, and groups are ignored.
  const RowWindow* windows = nullptr;
  int32_t experts_per_window = 0;  ///< those with the largest score, with bias, of any of the window's rows
  bool sigmoid = false;            ///< scores are sigmoid(logits), not softmax(logits)
  bool normalize = false;          ///< chosen scores are divided by their sum
  float scale = 1;
  const float* expert_scale = nullptr;  ///< [experts] factors of the weights of chosen experts; null: none
};

/// The rules of model/router.h; of equals the lowest expert or group wins.
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
  int32_t* sorted_rows = nullptr;     ///< [entries] whose they are
  ExpertTile* tiles = nullptr;        ///< [most_tiles()]; those that are not needed have no entries
  int32_t entries = 0;
  int32_t choices = 0;
  int32_t experts = 0;
  // Set by sort_by_expert():
  int32_t num_tiles = 0;
  int32_t tile_rows = 0;
};

inline constexpr int32_t kFewTileRows = 16;
inline constexpr int32_t kManyTileRows = 64;

/// Entries that one tile takes: kManyTileRows where experts have more than 32 on average, so that a long
/// prefix reads their weights fewer times; else kFewTileRows. The size of a tile changes no bits.
int32_t expert_tile_rows(int32_t entries, int32_t experts);
/// Tiles that so many entries can need.
int32_t most_tiles(int32_t entries, int32_t experts);
void sort_by_expert(Stream& stream, const SortArguments& arguments);

/// Weights are bf16, 8-bit codes of both formats, f32 (where `product.x_f32` is), or codes in groups. Those
/// of one expert, and their scales, follow those of another.
struct GroupedArguments {
  ProductArguments product;  ///< of one tile: weights of expert 0; x, out and epilogue of all; no rows
  const ExpertTile* tiles = nullptr;
  const int32_t* rows = nullptr;      ///< [sorted entries] of x
  const int32_t* out_rows = nullptr;  ///< [sorted entries] of out
  int64_t expert_stride = 0;          ///< weights from one expert to the next
  int32_t tile_rows = kFewTileRows;   ///< most entries of a tile; or kManyTileRows
  GroupedCodes codes = {};            ///< in the place of `product.weights`, as in QuantizedProductArguments
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
  bool adds = true;               ///< to what the residual holds; else the sum takes its place
};

/// residual[rows[r]] += scale * the sum of weight * output over the row's choices, in order.
void combine(Stream& stream, const CombineArguments& arguments, uint32_t rows);

}  // namespace lacuna::cuda
