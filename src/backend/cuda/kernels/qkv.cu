#include "backend/cuda/kernels/qkv.h"

namespace lacuna::cuda {
namespace {

using namespace simt;  // NOLINT(google-build-using-namespace): a kernel's vocabulary

constexpr uint32_t kWarps = 4;
constexpr uint32_t kThreads = 32 * kWarps;
constexpr int kHeadParts = 8;  // of 32 numbers: heads have at most 256

struct FinishShared {
  float parts[kWarps];
  double products[kWarps];
};

LACUNA_DEVICE float clamped(const FinishQkvArguments& a, float x) {
  if (a.clip > 0) x = x > a.clip ? a.clip : (x < -a.clip ? -a.clip : x);
  return x;
}

/// Factor of the numbers of one head; called by a whole warp.
LACUNA_DEVICE float head_scale(const FinishQkvArguments& a, const float* x) {
  float squares = 0;
  for (int64_t i = lane_index(); i < a.pool.head_dim; i += 32) squares += x[i] * x[i];
  return 1 / simt::sqrt(warp_sum(squares) / static_cast<float>(a.pool.head_dim) + a.epsilon);
}

/// The same of all heads; called by the whole block.
LACUNA_DEVICE float row_scale(const FinishQkvArguments& a, const float* x, int64_t count, float* parts) {
  float squares = 0;
  for (int64_t i = thread_index(); i < count; i += kThreads) squares += x[i] * x[i];
  squares = block_sum(squares, parts);
  sync_threads();
  return 1 / simt::sqrt(squares / static_cast<float>(count) + a.epsilon);
}

/// Norm, clamp and turn one head, rounded to bf16.
///   weight  of the head's numbers; null: no norm
LACUNA_DEVICE void finish_head(const FinishQkvArguments& a, const float* x, const float* weight, float scale,
                               int64_t position, uint16_t* out) {
  const int64_t half = a.rotary_dim / 2;
  const auto at = [&](int64_t i) { return clamped(a, weight != nullptr ? x[i] * scale * weight[i] : x[i]); };
  for (int64_t j = lane_index(); j < half; j += 32) {
    const float cosine = a.cosines[position * half + j];
    const float sine = a.sines[position * half + j];
    const float first = at(j);
    const float second = at(j + half);
    out[j] = to_bf16(first * cosine - second * sine);
    out[j + half] = to_bf16(second * cosine + first * sine);
  }
  for (int64_t i = 2 * half + lane_index(); i < a.pool.head_dim; i += 32) out[i] = to_bf16(at(i));
}

/// Keys of the row's cell of one kv head; values lie 32 keys further.
LACUNA_DEVICE uint16_t* keys_of(const FinishQkvArguments& a, int64_t row, int64_t kv_head) {
  const int32_t cell = a.cells[row];
  const int64_t page = a.page_table[a.first_page[row] + cell / kPageCells];
  const int64_t head = (page * a.pool.num_layers + a.layer) * a.pool.num_kv_heads + kv_head;
  return a.pool.memory + head * 2 * kPageCells * a.pool.head_dim + cell % kPageCells * a.pool.head_dim;
}

/// Old and new numbers of one cell, all heads: their product and their squares.
struct Cosine {
  double product = 0;
  double old_squares = 0;
  double new_squares = 0;

  LACUNA_DEVICE void add(float before, float after) {
    product += double{before} * after;
    old_squares += double{before} * before;
    new_squares += double{after} * after;
  }
};

LACUNA_DEVICE float one_minus_cosine(Cosine cosine, double* parts) {
  cosine.product = block_sum(cosine.product, parts);
  sync_threads();
  cosine.old_squares = block_sum(cosine.old_squares, parts);
  sync_threads();
  cosine.new_squares = block_sum(cosine.new_squares, parts);
  sync_threads();
  if (cosine.old_squares == 0 && cosine.new_squares == 0) return 0;
  const double norms = simt::sqrt(cosine.old_squares * cosine.new_squares);
  return norms > 0 ? static_cast<float>(1 - cosine.product / norms) : 1;
}

/// One row. Every warp takes heads in turn.
LACUNA_KERNEL finish_qkv_kernel(FinishQkvArguments a) {
  auto& memory = shared<FinishShared>();
  const int64_t row = block_index().x;
  const int64_t position = a.positions[row];
  const int64_t dim = a.pool.head_dim;
  const int64_t kv_heads = a.pool.num_kv_heads;
  const float* q = a.qkv + row * (a.num_heads + 2 * kv_heads) * dim;
  const float* k = q + a.num_heads * dim;
  const float* v = k + kv_heads * dim;
  const bool full = a.norm_full && a.q_norm != nullptr;
  const float q_scale = full ? row_scale(a, q, a.num_heads * dim, memory.parts) : 1;
  const float k_scale = full ? row_scale(a, k, kv_heads * dim, memory.parts) : 1;
  const auto weight_of = [&](const float* weight, int64_t head) {
    return weight != nullptr && a.norm_full ? weight + head * dim : weight;
  };
  for (int64_t head = warp_index(); head < a.num_heads; head += kWarps) {
    const float* x = q + head * dim;
    const float scale = a.q_norm != nullptr && !full ? head_scale(a, x) : q_scale;
    finish_head(a, x, weight_of(a.q_norm, head), scale, position,
                a.queries + (row * a.num_heads + head) * dim);
  }
  Cosine keys;
  Cosine values;
  for (int64_t head = warp_index(); head < kv_heads; head += kWarps) {
    uint16_t* key = keys_of(a, row, head);
    uint16_t* value = key + kPageCells * dim;
    uint16_t before[2][kHeadParts] = {};
    LACUNA_UNROLL
    for (int part = 0; part < kHeadParts; ++part) {
      const int64_t i = 32 * part + lane_index();
      if (a.drift == nullptr || i >= dim) continue;
      before[0][part] = key[i];
      before[1][part] = value[i];
    }
    sync_warp();  // lanes write numbers that others have read
    const float* x = k + head * dim;
    const float scale = a.k_norm != nullptr && !full ? head_scale(a, x) : k_scale;
    finish_head(a, x, weight_of(a.k_norm, head), scale, position, key);
    for (int64_t i = lane_index(); i < dim; i += 32) value[i] = to_bf16(clamped(a, v[head * dim + i]));
    sync_warp();
    LACUNA_UNROLL
    for (int part = 0; part < kHeadParts; ++part) {
      const int64_t i = 32 * part + lane_index();
      if (a.drift == nullptr || i >= dim) continue;
      keys.add(from_bf16(before[0][part]), from_bf16(key[i]));
      values.add(from_bf16(before[1][part]), from_bf16(value[i]));
    }
  }
  if (a.drift == nullptr) return;
  const float key_drift = one_minus_cosine(keys, memory.products);
  const float value_drift = one_minus_cosine(values, memory.products);
  if (thread_index() != 0) return;
  float* drift = a.drift + 2 * (row * a.pool.num_layers + a.layer);
  drift[0] = key_drift;
  drift[1] = value_drift;
}

}  // namespace

void finish_qkv(Stream& stream, const FinishQkvArguments& arguments, uint32_t rows) {
  launch(stream, finish_qkv_kernel,
         {.grid = {rows, 1, 1}, .threads = kThreads, .shared_bytes = sizeof(FinishShared)}, arguments);
}

}  // namespace lacuna::cuda
