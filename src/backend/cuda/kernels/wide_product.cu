#include "backend/cuda/kernels/quantized_product_block.h"
#include "backend/cuda/kernels/wide_product.h"

namespace lacuna::cuda {
namespace {

using namespace simt;  // NOLINT(google-build-using-namespace): a kernel's vocabulary

constexpr uint32_t kThreads = 256;  // eight warps: two of rows times four of outputs
constexpr int kTileRows = 128;
constexpr int kTileOutputs = 128;
constexpr int kStages = 3;
constexpr int kWarpRows = 64;
constexpr int kWarpOutputs = 32;
constexpr int kRowTiles = kWarpRows / 16;
constexpr int kColumns = kWarpOutputs / 8;
constexpr int kPairs = kDepthStep / 2;  // of inputs of a stage

using Sums = float[kRowTiles][kColumns][4];
template <typename Weights>
using Products = float[kRowTiles][kColumns + Weights::kSumColumns][4];
using Arguments = QuantizedProductArguments;

/// Weights in bf16, as stored.
struct Bf16Weights {
  static constexpr bool kHasGroups = false;
  static constexpr int kSumColumns = 0;
  alignas(128) uint16_t weights[kStages][kTileOutputs][kProductStride];

  static LACUNA_DEVICE const uint8_t* memory(const Arguments& a) {
    return reinterpret_cast<const uint8_t*>(a.product.weights);
  }
  static constexpr int bytes_of(int inputs) { return 2 * inputs; }
  LACUNA_DEVICE uint8_t* place(int stage, int output) {
    return reinterpret_cast<uint8_t*>(weights[stage][output]);
  }
  LACUNA_DEVICE const uint16_t* widened(int stage, uint32_t output) const { return weights[stage][output]; }
  LACUNA_DEVICE void widen(int) {}
};

/// 8-bit codes, and a stage of them as bf16.
///   kInGroups  with a scale per group instead of per output
template <CodeFormat kFormat, bool kInGroups = false>
struct ByteWeights {
  static constexpr bool kHasGroups = kInGroups;
  static constexpr int kSumColumns = 0;
  alignas(128) uint8_t codes[kStages][kTileOutputs][kDepthStep];
  alignas(128) uint16_t weights[kTileOutputs][kProductStride];

  static LACUNA_DEVICE const uint8_t* memory(const Arguments& a) {
    return kInGroups ? a.codes.values : a.product.codes;
  }
  static constexpr int bytes_of(int inputs) { return inputs; }
  LACUNA_DEVICE uint8_t* place(int stage, int output) { return codes[stage][output]; }
  LACUNA_DEVICE const uint16_t* widened(int, uint32_t output) const { return weights[output]; }
  LACUNA_DEVICE void widen(int stage) {
    for (int i = static_cast<int>(thread_index()); i < kTileOutputs * kPairs; i += kThreads) {
      const int output = i / kPairs;
      const int k = i % kPairs * 2;
      const uint8_t* pair = &codes[stage][output][k];
      weights[output][k] = to_bf16(value_of_code<kFormat>(pair[0]));
      weights[output][k + 1] = to_bf16(value_of_code<kFormat>(pair[1]));
    }
    sync_threads();
  }
};

/// The same of 4 bits, two to a byte.
template <GroupFormat kFormat>
struct Int4Weights {
  static constexpr bool kHasGroups = true;
  static constexpr int kSumColumns = sum_columns(kFormat);
  alignas(128) uint8_t codes[kStages][kTileOutputs][kDepthStep / 2];
  alignas(128) uint16_t weights[kTileOutputs][kProductStride];

  static LACUNA_DEVICE const uint8_t* memory(const Arguments& a) { return a.codes.values; }
  static constexpr int bytes_of(int inputs) { return inputs / 2; }
  LACUNA_DEVICE uint8_t* place(int stage, int output) { return codes[stage][output]; }
  LACUNA_DEVICE const uint16_t* widened(int, uint32_t output) const { return weights[output]; }
  LACUNA_DEVICE void widen(int stage) {
    for (int i = static_cast<int>(thread_index()); i < kTileOutputs * kPairs; i += kThreads) {
      const int output = i / kPairs;
      const int byte = i % kPairs;
      const int pair = codes[stage][output][byte];
      weights[output][2 * byte] = to_bf16(static_cast<float>(pair % 16 - 8));
      weights[output][2 * byte + 1] = to_bf16(static_cast<float>(pair / 16 - 8));
    }
    sync_threads();
  }
};

template <typename Weights>
struct WideShared {
  Weights weights;
  alignas(128) uint16_t rows[kStages][kTileRows][kProductStride];
};

LACUNA_DEVICE int64_t first_row() {
  return int64_t{block_index().x} * kTileRows;
}
LACUNA_DEVICE int64_t first_output() {
  return int64_t{block_index().y} * kTileOutputs;
}

/// Starts the copies of the inputs [k, k + kDepthStep); zeros for rows and outputs that do not exist.
template <typename Weights>
LACUNA_DEVICE void load_stage(const Arguments& a, WideShared<Weights>& memory, int stage, int64_t k) {
  const ProductArguments& p = a.product;
  for (int piece = static_cast<int>(thread_index()); piece < kTileRows * kProductPieces; piece += kThreads) {
    const int row = piece / kProductPieces;
    const int part = piece % kProductPieces * 8;
    const int64_t index = first_row() + row;
    const bool valid = index < p.num_rows;
    const int64_t source = valid && p.rows != nullptr ? int64_t{p.rows[index]} : index;
    copy_async_16(&memory.rows[stage][row][part], valid ? p.x + source * p.depth + k + part : p.x, valid);
  }
  constexpr int kStepBytes = Weights::bytes_of(kDepthStep);
  constexpr int kPieces = kStepBytes / 16;
  const int64_t row_bytes = p.depth / kDepthStep * kStepBytes;
  const uint8_t* from = Weights::memory(a) + k / kDepthStep * kStepBytes;
  for (int piece = static_cast<int>(thread_index()); piece < kTileOutputs * kPieces; piece += kThreads) {
    const int output = piece / kPieces;
    const int part = piece % kPieces * 16;
    const int64_t index = first_output() + output;
    const bool valid = index < p.num_outputs;
    copy_async_16(memory.weights.place(stage, output) + part, valid ? from + index * row_bytes + part : from,
                  valid);
  }
}

/// Sixteen inputs of a warp's rows and outputs.
template <typename Weights>
LACUNA_DEVICE void multiply_step(const WideShared<Weights>& memory, int stage, uint32_t k,
                                 Products<Weights>& c) {
  const uint32_t lane = lane_index();
  const uint32_t output = warp_index() / 2 * kWarpOutputs + lane % 8 + lane / 16 * 8;
  const uint32_t row = warp_index() % 2 * kWarpRows + lane % 16;
  uint32_t b[kColumns + Weights::kSumColumns][2];
  LACUNA_UNROLL
  for (uint32_t j = 0; j < kColumns / 2; ++j) {
    uint32_t weights[4];
    load_matrix_x4(weights, memory.weights.widened(stage, output + 16 * j) + k + lane / 8 % 2 * 8);
    b[2 * j][0] = weights[0];
    b[2 * j][1] = weights[1];
    b[2 * j + 1][0] = weights[2];
    b[2 * j + 1][1] = weights[3];
  }
  if constexpr (Weights::kSumColumns > 0) b[kColumns][0] = b[kColumns][1] = kTwoOnes;
  uint32_t rows[kRowTiles][4];
  LACUNA_UNROLL
  for (uint32_t tile = 0; tile < kRowTiles; ++tile)
    load_matrix_x4(rows[tile], &memory.rows[stage][row + 16 * tile][k + lane / 16 * 8]);
  multiply_block(c, rows, b);
}

template <typename Weights>
LACUNA_DEVICE void multiply_stage(const Arguments& a, const WideShared<Weights>& memory, int stage,
                                  int64_t step, Products<Weights>& c, Sums& sums) {
  const int64_t first = first_output() + warp_index() / 2 * kWarpOutputs;
  LACUNA_UNROLL
  for (uint32_t k = 0; k < kDepthStep; k += 16) {
    multiply_step(memory, stage, k, c);
    if constexpr (Weights::kHasGroups) {
      const bool group_ends = (k + 16) % kCodeGroup == 0;
      if (group_ends) scale_and_add(a, first, (step * kDepthStep + k) / kCodeGroup, c, sums);
    }
  }
  if constexpr (!Weights::kHasGroups) {
    const bool slice_ends =
        (step + 1) * kDepthStep % kDepthSlice == 0 || (step + 1) * kDepthStep == a.product.depth;
    if (slice_ends) end_slice(c, sums);
  }
}

/// One tile of rows, one of outputs. Blocks of the same outputs follow each other, so that weights are read
/// from the last-level cache by all but the first.
template <typename Weights>
LACUNA_KERNEL wide_product_kernel(Arguments a) {
  auto& memory = shared<WideShared<Weights>>();
  const ProductArguments& p = a.product;
  Products<Weights> c = {};
  Sums sums = {};
  const int64_t steps = p.depth / kDepthStep;
  for (int stage = 0; stage < kStages - 1; ++stage) {
    if (stage < steps) load_stage(a, memory, stage, stage * kDepthStep);
    commit_copies();
  }
  for (int64_t step = 0; step < steps; ++step) {
    wait_copies<kStages - 2>();
    sync_threads();  // all copies of this step are there, and all have read what the next load and the
                     // widening overwrite
    const int64_t ahead = step + kStages - 1;
    if (ahead < steps) load_stage(a, memory, static_cast<int>(ahead % kStages), ahead * kDepthStep);
    commit_copies();
    const auto stage = static_cast<int>(step % kStages);
    memory.weights.widen(stage);
    multiply_stage(a, memory, stage, step, c, sums);
  }
  finish_all(p, first_row() + warp_index() % 2 * kWarpRows, first_output() + warp_index() / 2 * kWarpOutputs,
             sums);
  if (block_index().y + 1 != grid_size().y) return;
  const int64_t end = first_row() + kTileRows;
  clear_padding(p, first_row(), end < p.num_rows ? end : p.num_rows);
}

constexpr uint32_t tiles(int64_t count, int64_t size) {
  return static_cast<uint32_t>((count + size - 1) / size);
}

template <typename Weights>
void launch_wide(Stream& stream, const Arguments& a) {
  launch(stream, wide_product_kernel<Weights>,
         {.grid = {tiles(a.product.num_rows, kTileRows), tiles(a.product.num_outputs, kTileOutputs), 1},
          .threads = kThreads,
          .shared_bytes = sizeof(WideShared<Weights>)},
         a);
}

}  // namespace

void wide_product(Stream& stream, const ProductArguments& arguments) {
  const Arguments a{arguments, {}};
  if (arguments.codes == nullptr) return launch_wide<Bf16Weights>(stream, a);
  if (arguments.code_format == CodeFormat::kE4m3)
    return launch_wide<ByteWeights<CodeFormat::kE4m3>>(stream, a);
  launch_wide<ByteWeights<CodeFormat::kInt8>>(stream, a);
}

void wide_quantized_product(Stream& stream, const QuantizedProductArguments& arguments) {
  for_format(arguments.codes.format, [&](auto format) {
    constexpr GroupFormat kFormat = decltype(format)::value;
    using Weights =
        std::conditional_t<kFormat == GroupFormat::kInt8, ByteWeights<CodeFormat::kInt8, /*kInGroups=*/true>,
                           Int4Weights<kFormat>>;
    launch_wide<Weights>(stream, arguments);
  });
}

}  // namespace lacuna::cuda
