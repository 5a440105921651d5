#include "backend/cuda/device.h"
#include "backend/cuda/kernels/product.h"
#include "backend/cuda/kernels/product_block.h"

namespace lacuna::cuda {
namespace {

/// Blocks of a launch that keep a device busy: two for each multiprocessor of the largest.
constexpr int64_t kWantedBlocks = 256;
constexpr uint32_t kAddThreads = 256;

constexpr int64_t ceil_div(int64_t count, int64_t size) {
  return (count + size - 1) / size;
}

/// One block per kProductOutputs outputs and, in a split product, slice of K.
template <int kRowTiles, typename Memory>
LACUNA_DEVICE void split_block(ProductArguments& a) {
  const auto all = static_cast<int>(a.depth / kDepthStep);
  if (simt::grid_size().y == 1) return product_block<kRowTiles, Memory>(a, 0, all);
  const auto steps = static_cast<int>(a.slice / kDepthStep);
  const int first = static_cast<int>(simt::block_index().y) * steps;
  a.x += first * kDepthStep;
  a.out_f32 += simt::block_index().y * a.num_rows * a.num_outputs;
  product_block<kRowTiles, Memory>(a, first, first + steps < all ? steps : all - first);
}

template <int kRowTiles>
LACUNA_KERNEL LACUNA_BLOCK_OF(kProductThreads, 1) product_kernel(ProductArguments a) {
  split_block<kRowTiles, ProductShared<kRowTiles>>(a);
}

/// product_kernel() of many rows for devices whose blocks have less than 110 KiB of shared memory.
using SmallShared = ProductShared<8, 3>;
LACUNA_KERNEL LACUNA_BLOCK_OF(kProductThreads, 1) small_product_kernel(ProductArguments a) {
  split_block<8, SmallShared>(a);
}

template <int kRowTiles, CodeFormat kFormat>
LACUNA_KERNEL LACUNA_BLOCK_OF(kProductThreads, 1) code_product_kernel(ProductArguments a) {
  split_block<kRowTiles, CodeProductShared<kRowTiles, kFormat>>(a);
}

template <int kRowTiles>
void launch_product(Stream& stream, const ProductArguments& arguments, int64_t num_slices) {
  const auto blocks = static_cast<uint32_t>(ceil_div(arguments.num_outputs, kProductOutputs));
  const auto send = [&](void (*kernel)(ProductArguments), size_t shared_bytes) {
    launch(stream, kernel,
           {.grid = {blocks, static_cast<uint32_t>(num_slices), 1},
            .threads = kProductThreads,
            .shared_bytes = shared_bytes},
           arguments);
  };
  if (arguments.codes == nullptr) {
    constexpr size_t kBytes = sizeof(ProductShared<kRowTiles>);
    if constexpr (kRowTiles == 8) {
      if (static_cast<int64_t>(kBytes) > most_shared_bytes())
        return send(small_product_kernel, sizeof(SmallShared));
    }
    return send(product_kernel<kRowTiles>, kBytes);
  }
  const bool is_int8 = arguments.code_format == CodeFormat::kInt8;
  send(is_int8 ? code_product_kernel<kRowTiles, CodeFormat::kInt8>
               : code_product_kernel<kRowTiles, CodeFormat::kE4m3>,
       sizeof(CodeProductShared<kRowTiles, CodeFormat::kInt8>));
}

void launch_rows(Stream& stream, const ProductArguments& arguments, int64_t num_slices) {
  if (arguments.num_rows <= 16) return launch_product<1>(stream, arguments, num_slices);
  if (arguments.num_rows <= 32) return launch_product<2>(stream, arguments, num_slices);
  if (arguments.num_rows <= 64) return launch_product<4>(stream, arguments, num_slices);
  launch_product<8>(stream, arguments, num_slices);
}

/// Adds the partial sums of an output in their order. One block per row and kAddThreads outputs.
LACUNA_KERNEL add_slices_kernel(ProductArguments a) {
  const int64_t row = simt::block_index().y;
  const int64_t output = int64_t{simt::block_index().x} * kAddThreads + simt::thread_index();
  if (simt::block_index().x + 1 == simt::grid_size().x) clear_padding(a, row, row + 1);
  if (output >= a.num_outputs) return;
  const float* part = a.partials + row * a.num_outputs + output;
  float sum = 0;
  for (int64_t k = 0; k < a.depth; k += a.slice, part += a.num_rows * a.num_outputs) sum += *part;
  const float value =
      biased(a, sum, a.scales != nullptr ? a.scales[output] : 1, a.bias != nullptr ? a.bias[output] : 0);
  const int64_t to = (a.out_rows != nullptr ? int64_t{a.out_rows[row]} : row) * a.out_stride + output;
  if (a.epilogue == Epilogue::kStore) a.out_f32[to] = value;
  if (a.epilogue == Epilogue::kAddScaled) a.out_f32[to] = a.out_f32[to] + a.scale * value;
  if (a.epilogue == Epilogue::kSquaredRelu) a.out_bf16[to] = simt::to_bf16(value > 0 ? value * value : 0);
}

}  // namespace

int64_t slice_of(const ProductArguments& arguments) {
  if (is_gated(arguments.epilogue)) return kMaxDepthSlice;
  const int64_t wanted = ceil_div(kWantedBlocks, ceil_div(arguments.num_outputs, kProductOutputs));
  const int64_t even = ceil_div(ceil_div(arguments.depth, wanted), kDepthStep) * kDepthStep;
  return even < kMinDepthSlice ? kMinDepthSlice : even > kMaxDepthSlice ? kMaxDepthSlice : even;
}

int64_t num_split(const ProductArguments& arguments) {
  const int64_t blocks = ceil_div(arguments.num_outputs, kProductOutputs);
  const int64_t slices = ceil_div(arguments.depth, slice_of(arguments));
  return is_gated(arguments.epilogue) || blocks >= kWantedBlocks || slices > kMaxSplit ? 1 : slices;
}

void product(Stream& stream, const ProductArguments& arguments) {
  ProductArguments all = arguments;
  all.slice = slice_of(arguments);
  const int64_t split = arguments.partials != nullptr ? num_split(arguments) : 1;
  if (split == 1) return launch_rows(stream, all, 1);
  ProductArguments part = all;
  part.scales = part.bias = nullptr;
  part.out_f32 = part.partials;
  part.out_bf16 = nullptr;
  part.out_rows = nullptr;
  part.out_stride = part.num_outputs;
  part.epilogue = Epilogue::kStore;
  launch_rows(stream, part, split);
  launch(stream, add_slices_kernel,
         {.grid = {static_cast<uint32_t>(ceil_div(all.num_outputs, kAddThreads)),
                   static_cast<uint32_t>(all.num_rows), 1},
          .threads = kAddThreads},
         all);
}

}  // namespace lacuna::cuda
