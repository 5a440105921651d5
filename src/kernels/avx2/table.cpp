#include "kernels/avx2/byte_rows.h"
#include "kernels/avx2/split_rows.h"
#include "kernels/avx2/vectors.h"
#include "kernels/generic/product.h"
#include "kernels/generic/quantised.h"
#include "kernels/generic/rows.h"
#include "kernels/tables.h"

namespace lacuna {
namespace {

constexpr KernelTable make_table() {
  KernelTable table{};
  table.name = "avx2";
  generic::fill_row_kernels<Avx2>(table);
  table.bf16_row_element_bytes = sizeof(float);
  table.pack_row_bf16 = generic::pack_row_as_floats<Avx2>;
  table.panel_product_f32 = generic::panel_product<generic::F32Step<Avx2>>;
  table.panel_product_bf16 = generic::panel_product<generic::WidenedBf16Step<Avx2>>;
  table.panel_product_f32_quantised = generic::quantised_product<generic::FloatCodes<Avx2>>;
  table.panel_product_bf16_quantised = table.panel_product_f32_quantised;
  table.split_rows = {split_row, split_product, takes_split_rows, 0};
  table.byte_rows = {round_row, byte_product, takes_byte_rows, generic::kInputsOfByteStep};
  return table;
}

constexpr KernelTable kTable = make_table();

}  // namespace

const KernelTable& avx2_table() {
  return kTable;
}

}  // namespace lacuna
