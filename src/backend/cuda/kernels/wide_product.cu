#include "backend/cuda/device.h"
#include "backend/cuda/kernels/quantized_product_block.h"
#include "backend/cuda/kernels/wide_product.h"

namespace lacuna::cuda {
namespace {

using namespace simt;  // NOLINT(google-build-using-namespace): a kernel's vocabulary

constexpr uint32_t kThreads = 256;  // eight warps: two along rows, four along outputs
constexpr int kTileRows = 128;
constexpr int kTileOutputs = 128;
constexpr int kMaxStages = 3;
constexpr int kWarpRows = 64;
constexpr int kWarpOutputs = 32;
constexpr int kRowTiles = kWarpRows / 16;
constexpr int kColumns = kWarpOutputs / 8;

using Sums = float[kRowTiles][kColumns][4];
template <typename Weights>
using Products = float[kRowTiles][kColumns + Weights::kSumColumns][4];
using Arguments = QuantizedProductArguments;

struct alignas(8) EightBytes {
  uint32_t words[2];

  /// Bytes 2 i and 2 i + 1.
  LACUNA_DEVICE uint16_t pair(int i) const { return static_cast<uint16_t>(words[i / 2] >> i % 2 * 16); }
};
/// Eight bf16 numbers.
struct alignas(16) EightNumbers {
  uint32_t pairs[4];
};

/// Weights in bf16, as stored.
template <int kNumStages>
struct StoredWeights {
  static constexpr int kStages = kNumStages;
  static constexpr int kNumFactors = 0;  // scales and minimums per group; 0: no groups
  static constexpr int kSumColumns = 0;
  static constexpr int kStepBytes = 2 * kDepthStep;  // per output
  static LACUNA_DEVICE const void* source(const Arguments& a) { return a.product.weights; }

  alignas(128) uint16_t stages[kStages][kTileOutputs][kProductStride];

  LACUNA_DEVICE const uint16_t* widened(int stage, uint32_t output) const { return stages[stage][output]; }
  LACUNA_DEVICE void widen(int) {}
};
using Bf16Weights = StoredWeights<kMaxStages>;
/// For devices whose blocks have less than 110 KiB of shared memory.
using SmallBf16Weights = StoredWeights<2>;

/// Distributes a stage over the block's threads: calls `widen` for eight inputs of an output at a time.
template <typename Widen>
LACUNA_DEVICE void for_octets(const Widen& widen) {
  constexpr int kOctets = kDepthStep / 8;
  LACUNA_UNROLL
  for (int i = 0; i < kTileOutputs * kOctets / static_cast<int>(kThreads); ++i) {
    const int octet = static_cast<int>(thread_index()) % kOctets;
    widen((static_cast<int>(thread_index()) + i * static_cast<int>(kThreads)) / kOctets, octet * 8);
  }
  sync_threads();
}

/// 8-bit quantized weights, and one stage of them converted to bf16.
///   kInGroups  whether each group has a scale, instead of each output
template <CodeFormat kFormat, bool kInGroups = false>
struct ByteWeights {
  static constexpr int kStages = kMaxStages;
  static constexpr int kNumFactors = kInGroups ? 1 : 0;
  static constexpr int kSumColumns = 0;
  static constexpr int kStepBytes = kDepthStep;
  static LACUNA_DEVICE const void* source(const Arguments& a) {
    return kInGroups ? a.codes.values : a.product.codes;
  }

  alignas(128) uint8_t stages[kStages][kTileOutputs][kDepthStep];
  alignas(128) uint16_t weights[kTileOutputs][kProductStride];

  LACUNA_DEVICE const uint16_t* widened(int, uint32_t output) const { return weights[output]; }
  LACUNA_DEVICE void widen(int stage) {
    for_octets([&](int output, int k) {
      const auto codes = load<EightBytes>(&stages[stage][output][k]);
      EightNumbers numbers;
      LACUNA_UNROLL
      for (int i = 0; i < 4; ++i) numbers.pairs[i] = widen_pair<kFormat>(codes.pair(i));
      store(&weights[output][k], numbers);
    });
  }
};

/// 4-bit quantized weights, two per byte, and one stage of them converted to bf16.
template <GroupFormat kFormat>
struct Int4Weights {
  static constexpr int kStages = kMaxStages;
  static constexpr int kNumFactors = num_factors(kFormat);
  static constexpr int kSumColumns = sum_columns(kFormat);
  static constexpr int kStepBytes = kDepthStep / 2;
  static LACUNA_DEVICE const void* source(const Arguments& a) { return a.codes.values; }

  alignas(128) uint8_t stages[kStages][kTileOutputs][kDepthStep / 2];
  alignas(128) uint16_t weights[kTileOutputs][kProductStride];

  LACUNA_DEVICE const uint16_t* widened(int, uint32_t output) const { return weights[output]; }
  LACUNA_DEVICE void widen(int stage) {
    for_octets([&](int output, int k) {
      const uint32_t codes = load<uint32_t>(&stages[stage][output][k / 2]);
      EightNumbers numbers;
      LACUNA_UNROLL
      for (int i = 0; i < 4; ++i) numbers.pairs[i] = bf16_from_int4(codes >> 8 * i & 0xffU);
      store(&weights[output][k], numbers);
    });
  }
};

template <int kNumFactors>
struct WideFactors {
  alignas(128) StepFactors<kTileOutputs> factors[kMaxStages][kNumFactors];
};
template <>
struct WideFactors<0> {};

template <typename Weights>
struct WideShared : WideFactors<Weights::kNumFactors> {
  Weights weights;
  alignas(128) uint16_t rows[Weights::kStages][kTileRows][kProductStride];
};

LACUNA_DEVICE int64_t first_row() {
  return int64_t{block_index().x} * kTileRows;
}
LACUNA_DEVICE int64_t first_output() {
  return int64_t{block_index().y} * kTileOutputs;
}

/// Multiplies sixteen inputs of a warp's rows and outputs.
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

/// Copies of the tile's weights.
///   kStepBytes  bytes per output and step
template <int kStepBytes>
LACUNA_DEVICE auto copies_of_outputs(const void* weights, const ProductArguments& p) {
  return RowCopies<kThreads, kTileOutputs, kStepBytes>(weights, p.depth / kDepthStep * kStepBytes,
                                                       p.num_outputs - first_output(),
                                                       [](int output) { return first_output() + output; });
}

LACUNA_DEVICE auto copies_of_rows(const ProductArguments& p) {
  return RowCopies<kThreads, kTileRows, 2 * kDepthStep>(
      p.x, p.depth * int64_t{sizeof(uint16_t)}, p.num_rows - first_row(),
      [&](int row) { return p.rows != nullptr ? int64_t{p.rows[first_row() + row]} : first_row() + row; });
}

/// Computes the sums of a tile: adds scaled accumulators of groups in order, or without groups partial sums
/// of K slices.
template <typename Weights>
LACUNA_DEVICE void multiply_tile(const Arguments& a, WideShared<Weights>& memory, Sums& sums) {
  constexpr int kFactorBytes = StepFactors<kTileOutputs>::kGroups * sizeof(float);
  auto scales = copies_of_outputs<kFactorBytes>(a.codes.scales, a.product);
  auto minimums = copies_of_outputs<kFactorBytes>(a.codes.minimums, a.product);
  auto outputs = copies_of_outputs<Weights::kStepBytes>(Weights::source(a), a.product);
  auto rows = copies_of_rows(a.product);
  const auto load = [&](int stage) {
    if constexpr (Weights::kNumFactors > 0) scales.start(memory.factors[stage][0].of);
    if constexpr (Weights::kNumFactors > 1) minimums.start(memory.factors[stage][1].of);
    outputs.start(memory.weights.stages[stage]);
    rows.start(memory.rows[stage]);
  };
  const auto steps = static_cast<int>(a.product.depth / kDepthStep);
  Pipeline<Weights::kStages, decltype(load)> pipeline(steps, load);
  const auto slice_steps = static_cast<int>(a.product.slice / kDepthStep);
  Products<Weights> c = {};
  for (int slice = 0; slice < steps; slice += slice_steps) {
    const int end = slice + slice_steps < steps ? slice + slice_steps : steps;
    for (int step = slice; step < end; ++step) {
      const int stage = pipeline.next();
      memory.weights.widen(stage);
      LACUNA_UNROLL
      for (int k = 0; k < kDepthStep; k += 16) {
        multiply_step(memory, stage, static_cast<uint32_t>(k), c);
        if constexpr (Weights::kNumFactors > 0) {
          if ((k + 16) % kCodeGroup == 0)
            scale_and_add(memory.factors[stage], warp_index() / 2 * kWarpOutputs,
                          k / static_cast<int>(kCodeGroup), c, sums);
        }
      }
    }
    if constexpr (Weights::kNumFactors == 0) end_slice(c, sums);
  }
}

/// One block per tile. Blocks with the same outputs run one after the other, so that all but the first read
/// the weights from the last-level cache.
template <typename Weights>
LACUNA_KERNEL LACUNA_BLOCK_OF(kThreads, Weights::kNumFactors > 1 ? 0 : 1) wide_product_kernel(Arguments a) {
  Sums sums = {};
  multiply_tile(a, shared<WideShared<Weights>>(), sums);
  const ProductArguments& p = a.product;
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
  Arguments a{arguments, {}};
  a.product.slice = slice_of(arguments);
  const bool is_small = static_cast<int64_t>(sizeof(WideShared<Bf16Weights>)) > most_shared_bytes();
  if (arguments.codes == nullptr)
    return is_small ? launch_wide<SmallBf16Weights>(stream, a) : launch_wide<Bf16Weights>(stream, a);
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
