// One complete accepted answer, chosen by the model's scores. Any part of it can be committed, since the rest
// remains possible.
#pragma once

#include <span>
#include <vector>

#include "base/rng.h"
#include "base/token.h"
#include "constraint/feasible.h"

namespace lacuna {

/// Scores of the token classes at one position, [num_classes] each. All empty: the position was not sampled,
/// and all classes have the same score. -inf and NaN count as kMinScore, so that such classes are chosen only
/// if nothing else is possible.
struct ClassScores {
  std::span<const TokenId> token;  ///< the class's most probable or sampled token; negative: its first token
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
  /// [length] p(w_i) / p(T_i), where w_i is the token and T_i the set of tokens allowed at position i
  /// (FeasibleSets::allowed): 1 if the position is known or has no alternative, 0 if open without scores.
  std::vector<double> probability;
  double score = 0;  ///< sum of logprob over the open positions with scores
};

/// The accepted answer with the largest sum of `logprob`. Ties: the lowest token id at the first position
/// where they differ, then the lowest state. `sets` must be completable and contain all committed tokens;
/// `scores` has one entry per position, ignored for known positions. After an end token every position takes
/// its most probable token.
Witness best_witness(const FeasibleSets& sets, std::span<const ClassScores> scores);

/// An answer sampled from the product of the positions' distributions, restricted to accepted answers; exact
/// if all open positions have scores. An open position without scores gives each possible next state the same
/// weight, regardless of the number of tokens that lead there, and then takes the lowest token id. Uses
/// rng.uniform(i) for position i.
Witness sample_witness(const FeasibleSets& sets, std::span<const ClassScores> scores, const RngStream& rng);

}  // namespace lacuna
