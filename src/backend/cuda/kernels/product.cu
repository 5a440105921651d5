#include "backend/cuda/kernels/product.h"
#include "backend/cuda/kernels/product_block.h"

namespace lacuna::cuda {
namespace {

template <int kRowTiles>
LACUNA_KERNEL LACUNA_BLOCK_OF(kProductThreads, 1) product_kernel(ProductArguments a) {
  product_block<kRowTiles>(a);
}

template <int kRowTiles, CodeFormat kFormat>
LACUNA_KERNEL LACUNA_BLOCK_OF(kProductThreads, 1) code_product_kernel(ProductArguments a) {
  product_block<kRowTiles, CodeProductShared<kRowTiles, kFormat>>(a);
}

template <int kRowTiles>
void launch_product(Stream& stream, const ProductArguments& arguments) {
  const auto blocks = static_cast<uint32_t>((arguments.num_outputs + kProductOutputs - 1) / kProductOutputs);
  const auto send = [&](void (*kernel)(ProductArguments), size_t shared_bytes) {
    launch(stream, kernel, {.grid = {blocks, 1, 1}, .threads = kProductThreads, .shared_bytes = shared_bytes},
           arguments);
  };
  if (arguments.codes == nullptr) return send(product_kernel<kRowTiles>, sizeof(ProductShared<kRowTiles>));
  const bool is_int8 = arguments.code_format == CodeFormat::kInt8;
  send(is_int8 ? code_product_kernel<kRowTiles, CodeFormat::kInt8>
               : code_product_kernel<kRowTiles, CodeFormat::kE4m3>,
       sizeof(CodeProductShared<kRowTiles, CodeFormat::kInt8>));
}

}  // namespace

void product(Stream& stream, const ProductArguments& arguments) {
  if (arguments.num_rows <= 16) return launch_product<1>(stream, arguments);
  if (arguments.num_rows <= 32) return launch_product<2>(stream, arguments);
  if (arguments.num_rows <= 64) return launch_product<4>(stream, arguments);
  launch_product<8>(stream, arguments);
}

}  // namespace lacuna::cuda
