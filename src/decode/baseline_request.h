// Input of the uncached baseline (decode/baseline.h).
#pragma once

#include <cstdint>

namespace lacuna {

/// A request, independent of the decoding method. Lengths are in positions.
struct BaselineRequest {
  int32_t prompt_length = 0;
  int32_t gen_length = 0;     ///< requested length of the answer
  int32_t answer_length = 0;  ///< where the decoder stopped; before that, gen_length or the length so far
  /// LLaDA and Dream: masks of the initial answer (gen_length, or fewer in an infill). LLaDA 2.2: positions
  /// in an infill's holes, at the start or now, whichever is more; 0 without an infill.
  int32_t answer_masks = 0;
  // LLaDA and Dream:
  int32_t prompt_masks = 0;   ///< masks in the prompt
  int32_t num_sequences = 1;  ///< 2 with classifier-free guidance
  // GIDD:
  int32_t context = 0;  ///< length of the prompt, the answer and the noise after it

  bool operator==(const BaselineRequest&) const = default;
};

}  // namespace lacuna
