// A request as its uncached baseline sees it (decode/baseline.h).
#pragma once

#include <cstdint>

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

}  // namespace lacuna
