#include "backend/cuda/kernels/rows.h"

namespace lacuna::cuda {
namespace {

using namespace simt;  // NOLINT(google-build-using-namespace): a kernel's vocabulary

constexpr uint32_t kThreads = 256;

LACUNA_KERNEL embed_kernel(EmbedArguments a) {
  const int64_t row = block_index().x;
  const int64_t first = int64_t{a.tokens[row]} * a.hidden;
  float* to = a.residual + row * a.hidden;
  for (int64_t i = thread_index(); i < a.hidden; i += kThreads) {
    const float number = a.table_f32 != nullptr ? a.table_f32[first + i] : from_bf16(a.table[first + i]);
    to[i] = number * a.scale;
  }
}

struct NormShared {
  float parts[kThreads / 32];
};

/// One block per row and a fixed order of adding: a row's bits do not depend on its company.
LACUNA_KERNEL norm_kernel(NormArguments a) {
  auto& memory = shared<NormShared>();
  const int64_t row = block_index().x;
  const float* x = a.residual + (a.rows != nullptr ? int64_t{a.rows[row]} : row) * a.hidden;
  float squares = 0;
  for (int64_t i = thread_index(); i < a.hidden; i += kThreads) squares += x[i] * x[i];
  squares = block_sum(squares, memory.parts);
  const float scale = 1 / simt::sqrt(squares / static_cast<float>(a.hidden) + a.epsilon);
  for (int64_t i = thread_index(); i < a.hidden; i += kThreads) {
    const float value = x[i] * scale * a.weight[i];
    if (a.out != nullptr) a.out[row * a.stride + i] = to_bf16(value);
    if (a.out_padded != nullptr) a.out_padded[row * a.stride + i] = value;
    if (a.out_f32 != nullptr) a.out_f32[row * a.hidden + i] = value;
    if (a.out_f32_rows != nullptr) a.out_f32_rows[row][i] = value;
  }
  for (int64_t i = a.hidden + thread_index(); i < a.stride; i += kThreads) {
    if (a.out != nullptr) a.out[row * a.stride + i] = 0;
    if (a.out_padded != nullptr) a.out_padded[row * a.stride + i] = 0;
  }
}

LACUNA_KERNEL round_kernel(RoundArguments a) {
  const int64_t row = block_index().x;
  const float* from = a.rows[row];
  for (int64_t i = thread_index(); i < a.stride; i += kThreads) {
    const float number = i < a.hidden ? from[i] : 0;
    if (a.out_f32 != nullptr) {
      a.out_f32[row * a.stride + i] = number;
    } else {
      a.out[row * a.stride + i] = to_bf16(number);
    }
  }
}

}  // namespace

void embed(Stream& stream, const EmbedArguments& arguments, uint32_t rows) {
  launch(stream, embed_kernel, {.grid = {rows, 1, 1}, .threads = kThreads}, arguments);
}

void rms_norm(Stream& stream, const NormArguments& arguments, uint32_t rows) {
  launch(stream, norm_kernel, {.grid = {rows, 1, 1}, .threads = kThreads, .shared_bytes = sizeof(NormShared)},
         arguments);
}

void round_rows(Stream& stream, const RoundArguments& arguments, uint32_t rows) {
  launch(stream, round_kernel, {.grid = {rows, 1, 1}, .threads = kThreads}, arguments);
}

}  // namespace lacuna::cuda
