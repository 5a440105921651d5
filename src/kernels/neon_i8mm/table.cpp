#include "kernels/generic/product.h"
#include "kernels/generic/quantized.h"
#include "kernels/generic/rows.h"
#include "kernels/neon/bytes.h"
#include "kernels/neon/quantize_row.h"
#include "kernels/neon_i8mm/bf16.h"
#include "kernels/neon_i8mm/dots.h"
#include "kernels/tables.h"

namespace lacuna {
namespace {

/// Excludes group formats with minimums: in the memory of a bf16 row, int16 values leave no room for the sums
/// of groups.
bool takes_int16_activations(const Quantization& quantization) {
  return quantization.bits > 0 && (quantization.scales_sums() || !quantization.has_minimum);
}

constexpr KernelTable make_table() {
  KernelTable table{};
  table.name = "neon-i8mm";
  generic::fill_row_kernels<Neon>(table);
  table.bf16_row_element_bytes = sizeof(bf16);
  table.pack_row_bf16 = generic::pack_row_as_bf16<NeonBf16>;
  table.panel_product_f32 = generic::panel_product<generic::F32Kernel<Neon>>;
  table.panel_product_bf16 = bf16_product;
  table.panel_product_f32_quantized = generic::quantized_product<generic::F32Format<Neon>>;
  table.panel_product_bf16_quantized = quantized_bf16_product;
  table.int16_activations = {quantize_row_to_int16<bf16>, byte_product<MatrixDots, 2>,
                             takes_int16_activations, 0};
  table.int8_activations = {quantize_row_to_int8<bf16>, byte_product<MatrixDots, 1>, takes_every_quantization,
                            generic::kInt8Group};
  return table;
}

constexpr KernelTable kTable = make_table();

}  // namespace

const KernelTable& neon_i8mm_table() {
  return kTable;
}

}  // namespace lacuna
