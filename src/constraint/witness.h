// One complete accepted answer, from the model's scores: whatever part of it is committed, the rest remains
// possible.
#pragma once

#include <span>
#include <vector>

#include "base/rng.h"
#include "base/token.h"
#include "constraint/feasible.h"

namespace lacuna {

/// Scores of the classes in one row, [num_classes] each. All empty: the position was not sampled; it takes
/// any class with the same score. Scores of -inf and NaN count as kMinScore, so that they are used only
/// where nothing else is possible.
struct ClassScores {
  std::span<const TokenId>
      token;  ///< the class's most probable token, or the one sampled within it; negative: its first
  std::span<const float> logprob;  ///< log-probability of `token`
  std::span<const float>
      lse;  ///< log of the class's probability: log-sum-exp of its tokens' log-probabilities
  /// Log-weights to sample with, if they differ from `lse` (a temperature); empty: `lse`.
  std::span<const float> sampling_lse;

  bool is_empty() const { return token.empty(); }
};

inline constexpr double kMinScore = -1e6;

struct Witness {
  std::vector<TokenId> tokens;  ///< [length]; known positions have their token
  /// [length] p(w_i) / p(T_i), where T_i is what position i may get (FeasibleSets::allowed): 1 for known
  /// positions and where nothing else is allowed, 0 for open positions without scores.
  std::vector<double> probability;
  double score = 0;  ///< sum of logprob over the open positions with scores
};

/// The accepted answer with the largest sum of `logprob`. Ties: the lowest token id at the first position
/// where they differ, then the lowest state. `sets` must be completable and hold what is committed; scores
/// has one entry for each position, and those of known positions are not looked at. Behind an end token every
/// position takes its most probable token.
Witness best_witness(const FeasibleSets& sets, std::span<const ClassScores> scores);

/// An answer sampled from the product of the rows' distributions, restricted to accepted answers; exact if
/// all open positions have scores. An open position without scores takes each state that it can lead to with
/// the same probability, however many tokens lead there, and then the lowest token id. Uses rng.uniform(i)
/// for position i.
Witness sample_witness(const FeasibleSets& sets, std::span<const ClassScores> scores, const RngStream& rng);

}  // namespace lacuna
