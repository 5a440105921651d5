#include "backend/cuda/kernels/quantized_product.h"
#include "backend/cuda/kernels/quantized_product_block.h"

namespace lacuna::cuda {
namespace {

template <int kRowTiles, GroupFormat kFormat>
LACUNA_KERNEL LACUNA_BLOCK_OF(kProductThreads, kRowTiles == 8 && num_factors(kFormat) > 1 ? 0 : 1)
    quantized_product_kernel(QuantizedProductArguments a) {
  quantized_product_block<kRowTiles, kFormat>(a);
}

template <int kRowTiles, GroupFormat kFormat>
void launch_format(Stream& stream, const QuantizedProductArguments& arguments) {
  const int64_t outputs = arguments.product.num_outputs;
  const auto blocks = static_cast<uint32_t>((outputs + kProductOutputs - 1) / kProductOutputs);
  launch(stream, quantized_product_kernel<kRowTiles, kFormat>,
         {.grid = {blocks, 1, 1},
          .threads = kProductThreads,
          .shared_bytes = sizeof(CodeShared<kRowTiles, kFormat>)},
         arguments);
}

template <int kRowTiles>
void launch_product(Stream& stream, const QuantizedProductArguments& arguments) {
  for_format(arguments.codes.format,
             [&](auto format) { launch_format<kRowTiles, decltype(format)::value>(stream, arguments); });
}

}  // namespace

void quantized_product(Stream& stream, const QuantizedProductArguments& arguments) {
  const int64_t rows = arguments.product.num_rows;
  if (rows <= 16) return launch_product<1>(stream, arguments);
  if (rows <= 32) return launch_product<2>(stream, arguments);
  if (rows <= 64) return launch_product<4>(stream, arguments);
  launch_product<8>(stream, arguments);
}

}  // namespace lacuna::cuda
