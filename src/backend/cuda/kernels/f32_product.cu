#include "backend/cuda/kernels/f32_product.h"
#include "backend/cuda/kernels/f32_product_block.h"

namespace lacuna::cuda {
namespace {

LACUNA_KERNEL f32_product_kernel(ProductArguments a) {
  f32_product_block(a, int64_t{simt::block_index().y} * kF32Rows);
}

}  // namespace

void f32_product(Stream& stream, const ProductArguments& arguments) {
  const auto outputs = static_cast<uint32_t>((arguments.num_outputs + kProductOutputs - 1) / kProductOutputs);
  const auto rows = static_cast<uint32_t>((arguments.num_rows + kF32Rows - 1) / kF32Rows);
  launch(stream, f32_product_kernel,
         {.grid = {outputs, rows, 1}, .threads = kProductThreads, .shared_bytes = sizeof(F32ProductShared)},
         arguments);
}

}  // namespace lacuna::cuda
