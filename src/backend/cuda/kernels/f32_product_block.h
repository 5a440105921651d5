// One thread block's part of an f32 GEMM: sixteen rows by kProductOutputs outputs, without tensor cores. For
// f32_product.cu and experts.cu.
#pragma once

#include "backend/cuda/kernels/product_block.h"

namespace lacuna::cuda {

inline constexpr int kF32Rows = 16;
inline constexpr int kF32Step = 32;
inline constexpr int kF32Stride = kF32Step + 1;  // avoids bank conflicts between rows
inline constexpr int kF32Outputs = 8;            // outputs per thread

struct F32ProductShared {
  float rows[kF32Rows][kF32Stride];
  float weights[kProductOutputs][kF32Stride];
};

LACUNA_DEVICE void load_f32(const ProductArguments& a, F32ProductShared& memory, int64_t first_row,
                            int64_t k) {
  for (uint32_t i = simt::thread_index(); i < kF32Rows * kF32Step; i += kProductThreads) {
    const int64_t index = first_row + i / kF32Step;
    const bool valid = index < a.num_rows;
    const int64_t source = valid && a.rows != nullptr ? int64_t{a.rows[index]} : index;
    memory.rows[i / kF32Step][i % kF32Step] = valid ? a.x_f32[source * a.depth + k + i % kF32Step] : 0;
  }
  for (uint32_t i = simt::thread_index(); i < kProductOutputs * kF32Step; i += kProductThreads) {
    const int64_t output = int64_t{simt::block_index().x} * kProductOutputs + i / kF32Step;
    memory.weights[i / kF32Step][i % kF32Step] =
        output < a.num_outputs ? a.weights_f32[output * a.depth + k + i % kF32Step] : 0;
  }
}

/// Writes a thread's accumulators: outputs `first`, `first` + 8, ...
LACUNA_DEVICE void finish_f32(const ProductArguments& a, int64_t row, int64_t first,
                              const float (&sums)[kF32Outputs]) {
  const auto bias_of = [&](int64_t output) { return a.bias != nullptr ? a.bias[output] : 0; };
  LACUNA_UNROLL
  for (int j = 0; j < kF32Outputs; j += 2) {
    const int64_t output = first + 8 * j;
    if (output >= a.num_outputs) continue;
    if (is_gated(a.epilogue)) {
      const float gate = biased(a, sums[j], 1, bias_of(output));
      const float up = biased(a, sums[j + 1], 1, bias_of(output + 8));
      a.out_f32[row * a.out_stride + output / 16 * 8 + output % 8] = gated(a.epilogue, gate, up);
      continue;
    }
    for (int i = j; i < j + 2; ++i) {
      const int64_t at = first + 8 * i;
      if (at >= a.num_outputs) continue;
      const float value = biased(a, sums[i], 1, bias_of(at));
      float& out = a.out_f32[row * a.out_stride + at];
      if (a.epilogue == Epilogue::kStore) out = value;
      if (a.epilogue == Epilogue::kAddScaled) out += a.scale * value;
      if (a.epilogue == Epilogue::kSquaredRelu) out = value > 0 ? value * value : 0;
    }
  }
}

/// Computes rows [first_row, first_row + 16) of one block of outputs; uses all shared memory of the kernel.
/// Every output is accumulated over the inputs in ascending order.
LACUNA_DEVICE void f32_product_block(const ProductArguments& a, int64_t first_row) {
  auto& memory = simt::shared<F32ProductShared>();
  const uint32_t row = simt::thread_index() / 8;
  const uint32_t column = simt::thread_index() % 8;
  float sums[kF32Outputs] = {};
  for (int64_t k = 0; k < a.depth; k += kF32Step) {
    load_f32(a, memory, first_row, k);
    simt::sync_threads();
    for (int i = 0; i < kF32Step; ++i) {
      const float x = memory.rows[row][i];
      LACUNA_UNROLL
      for (int j = 0; j < kF32Outputs; ++j) sums[j] += x * memory.weights[column + 8 * j][i];
    }
    simt::sync_threads();  // the next load overwrites the shared memory
  }
  const int64_t index = first_row + row;
  const bool is_activation = is_gated(a.epilogue) || a.epilogue == Epilogue::kSquaredRelu;
  if (index >= a.num_rows) return;
  const int64_t to = a.out_rows != nullptr ? int64_t{a.out_rows[index]} : index;
  finish_f32(a, to, int64_t{simt::block_index().x} * kProductOutputs + column, sums);
  if (!is_activation || simt::block_index().x + 1 != simt::grid_size().x) return;
  const int64_t outputs = is_gated(a.epilogue) ? a.num_outputs / 2 : a.num_outputs;
  for (int64_t i = outputs + column; i < a.out_stride; i += 8) a.out_f32[to * a.out_stride + i] = 0;
}

}  // namespace lacuna::cuda
