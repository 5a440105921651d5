#include "kernels/avx512/int16_activations.h"
#include "kernels/avx512/int8_activations.h"
#include "kernels/avx512/quantize_row.h"
#include "kernels/avx512/vectors.h"
#include "kernels/generic/product.h"
#include "kernels/generic/quantized.h"
#include "kernels/generic/rows.h"
#include "kernels/tables.h"

namespace lacuna {
namespace {

constexpr KernelTable make_table() {
  KernelTable table{};
  table.name = "avx512-fma";
  generic::fill_row_kernels<Avx512>(table);
  table.bf16_row_element_bytes = sizeof(float);
  table.pack_row_bf16 = generic::pack_row_as_floats<Avx512>;
  table.panel_product_f32 = generic::panel_product<generic::F32Kernel<Avx512>>;
  table.panel_product_bf16 = generic::panel_product<generic::Bf16AsF32Kernel<Avx512>>;
  table.panel_product_f32_quantized = generic::quantized_product<generic::F32Format<Avx512>>;
  table.panel_product_bf16_quantized = table.panel_product_f32_quantized;
  table.int16_activations = {quantize_to_int16<float>, int16_product, takes_int16_activations, 0};
  table.int8_activations = {quantize_to_int8<float, false>, int8_product, takes_int8_activations,
                            generic::kInt8Group};
  return table;
}

constexpr KernelTable kTable = make_table();

}  // namespace

const KernelTable& avx512_fma_table() {
  return kTable;
}

}  // namespace lacuna
