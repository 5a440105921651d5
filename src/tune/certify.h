// Certifies settings whose risk is at most the asked one (learn then test, arXiv 2110.01052). Settings are
// tested in chains: a chain is tested in its order until a setting fails, each at the same level
// (fixed-sequence testing), and each chain gets an equal part of the level (Bonferroni). With the requested
// confidence, all certified settings keep the risk at once, for any model. The prompts must be independent
// samples of future prompts, and the chains must be chosen without them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "tune/bounds.h"

namespace lacuna {

struct Promise {
  LossKind kind = LossKind::kBinary;
  double risk = 0.02;       ///< mean loss that is allowed, (0, 1)
  double confidence = 0.9;  ///< probability that no certified setting exceeds the risk, (0, 1)
};

/// Settings by number, in the order of testing: the most cautious first.
using Chain = std::vector<size_t>;

struct TestedSetting {
  size_t setting = 0;
  size_t chain = 0;
  LossSum sum;
  double p_value = 1;  ///< 1 if the test ended early
  bool certified = false;
};

struct Certification {
  double level = 0;                   ///< level of each chain: (1 - confidence) / chains
  std::vector<TestedSetting> tested;  ///< in the order of testing
};

/// Losses of a setting over the prompts of certification. May end early, with fewer prompts, if
/// may_still_pass() is false; such a setting is not certified.
using MeasureLosses = std::function<LossSum(size_t setting)>;

/// Tests the chains. `measure` is called only for settings that are tested.
///   prompts  number of prompts of certification
Certification certify(const Promise& promise, const std::vector<Chain>& chains, int64_t prompts,
                      const MeasureLosses& measure);

/// Whether a setting with these losses so far passes a test over `prompts` at `level` if no further loss
/// comes.
bool may_still_pass(const Promise& promise, const LossSum& so_far, int64_t prompts, double level);

/// Maximum number of chains, up to `most`, of which each can certify a setting without losses over this many
/// prompts; 0: none can.
int32_t affordable_chains(const Promise& promise, int64_t prompts, int32_t most);

}  // namespace lacuna
