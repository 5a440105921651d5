#include "base/buffer.h"
#include "kernels/amx/products.h"
#include "kernels/generic/byte_rows.h"
#include "kernels/tables.h"

namespace lacuna {

float* amx::space_of_thread(int64_t count) {
  thread_local Buffer<float> space;
  space.reserve(count);
  return space.data();
}

const KernelTable& amx_table() {
  static const KernelTable table = [] {
    KernelTable wider = avx512_table();  // AMX machines run AVX-512 for everything else
    wider.name = "amx";
    wider.takes_bf16_rows_in_tiles = true;
    wider.panel_product_bf16 = amx::dense_panel_product;
    wider.panel_product_bf16_quantised = amx::coded_panel_product;
    wider.split_rows = {};
    wider.byte_rows = {amx::round_row_to_bytes, amx::byte_panel_product, amx::takes_byte_rows,
                       generic::kInputsOfByteStep};
    return wider;
  }();
  return table;
}

}  // namespace lacuna
