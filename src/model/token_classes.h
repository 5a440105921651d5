// Reduction of a row of logits by classes of tokens. It suffices for a decoder that chooses between kinds of
// tokens, such as those that continue a JSON text in the same way, without the full row.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/rng.h"
#include "base/token.h"
#include "kernels/table.h"
#include "model/plan.h"

namespace lacuna {

/// A partition of the vocabulary.
struct TokenClasses {
  std::vector<uint16_t> of_token;  ///< [vocab_size], each below `count`
  int32_t count = 0;
};

/// A row to reduce by classes. Only the rule's temperature, adjustments and forbidden tokens apply.
struct ClassRow {
  LogitRow logit;
  const TokenClasses* classes = nullptr;  ///< must outlive the follow-up
  bool samples = true;  ///< false: takes the best token of each class, even if the rule samples
};

/// Statistics of one class in a row of logits.
struct ClassStatistics {
  TokenId token = -1;  ///< the best, or at a temperature above 0 a sampled token; -1: none may be sampled
  float logit = 0;     ///< its logit
  double log_sum =
      0;  ///< ln of the sum of exp(logit / temperature) over the class; temperature 0 counts as 1

  bool operator==(const ClassStatistics&) const = default;
};

/// Reduces a row of logits by classes. Ties go to the lowest id. A class chosen with weights exp(log_sum) and
/// its sampled token are together an exact sample of the whole row, because Gumbel-max makes both
/// independent. If only one class may be sampled, its sample equals that of draw() with the same noise.
///   noise   null: the best token of each class
///   logits  [vocab] f32, overwritten     values  [classes.count]
void reduce_by_class(const KernelTable& kernels, const SamplingRule& rule, const RngStream* noise,
                     const TokenClasses& classes, std::span<float> logits, std::span<ClassStatistics> values);

}  // namespace lacuna
