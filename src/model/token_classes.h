// One row of logits, read class by class of a partition of the vocabulary: what a decoder needs that may
// choose between kinds of tokens, such as those that continue a JSON text in the same way, without ever
// seeing the row itself.
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

/// A row that is read by classes. Of its rule, only the temperature, the adjustments and the forbidden tokens
/// matter.
struct ClassRow {
  LogitRow logit;
  const TokenClasses* classes = nullptr;  ///< outlives the follow-up
  bool samples = true;                    ///< false: the best token of each class, whatever the rule says
};

/// Statistics of one class in a row of logits.
struct ClassStatistics {
  TokenId token = -1;  ///< the best, or at a temperature above 0 a sample; -1: none may be sampled
  float logit = 0;     ///< its logit
  double log_sum =
      0;  ///< ln of the sum of exp(logit / temperature) over the class; temperature 0 counts as 1

  bool operator==(const ClassStatistics&) const = default;
};

/// Reads a row of logits by classes. Ties go to the lowest id. The samples are those of `draw` with this
/// noise if a class is all that may be sampled: a class's token and which class is chosen are independent
/// (Gumbel-max), so a class chosen with weights exp(log_sum) and its token are a sample of the whole row.
///   noise   null: the best token of each class
///   logits  [vocab] f32, overwritten     values  [classes.count]
void reduce_by_class(const KernelTable& kernels, const SamplingRule& rule, const RngStream* noise,
                     const TokenClasses& classes, std::span<float> logits, std::span<ClassStatistics> values);

}  // namespace lacuna
