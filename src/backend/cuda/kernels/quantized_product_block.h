// The part of a product with codes in groups that one block computes. For the kernels of
// quantized_product.cu, experts.cu and wide_product.cu.
#pragma once

#include <type_traits>
#include <utility>

#include "backend/cuda/kernels/product_block.h"
#include "backend/cuda/kernels/quantized_product.h"

namespace lacuna::cuda {

/// Bytes of one output in a stage, and from one output to the next: eight outputs then lie in different
/// banks.
constexpr int code_bytes(GroupFormat format) {
  return static_cast<int>(kDepthStep) * bits_of(format) / 8;
}
constexpr int code_row(GroupFormat format) {
  return code_bytes(format) + 16;
}

/// Calls `use` with a format that is known when kernels are compiled.
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

template <int kRowTiles, GroupFormat kFormat>
struct CodeShared {
  alignas(128) uint8_t codes[kProductStages][kProductOutputs][code_row(kFormat)];
  alignas(128) uint16_t rows[kProductStages][16 * kRowTiles][kProductStride];
};

/// Starts the copies of the inputs [k, k + kDepthStep) of all rows; zeros for those that do not exist.
template <int kRowTiles>
LACUNA_DEVICE void load_row_inputs(const ProductArguments& a, uint16_t (&to)[16 * kRowTiles][kProductStride],
                                   int64_t k) {
  constexpr int kPieces = kProductPieces;
  for (int piece = static_cast<int>(simt::thread_index()); piece < 16 * kRowTiles * kPieces;
       piece += kProductThreads) {
    const int row = piece / kPieces;
    const int part = piece % kPieces * 8;
    const bool valid = row < a.num_rows;
    const int64_t source = valid && a.rows != nullptr ? int64_t{a.rows[row]} : row;
    simt::copy_async_16(&to[row][part], valid ? a.x + source * a.depth + k + part : a.x, valid);
  }
}

/// The same of the codes of the block's outputs, and of all rows.
template <int kRowTiles, GroupFormat kFormat>
LACUNA_DEVICE void load_codes(const QuantizedProductArguments& a, CodeShared<kRowTiles, kFormat>& memory,
                              int stage, int64_t k) {
  constexpr int kCodePieces = code_bytes(kFormat) / 16;
  const int64_t first_output = int64_t{simt::block_index().x} * kProductOutputs;
  for (int piece = static_cast<int>(simt::thread_index()); piece < kProductOutputs * kCodePieces;
       piece += kProductThreads) {
    const int output = piece / kCodePieces;
    const int part = piece % kCodePieces * 16;
    const bool valid = first_output + output < a.product.num_outputs;
    const int64_t at = ((first_output + output) * a.product.depth + k) * bits_of(kFormat) / 8 + part;
    const uint8_t* values = a.codes.values;
    simt::copy_async_16(&memory.codes[stage][output][part], valid ? values + at : values, valid);
  }
  load_row_inputs<kRowTiles>(a.product, memory.rows[stage], k);
}

/// Inputs k and k + 1 of an output as bf16; k is even.
template <GroupFormat kFormat>
LACUNA_DEVICE uint32_t widen(const uint8_t* codes, uint32_t k) {
  if constexpr (kFormat == GroupFormat::kInt8) {
    return simt::pack_bf16(static_cast<int8_t>(codes[k]), static_cast<int8_t>(codes[k + 1]));
  } else {
    const int pair = codes[k / 2];
    const int low = pair % 16, high = pair / 16;
    return simt::pack_bf16(static_cast<float>(low - 8), static_cast<float>(high - 8));
  }
}

/// A column of ones behind a warp's columns of weights sums up the inputs of a group, for its minimum.
constexpr int sum_columns(GroupFormat format) {
  return format == GroupFormat::kInt4Min ? 1 : 0;
}
inline constexpr uint32_t kTwoOnes = 0x3f803f80;  // in bf16

/// Sixteen inputs.
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

/// Adds c, scaled, to the sums, and clears it: the end of a group of codes.
///   first  output of the warp's first column
///   c      with a column of the inputs' sums at the end where there are minimums
template <int kRowTiles, int kProducts, int kColumns>
LACUNA_DEVICE void scale_and_add(const QuantizedProductArguments& a, int64_t first, int64_t group,
                                 float (&c)[kRowTiles][kProducts][4], float (&sums)[kRowTiles][kColumns][4]) {
  const auto num_groups = static_cast<uint32_t>(a.product.depth / kCodeGroup);
  const auto add_all = [&](const float* factors, const auto& product) {
    LACUNA_UNROLL
    for (int j = 0; j < kColumns; ++j) {
      LACUNA_UNROLL
      for (int column = 0; column < 2; ++column) {
        const auto output = static_cast<uint32_t>(first + 8 * j + column) + 2 * (simt::lane_index() % 4);
        const float factor =
            output < a.product.num_outputs ? factors[output * num_groups + static_cast<uint32_t>(group)] : 0;
        LACUNA_UNROLL
        for (int tile = 0; tile < kRowTiles; ++tile) {
          LACUNA_UNROLL
          for (int part = column; part < 4; part += 2) {
            sums[tile][j][part] += product(tile, j, part) * factor;
          }
        }
      }
    }
  };
  add_all(a.codes.scales, [&](int tile, int j, int part) { return c[tile][j][part]; });
  if constexpr (kProducts > kColumns)
    add_all(a.codes.minimums, [&](int tile, int, int part) { return c[tile][kColumns][part]; });
  LACUNA_UNROLL
  for (int tile = 0; tile < kRowTiles; ++tile) {
    LACUNA_UNROLL
    for (int j = 0; j < kProducts; ++j) {
      LACUNA_UNROLL
      for (int part = 0; part < 4; ++part) c[tile][j][part] = 0;
    }
  }
}

/// One block of outputs, all rows. The whole of a kernel: it takes all shared memory.
template <int kRowTiles, GroupFormat kFormat>
LACUNA_DEVICE void quantized_product_block(const QuantizedProductArguments& a) {
  auto& memory = simt::shared<CodeShared<kRowTiles, kFormat>>();
  float c[kRowTiles][2 + sum_columns(kFormat)][4] = {};
  float sums[kRowTiles][2][4] = {};
  const int64_t first = int64_t{simt::block_index().x} * kProductOutputs + int64_t{simt::warp_index()} * 16;
  const int64_t steps = a.product.depth / kDepthStep;
  for (int stage = 0; stage < kProductStages - 1; ++stage) {
    if (stage < steps) load_codes(a, memory, stage, stage * kDepthStep);
    simt::commit_copies();
  }
  for (int64_t step = 0; step < steps; ++step) {
    simt::wait_copies<kProductStages - 2>();
    simt::sync_threads();  // all copies of this step are there, and all have read what the next load
                           // overwrites
    const int64_t ahead = step + kProductStages - 1;
    if (ahead < steps) load_codes(a, memory, static_cast<int>(ahead % kProductStages), ahead * kDepthStep);
    simt::commit_copies();
    LACUNA_UNROLL
    for (uint32_t k = 0; k < kDepthStep; k += 16) {
      multiply_codes(memory, static_cast<int>(step % kProductStages), k, c);
      if ((k + 16) % kCodeGroup == 0) {
        const int64_t group = (step * kDepthStep + k) / kCodeGroup;
        scale_and_add(a, first, group, c, sums);
      }
    }
  }
  finish_block(a.product, sums);
}

}  // namespace lacuna::cuda
