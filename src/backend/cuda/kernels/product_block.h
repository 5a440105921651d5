// The part of a product that one block computes: some outputs of all rows. For the kernels of product.cu and
// experts.cu.
#pragma once

#include "backend/cuda/kernels/product.h"

namespace lacuna::cuda {

inline constexpr int kProductWarps = 4;
inline constexpr uint32_t kProductThreads = 32 * kProductWarps;
inline constexpr int kProductOutputs = 16 * kProductWarps;  // of a block; sixteen for each warp
inline constexpr int kProductStages = 4;
inline constexpr int kProductStride =
    kDepthStep + 8;  // of a row in shared memory: eight rows then lie in different banks
inline constexpr int kProductPieces = kDepthStep / 8;  // of 16 bytes, of a row

inline constexpr int kCodePairs = kDepthStep / 2 + 8;  // likewise, of codes: two inputs each

template <int kRowTiles>
struct ProductShared {
  alignas(128) uint16_t weights[kProductStages][kProductOutputs][kProductStride];
  alignas(128) uint16_t rows[kProductStages][16 * kRowTiles][kProductStride];
};

/// The same where weights are 8-bit codes, which become bf16 in registers just before they are
/// multiplied.
template <int kRowTiles, CodeFormat kFormat>
struct CodeProductShared {
  alignas(128) uint16_t pairs[kProductStages][kProductOutputs][kCodePairs];  // even inputs in lower halves
  alignas(128) uint16_t rows[kProductStages][16 * kRowTiles][kProductStride];
};

/// Starts the copies of the inputs [k, k + kDepthStep) of the block's outputs; zeros for those that do not
/// exist.
template <int kRowTiles>
LACUNA_DEVICE void load_weights(const ProductArguments& a, ProductShared<kRowTiles>& memory, int stage,
                                int64_t k) {
  const int64_t first_output = int64_t{simt::block_index().x} * kProductOutputs;
  for (int piece = static_cast<int>(simt::thread_index()); piece < kProductOutputs * kProductPieces;
       piece += kProductThreads) {
    const int output = piece / kProductPieces;
    const int part = piece % kProductPieces * 8;
    const bool valid = first_output + output < a.num_outputs;
    const uint16_t* from = valid ? a.weights + (first_output + output) * a.depth + k + part : a.weights;
    simt::copy_async_16(&memory.weights[stage][output][part], from, valid);
  }
}

template <int kRowTiles, CodeFormat kFormat>
LACUNA_DEVICE void load_weights(const ProductArguments& a, CodeProductShared<kRowTiles, kFormat>& memory,
                                int stage, int64_t k) {
  constexpr int kCodePieces = kDepthStep / 16;
  const int64_t first_output = int64_t{simt::block_index().x} * kProductOutputs;
  for (int piece = static_cast<int>(simt::thread_index()); piece < kProductOutputs * kCodePieces;
       piece += kProductThreads) {
    const int output = piece / kCodePieces;
    const int part = piece % kCodePieces * 16;
    const bool valid = first_output + output < a.num_outputs;
    const uint8_t* from = valid ? a.codes + (first_output + output) * a.depth + k + part : a.codes;
    simt::copy_async_16(&memory.pairs[stage][output][part / 2], from, valid);
  }
}

/// The number that a code stands for, which bf16 holds exactly.
template <CodeFormat kFormat>
LACUNA_DEVICE float value_of_code(uint8_t code) {
  if constexpr (kFormat == CodeFormat::kE4m3) {
    return simt::from_e4m3(code);
  } else {
    return static_cast<int8_t>(code);
  }
}

/// Two codes as bf16, the lower half first.
template <CodeFormat kFormat>
LACUNA_DEVICE uint32_t widen_pair(uint16_t pair) {
  return simt::pack_bf16(value_of_code<kFormat>(static_cast<uint8_t>(pair & 0xffU)),
                         value_of_code<kFormat>(static_cast<uint8_t>(pair >> 8)));
}

/// The weights of the warp's sixteen outputs for the inputs [k, k + 16) of a stage, as multiply_block() takes
/// them.
template <int kRowTiles>
LACUNA_DEVICE void read_weights(const ProductShared<kRowTiles>& memory, int stage, uint32_t k,
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
    b[j][0] = widen_pair<kFormat>(memory.pairs[stage][output + 8 * j][first]);
    b[j][1] = widen_pair<kFormat>(memory.pairs[stage][output + 8 * j][first + 4]);
  }
}

template <typename Memory>
LACUNA_DEVICE void load_rows(const ProductArguments& a, Memory& memory, int row_tiles, int stage, int64_t k) {
  for (int piece = static_cast<int>(simt::thread_index()); piece < 16 * row_tiles * kProductPieces;
       piece += kProductThreads) {
    const int row = piece / kProductPieces;
    const int part = piece % kProductPieces * 8;
    const bool valid = row < a.num_rows;
    const int64_t source = valid && a.rows != nullptr ? int64_t{a.rows[row]} : row;
    simt::copy_async_16(&memory.rows[stage][row][part], valid ? a.x + source * a.depth + k + part : a.x,
                        valid);
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

LACUNA_DEVICE float biased(const ProductArguments& a, float sum, int64_t output) {
  if (a.codes != nullptr) sum *= a.scales[output];
  return a.bias != nullptr ? sum + a.bias[output] : sum;
}

/// silu(gate) or gelu(gate), times up. Both are gate * sigmoid(u): u is the gate, and for GELU
/// 2 sqrt(2 / pi) (gate + 0.044715 gate^3), since (1 + tanh(z)) / 2 = sigmoid(2 z).
LACUNA_DEVICE float gated(Epilogue epilogue, float gate, float up) {
  constexpr float kSlope = 1.5957691216F;  // 2 sqrt(2 / pi)
  constexpr float kCubic = 0.044715F;
  const float u = epilogue == Epilogue::kGeglu ? kSlope * gate * (1 + kCubic * (gate * gate)) : gate;
  return gate / (1 + simt::exp(-u)) * up;
}

/// Gate and up of eight outputs lie in the two tiles that a warp holds.
LACUNA_DEVICE void finish_gated(const ProductArguments& a, int64_t row, int64_t first, int column, float gate,
                                float up) {
  if (first >= a.num_outputs) return;
  const float g = biased(a, gate, first + column);
  const float u = biased(a, up, first + 8 + column);
  a.out_bf16[row * a.out_stride + first / 2 + column] = simt::to_bf16(gated(a.epilogue, g, u));
}

LACUNA_DEVICE void finish(const ProductArguments& a, int64_t row, int64_t output, float sum) {
  if (output >= a.num_outputs) return;
  const float value = biased(a, sum, output);
  const int64_t at = row * a.out_stride + output;
  switch (a.epilogue) {
    case Epilogue::kStore:
      a.out_f32[at] = value;
      break;
    case Epilogue::kAddScaled:
      a.out_f32[at] += a.scale * value;
      break;
    case Epilogue::kSquaredRelu:
      a.out_bf16[at] = simt::to_bf16(value > 0 ? value * value : 0);
      break;
    case Epilogue::kSwiglu:
    case Epilogue::kGeglu:
      break;
  }
}

/// Writes a warp's sums.
///   first_row     of the call's rows
///   first_output  a multiple of 16
template <int kRowTiles, int kColumns>
LACUNA_DEVICE void finish_all(const ProductArguments& a, int64_t first_row, int64_t first_output,
                              const float (&sums)[kRowTiles][kColumns][4]) {
  const auto lane = static_cast<int>(simt::lane_index());
  LACUNA_UNROLL
  for (int tile = 0; tile < kRowTiles; ++tile) {
    LACUNA_UNROLL
    for (int part = 0; part < 4; ++part) {
      const int64_t index = first_row + 16 * tile + lane / 4 + part / 2 * 8;
      if (index >= a.num_rows) continue;
      const int64_t row = a.out_rows != nullptr ? int64_t{a.out_rows[index]} : index;
      const int column = 2 * (lane % 4) + part % 2;
      LACUNA_UNROLL
      for (int j = 0; j < kColumns; j += 2) {
        const int64_t first = first_output + 8 * j;
        if (is_gated(a.epilogue)) {
          finish_gated(a, row, first, column, sums[tile][j][part], sums[tile][j + 1][part]);
        } else {
          finish(a, row, first + column, sums[tile][j][part]);
          finish(a, row, first + 8 + column, sums[tile][j + 1][part]);
        }
      }
    }
  }
}

/// For the block of the last outputs: clears what lies behind the outputs of the call's rows [first_row,
/// end_row), for products that read these rows in steps.
LACUNA_DEVICE void clear_padding(const ProductArguments& a, int64_t first_row, int64_t end_row) {
  if (a.out_bf16 == nullptr) return;
  const int64_t outputs = is_gated(a.epilogue) ? a.num_outputs / 2 : a.num_outputs;
  const int64_t width = a.out_stride - outputs;
  for (int64_t i = simt::thread_index(); i < (end_row - first_row) * width; i += simt::num_threads()) {
    const int64_t index = first_row + i / width;
    const int64_t row = a.out_rows != nullptr ? int64_t{a.out_rows[index]} : index;
    a.out_bf16[row * a.out_stride + outputs + i % width] = 0;
  }
}

/// The end of a block that has all rows: a warp's sums, and the padding.
template <int kRowTiles>
LACUNA_DEVICE void finish_block(const ProductArguments& a, const float (&sums)[kRowTiles][2][4]) {
  const int64_t first_output =
      int64_t{simt::block_index().x} * kProductOutputs + int64_t{simt::warp_index()} * 16;
  finish_all(a, 0, first_output, sums);
  if (simt::block_index().x + 1 == simt::grid_size().x) clear_padding(a, 0, a.num_rows);
}

/// One block of outputs, all rows. The whole of a kernel: it takes all shared memory.
template <int kRowTiles, typename Memory = ProductShared<kRowTiles>>
LACUNA_DEVICE void product_block(const ProductArguments& a) {
  auto& memory = simt::shared<Memory>();
  float c[kRowTiles][2][4] = {};
  float sums[kRowTiles][2][4] = {};
  const int64_t steps = a.depth / kDepthStep;
  const auto load = [&](int64_t step) {
    if (step < steps) {
      load_weights<kRowTiles>(a, memory, static_cast<int>(step % kProductStages), step * kDepthStep);
      load_rows(a, memory, kRowTiles, static_cast<int>(step % kProductStages), step * kDepthStep);
    }
    simt::commit_copies();
  };
  for (int64_t step = 0; step < kProductStages - 1; ++step) load(step);
  for (int64_t step = 0; step < steps; ++step) {
    simt::wait_copies<kProductStages - 2>();
    simt::sync_threads();  // all copies of this step are there, and all have read what the next load
                           // overwrites
    load(step + kProductStages - 1);
    const auto stage = static_cast<int>(step % kProductStages);
    multiply_stage<kRowTiles>(memory, stage, c);
    const bool slice_ends = (step + 1) * kDepthStep % kDepthSlice == 0 || step + 1 == steps;
    if (slice_ends) end_slice(c, sums);
  }
  finish_block(a, sums);
}

}  // namespace lacuna::cuda
