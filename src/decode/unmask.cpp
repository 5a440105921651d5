#include "decode/unmask.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/overloaded.h"

namespace lacuna {
namespace {

/// Point `index` of count + 1 points from 1 to eps. In f32, and from whichever end is nearer, as PyTorch's
/// linspace computes it: Dream's counts depend on the last bit.
float time_at(float eps, int32_t index, int32_t count) {
  const float step = (eps - 1.0F) / static_cast<float>(count);
  if (index < (count + 1) / 2) return 1.0F + step * static_cast<float>(index);
  return eps - step * static_cast<float>(count - index);
}

/// Sort key of a candidate, in descending order.
double rank_of(const UnmaskPolicy& policy, const Commit& candidate, const RngStream& noise) {
  const auto position = static_cast<uint64_t>(candidate.position);
  if (policy.order == UnmaskOrder::kRandom) return noise.uniform(position);
  if (policy.order == UnmaskOrder::kLeftToRight) return -static_cast<double>(candidate.position);
  if (policy.order_temperature > 0) {
    // The k largest of w + Gumbel noise are k samples without replacement with weights softmax(w).
    return candidate.confidence / policy.order_temperature - std::log(-std::log(noise.uniform(position)));
  }
  return candidate.confidence;
}

/// The positions that the caller's function chooses, ascending.
std::vector<Commit> choose_by(const UnmaskFunction& function, std::span<const Commit> candidates,
                              const BlockProgress& progress, std::span<const RowStatistics> rows) {
  expects(rows.size() == candidates.size(), "choose: one row for each candidate");
  if (candidates.empty()) return {};
  std::vector<int32_t> positions;
  std::vector<TokenId> tokens;
  std::vector<double> probabilities;
  std::vector<double> entropies;
  std::vector<double> margins;
  for (size_t i = 0; i < candidates.size(); ++i) {
    positions.push_back(candidates[i].position);
    tokens.push_back(candidates[i].token);
    probabilities.push_back(candidates[i].confidence);
    entropies.push_back(rows[i].entropy);
    margins.push_back(rows[i].margin);
  }
  std::vector<int32_t> wanted =
      function({positions, tokens, probabilities, entropies, margins, progress.step});
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  std::vector<Commit> chosen;
  for (const Commit& candidate : candidates) {
    if (std::binary_search(wanted.begin(), wanted.end(), candidate.position)) chosen.push_back(candidate);
  }
  expects(!chosen.empty() && chosen.size() == wanted.size(), "choose: candidates alone, and at least one");
  return chosen;
}

/// Positions that LocalLeap commits besides the most confident, ascending.
std::vector<int32_t> near_anchors(const LocalLeap& rule, std::span<const Commit> candidates) {
  std::vector<int32_t> anchors;
  for (const Commit& candidate : candidates) {
    if (candidate.confidence >= rule.tau) anchors.push_back(candidate.position);
  }
  std::vector<int32_t> positions;
  for (const Commit& candidate : candidates) {
    const auto next =
        std::lower_bound(anchors.begin(), anchors.end(), int64_t{candidate.position} - rule.radius);
    const bool is_near = next != anchors.end() && *next <= int64_t{candidate.position} + rule.radius;
    const bool is_relaxed = is_near && candidate.confidence >= rule.relaxed;
    if (candidate.confidence >= rule.tau || is_relaxed) positions.push_back(candidate.position);
  }
  return positions;
}

/// Maximum commits of a WINO step; the published code multiplies in f32.
size_t widest_step(size_t num_masked) {
  return static_cast<size_t>(std::clamp(static_cast<float>(num_masked) * 0.7F, 5.0F, 20.0F));
}

}  // namespace

float unmask_probability(float eps, int32_t step, int32_t num_steps) {
  if (step + 1 >= num_steps) return 1;
  return 1.0F - time_at(eps, step + 1, num_steps) / time_at(eps, step, num_steps);
}

int32_t fixed_count(const CountRule& rule, const BlockProgress& progress) {
  if (const auto* schedule = std::get_if<TimeSchedule>(&rule)) {
    const float probability = unmask_probability(schedule->eps, progress.step, progress.num_steps);
    return static_cast<int32_t>(static_cast<float>(progress.masked_now) * probability);
  }
  if (std::holds_alternative<Remasking>(rule)) {
    const double time = static_cast<double>(progress.step + 1) / progress.num_steps;
    const float share = static_cast<float>(1 - time);  // the published code multiplies in f32
    return progress.masked_now - static_cast<int32_t>(static_cast<float>(progress.masked_now) * share);
  }
  if (std::holds_alternative<LinearSchedule>(rule)) {
    const auto share =
        static_cast<float>(static_cast<double>(progress.num_steps - 1 - progress.step) / progress.num_steps);
    const auto kept = static_cast<int32_t>(static_cast<float>(progress.masked_at_start) * share);
    return std::max(progress.masked_now - kept, 0);
  }
  const int32_t each = progress.masked_at_start / progress.num_steps;
  return each + (progress.step < progress.masked_at_start % progress.num_steps ? 1 : 0);
}

std::vector<Commit> choose(const UnmaskPolicy& policy, std::span<const Commit> candidates,
                           const BlockProgress& progress, const RngStream& noise,
                           std::span<const RowStatistics> rows, const StepHistory& history) {
  std::vector<std::pair<double, Commit>> ranked;
  for (const Commit& candidate : candidates)
    ranked.emplace_back(rank_of(policy, candidate, noise), candidate);
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });

  const auto take_if = [&](auto&& accepted) {
    std::vector<Commit> chosen;
    std::copy_if(candidates.begin(), candidates.end(), std::back_inserter(chosen), accepted);
    return chosen;
  };
  const auto take = [&](size_t count) {
    std::vector<Commit> chosen;
    for (size_t i = 0; i < count; ++i) chosen.push_back(ranked[i].second);
    std::ranges::sort(chosen, {}, &Commit::position);
    return chosen;
  };
  const auto prefix_while = [&](auto&& accepted) {
    size_t count = ranked.empty() ? 0 : 1;
    while (count < ranked.size() && accepted(count, ranked[count].second.confidence)) ++count;
    return count;
  };
  const auto reaching = [&](double tau) {
    return take(prefix_while([&](size_t, double confidence) { return confidence >= tau; }));
  };
  const auto fixed = [&](const CountRule& rule) {
    return std::min(ranked.size(), static_cast<size_t>(fixed_count(rule, progress)));
  };
  // Every rule has a case: one that is missing does not compile.
  return std::visit(
      Overloaded{[&](const EvenSplit& rule) { return take(fixed(rule)); },
                 [&](const TimeSchedule& rule) { return take(fixed(rule)); },
                 [&](const LinearSchedule& rule) { return take(fixed(rule)); },
                 [&](const Remasking& rule) { return take(fixed(rule)); },
                 [&](const AncestralSampling& rule) {
                   const float probability = unmask_probability(rule.eps, progress.step, progress.num_steps);
                   return take_if([&](const Commit& candidate) {
                     return noise.uniform(static_cast<uint64_t>(candidate.position)) < probability;
                   });
                 },
                 [&](const Threshold& rule) { return reaching(rule.tau); },
                 [&](const TraceCredit& rule) { return reaching(rule.tau); },
                 [&](const SlidingBlock& rule) { return reaching(rule.tau); },
                 [&](const AdaptiveBlock& rule) { return reaching(rule.tau); },
                 [&](const SlowFast& rule) { return reaching(history.is_exploring ? rule.slow : rule.tau); },
                 [&](const DecayingThreshold& rule) {
                   return reaching(rule.tau * (1 - rule.alpha * (1 - progress.masked_share)));
                 },
                 [&](const MultiBlock& rule) {
                   std::vector<Commit> chosen;
                   bool has_first = false;  // one of the first block that has masks
                   for (const auto& [rank, candidate] : ranked) {
                     const bool is_first = candidate.position < history.first_end && !has_first;
                     const bool is_best = history.takes_best && chosen.empty();
                     if (!is_first && !is_best && -candidate.confidence > rule.bound.value()) continue;
                     has_first = has_first || candidate.position < history.first_end;
                     chosen.push_back(candidate);
                   }
                   std::ranges::sort(chosen, {}, &Commit::position);
                   return chosen;
                 },
                 [&](const EntropyBudget& rule) {
                   double before = 0;  // entropies of all but the last
                   return take(prefix_while([&](size_t n, double) {
                     before -= ranked[n - 1].second.confidence;
                     return before <= rule.bound;
                   }));
                 },
                 [&](const Prophet& rule) { return take(fixed(rule)); },
                 [&](const Factor& rule) {
                   // The candidate at index n is the (n + 1)-th: 1 - f / (n + 2).
                   return take(prefix_while([&](size_t n, double confidence) {
                     return confidence >= 1 - rule.f / static_cast<double>(n + 2);
                   }));
                 },
                 [&](const Dynamic& rule) {
                   const size_t sure =
                       prefix_while([&](size_t, double confidence) { return confidence > rule.tau; });
                   return take(std::max(sure, fixed(EvenSplit{})));
                 },
                 [&](const LocalLeap& rule) {
                   const std::vector<int32_t> positions = near_anchors(rule, candidates);
                   return take_if([&](const Commit& candidate) {
                     return candidate.position == ranked.front().second.position ||
                            std::binary_search(positions.begin(), positions.end(), candidate.position);
                   });
                 },
                 [&](const Klass& rule) {
                   std::vector<Commit> ready;
                   for (size_t i = 0; i < history.is_stable.size(); ++i) {
                     if (history.is_stable[i] && candidates[i].confidence > rule.tau)
                       ready.push_back(candidates[i]);
                   }
                   return ready.empty() ? take(std::min<size_t>(ranked.size(), 1)) : ready;
                 },
                 [&](const Wino& rule) {
                   const size_t sure =
                       prefix_while([&](size_t, double confidence) { return confidence > rule.tau; });
                   return take(std::min(sure, widest_step(candidates.size())));
                 },
                 [&](const Saber& rule) {
                   const size_t sure = prefix_while(
                       [&](size_t, double confidence) { return confidence > history.written_confidence; });
                   return take(std::min(std::max(sure, static_cast<size_t>(rule.least)), ranked.size()));
                 },
                 [&](const SoftTokens& rule) {
                   const auto unsure = std::ranges::find_if(
                       candidates, [&](const Commit& each) { return each.confidence < rule.tau; });
                   const auto sure = static_cast<size_t>(unsure - candidates.begin());
                   const auto count = std::min(std::max<size_t>(sure, 1), candidates.size());
                   return std::vector<Commit>(candidates.begin(), candidates.begin() + count);
                 },
                 [&](const EntropyBounded& rule) {
                   double sum = ranked.empty() ? 0 : -ranked.front().second.confidence;
                   return take(prefix_while([&](size_t, double confidence) {
                     sum -= confidence;
                     return sum < rule.bound;
                   }));
                 },
                 [&](const CustomRule& rule) { return choose_by(*rule.choose, candidates, progress, rows); }},
      policy.count);
}

}  // namespace lacuna
