// The part of a product with 4-bit codes that one block computes. For the kernels of quantised_product.cu,
// experts.cu and wide_product.cu.
#pragma once

#include "backend/cuda/kernels/product_block.h"
#include "backend/cuda/kernels/quantised_product.h"

namespace lacuna::cuda {

/// Bytes of one output in a stage, and from one output to the next: eight outputs then lie in different
/// banks.
inline constexpr int kCodeBytes = kDepthStep / 2;
inline constexpr int kCodeRow = kCodeBytes + 16;

template <int kRowTiles>
struct CodeShared {
  alignas(128) uint8_t codes[kProductStages][kProductOutputs][kCodeRow];
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
template <int kRowTiles>
LACUNA_DEVICE void load_codes(const QuantisedProductArguments& a, CodeShared<kRowTiles>& memory, int stage,
                              int64_t k) {
  constexpr int kCodePieces = kCodeBytes / 16;
  const int64_t first_output = int64_t{simt::block_index().x} * kProductOutputs;
  for (int piece = static_cast<int>(simt::thread_index()); piece < kProductOutputs * kCodePieces;
       piece += kProductThreads) {
    const int output = piece / kCodePieces;
    const int part = piece % kCodePieces * 16;
    const bool valid = first_output + output < a.product.num_outputs;
    const int64_t at = ((first_output + output) * a.product.depth + k) / 2 + part;
    simt::copy_async_16(&memory.codes[stage][output][part], valid ? a.codes + at : a.codes, valid);
  }
  load_row_inputs<kRowTiles>(a.product, memory.rows[stage], k);
}

/// Inputs k and k + 1 of an output as bf16; k is even.
LACUNA_DEVICE uint32_t widen(const uint8_t* codes, uint32_t k) {
  const int pair = codes[k / 2];
  const int low = pair % 16, high = pair / 16;
  return simt::pack_bf16(static_cast<float>(low - 8), static_cast<float>(high - 8));
}

/// Sixteen inputs.
template <int kRowTiles>
LACUNA_DEVICE void multiply_codes(const CodeShared<kRowTiles>& memory, int stage, uint32_t k,
                                  float (&c)[kRowTiles][2][4]) {
  const uint32_t lane = simt::lane_index();
  const uint32_t output = simt::warp_index() * 16 + lane / 4;
  const uint32_t first = k + 2 * (lane % 4);
  const uint8_t* low = memory.codes[stage][output];
  const uint8_t* high = memory.codes[stage][output + 8];
  const uint32_t b[2][2] = {{widen(low, first), widen(low, first + 8)},
                            {widen(high, first), widen(high, first + 8)}};
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
template <int kRowTiles, int kColumns>
LACUNA_DEVICE void scale_and_add(const QuantisedProductArguments& a, int64_t first, int64_t group,
                                 float (&c)[kRowTiles][kColumns][4], float (&sums)[kRowTiles][kColumns][4]) {
  const int64_t num_groups = a.product.depth / kCodeGroup;
  LACUNA_UNROLL
  for (int j = 0; j < kColumns; ++j) {
    LACUNA_UNROLL
    for (int column = 0; column < 2; ++column) {
      const int64_t output = first + 8 * j + 2 * (simt::lane_index() % 4) + column;
      const float scale = output < a.product.num_outputs ? a.scales[output * num_groups + group] : 0;
      LACUNA_UNROLL
      for (int tile = 0; tile < kRowTiles; ++tile) {
        LACUNA_UNROLL
        for (int part = column; part < 4; part += 2) {
          sums[tile][j][part] += c[tile][j][part] * scale;
          c[tile][j][part] = 0;
        }
      }
    }
  }
}

/// One block of outputs, all rows. The whole of a kernel: it takes all shared memory.
template <int kRowTiles>
LACUNA_DEVICE void quantised_product_block(const QuantisedProductArguments& a) {
  auto& memory = simt::shared<CodeShared<kRowTiles>>();
  float c[kRowTiles][2][4] = {};
  float sums[kRowTiles][2][4] = {};
  const int64_t first = int64_t{simt::block_index().x} * kProductOutputs + int64_t{simt::warp_index()} * 16;
  const int64_t steps = a.product.depth / kDepthStep;
  for (int stage = 0; stage < kProductStages - 1; ++stage) {
    if (stage < steps) load_codes<kRowTiles>(a, memory, stage, stage * kDepthStep);
    simt::commit_copies();
  }
  for (int64_t step = 0; step < steps; ++step) {
    simt::wait_copies<kProductStages - 2>();
    simt::sync_threads();  // all copies of this step are there, and all have read what the next load
                           // overwrites
    const int64_t ahead = step + kProductStages - 1;
    if (ahead < steps)
      load_codes<kRowTiles>(a, memory, static_cast<int>(ahead % kProductStages), ahead * kDepthStep);
    simt::commit_copies();
    LACUNA_UNROLL
    for (uint32_t k = 0; k < kDepthStep; k += 16) {
      multiply_codes<kRowTiles>(memory, static_cast<int>(step % kProductStages), k, c);
      if ((k + 16) % kCodeGroup == 0) {
        const int64_t group = (step * kDepthStep + k) / kCodeGroup;
        scale_and_add(a, first, group, c, sums);
      }
    }
  }
  finish_block(a.product, sums);
}

}  // namespace lacuna::cuda
