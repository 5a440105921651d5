#include "base/buffer.h"
#include "kernels/amx/products.h"
#include "kernels/generic/int8_activations.h"
#include "kernels/tables.h"

namespace lacuna {

float* amx::thread_scratch(int64_t count) {
  thread_local Buffer<float> space;
  space.reserve(count);
  return space.data();
}

const KernelTable& amx_table() {
  static const KernelTable table = [] {
    KernelTable wider = avx512_table();  // kernels other than GEMMs are the same
    wider.name = "amx";
    wider.takes_bf16_rows_in_tiles = true;
    wider.panel_product_bf16 = amx::dense_panel_product;
    wider.panel_product_bf16_quantized = amx::quantized_panel_product;
    wider.int16_activations = {};
    wider.int8_activations = {amx::quantize_row_to_int8, amx::int8_panel_product, amx::takes_int8_activations,
                              generic::kInt8Group};
    return wider;
  }();
  return table;
}

}  // namespace lacuna
