// The uncached baseline: what the decoder of a family's paper computes without a cache for the same request,
// at the family's default settings. docs/reference/statistics.md states it for each family.
#pragma once

#include <cstdint>

#include "model/config.h"
#include "model/cost.h"

namespace lacuna {

/// A request, independent of how it is computed. Lengths are in positions.
struct BaselineRequest {
  int32_t prompt_length = 0;
  int32_t gen_length = 0;  ///< asked for
  int32_t answer_length =
      0;  ///< up to where the decoder stopped; gen_length, or what is written, before that
  /// LLaDA and Dream: masks of the initial answer; gen_length, or fewer in an infill. LLaDA 2.2: of an infill
  /// alone, the positions of its holes, at the start or where they have become more; else 0.
  int32_t answer_masks = 0;
  // LLaDA and Dream:
  int32_t prompt_masks = 0;   ///< gaps of the prompt
  int32_t num_sequences = 1;  ///< 2 with classifier-free guidance, which asks another thing of the model
  // GIDD:
  int32_t context = 0;  ///< length of the prompt, the answer and the noise after it

  bool operator==(const BaselineRequest&) const = default;
};

/// The passes of the baseline, all together.
struct BaselineWork {
  int64_t passes = 0;
  int64_t passes_with_logits = 0;
  PassWork work;
};

BaselineWork baseline_work(const ModelConfig& config, const BaselineRequest& request);

/// Same as baseline_work(), in FLOPs and bytes.
StepCost baseline_cost(const ModelConfig& config, const ModelBytes& bytes, const BaselineRequest& request);

}  // namespace lacuna
