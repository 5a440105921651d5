#include "kernels/avx512/products.h"
#include "kernels/tables.h"

namespace lacuna {

const KernelTable& avx512_table() {
  static const KernelTable table = [] {
    KernelTable wider = avx512_fma_table();  // kernels without bf16 are the same
    wider.name = "avx512";
    wider.bf16_row_element_bytes = sizeof(bf16);
    wider.pack_row_bf16 = avx512::pack_row;
    wider.panel_product_bf16 = avx512::dense_panel_product;
    wider.panel_product_bf16_quantized = avx512::quantized_panel_product;
    wider.int16_activations.quantize_row = avx512::quantize_row_to_int16;
    wider.int8_activations.quantize_row = avx512::quantize_row_to_int8;
    return wider;
  }();
  return table;
}

}  // namespace lacuna
