#include "backend/cuda/kernels/cells.h"
#include "backend/cuda/kernels/qkv.h"

namespace lacuna::cuda {
namespace {

using namespace simt;  // NOLINT(google-build-using-namespace): a kernel's vocabulary

constexpr uint32_t kWarps = 4;
constexpr uint32_t kThreads = 32 * kWarps;
constexpr int kHeadParts = kMaxHeadDim / 32;  // dimensions per lane

struct FinishShared {
  float parts[kWarps];
  double products[kWarps];
};

/// Shared memory for int8 cells: one head per warp before quantization.
struct FinishCodesShared {
  FinishShared common;
  float numbers[kWarps][32 * kHeadParts];
};

LACUNA_DEVICE void store(uint16_t* to, float value) {
  *to = to_bf16(value);
}
LACUNA_DEVICE void store(float* to, float value) {
  *to = value;
}

LACUNA_DEVICE float clamped(const FinishQkvArguments& a, float x) {
  if (a.clip > 0) x = x > a.clip ? a.clip : (x < -a.clip ? -a.clip : x);
  return x;
}

/// RMSNorm factor of one head; called by a whole warp.
LACUNA_DEVICE float head_scale(const FinishQkvArguments& a, const float* x) {
  float squares = 0;
  for (int64_t i = lane_index(); i < a.pool.head_dim; i += 32) squares += x[i] * x[i];
  return 1 / simt::sqrt(warp_sum(squares) / static_cast<float>(a.pool.head_dim) + a.epsilon);
}

/// RMSNorm factor of all heads together; called by the whole block.
LACUNA_DEVICE float row_scale(const FinishQkvArguments& a, const float* x, int64_t count, float* parts) {
  float squares = 0;
  for (int64_t i = thread_index(); i < count; i += kThreads) squares += x[i] * x[i];
  squares = block_sum(squares, parts);
  sync_threads();
  return 1 / simt::sqrt(squares / static_cast<float>(count) + a.epsilon);
}

/// Applies norm, clamp and RoPE to one head; rounds if `out` is bf16.
///   weight  norm weights of the head; null: no norm
///   growth  factor after RoPE
template <typename Number>
LACUNA_DEVICE void finish_head(const FinishQkvArguments& a, const float* x, const float* weight, float scale,
                               int64_t position, Number* out, float growth = 1) {
  const int64_t half = a.rotary_dim / 2;
  const auto at = [&](int64_t i) { return clamped(a, weight != nullptr ? x[i] * scale * weight[i] : x[i]); };
  for (int64_t j = lane_index(); j < half; j += 32) {
    const float cosine = a.cosines[position * half + j];
    const float sine = a.sines[position * half + j];
    const float first = at(j);
    const float second = at(j + half);
    store(out + j, (first * cosine - second * sine) * growth);
    store(out + j + half, (second * cosine + first * sine) * growth);
  }
  for (int64_t i = 2 * half + lane_index(); i < a.pool.head_dim; i += 32) store(out + i, at(i) * growth);
}

/// Quantizes one head to int8 with a scale; called by a whole warp.
LACUNA_DEVICE void write_codes(const float* numbers, int64_t dim, int8_t* codes, float* scale) {
  float largest = 0;
  float zero = 0;  // NaN if a number is not finite
  for (int64_t i = lane_index(); i < dim; i += 32) {
    const float size = numbers[i] < 0 ? -numbers[i] : numbers[i];
    largest = size > largest ? size : largest;
    zero += 0 * numbers[i];
  }
  const float own = warp_max(largest) / 127 + warp_sum(zero);
  for (int64_t i = lane_index(); i < dim; i += 32) {
    const float code = own > 0 ? round_even(numbers[i] / own) : 0;
    codes[i] = static_cast<int8_t>(code > 127 ? 127 : (code < -127 ? -127 : code));
  }
  if (lane_index() == 0) *scale = own;
}

template <CellFormat kFormat>
LACUNA_DEVICE Cell<kFormat> cell_of_row(const FinishQkvArguments& a, int64_t row, int64_t kv_head) {
  const int32_t cell = a.cells[row];
  const int64_t page = a.page_table[a.first_page[row] + cell / kPageCells];
  return cell_of_page<kFormat>(a.pool, page, a.layer, kv_head, cell % kPageCells);
}

/// Writes key and value of a row's cell for one kv head; called by a whole warp.
///   scale    factor of the key's norm
///   numbers  the warp's scratch memory, for int8 cells
template <CellFormat kFormat>
LACUNA_DEVICE void write_cell(const FinishQkvArguments& a, const float* k, const float* v,
                              const float* weight, float scale, int64_t position, const Cell<kFormat>& to,
                              float* numbers) {
  const int64_t dim = a.pool.head_dim;
  const float v_scale = a.v_norm ? head_scale(a, v) : 1;
  if constexpr (kFormat == CellFormat::kInt8) {
    finish_head(a, k, weight, scale, position, numbers);
    sync_warp();
    write_codes(numbers, dim, to.key, to.scales);
    sync_warp();
    for (int64_t i = lane_index(); i < dim; i += 32) numbers[i] = clamped(a, v[i] * v_scale);
    sync_warp();
    write_codes(numbers, dim, to.value, to.scales + 1);
  } else {
    finish_head(a, k, weight, scale, position, to.key);
    for (int64_t i = lane_index(); i < dim; i += 32) store(to.value + i, clamped(a, v[i] * v_scale));
  }
  sync_warp();
}

/// Dot product and squared norms of a cell's old and new keys or values, over all heads.
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

/// Finishes a row's queries; the warps distribute the heads.
template <typename Number>
LACUNA_DEVICE void finish_queries(const FinishQkvArguments& a, int64_t row, const float* q, float full_scale,
                                  bool is_full, Number* queries) {
  const int64_t dim = a.pool.head_dim;
  const int64_t position = a.positions[row];
  const float growth = a.query_scales != nullptr ? a.query_scales[position] : 1;
  for (int64_t head = warp_index(); head < a.num_heads; head += kWarps) {
    const float* x = q + head * dim;
    const float scale = a.q_norm != nullptr && !is_full ? head_scale(a, x) : full_scale;
    const float* weight = a.q_norm != nullptr && a.norm_full ? a.q_norm + head * dim : a.q_norm;
    finish_head(a, x, weight, scale, position, queries + (row * a.num_heads + head) * dim, growth);
  }
}

/// This lane's part of a cell's keys and values, for measuring drift.
template <CellFormat kFormat>
struct CellNumbers {
  float keys[kHeadParts] = {};
  float values[kHeadParts] = {};

  LACUNA_DEVICE void read(const Cell<kFormat>& cell, int64_t dim) {
    LACUNA_UNROLL
    for (int part = 0; part < kHeadParts; ++part) {
      const int64_t i = 32 * part + lane_index();
      if (i >= dim) continue;
      keys[part] = widened(cell.key[i]) * cell.key_scale();
      values[part] = widened(cell.value[i]) * cell.value_scale();
    }
  }
};

/// Finishes a row's keys and values; measures their drift from the cell's previous contents.
template <CellFormat kFormat>
LACUNA_DEVICE void finish_cells(const FinishQkvArguments& a, int64_t row, const float* k, const float* v,
                                float full_scale, bool is_full, float* numbers, Cosine& keys,
                                Cosine& values) {
  const int64_t dim = a.pool.head_dim;
  for (int64_t head = warp_index(); head < a.pool.num_kv_heads; head += kWarps) {
    const Cell<kFormat> cell = cell_of_row<kFormat>(a, row, head);
    CellNumbers<kFormat> before;
    if (a.drift != nullptr) before.read(cell, dim);
    sync_warp();  // lanes overwrite numbers that other lanes have read
    const float* x = k + head * dim;
    const float scale = a.k_norm != nullptr && !is_full ? head_scale(a, x) : full_scale;
    const float* weight = a.k_norm != nullptr && a.norm_full ? a.k_norm + head * dim : a.k_norm;
    write_cell<kFormat>(a, x, v + head * dim, weight, scale, a.positions[row], cell, numbers);
    if (a.drift == nullptr) continue;
    CellNumbers<kFormat> after;
    after.read(cell, dim);
    LACUNA_UNROLL
    for (int part = 0; part < kHeadParts; ++part) {
      keys.add(before.keys[part], after.keys[part]);
      values.add(before.values[part], after.values[part]);
    }
  }
}

/// Finishes queries, keys and values of one row.
template <CellFormat kFormat>
LACUNA_DEVICE void finish_row(const FinishQkvArguments& a, FinishShared& memory, float* numbers) {
  const int64_t row = block_index().x;
  const int64_t dim = a.pool.head_dim;
  const int64_t kv_heads = a.pool.num_kv_heads;
  const float* q = a.qkv + row * (a.num_heads + (a.shares_keys ? 1 : 2) * kv_heads) * dim;
  const float* k = q + a.num_heads * dim;
  const float* v = a.shares_keys ? k : k + kv_heads * dim;
  const bool is_full = a.norm_full && a.q_norm != nullptr;
  const float q_scale = is_full ? row_scale(a, q, a.num_heads * dim, memory.parts) : 1;
  const float k_scale = is_full ? row_scale(a, k, kv_heads * dim, memory.parts) : 1;
  if (a.queries_f32 != nullptr) {
    finish_queries(a, row, q, q_scale, is_full, a.queries_f32);
  } else {
    finish_queries(a, row, q, q_scale, is_full, a.queries);
  }
  Cosine keys;
  Cosine values;
  finish_cells<kFormat>(a, row, k, v, k_scale, is_full, numbers, keys, values);
  if (a.drift == nullptr) return;
  const float key_drift = one_minus_cosine(keys, memory.products);
  const float value_drift = one_minus_cosine(values, memory.products);
  if (thread_index() != 0) return;
  float* drift = a.drift + 2 * (row * a.pool.num_layers + a.layer);
  drift[0] = key_drift;
  drift[1] = value_drift;
}

template <CellFormat kFormat>
LACUNA_KERNEL finish_qkv_kernel(FinishQkvArguments a) {
  finish_row<kFormat>(a, shared<FinishShared>(), nullptr);
}

LACUNA_KERNEL finish_codes_kernel(FinishQkvArguments a) {
  auto& memory = shared<FinishCodesShared>();
  finish_row<CellFormat::kInt8>(a, memory.common, memory.numbers[warp_index()]);
}

}  // namespace

void finish_qkv(Stream& stream, const FinishQkvArguments& arguments, uint32_t rows) {
  const auto send = [&](void (*kernel)(FinishQkvArguments), size_t shared_bytes) {
    launch(stream, kernel, {.grid = {rows, 1, 1}, .threads = kThreads, .shared_bytes = shared_bytes},
           arguments);
  };
  switch (arguments.pool.format) {
    case CellFormat::kBf16:
      return send(finish_qkv_kernel<CellFormat::kBf16>, sizeof(FinishShared));
    case CellFormat::kF32:
      return send(finish_qkv_kernel<CellFormat::kF32>, sizeof(FinishShared));
    case CellFormat::kInt8:
      return send(finish_codes_kernel, sizeof(FinishCodesShared));
  }
}

}  // namespace lacuna::cuda
