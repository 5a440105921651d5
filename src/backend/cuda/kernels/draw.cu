#include "backend/cuda/kernels/draw.h"
#include "backend/cuda/kernels/reductions.h"
#include "base/rng.h"

namespace lacuna::cuda {
namespace {

using namespace simt;  // NOLINT(google-build-using-namespace): a kernel's vocabulary

constexpr int32_t kThreads = kRowThreads;
constexpr double kLn2 = 0.693147180559945309417;

/// Sets tokens of a list to -infinity, if they are among the `count` from `begin` on.
///   found  becomes 1 if the list has `scored`; null: not asked
LACUNA_DEVICE void hide(const int32_t* tokens, int32_t num_tokens, int32_t begin, int32_t count,
                        float* logits, int32_t scored = -1, int32_t* found = nullptr) {
  for (auto i = static_cast<int32_t>(thread_index()); i < num_tokens; i += kThreads) {
    const int32_t at = tokens[i] - begin;
    if (at >= 0 && at < count) logits[at] = -infinity();
    if (found != nullptr && tokens[i] == scored) *found = 1;
  }
}

/// Gumbel-max sampling: argmax of logit / T + g, g = -ln(-ln u) with independent uniform u per token. Since
/// -ln u >= 1 - u, the leading ones of u bound g, which rules out most tokens without logarithms.
class Gumbel {
 public:
  LACUNA_DEVICE Gumbel(uint64_t key, float temperature)
      : noise_(RngStream::from_key(key)), inverse_(1.0 / temperature) {}

  LACUNA_DEVICE double value(float logit, int32_t token) const {
    const double u = noise_.uniform(static_cast<uint64_t>(token));
    return simt::multiply(logit, inverse_) - simt::log(-simt::log(u));
  }
  LACUNA_DEVICE void add(float logit, int32_t token, Best<double>& best) const {
    const int ones = leading_ones(noise_.bits(static_cast<uint64_t>(token)));
    if (simt::multiply(logit, inverse_) + simt::multiply(ones + 1, kLn2) < best.value) return;
    best.add(value(logit, token), token);
  }

 private:
  RngStream noise_;
  double inverse_;
};

struct SliceShared {
  float tile[kSliceTokens];
  BestParts<float> best;
  BestParts<double> noisy;
  double sums[kRowWarps];
  int32_t counts[kRowWarps];
  int32_t scored_is_forbidden, scored_is_undrawn;
};

/// Walks the threads' logits of a slice. Those behind the vocabulary's end are -infinity.
template <typename Use>
LACUNA_DEVICE void for_each(const SliceShared& memory, const Use& use) {
  LACUNA_UNROLL
  for (int32_t n = 0; n < kSliceTokens / kThreads; ++n) {
    const int32_t at = n * kThreads + static_cast<int32_t>(thread_index());
    use(memory.tile[at], at);
  }
}

/// Loads a slice, scaled. Returns how many of the thread's logits are not finite.
LACUNA_DEVICE int32_t load_slice(const float* logits, int32_t count, float scale, SliceShared& memory) {
  float loaded[kSliceTokens / kThreads];
  int32_t special = 0;
  LACUNA_UNROLL
  for (int32_t n = 0; n < kSliceTokens / kThreads; ++n) {
    const int32_t at = n * kThreads + static_cast<int32_t>(thread_index());
    loaded[n] = at < count ? logits[at] : -infinity();
  }
  LACUNA_UNROLL
  for (int32_t n = 0; n < kSliceTokens / kThreads; ++n) {
    const int32_t at = n * kThreads + static_cast<int32_t>(thread_index());
    special += at < count && !is_finite(loaded[n]) ? 1 : 0;
    memory.tile[at] = loaded[n] * scale;
  }
  return special;
}

/// The distribution that statistics are measured in.
LACUNA_DEVICE void measure_slice(const DrawRule& rule, SliceShared& memory, DrawPart& part) {
  Best<float> largest{-infinity(), kNoToken};
  for_each(memory, [&](float logit, int32_t at) { largest.add(logit / rule.divisor, at); });
  largest = block_best(largest, memory.best);
  const float reference = largest.value > -infinity() ? largest.value : 0;
  Best<float> next{-infinity(), kNoToken};
  double sum = 0, weighted = 0;
  for_each(memory, [&](float logit, int32_t at) {
    const float divided = logit / rule.divisor;
    if (at != largest.token) next.add(divided, at);
    const double below = static_cast<double>(divided) - reference;
    const double weight = simt::exp(below);
    sum += weight;
    if (weight > 0) weighted += weight * below;
  });
  part.likeliest = largest.value;
  part.next = block_best(next, memory.best).value;
  part.sum = block_total(sum, memory.sums);
  part.weighted = block_total(weighted, memory.sums);
}

/// The tokens of a slice that may be sampled, numbered as in the vocabulary.
LACUNA_DEVICE void sample_slice(const DrawRule& rule, const DrawRequest& request, int32_t begin,
                                SliceShared& memory, DrawPart& part) {
  Best<float> best{-infinity(), kNoToken}, sampled{-infinity(), kNoToken};
  for_each(memory, [&](float logit, int32_t at) {
    best.add(logit, begin + at);
    sampled.add(logit / rule.divisor, begin + at);
  });
  best = block_best(best, memory.best);
  sampled = block_best(sampled, memory.best);
  Best<float> second{-infinity(), kNoToken};
  int32_t before = 0;
  for_each(memory, [&](float logit, int32_t at) {
    if (begin + at != best.token) second.add(logit, begin + at);
    const bool ties = logit == part.scored && begin + at < request.scored_token && logit > -infinity();
    before += logit > part.scored || ties ? 1 : 0;
  });
  second = block_best(second, memory.best);
  part.num_before_scored = block_total(before, memory.counts);
  part.best = best.value;
  part.best_token = best.token;
  part.second = second.value;
  part.second_token = second.token;
  part.sampled = part.drawn = sampled.value;
  part.sampled_token = part.drawn_token = sampled.token;
  part.noisy = -infinity();
  if (rule.temperature <= 0 || rule.filters || !(sampled.value > -infinity())) return;
  const Gumbel gumbel(request.noise_key, rule.temperature);
  Best<double> noisy{gumbel.value(sampled.value, sampled.token), sampled.token};
  for_each(memory, [&](float logit, int32_t at) { gumbel.add(logit / rule.divisor, begin + at, noisy); });
  noisy = block_best(noisy, memory.noisy);
  part.noisy = noisy.value;
  part.drawn_token = noisy.token;
  part.drawn = memory.tile[noisy.token - begin] / rule.divisor;
}

/// One block per slice and request.
LACUNA_KERNEL slice_kernel(DrawArguments a) {
  auto& memory = shared<SliceShared>();
  const DrawRequest request = a.requests[block_index().y];
  const DrawRule rule = a.rules[request.rule];
  const float* logits = a.logits + request.row * a.stride;
  const int32_t begin = static_cast<int32_t>(block_index().x) * kSliceTokens;
  const auto left = static_cast<int32_t>(a.vocabulary) - begin;
  const int32_t count = left < kSliceTokens ? left : kSliceTokens;
  DrawPart part;
  if (thread_index() == 0) memory.scored_is_forbidden = memory.scored_is_undrawn = 0;
  const int32_t special = load_slice(logits + begin, count, rule.logit_scale, memory);
  sync_threads();
  hide(a.tokens + rule.first_forbidden, rule.num_forbidden, begin, count, memory.tile, request.scored_token,
       &memory.scored_is_forbidden);
  part.num_special = block_total(special, memory.counts);
  measure_slice(rule, memory, part);
  hide(a.tokens + rule.first_undrawn, rule.num_undrawn, begin, count, memory.tile, request.scored_token,
       &memory.scored_is_undrawn);
  sync_threads();
  part.scored = part.scored_likelihood = -infinity();
  if (request.scored_token >= 0 && memory.scored_is_forbidden == 0) {
    const float scored = logits[request.scored_token] * rule.logit_scale;
    part.scored_likelihood = scored / rule.divisor;
    if (memory.scored_is_undrawn == 0 && scored > -infinity()) part.scored = scored;
  }
  sample_slice(rule, request, begin, memory, part);
  if (thread_index() == 0) a.parts[block_index().y * grid_size().x + block_index().x] = part;
}

/// One warp per request adds its slices: each lane a fixed set of them, then the lanes in a fixed tree.
LACUNA_KERNEL merge_kernel(DrawArguments a) {
  const DrawRequest request = a.requests[block_index().x];
  const DrawRule rule = a.rules[request.rule];
  const auto num_parts = static_cast<int32_t>(num_slices(a.vocabulary));
  const DrawPart* parts = a.parts + static_cast<int64_t>(block_index().x) * num_parts;
  const auto lane = static_cast<int32_t>(lane_index());
  Best<float> largest{-infinity(), kNoToken}, best = largest, sampled = largest;
  Best<double> noisy{-static_cast<double>(infinity()), kNoToken};
  int32_t before = 0, special = 0;
  for (int32_t i = lane; i < num_parts; i += 32) {
    const DrawPart& part = parts[i];
    largest.add(part.likeliest, i);
    best.add(part.best, part.best_token);
    sampled.add(part.sampled, part.sampled_token);
    noisy.add(part.noisy, part.drawn_token);
    before += part.num_before_scored;
    special += part.num_special;
  }
  largest = warp_best(largest);
  best = warp_best(best);
  sampled = warp_best(sampled);
  noisy = warp_best(noisy);
  Best<float> next{-infinity(), kNoToken}, second = next, drawn = next;
  double sum = 0, weighted = 0;
  for (int32_t i = lane; i < num_parts; i += 32) {
    const DrawPart& part = parts[i];
    next.add(i == largest.token ? part.next : part.likeliest, i);
    if (part.best_token != best.token) second.add(part.best, part.best_token);
    second.add(part.second, part.second_token);
    if (noisy.token != kNoToken && part.drawn_token == noisy.token) drawn = {part.drawn, noisy.token};
    if (part.sum == 0) continue;
    const double below = static_cast<double>(part.likeliest) - largest.value;
    const double factor = simt::exp(below);
    sum += factor * part.sum;
    weighted += factor * (part.weighted + below * part.sum);
  }
  sum = warp_sum(sum);
  weighted = warp_sum(weighted);
  next = warp_best(next);
  second = warp_best(second);
  drawn = warp_best(drawn);
  if (rule.temperature <= 0 || drawn.token == kNoToken) drawn = sampled;
  DrawStatistics result;
  result.log_sum = simt::log(sum);
  result.negative_entropy = weighted / sum - result.log_sum;
  result.probability = simt::exp(static_cast<double>(drawn.value) - largest.value) / sum;
  result.best_logit = best.value;
  result.likeliest_logit = largest.value;
  result.second_logit = next.value;
  result.best_token = sampled.token == kNoToken ? 0 : sampled.token;  // all logits are NaN
  result.second_token = second.token == kNoToken ? 0 : second.token;
  result.token = drawn.token == kNoToken ? 0 : drawn.token;
  if (request.scored_token >= 0) {
    result.scored_logit = parts[0].scored;
    result.scored_probability =
        simt::exp(static_cast<double>(parts[0].scored_likelihood) - largest.value) / sum;
  }
  before = warp_sum(before);
  result.scored_rank = request.scored_token >= 0 ? before : 0;
  result.is_finite = warp_sum(special) == 0 ? 1 : 0;
  if (lane == 0) a.out[block_index().x] = result;
}

using Count = unsigned long long;  // NOLINT(google-runtime-int): CUDA's atomics are of this type

struct FilterShared {
  Count bins[256];
  BestParts<float> best;
  BestParts<double> noisy;
  double sums[kRowWarps];
  int32_t counts[kRowWarps];
};

/// Walks the threads' tokens of a row.
template <typename Use>
LACUNA_DEVICE void for_tokens(int64_t vocabulary, const Use& use) {
  for (auto i = static_cast<int32_t>(thread_index()); i < vocabulary; i += kThreads) use(i);
}

struct Selected {
  bool found;
  uint64_t key;
  uint64_t before;  ///< weight of the items with larger keys
};

/// Radix selection: the item where the weight of all items with at least its key exceeds `goal`.
///   key     of a token; below 2^40
///   weight  of a token; sums are of integers, which do not depend on the order
template <typename Key, typename Weight>
LACUNA_DEVICE Selected select(int64_t vocabulary, uint64_t goal, FilterShared& memory, const Key& key,
                              const Weight& weight) {
  uint64_t chosen = 0, before = 0;
  for (int32_t level = 4; level >= 0; --level) {
    memory.bins[thread_index()] = 0;
    sync_threads();
    for_tokens(vocabulary, [&](int32_t i) {
      const uint64_t own = key(i);
      if (own >> (8 * level + 8) != chosen) return;
      const uint64_t own_weight = weight(i);
      if (own_weight > 0) atomic_add(&memory.bins[own >> (8 * level) & 255U], static_cast<Count>(own_weight));
    });
    sync_threads();
    uint64_t digit = 255;
    while (digit > 0 && before + memory.bins[digit] <= goal) before += memory.bins[digit--];
    if (before + memory.bins[digit] <= goal) return {false, 0, 0};  // at the first level
    chosen = chosen << 8 | digit;
    sync_threads();
  }
  return {true, chosen, before};
}

/// Bits in the order of the numbers.
LACUNA_DEVICE uint32_t ordered_bits(float x) {
  const uint32_t bits = as_bits(x + 0.0F);  // -0 is 0
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}
LACUNA_DEVICE float from_ordered_bits(uint32_t bits) {
  return as_float((bits & 0x80000000U) != 0 ? bits & 0x7fffffffU : ~bits);
}

/// A key in the order of logits. Its first byte is that of the distance to the largest logit, in eighths:
/// most logits of a row share the first byte of their bits, where all threads would add to one bin.
LACUNA_DEVICE uint64_t key_of(float logit, float largest) {
  const float distance = 8 * (largest - logit);
  const uint32_t near = distance < 255 ? 255 - static_cast<uint32_t>(distance) : 0;
  return static_cast<uint64_t>(near) << 32 | ordered_bits(logit);
}

/// The tokens that filters keep.
struct Cut {
  float least;   ///< min_p and top_k: all that are at least this likely
  float at;      ///< top_p: all that are likelier than this,
  int32_t last;  ///< and those of this logit up to a token

  LACUNA_DEVICE bool keeps(float logit, int32_t token) const {
    return logit >= least && (logit > at || (logit == at && token <= last));
  }
};

/// keep_likeliest() of model/sampling.cpp. Probabilities are rounded to multiples of 2^-52, so that their
/// sums do not depend on the order.
template <typename Logit>
LACUNA_DEVICE Cut find_cut(const DrawRule& rule, int64_t vocabulary, float largest, double sum,
                           FilterShared& memory, const Logit& logit) {
  constexpr double kOne = 4503599627370496.0;  // 2^52
  Cut cut{-infinity(), -infinity(), kNoToken};
  const auto key = [&](int32_t i) { return key_of(logit(i), largest); };
  if (rule.min_p > 0) cut.least = static_cast<float>(largest + simt::log(static_cast<double>(rule.min_p)));
  if (rule.top_k > 0) {
    const auto one = [](int32_t) { return uint64_t{1}; };
    const Selected kth = select(vocabulary, static_cast<uint64_t>(rule.top_k - 1), memory, key, one);
    const float least = from_ordered_bits(static_cast<uint32_t>(kth.key));
    if (kth.found && least > cut.least) cut.least = least;
  }
  if (rule.top_p >= 1 || !is_finite(sum)) return cut;
  const auto weight = [&](float x) {
    return static_cast<uint64_t>(simt::exp(static_cast<double>(x) - largest) / sum * kOne + 0.5);
  };
  const auto goal = static_cast<uint64_t>(static_cast<double>(rule.top_p) * kOne);
  const Selected last = select(vocabulary, goal, memory, key, [&](int32_t i) { return weight(logit(i)); });
  if (!last.found) return cut;
  cut.at = from_ordered_bits(static_cast<uint32_t>(last.key));
  int32_t ties = 0;
  for_tokens(vocabulary, [&](int32_t i) { ties += logit(i) == cut.at ? 1 : 0; });
  ties = block_total(ties, memory.counts);
  const uint64_t kept = (goal - last.before) / weight(cut.at);  // all ties but one
  if (kept + 1 >= static_cast<uint64_t>(ties)) return cut;
  const auto lowest_first = [](int32_t i) { return uint64_t{~static_cast<uint32_t>(i)}; };
  const auto is_tie = [&](int32_t i) { return uint64_t{logit(i) == cut.at ? 1U : 0U}; };
  const Selected tie = select(vocabulary, kept, memory, lowest_first, is_tie);
  cut.last = static_cast<int32_t>(~static_cast<uint32_t>(tie.key));
  return cut;
}

/// One block per request samples rows with filters again, and overwrites them.
LACUNA_KERNEL filter_kernel(DrawArguments a) {
  auto& memory = shared<FilterShared>();
  const DrawRequest request = a.requests[block_index().x];
  const DrawRule rule = a.rules[request.rule];
  if (!rule.filters) return;  // the whole block
  float* logits = a.logits + request.row * a.stride;
  const auto count = static_cast<int32_t>(a.vocabulary);
  DrawStatistics result = a.out[block_index().x];
  // No other block reads the row.
  for_tokens(count, [&](int32_t i) {
    const float scaled = logits[i] * rule.logit_scale;
    logits[i] = scaled == scaled ? scaled : -infinity();
  });
  sync_threads();
  hide(a.tokens + rule.first_forbidden, rule.num_forbidden, 0, count, logits);
  hide(a.tokens + rule.first_undrawn, rule.num_undrawn, 0, count, logits);
  sync_threads();
  const auto logit = [&](int32_t i) { return logits[i] / rule.filter_divisor; };
  Best<float> largest{-infinity(), kNoToken};
  for_tokens(count, [&](int32_t i) { largest.add(logit(i), i); });
  largest = block_best(largest, memory.best);
  double sum = 0;
  for_tokens(count, [&](int32_t i) { sum += simt::exp(static_cast<double>(logit(i)) - largest.value); });
  sum = block_total(sum, memory.sums);
  const Cut cut = find_cut(rule, count, largest.value, sum, memory, logit);

  const Gumbel gumbel(request.noise_key, 1);
  Best<double> noisy{gumbel.value(largest.value, largest.token), largest.token};
  Best<float> next{-infinity(), kNoToken};
  double kept_sum = 0, weighted = 0;
  for_tokens(count, [&](int32_t i) {
    const float x = logit(i);
    if (!cut.keeps(x, i)) return;
    if (rule.temperature > 0) gumbel.add(x, i, noisy);
    if (i != largest.token) next.add(x, i);
    const double below = static_cast<double>(x) - largest.value;
    const double weight = simt::exp(below);
    kept_sum += weight;
    if (weight > 0) weighted += weight * below;
  });
  result.best_token = largest.token;
  result.token = block_best(noisy, memory.noisy).token;
  next = block_best(next, memory.best);
  kept_sum = block_total(kept_sum, memory.sums);
  weighted = block_total(weighted, memory.sums);
  if (rule.measures_filtered) {
    const auto probability = [&](int32_t token) {
      if (!cut.keeps(logit(token), token)) return 0.0;
      return simt::exp(static_cast<double>(logit(token)) - largest.value) / kept_sum;
    };
    result.log_sum = simt::log(kept_sum);
    result.negative_entropy = weighted / kept_sum - result.log_sum;
    result.likeliest_logit = largest.value;
    result.second_logit = next.value;
    result.probability = probability(result.token);
    if (request.scored_token >= 0) result.scored_probability = probability(request.scored_token);
  } else {
    const float raw = logits[result.token] / rule.divisor;
    result.probability = simt::exp(static_cast<double>(raw) - result.likeliest_logit - result.log_sum);
  }
  if (thread_index() == 0) a.out[block_index().x] = result;
}

/// One block per request.
LACUNA_KERNEL prepare_kernel(DrawArguments a) {
  const DrawRequest request = a.requests[block_index().x];
  const DrawRule rule = a.rules[request.rule];
  float* logits = a.logits + request.row * a.stride;
  for_tokens(a.vocabulary, [&](int32_t i) { logits[i] = logits[i] * rule.logit_scale / rule.divisor; });
  sync_threads();
  hide(a.tokens + rule.first_forbidden, rule.num_forbidden, 0, static_cast<int32_t>(a.vocabulary), logits);
}

}  // namespace

void draw(Stream& stream, const DrawArguments& arguments, uint32_t num_requests, bool filters) {
  const uint32_t slices = num_slices(arguments.vocabulary);
  launch(stream, slice_kernel,
         {.grid = {slices, num_requests, 1}, .threads = kThreads, .shared_bytes = sizeof(SliceShared)},
         arguments);
  launch(stream, merge_kernel, {.grid = {num_requests, 1, 1}, .threads = 32}, arguments);
  if (!filters) return;
  launch(stream, filter_kernel,
         {.grid = {num_requests, 1, 1}, .threads = kThreads, .shared_bytes = sizeof(FilterShared)},
         arguments);
}

void prepare_rows(Stream& stream, const DrawArguments& arguments, uint32_t num_requests) {
  launch(stream, prepare_kernel, {.grid = {num_requests, 1, 1}, .threads = kThreads}, arguments);
}

}  // namespace lacuna::cuda
