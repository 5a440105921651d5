#include <immintrin.h>

#include <algorithm>

#include "kernels/avx512/int16_activations.h"
#include "kernels/avx512/int8_activations.h"
#include "kernels/avx512/vectors.h"
#include "kernels/generic/product.h"
#include "kernels/generic/quantized.h"
#include "kernels/generic/rows.h"
#include "kernels/tables.h"

namespace lacuna {
namespace {

struct Bf16Panels : Bf16Kernel, generic::DensePanels<bf16> {
  static const bf16* slice(const PanelProduct& p, int64_t panel, int64_t k, int64_t /*depth*/,
                           bf16* /*space*/) {
    return place(p, panel, k);
  }
};

float pack_row_as_bf16(const float* x, int64_t count, int64_t padded_count, void* out) {
  auto* rounded = static_cast<bf16*>(out);
  __m512 sums = _mm512_setzero_ps();
  float rest = 0;
  generic::for_each_vector<Avx512>(
      count,
      [&](int64_t i) {
        const auto vector = (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(x + i));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(rounded + i), vector);
        const __m512i widened = _mm512_slli_epi32(_mm512_cvtepu16_epi32(vector), 16);
        sums = _mm512_add_ps(sums, _mm512_castsi512_ps(widened));
      },
      [&](int64_t i) {
        rounded[i] = bf16(x[i]);
        rest += static_cast<float>(rounded[i]);
      });
  std::fill(rounded + count, rounded + padded_count, bf16());
  return _mm512_reduce_add_ps(sums) + rest;
}

constexpr KernelTable make_table() {
  KernelTable table{};
  table.name = "avx512";
  generic::fill_row_kernels<Avx512>(table);
  table.bf16_row_element_bytes = sizeof(bf16);
  table.pack_row_bf16 = pack_row_as_bf16;
  table.panel_product_f32 = generic::panel_product<generic::F32Kernel<Avx512>>;
  table.panel_product_bf16 = generic::panel_product<Bf16Panels>;
  table.panel_product_f32_quantized = generic::quantized_product<generic::F32Format<Avx512>>;
  table.panel_product_bf16_quantized = generic::quantized_product<Bf16Format>;
  table.int16_activations = {quantize_row_to_int16, int16_product, takes_int16_activations, 0};
  table.int8_activations = {quantize_row<false>, int8_product, takes_int8_activations, generic::kInt8Group};
  return table;
}

constexpr KernelTable kTable = make_table();

}  // namespace

const KernelTable& avx512_table() {
  return kTable;
}

}  // namespace lacuna
