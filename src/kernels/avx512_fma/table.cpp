#include "kernels/avx512/int16_activations.h"
#include "kernels/avx512/int8_activations.h"
#include "kernels/avx512/quantize_row.h"
#include "kernels/avx512/vectors.h"
#include "kernels/generic/float_table.h"
#include "kernels/tables.h"

namespace lacuna {
namespace {

constexpr KernelTable make_table() {
  KernelTable table = generic::float_table<Avx512>("avx512-fma");
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
