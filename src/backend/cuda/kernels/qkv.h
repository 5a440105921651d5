// Converts the outputs of the QKV projection to queries, and to keys and values in pages.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/attention.h"
#include "backend/cuda/runtime.h"

namespace lacuna::cuda {

struct FinishQkvArguments {
  const float* qkv = nullptr;           ///< [rows, (heads + 2 kv heads) * head_dim]: q, k, v; see shares_keys
  const int32_t* positions = nullptr;   ///< [rows]
  const int32_t* cells = nullptr;       ///< [rows]
  const int32_t* first_page = nullptr;  ///< [rows] index in the page table of the sequence's first page
  const int32_t* page_table = nullptr;
  PagePool pool;
  uint16_t* queries = nullptr;     ///< [rows, heads * head_dim] bf16
  float* queries_f32 = nullptr;    ///< used instead of `queries`
  const float* q_norm = nullptr;   ///< [head_dim], or [heads * head_dim] where `norm_full`; null: no norm
  const float* k_norm = nullptr;   ///< likewise, with kv heads
  const float* cosines = nullptr;  ///< [positions, rotary_dim / 2]
  const float* sines = nullptr;
  const float* query_scales = nullptr;  ///< [positions] factors of rotated queries; null: 1
  float* drift = nullptr;  ///< [rows, layers, 2]: 1 - cosine of old and new keys, values; null: not wanted
  int64_t layer = 0;
  int64_t num_heads = 0;
  int64_t rotary_dim = 0;  ///< even; RoPE rotates the pairs (j, j + rotary_dim / 2)
  bool norm_full = false;  ///< RMSNorm of the whole q and k instead of each head
  float epsilon = 0;
  bool shares_keys = false;  ///< rows of qkv hold only q and k; the values are k, before norm and RoPE
  bool v_norm = false;       ///< RMSNorm of each head of v, without a weight
  float clip = 0;  ///< clamps q, k and v to [-clip, clip], after the norm and before RoPE; 0: no clamp
};

/// int8 cells are quantized from f32 as on the CPU: scale = max |x| of the head / 127, NaN if x holds NaN or
/// infinity. f32 cells need f32 queries, other cells bf16 queries.
void finish_qkv(Stream& stream, const FinishQkvArguments& arguments, uint32_t rows);

}  // namespace lacuna::cuda
