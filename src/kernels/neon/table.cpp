#include "kernels/generic/float_table.h"
#include "kernels/neon/bytes.h"
#include "kernels/neon/dots.h"
#include "kernels/neon/quantize_row.h"
#include "kernels/neon/vectors.h"
#include "kernels/tables.h"

namespace lacuna {
namespace {

void bf16_product(const PanelProduct& p) {
  // With many rows, pairs are unpacked first: a tile that splits them has no registers left for six rows.
  p.num_rows > generic::kFewRows ? generic::panel_product<generic::UnpackedBf16Kernel<Neon>>(p)
                                 : generic::panel_product<generic::Bf16AsF32Kernel<Neon>>(p);
}

constexpr KernelTable make_table() {
  KernelTable table = generic::float_table<Neon>("neon");
  table.panel_product_bf16 = bf16_product;
  table.int16_activations = {quantize_row_to_int16<float>, byte_product<Dots, 2>, takes_every_quantization,
                             0};
  table.int8_activations = {quantize_row_to_int8<float>, byte_product<Dots, 1>, takes_every_quantization,
                            generic::kInt8Group};
  return table;
}

constexpr KernelTable kTable = make_table();

}  // namespace

const KernelTable& neon_table() {
  return kTable;
}

}  // namespace lacuna
