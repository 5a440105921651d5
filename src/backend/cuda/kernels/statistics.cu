#include "backend/cuda/kernels/statistics.h"
#include "base/rng.h"

namespace lacuna::cuda {
namespace {

using namespace simt;  // NOLINT(google-build-using-namespace): a kernel's vocabulary

constexpr uint32_t kThreads = 256;
constexpr uint32_t kWarps = kThreads / 32;
constexpr double kLn2 = 0.693147180559945309417;
constexpr int32_t kNoToken = INT32_MAX;

LACUNA_DEVICE float infinity() {
  return as_float(0x7f800000U);
}
LACUNA_DEVICE double wide_infinity() {
  return static_cast<double>(infinity());
}
LACUNA_DEVICE bool is_finite(float x) {
  return (as_bits(x) & 0x7f800000U) != 0x7f800000U;
}
LACUNA_DEVICE bool is_finite(double x) {
  return x - x == 0;
}

/// The largest value and its lowest token. NaNs are ignored.
template <typename T>
struct Best {
  T value;
  int32_t token;

  LACUNA_DEVICE void add(T other, int32_t other_token) {
    if (other > value || (other == value && other_token < token)) {
      value = other;
      token = other_token;
    }
  }
};

template <typename T>
struct BestParts {
  T values[kWarps];
  int32_t tokens[kWarps];
};

template <typename T>
LACUNA_DEVICE Best<T> block_best(Best<T> mine, BestParts<T>& parts) {
  for (uint32_t distance = 16; distance > 0; distance /= 2) {
    const T value = shuffle_xor(mine.value, distance);
    const int32_t token = shuffle_xor(mine.token, distance);
    mine.add(value, token);
  }
  if (lane_index() == 0) {
    parts.values[warp_index()] = mine.value;
    parts.tokens[warp_index()] = mine.token;
  }
  sync_threads();
  for (uint32_t warp = 0; warp < kWarps; ++warp) mine.add(parts.values[warp], parts.tokens[warp]);
  sync_threads();
  return mine;
}

template <typename T>
LACUNA_DEVICE T block_total(T value, T* parts) {
  value = block_sum(value, parts);
  sync_threads();
  return value;
}

struct DrawShared {
  BestParts<float> best;
  BestParts<double> noisy;
  double sums[kWarps];
  int32_t counts[kWarps];
};

/// Scales the row and sets forbidden tokens to -infinity. Returns whether all logits of the model were
/// finite.
LACUNA_DEVICE bool prepare_row(const DrawArguments& a, const DrawRule& rule, float* logits,
                               DrawShared& memory) {
  int32_t special = 0;
  for (int64_t i = thread_index(); i < a.vocabulary; i += kThreads) {
    special += is_finite(logits[i]) ? 0 : 1;
    logits[i] *= rule.logit_scale;
  }
  sync_threads();
  for (auto i = static_cast<int32_t>(thread_index()); i < rule.num_forbidden; i += kThreads) {
    logits[a.tokens[rule.first_forbidden + i]] = -infinity();
  }
  return block_total(special, memory.counts) == 0;
}

LACUNA_DEVICE Best<float> best_of(const DrawArguments& a, const float* logits, int32_t without,
                                  DrawShared& memory) {
  Best<float> best{-infinity(), kNoToken};
  for (auto i = static_cast<int32_t>(thread_index()); i < a.vocabulary; i += kThreads) {
    if (i != without) best.add(logits[i], i);
  }
  return block_best(best, memory.best);
}

/// Gumbel-max sampling: argmax of logit / T + g, g = -ln(-ln u) with independent uniform u per token. Since
/// -ln u >= 1 - u, the leading ones of u bound g, which rules out most tokens without logarithms.
LACUNA_DEVICE int32_t draw_token(const DrawArguments& a, const DrawRule& rule, uint64_t key,
                                 const float* logits, int32_t likeliest, DrawShared& memory) {
  const RngStream noise = RngStream::from_key(key);
  const double inverse = 1.0 / rule.temperature;
  const auto value_of = [&](int32_t token) {
    const double u = noise.uniform(static_cast<uint64_t>(token));
    return simt::multiply(logits[token], inverse) - simt::log(-simt::log(u));
  };
  Best<double> best{value_of(likeliest), likeliest};
  for (auto i = static_cast<int32_t>(thread_index()); i < a.vocabulary; i += kThreads) {
    const int ones = leading_ones(noise.bits(static_cast<uint64_t>(i)));
    if (simt::multiply(logits[i], inverse) + simt::multiply(ones + 1, kLn2) < best.value) continue;
    best.add(value_of(i), i);
  }
  return block_best(best, memory.noisy).token;
}

/// Number of tokens with a larger logit than `scored`, or the same logit and a lower id.
LACUNA_DEVICE int32_t rank_of(const DrawArguments& a, const float* logits, int32_t scored,
                              DrawShared& memory) {
  const float logit = logits[scored];
  int32_t before = 0;
  for (auto i = static_cast<int32_t>(thread_index()); i < a.vocabulary; i += kThreads) {
    const bool ties = logits[i] == logit && i < scored && logit > -infinity();
    before += logits[i] > logit || ties ? 1 : 0;
  }
  return block_total(before, memory.counts);
}

LACUNA_KERNEL draw_kernel(DrawArguments a) {
  auto& memory = shared<DrawShared>();
  const DrawRequest request = a.requests[block_index().x];
  const DrawRule rule = a.rules[request.rule];
  float* logits = a.logits + request.row * a.stride;
  DrawStatistics result;
  result.is_finite = prepare_row(a, rule, logits, memory) ? 1 : 0;
  Best<float> best = best_of(a, logits, -1, memory);
  result.best_logit = best.value;
  if (request.scored_token >= 0) {
    result.scored_rank = rank_of(a, logits, request.scored_token, memory);
    result.scored_logit = logits[request.scored_token];
  }
  if (rule.divisor != 1) {
    sync_threads();  // all threads have read the raw logits
    for (int64_t i = thread_index(); i < a.vocabulary; i += kThreads) logits[i] /= rule.divisor;
    sync_threads();
    best = best_of(a, logits, -1, memory);
  }
  if (best.token == kNoToken) best.token = 0;  // all logits are NaN
  double sum = 0;
  double weighted = 0;
  for (int64_t i = thread_index(); i < a.vocabulary; i += kThreads) {
    const double below = static_cast<double>(logits[i]) - best.value;
    const double weight = simt::exp(below);
    sum += weight;
    if (weight > 0) weighted += weight * below;
  }
  sum = block_total(sum, memory.sums);
  weighted = block_total(weighted, memory.sums);
  result.likeliest_logit = best.value;
  result.best_token = best.token;
  result.second_logit = best_of(a, logits, best.token, memory).value;
  result.log_sum = simt::log(sum);
  result.negative_entropy = weighted / sum - result.log_sum;
  result.token = best.token;
  if (rule.temperature > 0) {
    result.token = draw_token(a, rule, request.noise_key, logits, best.token, memory);
  }
  result.probability = simt::exp(static_cast<double>(logits[result.token]) - best.value) / sum;
  if (request.scored_token >= 0) {
    result.scored_probability =
        simt::exp(static_cast<double>(logits[request.scored_token]) - best.value) / sum;
  }
  if (thread_index() == 0) a.out[block_index().x] = result;
}

struct DriftShared {
  BestParts<float> best;
  double sums[kWarps];
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
  a.out[2 * row] = !finite ? wide_infinity() : (kl > 0 ? kl : 0);
  a.out[2 * row + 1] = !finite ? wide_infinity() : (above > under ? above : under);
}

}  // namespace

void draw(Stream& stream, const DrawArguments& arguments, uint32_t num_requests) {
  launch(stream, draw_kernel,
         {.grid = {num_requests, 1, 1}, .threads = kThreads, .shared_bytes = sizeof(DrawShared)}, arguments);
}

void measure_drift(Stream& stream, const DriftArguments& arguments, uint32_t rows) {
  launch(stream, drift_kernel,
         {.grid = {rows, 1, 1}, .threads = kThreads, .shared_bytes = sizeof(DriftShared)}, arguments);
}

}  // namespace lacuna::cuda
