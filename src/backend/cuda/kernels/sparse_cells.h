// How sparse attention chooses its cells on the device: the attention mass of cells, bounds and scores of
// pages, and the choice of the largest. model/sparse_attention.h has the rules.
//
// A "page" is here what the method calls one: `page_size` neighbouring cells, not the pages of memory.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/attention.h"

namespace lacuna::cuda {

/// Dimensions of the heads whose attention mass has a kernel.
inline constexpr int64_t kMaxSparseHeadDim = 128;

struct MassArguments {
  /// Arguments of attend(), with row_max and row_sum, which it has written.
  AttendArguments attention;
  float* mass = nullptr;   ///< [kv heads, num_cells]
  int32_t first_row = 0;   ///< of the group, in the plan
  int32_t num_rows = 0;    ///< every one of them sees the cells
  int32_t first_page = 0;  ///< of the group's sequence, in the page table
  int32_t num_cells = 0;   ///< the cells [0, num_cells) of the sequence
};

/// For each cell the softmax weights of all rows and of the kv head's query heads, added up in one order.
void attention_mass(Stream& stream, const MassArguments& arguments);

struct PageBoundsArguments {
  PagePool pool;
  const int32_t* page_table = nullptr;
  int32_t first_memory_page = 0;  ///< of the sequence, in the page table
  int64_t layer = 0;
  float* bounds =
      nullptr;  ///< [layers, kv heads, most_pages, 2, head_dim] the largest and the smallest number
  int32_t most_pages = 0;
  int32_t first_page = 0;  ///< pages before it have their bounds
  int32_t page_size = 0;   ///< cells
  int32_t num_cells = 0;
};

/// Bounds of each channel of the keys in the pages from first_page on.
void page_bounds(Stream& stream, const PageBoundsArguments& arguments);

struct PageScoresArguments {
  const uint16_t* queries = nullptr;   ///< [rows, heads, head_dim] bf16
  const float* queries_f32 = nullptr;  ///< in the place of `queries`
  const float* bounds = nullptr;       ///< as above, of all layers
  float* means = nullptr;              ///< [kv heads, 2, head_dim], memory of the call
  float* scores = nullptr;             ///< [kv heads, num_pages]
  int64_t layer = 0;
  int64_t num_kv_heads = 0;
  int64_t num_heads = 0;
  int64_t head_dim = 0;
  int32_t first_row = 0;
  int32_t num_rows = 0;
  int32_t most_pages = 0;
  int32_t num_pages = 0;
};

/// Quest's bound on the scores of a page, the mean over the rows' queries.
void page_scores(Stream& stream, const PageScoresArguments& arguments);

struct CandidateScoresArguments {
  AttendArguments attention;  ///< arguments of attend()
  float* means = nullptr;     ///< [kv heads, head_dim], memory of the call
  float* scores = nullptr;    ///< [num_candidates], memory of the call
  float* pooled = nullptr;    ///< [num_candidates]
  int32_t first_row = 0;      ///< of the group, in the plan
  int32_t num_rows = 0;
  int32_t first_page = 0;  ///< of the group's sequence, in the page table
  int32_t num_candidates = 0;
  int32_t except_begin = 0;  ///< cells from here on are no candidates
  int32_t except_cells = 0;
  int32_t reach = 0;  ///< candidates on each side whose best score each takes
};

/// The score of each candidate for the mean query of the group's rows, the mean over all heads, pooled
/// (SparseAttention::Choice::kAllAndRememberScored).
void candidate_scores(Stream& stream, const CandidateScoresArguments& arguments);

struct ChooseArguments {
  const float* values = nullptr;  ///< [kv heads, num_values] of cells or pages
  int64_t stride = 0;             ///< values from one kv head to the next; 0: all choose by the same
  int32_t num_values = 0;
  int32_t num_chosen = 0;     ///< of the values, at most all
  int32_t page_size = 1;      ///< cells that a value stands for
  int32_t num_cells = 0;      ///< those behind the last page whose value is looked at are chosen, too
  int32_t* chosen = nullptr;  ///< [kv heads, num_chosen * page_size + the cells behind]
  int32_t except_begin = 0;   ///< values from here on are those of cells that lie `except_cells` later
  int32_t except_cells = 0;   ///< where page_size is 1
};

/// The cells of the largest values, ascending, of equals the lowest.
void choose_largest(Stream& stream, const ChooseArguments& arguments, uint32_t num_kv_heads);

}  // namespace lacuna::cuda
