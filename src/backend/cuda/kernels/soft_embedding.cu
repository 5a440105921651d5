#include "backend/cuda/kernels/soft_embedding.h"
#include "backend/cuda/simt/simt.h"

namespace lacuna::cuda {
namespace {

using namespace simt;  // NOLINT(google-build-using-namespace): a kernel's vocabulary

constexpr uint32_t kThreads = 256;
constexpr uint32_t kBins = 1024;  // four per power of two
constexpr int kBinShift = 21;

using Count = unsigned long long;  // NOLINT(google-runtime-int): CUDA's atomics are of this type

struct WeightShared {
  Count bins[kBins];
  double sums[kThreads / 32];
  float largest[kThreads / 32];
  uint32_t first_kept;
};

LACUNA_DEVICE float largest_of(const float* logits, int64_t count, float* parts) {
  float largest = -as_float(0x7f800000U);
  for (int64_t i = thread_index(); i < count; i += kThreads)
    largest = logits[i] > largest ? logits[i] : largest;
  largest = warp_max(largest);
  if (lane_index() == 0) parts[warp_index()] = largest;
  sync_threads();
  for (uint32_t warp = 0; warp < kThreads / 32; ++warp)
    largest = parts[warp] > largest ? parts[warp] : largest;
  return largest;
}

/// Bin by exponent and upper mantissa bits: non-negative floats are ordered like their bits.
LACUNA_DEVICE uint32_t bin_of(float weight) {
  return as_bits(weight) >> kBinShift & (kBins - 1);
}

/// Fixed-point value of weight 1 in the bins' integer sums; the largest that cannot overflow.
LACUNA_DEVICE double units(int64_t vocabulary) {
  double units = 0x1p62;
  for (int64_t count = 1; count < vocabulary; count *= 2) units /= 2;
  return units;
}

/// One block per row.
LACUNA_KERNEL weigh_kernel(TokenWeightArguments a) {
  auto& memory = shared<WeightShared>();
  const int64_t row = block_index().x;
  const SoftRequest request = a.requests[row];
  const float* logits = a.logits + request.row * a.stride;
  for (uint32_t bin = thread_index(); bin < kBins; bin += kThreads) memory.bins[bin] = 0;
  const float largest = largest_of(logits, a.vocabulary, memory.largest);  // contains a barrier
  const double unit = units(a.vocabulary);
  double sum = 0;
  for (int64_t i = thread_index(); i < a.vocabulary; i += kThreads) {
    const float weight = simt::exp(logits[i] - largest);
    sum += weight;
    if (weight > 0) atomic_add(&memory.bins[bin_of(weight)], static_cast<Count>(weight * unit));
  }
  sum = block_sum(sum, memory.sums);  // contains a barrier
  if (thread_index() == 0) {
    const double most = double{request.slack} * sum * unit;
    Count left_out = 0;
    uint32_t bin = 0;
    while (bin < kBins && static_cast<double>(left_out + memory.bins[bin]) <= most)
      left_out += memory.bins[bin++];
    memory.first_kept = bin;
    a.factors[row] = static_cast<float>(a.scale / sum);
  }
  sync_threads();
  for (int64_t i = thread_index(); i < a.out_stride; i += kThreads) {
    float weight = i < a.vocabulary ? simt::exp(logits[i] - largest) : 0;
    if (bin_of(weight) < memory.first_kept) weight = 0;
    if (a.out_f32 != nullptr) {
      a.out_f32[row * a.out_stride + i] = weight;
    } else {
      a.out[row * a.out_stride + i] = to_bf16(weight);
    }
  }
}

LACUNA_KERNEL keep_kernel(KeepArguments a) {
  const int64_t row = block_index().x;
  const float factor = a.factors[row];
  float* to = a.requests[row].to;
  for (int64_t i = thread_index(); i < a.hidden; i += kThreads) to[i] = factor * a.means[row * a.hidden + i];
}

constexpr uint32_t kTile = 32;

template <typename Number>
struct TransposeShared {
  Number tile[kTile][kTile + 1];  // padded against bank conflicts in columns
};

/// Transposes one tile.
template <typename Number>
LACUNA_DEVICE void transpose_tile(const TransposeArguments& a, const Number* from, Number* to) {
  auto& memory = shared<TransposeShared<Number>>();
  const int64_t first_row = int64_t{block_index().x} * kTile;
  const int64_t first_column = int64_t{block_index().y} * kTile;
  for (uint32_t i = thread_index(); i < kTile * kTile; i += kThreads) {
    const int64_t row = first_row + i / kTile;
    const int64_t column = first_column + i % kTile;
    const bool exists = row < a.rows && column < a.columns;
    memory.tile[i / kTile][i % kTile] = exists ? from[row * a.columns + column] : Number{0};
  }
  sync_threads();
  for (uint32_t i = thread_index(); i < kTile * kTile; i += kThreads) {
    const int64_t column = first_column + i / kTile;
    const int64_t row = first_row + i % kTile;
    if (column < a.columns && row < a.stride) to[column * a.stride + row] = memory.tile[i % kTile][i / kTile];
  }
}

LACUNA_KERNEL transpose_kernel(TransposeArguments a) {
  transpose_tile(a, a.from, a.to);
}

LACUNA_KERNEL transpose_f32_kernel(TransposeArguments a) {
  transpose_tile(a, a.from_f32, a.to_f32);
}

constexpr uint32_t tiles(int64_t count) {
  return static_cast<uint32_t>((count + kTile - 1) / kTile);
}

}  // namespace

void weigh_tokens(Stream& stream, const TokenWeightArguments& arguments, uint32_t rows) {
  launch(stream, weigh_kernel,
         {.grid = {rows, 1, 1}, .threads = kThreads, .shared_bytes = sizeof(WeightShared)}, arguments);
}

void keep_means(Stream& stream, const KeepArguments& arguments, uint32_t rows) {
  launch(stream, keep_kernel, {.grid = {rows, 1, 1}, .threads = kThreads}, arguments);
}

void transpose(Stream& stream, const TransposeArguments& arguments) {
  const bool is_f32 = arguments.from_f32 != nullptr;
  launch(stream, is_f32 ? transpose_f32_kernel : transpose_kernel,
         {.grid = {tiles(arguments.stride), tiles(arguments.columns), 1},
          .threads = kThreads,
          .shared_bytes = is_f32 ? sizeof(TransposeShared<float>) : sizeof(TransposeShared<uint16_t>)},
         arguments);
}

}  // namespace lacuna::cuda
