#include "backend/cuda/kernels/rows.h"

namespace lacuna::cuda {
namespace {

using namespace simt;  // NOLINT(google-build-using-namespace): a kernel's vocabulary

constexpr uint32_t kThreads = 256;

LACUNA_DEVICE float embedding(const EmbedArguments& a, int64_t index) {
  const float number = a.table_f32 != nullptr ? a.table_f32[index] : from_bf16(a.table[index]);
  return number * a.scale;
}

LACUNA_KERNEL embed_kernel(EmbedArguments a) {
  const int64_t row = block_index().x;
  const int64_t first = int64_t{a.tokens[row]} * a.hidden;
  float* to = a.residual + row * a.hidden;
  for (int64_t i = thread_index(); i < a.hidden; i += kThreads) to[i] = embedding(a, first + i);
}

struct NormShared {
  float parts[kThreads / 32];
};

LACUNA_KERNEL mix_kernel(MixArguments a) {
  auto& memory = shared<NormShared>();
  const int64_t row = block_index().x;
  const float weight = a.weights[row];
  if (weight >= 1) return;  // for the whole block
  const int64_t hidden = a.embedded.hidden;
  const int64_t mask = a.mask_id * hidden;
  float* x = a.embedded.residual + row * hidden;
  float of_token = 0, of_mask = 0, of_mixture = 0;  // squares
  for (int64_t i = thread_index(); i < hidden; i += kThreads) {
    const float masked = embedding(a.embedded, mask + i);
    of_token += x[i] * x[i];
    of_mask += masked * masked;
    x[i] = weight * x[i] + (1 - weight) * masked;
    of_mixture += x[i] * x[i];
  }
  const auto length = [&](float squares) {
    const float sum = block_sum(squares, memory.parts);
    sync_threads();
    return simt::sqrt(sum);
  };
  const float target = weight * length(of_token) + (1 - weight) * length(of_mask);
  const float scale = target / (length(of_mixture) + 1e-6F);
  for (int64_t i = thread_index(); i < hidden; i += kThreads) x[i] *= scale;
}

/// RMSNorm factor of a row; called by the whole block. One block per row and a fixed order of additions make
/// it batch-invariant. `parts` may be reused after the next barrier.
LACUNA_DEVICE float norm_scale(const float* x, int64_t hidden, float epsilon, float* parts) {
  float squares = 0;
  for (int64_t i = thread_index(); i < hidden; i += kThreads) squares += x[i] * x[i];
  squares = block_sum(squares, parts);
  return 1 / simt::sqrt(squares / static_cast<float>(hidden) + epsilon);
}

/// Row of the residual for an index among the call's rows.
LACUNA_DEVICE int64_t listed_row(const int32_t* rows, int64_t index) {
  return rows != nullptr ? int64_t{rows[index]} : index;
}

LACUNA_KERNEL norm_kernel(NormArguments a) {
  auto& memory = shared<NormShared>();
  const int64_t row = block_index().x;
  const float* x =
      a.row_pointers != nullptr ? a.row_pointers[row] : a.residual + listed_row(a.rows, row) * a.hidden;
  const float scale = norm_scale(x, a.hidden, a.epsilon, memory.parts);
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

LACUNA_KERNEL add_normed_kernel(AddNormedArguments a) {
  auto& memory = shared<NormShared>();
  const float* x = a.x + int64_t{block_index().x} * a.hidden;
  float* to = a.residual + listed_row(a.rows, block_index().x) * a.hidden;
  const float scale = norm_scale(x, a.hidden, a.epsilon, memory.parts);
  for (int64_t i = thread_index(); i < a.hidden; i += kThreads)
    to[i] += a.scale * (x[i] * scale * a.weight[i]);
}

LACUNA_KERNEL sum_of_norms_kernel(SumOfNormsArguments a) {
  auto& memory = shared<NormShared>();
  const int64_t first = int64_t{block_index().x} * a.hidden;
  const float* x = a.x + first;
  const float* y = a.y + first;
  const float x_scale = norm_scale(x, a.hidden, a.epsilon, memory.parts);
  sync_threads();
  const float y_scale = norm_scale(y, a.hidden, a.epsilon, memory.parts);
  for (int64_t i = thread_index(); i < a.hidden; i += kThreads)
    a.out[first + i] = x[i] * x_scale * a.x_weight[i] + y[i] * y_scale * a.y_weight[i];
}

LACUNA_KERNEL norm_canvases_kernel(CanvasArguments a) {
  auto& memory = shared<NormShared>();
  const int64_t row = listed_row(a.rows, block_index().x);
  if (a.is_denoised[row] == 0) return;  // for the whole block
  float* x = a.residual + row * a.hidden;
  const float scale = norm_scale(x, a.hidden, a.epsilon, memory.parts);
  for (int64_t i = thread_index(); i < a.hidden; i += kThreads) x[i] *= scale;
}

LACUNA_KERNEL scale_rows_kernel(CanvasArguments a) {
  const int64_t row = listed_row(a.rows, block_index().x);
  const float factor = a.is_denoised[row] != 0 ? a.denoised_factor : a.read_factor;
  for (int64_t i = thread_index(); i < a.hidden; i += kThreads) a.residual[row * a.hidden + i] *= factor;
}

LACUNA_KERNEL cap_kernel(CapArguments a) {
  float* logits = a.logits + int64_t{block_index().y} * a.count;
  const int64_t i = int64_t{block_index().x} * kThreads + thread_index();
  if (i < a.count) logits[i] = a.cap * simt::tanh(logits[i] / a.cap);
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

void mix_with_mask(Stream& stream, const MixArguments& arguments, uint32_t rows) {
  launch(stream, mix_kernel, {.grid = {rows, 1, 1}, .threads = kThreads, .shared_bytes = sizeof(NormShared)},
         arguments);
}

void rms_norm(Stream& stream, const NormArguments& arguments, uint32_t rows) {
  launch(stream, norm_kernel, {.grid = {rows, 1, 1}, .threads = kThreads, .shared_bytes = sizeof(NormShared)},
         arguments);
}

void add_normed(Stream& stream, const AddNormedArguments& arguments, uint32_t rows) {
  launch(stream, add_normed_kernel,
         {.grid = {rows, 1, 1}, .threads = kThreads, .shared_bytes = sizeof(NormShared)}, arguments);
}

void sum_of_norms(Stream& stream, const SumOfNormsArguments& arguments, uint32_t rows) {
  launch(stream, sum_of_norms_kernel,
         {.grid = {rows, 1, 1}, .threads = kThreads, .shared_bytes = sizeof(NormShared)}, arguments);
}

void norm_canvases(Stream& stream, const CanvasArguments& arguments, uint32_t rows) {
  launch(stream, norm_canvases_kernel,
         {.grid = {rows, 1, 1}, .threads = kThreads, .shared_bytes = sizeof(NormShared)}, arguments);
}

void scale_rows(Stream& stream, const CanvasArguments& arguments, uint32_t rows) {
  launch(stream, scale_rows_kernel, {.grid = {rows, 1, 1}, .threads = kThreads}, arguments);
}

void cap_logits(Stream& stream, const CapArguments& arguments, uint32_t rows) {
  const auto blocks = static_cast<uint32_t>((arguments.count + kThreads - 1) / kThreads);
  launch(stream, cap_kernel, {.grid = {blocks, rows, 1}, .threads = kThreads}, arguments);
}

void round_rows(Stream& stream, const RoundArguments& arguments, uint32_t rows) {
  launch(stream, round_kernel, {.grid = {rows, 1, 1}, .threads = kThreads}, arguments);
}

}  // namespace lacuna::cuda
