// One thread block's part of a GEMM with group-quantized weights. For quantized_product.cu, experts.cu and
// wide_product.cu.
#pragma once

#include <type_traits>
#include <utility>

#include "backend/cuda/kernels/product_block.h"
#include "backend/cuda/kernels/quantized_product.h"

namespace lacuna::cuda {

/// Bytes of one output in a stage, and the stride between outputs, which puts eight outputs into different
/// banks.
constexpr int code_bytes(GroupFormat format) {
  return static_cast<int>(kDepthStep) * bits_of(format) / 8;
}
constexpr int code_row(GroupFormat format) {
  return code_bytes(format) + 16;
}

/// Numbers per group: a scale, and for kInt4Min a minimum.
constexpr int num_factors(GroupFormat format) {
  return format == GroupFormat::kInt4Min ? 2 : 1;
}

/// Calls `use` with the format as a compile-time constant.
template <typename Use>
void for_format(GroupFormat format, Use&& use) {
  switch (format) {
    case GroupFormat::kInt4:
      return use(std::integral_constant<GroupFormat, GroupFormat::kInt4>());
    case GroupFormat::kInt4Min:
      return use(std::integral_constant<GroupFormat, GroupFormat::kInt4Min>());
    case GroupFormat::kInt8:
      return use(std::integral_constant<GroupFormat, GroupFormat::kInt8>());
  }
}

/// Scales or minimums of the groups of a K step.
template <int kOutputs>
struct StepFactors {
  static constexpr int kGroups = kDepthStep / kCodeGroup;

  float of[kOutputs][kGroups];
};

template <int kRowTiles, GroupFormat kFormat>
struct CodeShared {
  alignas(128) StepFactors<kProductOutputs> factors[kProductStages][num_factors(kFormat)];
  alignas(128) uint8_t codes[kProductStages][kProductOutputs][code_row(kFormat)];
  alignas(128) uint16_t rows[kProductStages][16 * kRowTiles][kProductStride];
};

/// Converts inputs k and k + 1 of an output to bf16; k is even.
template <GroupFormat kFormat>
LACUNA_DEVICE uint32_t widen(const uint8_t* codes, uint32_t k) {
  if constexpr (kFormat == GroupFormat::kInt8) {
    return simt::pack_bf16(static_cast<int8_t>(codes[k]), static_cast<int8_t>(codes[k + 1]));
  } else {
    return simt::bf16_from_int4(codes[k / 2]);
  }
}

/// Extra columns of ones after a warp's weights: they sum up the inputs of a group, for its minimum.
constexpr int sum_columns(GroupFormat format) {
  return format == GroupFormat::kInt4Min ? 1 : 0;
}
inline constexpr uint32_t kTwoOnes = 0x3f803f80;  // two bf16 ones

/// Multiplies and accumulates sixteen inputs.
template <int kRowTiles, GroupFormat kFormat, int kColumns>
LACUNA_DEVICE void multiply_codes(const CodeShared<kRowTiles, kFormat>& memory, int stage, uint32_t k,
                                  float (&c)[kRowTiles][kColumns][4]) {
  const uint32_t lane = simt::lane_index();
  const uint32_t output = simt::warp_index() * 16 + lane / 4;
  const uint32_t first = k + 2 * (lane % 4);
  uint32_t b[kColumns][2];
  LACUNA_UNROLL
  for (uint32_t j = 0; j < kColumns; ++j) {
    const uint8_t* codes = memory.codes[stage][output + 8 * (j % 2)];
    b[j][0] = j < 2 ? widen<kFormat>(codes, first) : kTwoOnes;
    b[j][1] = j < 2 ? widen<kFormat>(codes, first + 8) : kTwoOnes;
  }
  uint32_t rows[kRowTiles][4];
  LACUNA_UNROLL
  for (int tile = 0; tile < kRowTiles; ++tile) {
    simt::load_matrix_x4(rows[tile],
                         &memory.rows[stage][16 * tile + static_cast<int>(lane % 16)][k + lane / 16 * 8]);
  }
  simt::multiply_block(c, rows, b);
}

/// Ends a group: adds its scaled accumulator `c` to `sums` and clears `c`.
///   factors  scales, then minimums, of the groups of a K step
///   group    index within the K step
///   c        with minimums, its last column holds the sums of inputs
template <int kOutputs, int kFactors, int kRowTiles, int kProducts, int kColumns>
LACUNA_DEVICE void scale_and_add(const StepFactors<kOutputs> (&factors)[kFactors], uint32_t first_output,
                                 int group, float (&c)[kRowTiles][kProducts][4],
                                 float (&sums)[kRowTiles][kColumns][4]) {
  LACUNA_UNROLL
  for (int j = 0; j < kColumns; ++j) {
    LACUNA_UNROLL
    for (int column = 0; column < 2; ++column) {
      const uint32_t output = first_output + 8 * j + column + 2 * (simt::lane_index() % 4);
      float factor[kFactors];
      LACUNA_UNROLL
      for (int i = 0; i < kFactors; ++i) factor[i] = factors[i].of[output][group];
      LACUNA_UNROLL
      for (int tile = 0; tile < kRowTiles; ++tile) {
        LACUNA_UNROLL
        for (int part = column; part < 4; part += 2) {
          float& sum = sums[tile][j][part];
          sum += c[tile][j][part] * factor[0];
          if constexpr (kFactors > 1) sum += c[tile][kColumns][part] * factor[1];
          c[tile][j][part] = 0;
        }
      }
    }
  }
  if constexpr (kProducts == kColumns) return;
  LACUNA_UNROLL
  for (int tile = 0; tile < kRowTiles; ++tile) {
    LACUNA_UNROLL
    for (int part = 0; part < 4; ++part) c[tile][kProducts - 1][part] = 0;
  }
}

/// Computes one block of outputs for all rows; uses all shared memory of the kernel.
template <int kRowTiles, GroupFormat kFormat>
LACUNA_DEVICE void quantized_product_block(const QuantizedProductArguments& a) {
  auto& memory = simt::shared<CodeShared<kRowTiles, kFormat>>();
  auto codes = copies_of_weights<code_bytes(kFormat)>(a.codes.values, a.product);
  auto rows = copies_of_rows<kRowTiles>(a.product);
  constexpr int kFactorBytes = StepFactors<kProductOutputs>::kGroups * sizeof(float);
  auto scales = copies_of_weights<kFactorBytes>(a.codes.scales, a.product);
  auto minimums = copies_of_weights<kFactorBytes>(a.codes.minimums, a.product);
  const auto load = [&](int stage) {
    scales.start(memory.factors[stage][0].of);
    if constexpr (num_factors(kFormat) > 1) minimums.start(memory.factors[stage][1].of);
    codes.start(memory.codes[stage]);
    rows.start(memory.rows[stage]);
  };
  const auto steps = static_cast<int>(a.product.depth / kDepthStep);
  Pipeline<kProductStages, decltype(load)> pipeline(steps, load);
  float c[kRowTiles][2 + sum_columns(kFormat)][4] = {};
  float sums[kRowTiles][2][4] = {};
  const uint32_t first = simt::warp_index() * 16;
  for (int step = 0; step < steps; ++step) {
    const int stage = pipeline.next();
    LACUNA_UNROLL
    for (int k = 0; k < kDepthStep; k += 16) {
      multiply_codes(memory, stage, static_cast<uint32_t>(k), c);
      if ((k + 16) % kCodeGroup == 0)
        scale_and_add(memory.factors[stage], first, k / static_cast<int>(kCodeGroup), c, sums);
    }
  }
  finish_block(a.product, sums);
}

}  // namespace lacuna::cuda
