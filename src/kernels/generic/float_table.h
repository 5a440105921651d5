// Base kernel table of an instruction set, built from its float vectors only.
#pragma once

#include <string_view>

#include "kernels/generic/product.h"
#include "kernels/generic/quantized.h"
#include "kernels/generic/rows.h"
#include "kernels/table.h"

namespace lacuna::generic {

/// Packed bf16 rows are floats with bf16 values; weights are converted to f32. No integer activations.
template <typename Isa>
constexpr KernelTable float_table(std::string_view name) {
  KernelTable table{};
  table.name = name;
  fill_row_kernels<Isa>(table);
  table.bf16_row_element_bytes = sizeof(float);
  table.pack_row_bf16 = pack_row_as_floats<Isa>;
  table.panel_product_f32 = panel_product<F32Kernel<Isa>>;
  table.panel_product_bf16 = panel_product<Bf16AsF32Kernel<Isa>>;
  table.panel_product_f32_quantized = quantized_product<F32Format<Isa>>;
  table.panel_product_bf16_quantized = table.panel_product_f32_quantized;
  return table;
}

}  // namespace lacuna::generic
