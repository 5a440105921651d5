// From the sums of the q, k and v products to queries, and to keys and values in their pages.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/attention.h"
#include "backend/cuda/runtime.h"

namespace lacuna::cuda {

struct FinishQkvArguments {
  const float* qkv = nullptr;           ///< [rows, (heads + 2 kv heads) * head_dim]: q, k, v; see shares_keys
  const int32_t* positions = nullptr;   ///< [rows]
  const int32_t* cells = nullptr;       ///< [rows]
  const int32_t* first_page = nullptr;  ///< [rows] of the row's sequence, in the page table
  const int32_t* page_table = nullptr;
  PagePool pool;
  uint16_t* queries = nullptr;     ///< [rows, heads * head_dim] bf16
  float* queries_f32 = nullptr;    ///< in the place of `queries`
  const float* q_norm = nullptr;   ///< [head_dim], or [heads * head_dim] where `norm_full`; null: no norm
  const float* k_norm = nullptr;   ///< likewise
  const float* cosines = nullptr;  ///< [positions, rotary_dim / 2]
  const float* sines = nullptr;
  const float* query_scales = nullptr;  ///< [positions] of turned queries; null: they stay
  float* drift = nullptr;  ///< [rows, layers, 2]: one minus the cosine of keys, of values; null: not wanted
  int64_t layer = 0;
  int64_t num_heads = 0;
  int64_t rotary_dim = 0;  ///< even; the pairs (j, j + rotary_dim / 2) are turned
  bool norm_full = false;  ///< RMSNorm of the whole q and k instead of each head
  float epsilon = 0;
  bool shares_keys = false;  ///< rows are q and k, and values are k as it stands there
  bool v_norm = false;       ///< RMSNorm of each head of v, without a weight
  float clip =
      0;  ///< q and k (normed, not yet turned) and v (normed) are clamped to [-clip, clip]; 0: they stay
};

/// Codes are made of the numbers in f32: scale * code with |code| <= 127 and scale = largest |x| of the head
/// / 127, NaN where x holds NaN or infinity, as on the CPU. Cells in f32 need queries in f32, and bf16 those
/// in bf16.
void finish_qkv(Stream& stream, const FinishQkvArguments& arguments, uint32_t rows);

}  // namespace lacuna::cuda
