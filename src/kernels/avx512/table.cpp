#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "kernels/generic/product.h"
#include "kernels/generic/rows.h"
#include "kernels/tables.h"

namespace lacuna {
namespace {

struct Avx512 {
  using Vec = __m512;
  static constexpr int kLanes = 16;
  static constexpr int kTileRows = 16;  // enough sums to hide the latency; g++ unrolls no more than 16

  static Vec zero() { return _mm512_setzero_ps(); }
  static Vec broadcast(float x) { return _mm512_set1_ps(x); }
  static Vec load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, Vec x) { _mm512_storeu_ps(p, x); }
  static Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
  static Vec subtract(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
  static Vec multiply(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
  static Vec divide(Vec a, Vec b) { return _mm512_div_ps(a, b); }
  static Vec multiply_add(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
  static Vec max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
  static Vec min(Vec a, Vec b) { return _mm512_min_ps(a, b); }
  static Vec round(Vec x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static float reduce_add(Vec x) { return _mm512_reduce_add_ps(x); }
  static float reduce_max(Vec x) { return _mm512_reduce_max_ps(x); }
  static Vec scale_by_power_of_two(Vec x, Vec n) { return _mm512_scalef_ps(x, n); }
  static Vec zero_where_less(Vec x, Vec a, Vec b) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ), x);
  }
  static Vec replace_where_greater(Vec x, Vec replacement, const int32_t* keys, int32_t bound) {
    const __mmask16 greater = _mm512_cmpgt_epi32_mask(_mm512_loadu_si512(keys), _mm512_set1_epi32(bound));
    return _mm512_mask_mov_ps(x, greater, replacement);
  }
};

/// Multiplies rows and panels of bf16, a pair of inputs at a time, by the dot-product instruction.
struct DotStep {
  using RowElement = bf16;
  using PanelElement = bf16;
  using TileElement = bf16;
  static constexpr int64_t kInputs = 2;

  static const bf16* slice(const bf16* panel, int64_t /*depth*/, bf16* /*space*/) { return panel; }

  template <int kRows, int kVectors>
  static void multiply(const bf16* a, int64_t a_stride, const bf16* b, __m512 (&sums)[kRows][kVectors]) {
    const auto weights = (__m512bh)_mm512_loadu_si512(b);
    for (int r = 0; r < kRows; ++r) {
      int32_t pair = 0;
      std::memcpy(&pair, a + r * a_stride, sizeof pair);
      sums[r][0] = _mm512_dpbf16_ps(sums[r][0], (__m512bh)_mm512_set1_epi32(pair), weights);
    }
  }
};

void pack_row_as_bf16(const float* x, int64_t count, int64_t padded_count, void* out) {
  auto* rounded = static_cast<bf16*>(out);
  generic::for_each_vector<Avx512>(
      count,
      [&](int64_t i) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(rounded + i),
                            (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(x + i)));
      },
      [&](int64_t i) { rounded[i] = bf16(x[i]); });
  std::fill(rounded + count, rounded + padded_count, bf16());
}

constexpr KernelTable make_table() {
  KernelTable table{};
  table.name = "avx512";
  generic::fill_row_kernels<Avx512>(table);
  table.bf16_row_element_bytes = sizeof(bf16);
  table.pack_row_bf16 = pack_row_as_bf16;
  table.panel_product_f32 = generic::panel_product<Avx512, generic::F32Step<Avx512>>;
  table.panel_product_bf16 = generic::panel_product<Avx512, DotStep>;
  return table;
}

constexpr KernelTable kTable = make_table();

}  // namespace

const KernelTable& avx512_table() {
  return kTable;
}

}  // namespace lacuna
