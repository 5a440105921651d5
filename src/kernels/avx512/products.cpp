#include "kernels/avx512/products.h"

#include "kernels/avx512/bf16.h"
#include "kernels/avx512/quantize_row.h"
#include "kernels/generic/product.h"
#include "kernels/generic/quantized.h"
#include "kernels/generic/rows.h"

namespace lacuna::avx512 {

float pack_row(const float* x, int64_t count, int64_t padded_count, void* out) {
  return generic::pack_row_as_bf16<Avx512Bf16>(x, count, padded_count, out);
}

void dense_panel_product(const PanelProduct& p) {
  generic::panel_product<generic::DenseKernel<Bf16Kernel, bf16>>(p);
}

void quantized_panel_product(const PanelProduct& p) {
  generic::quantized_product<Bf16Format>(p);
}

float quantize_row_to_int16(const void* packed, const RowStrides& strides, int64_t padded_count, void* out,
                            float* scales) {
  return quantize_to_int16<bf16>(packed, strides, padded_count, out, scales);
}

float quantize_row_to_int8(const void* packed, const RowStrides& strides, int64_t padded_count, void* out,
                           float* scales) {
  return quantize_to_int8<bf16, false>(packed, strides, padded_count, out, scales);
}

}  // namespace lacuna::avx512
