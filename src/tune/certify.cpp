#include "tune/certify.h"

#include "base/error.h"

namespace lacuna {

Certification certify(const Promise& promise, const std::vector<Chain>& chains, int64_t prompts,
                      const MeasureLosses& measure) {
  expects(promise.confidence > 0 && promise.confidence < 1, "certify: the confidence lies in (0, 1)");
  Certification result;
  if (chains.empty()) return result;
  result.level = (1 - promise.confidence) / static_cast<double>(chains.size());
  for (size_t chain = 0; chain < chains.size(); ++chain) {
    for (const size_t setting : chains[chain]) {
      TestedSetting test{setting, chain, measure(setting)};
      expects(test.sum.prompts <= prompts, "certify: no more prompts than there are");
      if (test.sum.prompts == prompts) {
        test.p_value = p_value(promise.kind, test.sum, promise.risk);
        test.certified = test.p_value <= result.level;
      }
      result.tested.push_back(test);
      if (!test.certified) break;
    }
  }
  return result;
}

bool may_still_pass(const Promise& promise, const LossSum& so_far, int64_t prompts, double level) {
  return p_value(promise.kind, {prompts, so_far.losses}, promise.risk) <= level;
}

int32_t affordable_chains(const Promise& promise, int64_t prompts, int32_t most) {
  for (int32_t chains = most; chains > 0; --chains) {
    if (prompts_needed(promise.risk, (1 - promise.confidence) / chains) <= prompts) return chains;
  }
  return 0;
}

}  // namespace lacuna
