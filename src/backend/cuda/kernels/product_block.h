// One thread block's part of a GEMM: kProductOutputs outputs of all rows. For product.cu and experts.cu.
#pragma once

#include "backend/cuda/kernels/pipeline.h"
#include "backend/cuda/kernels/product.h"
#include "backend/cuda/kernels/product_epilogue.h"

namespace lacuna::cuda {

inline constexpr int kProductWarps = 4;
inline constexpr uint32_t kProductThreads = 32 * kProductWarps;
static_assert(kProductOutputs == 16 * kProductWarps);  // sixteen per warp
inline constexpr int kProductStages = 4;
inline constexpr int kProductStride =
    kDepthStep + 8;  // row stride in shared memory: puts eight rows into different banks

inline constexpr int kCodePairs = kDepthStep / 2 + 8;  // likewise, for pairs of 8-bit values

///   kStages  of the pipeline
template <int kRowTiles, int kStages = kProductStages>
struct ProductShared {
  static constexpr int kNumStages = kStages;
  static constexpr int kStepBytes = 2 * kDepthStep;  // per output
  static LACUNA_DEVICE const void* source(const ProductArguments& a) { return a.weights; }

  alignas(128) uint16_t weights[kStages][kProductOutputs][kProductStride];
  alignas(128) uint16_t rows[kStages][16 * kRowTiles][kProductStride];
};

/// ProductShared for 8-bit weights, which are converted to bf16 in registers just before the multiplication.
template <int kRowTiles, CodeFormat kFormat>
struct CodeProductShared {
  static constexpr int kNumStages = kProductStages;
  static constexpr int kStepBytes = kDepthStep;
  static LACUNA_DEVICE const void* source(const ProductArguments& a) { return a.codes; }

  alignas(128) uint16_t weights[kProductStages][kProductOutputs][kCodePairs];  // even inputs in lower halves
  alignas(128) uint16_t rows[kProductStages][16 * kRowTiles][kProductStride];
};

/// Copies of the block's weights.
///   kStepBytes  bytes per output and step
template <int kStepBytes>
LACUNA_DEVICE auto copies_of_weights(const void* weights, const ProductArguments& a) {
  const int64_t first = int64_t{simt::block_index().x} * kProductOutputs;
  return RowCopies<kProductThreads, kProductOutputs, kStepBytes>(weights, a.depth / kDepthStep * kStepBytes,
                                                                 a.num_outputs - first,
                                                                 [&](int output) { return first + output; });
}

/// Copies of the rows of x.
template <int kRowTiles>
LACUNA_DEVICE auto copies_of_rows(const ProductArguments& a) {
  return RowCopies<kProductThreads, 16 * kRowTiles, 2 * kDepthStep>(
      a.x, a.depth * int64_t{sizeof(uint16_t)}, a.num_rows,
      [&](int row) { return a.rows != nullptr ? a.rows[row] : row; });
}

/// Converts two 8-bit quantized values, without their scale, to bf16, which is exact; the low byte to the low
/// half.
template <CodeFormat kFormat>
LACUNA_DEVICE uint32_t widen_pair(uint16_t pair) {
  if constexpr (kFormat == CodeFormat::kE4m3) {
    return simt::bf16_from_e4m3(pair);
  } else {
    return simt::pack_bf16(static_cast<int8_t>(pair & 0xffU), static_cast<int8_t>(pair >> 8));
  }
}

/// Loads the weights of the warp's sixteen outputs and inputs [k, k + 16) of a stage for multiply_block().
template <int kRowTiles, int kStages>
LACUNA_DEVICE void read_weights(const ProductShared<kRowTiles, kStages>& memory, int stage, uint32_t k,
                                uint32_t (&b)[2][2]) {
  const uint32_t lane = simt::lane_index();
  const uint32_t output = simt::warp_index() * 16 + lane % 8 + lane / 16 * 8;
  uint32_t weights[4];
  simt::load_matrix_x4(weights, &memory.weights[stage][output][k + lane / 8 % 2 * 8]);
  b[0][0] = weights[0];
  b[0][1] = weights[1];
  b[1][0] = weights[2];
  b[1][1] = weights[3];
}

template <int kRowTiles, CodeFormat kFormat>
LACUNA_DEVICE void read_weights(const CodeProductShared<kRowTiles, kFormat>& memory, int stage, uint32_t k,
                                uint32_t (&b)[2][2]) {
  const uint32_t lane = simt::lane_index();
  const uint32_t output = simt::warp_index() * 16 + lane / 4;
  const uint32_t first = k / 2 + lane % 4;
  LACUNA_UNROLL
  for (uint32_t j = 0; j < 2; ++j) {
    b[j][0] = widen_pair<kFormat>(memory.weights[stage][output + 8 * j][first]);
    b[j][1] = widen_pair<kFormat>(memory.weights[stage][output + 8 * j][first + 4]);
  }
}

template <int kRowTiles, typename Memory>
LACUNA_DEVICE void multiply_stage(const Memory& memory, int stage, float (&c)[kRowTiles][2][4]) {
  const uint32_t lane = simt::lane_index();
  LACUNA_UNROLL
  for (uint32_t k = 0; k < kDepthStep; k += 16) {
    uint32_t b[2][2];
    read_weights(memory, stage, k, b);
    uint32_t rows[kRowTiles][4];
    LACUNA_UNROLL
    for (int tile = 0; tile < kRowTiles; ++tile) {
      simt::load_matrix_x4(rows[tile],
                           &memory.rows[stage][16 * tile + static_cast<int>(lane % 16)][k + lane / 16 * 8]);
    }
    simt::multiply_block(c, rows, b);
  }
}

template <int kRowTiles, int kColumns>
LACUNA_DEVICE void end_slice(float (&c)[kRowTiles][kColumns][4], float (&sums)[kRowTiles][kColumns][4]) {
  LACUNA_UNROLL
  for (int tile = 0; tile < kRowTiles; ++tile) {
    LACUNA_UNROLL
    for (int j = 0; j < kColumns; ++j) {
      LACUNA_UNROLL
      for (int part = 0; part < 4; ++part) {
        sums[tile][j][part] += c[tile][j][part];
        c[tile][j][part] = 0;
      }
    }
  }
}

/// Writes a warp's results; the last block also clears the padding.
template <int kRowTiles>
LACUNA_DEVICE void finish_block(const ProductArguments& a, float (&sums)[kRowTiles][2][4]) {
  const int64_t first_output =
      int64_t{simt::block_index().x} * kProductOutputs + int64_t{simt::warp_index()} * 16;
  finish_all(a, 0, first_output, sums);
  if (simt::block_index().x + 1 == simt::grid_size().x) clear_padding(a, 0, a.num_rows);
}

/// Computes one block of outputs for all rows; uses all shared memory of the kernel.
///   first_step, steps  the inputs to multiply, in steps; x begins with them
template <int kRowTiles, typename Memory = ProductShared<kRowTiles>>
LACUNA_DEVICE void product_block(const ProductArguments& a, int first_step, int steps) {
  auto& memory = simt::shared<Memory>();
  const auto* source = static_cast<const uint8_t*>(Memory::source(a));
  auto weights = copies_of_weights<Memory::kStepBytes>(source + first_step * Memory::kStepBytes, a);
  auto rows = copies_of_rows<kRowTiles>(a);
  const auto load = [&](int stage) {
    weights.start(memory.weights[stage]);
    rows.start(memory.rows[stage]);
  };
  Pipeline<Memory::kNumStages, decltype(load)> pipeline(steps, load);
  const auto slice_steps = static_cast<int>(a.slice / kDepthStep);
  float c[kRowTiles][2][4] = {};
  float sums[kRowTiles][2][4] = {};
  for (int first = 0; first < steps; first += slice_steps) {
    const int end = first + slice_steps < steps ? first + slice_steps : steps;
    for (int step = first; step < end; ++step) multiply_stage<kRowTiles>(memory, pipeline.next(), c);
    end_slice(c, sums);
  }
  finish_block(a, sums);
}

/// All inputs.
template <int kRowTiles, typename Memory = ProductShared<kRowTiles>>
LACUNA_DEVICE void product_block(const ProductArguments& a) {
  product_block<kRowTiles, Memory>(a, 0, static_cast<int>(a.depth / kDepthStep));
}

}  // namespace lacuna::cuda
