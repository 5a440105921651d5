// Sparse attention: attention mass of cells, bounds and scores of pages, and top-k selection on the device.
// Rules: model/sparse_attention.h.
//
// A "page" here is a page of the Quest method: `page_size` adjacent cells, not a memory page.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/attention.h"

namespace lacuna::cuda {

/// Maximum head dimension of the sparse attention kernels.
inline constexpr int64_t kMaxSparseHeadDim = 128;

struct MassArguments {
  /// Arguments of the preceding attend(), with row_max and row_sum.
  AttendArguments attention;
  float* mass = nullptr;   ///< [kv heads, num_cells]
  int32_t first_row = 0;   ///< the group's first row in the plan
  int32_t num_rows = 0;    ///< all rows of the group see all cells
  int32_t first_page = 0;  ///< index in the page table of the sequence's first page
  int32_t num_cells = 0;   ///< cells [0, num_cells) of the sequence
};

/// Sums for each cell the softmax weights of all rows and query heads of the kv head, in a fixed order.
void attention_mass(Stream& stream, const MassArguments& arguments);

struct PageBoundsArguments {
  PagePool pool;
  const int32_t* page_table = nullptr;
  int32_t first_memory_page = 0;  ///< index in the page table of the sequence's first page
  int64_t layer = 0;
  float* bounds = nullptr;  ///< [layers, kv heads, most_pages, 2, head_dim] maximum and minimum
  int32_t most_pages = 0;
  int32_t first_page = 0;  ///< earlier pages already have bounds
  int32_t page_size = 0;   ///< cells per page
  int32_t num_cells = 0;
};

/// Computes the bounds of each key channel for pages from first_page on.
void page_bounds(Stream& stream, const PageBoundsArguments& arguments);

struct PageScoresArguments {
  const uint16_t* queries = nullptr;   ///< [rows, heads, head_dim] bf16
  const float* queries_f32 = nullptr;  ///< used instead of `queries`
  const float* bounds = nullptr;       ///< PageBoundsArguments::bounds
  float* means = nullptr;              ///< [kv heads, 2, head_dim] scratch
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

/// Quest's upper bound on a page's scores, averaged over the rows' queries.
void page_scores(Stream& stream, const PageScoresArguments& arguments);

struct CandidateScoresArguments {
  AttendArguments attention;  ///< arguments of attend()
  float* means = nullptr;     ///< [kv heads, head_dim] scratch
  float* scores = nullptr;    ///< [num_candidates] scratch
  float* pooled = nullptr;    ///< [num_candidates]
  int32_t first_row = 0;      ///< the group's first row in the plan
  int32_t num_rows = 0;
  int32_t first_page = 0;  ///< index in the page table of the sequence's first page
  int32_t num_candidates = 0;
  int32_t except_begin = 0;  ///< [except_begin, except_begin + except_cells) are no candidates
  int32_t except_cells = 0;
  int32_t reach = 0;  ///< radius of max pooling, in candidates
};

/// Scores each candidate by the mean query of the group's rows, averages over heads, and max-pools
/// (SparseAttention::Choice::kAllAndRememberScored).
void candidate_scores(Stream& stream, const CandidateScoresArguments& arguments);

struct ChooseArguments {
  const float* values = nullptr;  ///< [kv heads, num_values], one per cell or page
  int64_t stride = 0;             ///< values from one kv head to the next; 0: all heads share the values
  int32_t num_values = 0;
  int32_t num_chosen = 0;     ///< k, at most num_values
  int32_t page_size = 1;      ///< cells per value
  int32_t num_cells = 0;      ///< cells after the last page with a value are always chosen
  int32_t* chosen = nullptr;  ///< [kv heads, num_chosen * page_size + cells after the last page]
  int32_t except_begin = 0;   ///< value i >= except_begin belongs to cell i + except_cells
  int32_t except_cells = 0;   ///< only with page_size 1
};

/// Top-k: writes the cells of the largest values, ascending; ties go to the lowest cells.
void choose_largest(Stream& stream, const ChooseArguments& arguments, uint32_t num_kv_heads);

}  // namespace lacuna::cuda
