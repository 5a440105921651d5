#include "backend/cuda/kernels/drift.h"
#include "backend/cuda/kernels/reductions.h"

namespace lacuna::cuda {
namespace {

using namespace simt;  // NOLINT(google-build-using-namespace): a kernel's vocabulary

constexpr uint32_t kThreads = kRowThreads;

struct DriftShared {
  BestParts<float> best;
  double sums[kRowWarps];
};

/// Scaled logit, rounded before any addition (never contracted to an FMA): equal rows differ by exactly 0.
LACUNA_DEVICE float scaled(const DriftArguments& a, float logit) {
  return static_cast<float>(simt::multiply(logit, a.logit_scale));
}

LACUNA_DEVICE float largest(const float* x, const DriftArguments& a, DriftShared& memory) {
  Best<float> best{-infinity(), kNoToken};
  for (int64_t i = thread_index(); i < a.vocabulary; i += kThreads)
    best.add(scaled(a, x[i]), static_cast<int32_t>(i));
  return block_best(best, memory.best).value;
}

/// KL = sum p (z - y) - (logsumexp z - logsumexp y), with logits z now and y before, p = softmax(z).
LACUNA_KERNEL drift_kernel(DriftArguments a) {
  auto& memory = shared<DriftShared>();
  const int64_t row = block_index().x;
  const float* now = a.now + row * a.stride;
  const float* before = a.before + row * a.stride;
  const float now_max = largest(now, a, memory);
  const float before_max = largest(before, a, memory);
  double now_sum = 0;
  double before_sum = 0;
  double weighted = 0;
  Best<float> most{-infinity(), 0};
  Best<float> least{-infinity(), 0};  // maximum of the negative change
  for (int64_t i = thread_index(); i < a.vocabulary; i += kThreads) {
    const float after = scaled(a, now[i]);
    const float prior = scaled(a, before[i]);
    const double weight = simt::exp(after - now_max);
    const float change = after - prior;
    now_sum += weight;
    before_sum += simt::exp(prior - before_max);
    weighted += simt::multiply(weight, change);
    most.add(change, 0);
    least.add(-change, 0);
  }
  now_sum = block_total(now_sum, memory.sums);
  before_sum = block_total(before_sum, memory.sums);
  weighted = block_total(weighted, memory.sums);
  const double most_change = block_best(most, memory.best).value;
  const double least_change = -static_cast<double>(block_best(least, memory.best).value);
  if (thread_index() != 0) return;
  const double normaliser = now_max + simt::log(now_sum) - (before_max + simt::log(before_sum));
  const double kl = weighted / now_sum - normaliser;
  const double above = most_change > normaliser ? most_change - normaliser : normaliser - most_change;
  const double under = least_change > normaliser ? least_change - normaliser : normaliser - least_change;
  const bool finite = is_finite(weighted) && is_finite(normaliser);
  a.out[2 * row] = !finite ? static_cast<double>(infinity()) : (kl > 0 ? kl : 0);
  a.out[2 * row + 1] = !finite ? static_cast<double>(infinity()) : (above > under ? above : under);
}

}  // namespace

void measure_drift(Stream& stream, const DriftArguments& arguments, uint32_t rows) {
  launch(stream, drift_kernel,
         {.grid = {rows, 1, 1}, .threads = kThreads, .shared_bytes = sizeof(DriftShared)}, arguments);
}

}  // namespace lacuna::cuda
