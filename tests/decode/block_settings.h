// Settings of block diffusion that decoders of fake models are tested with.
#pragma once

#include "decode/block_diffusion.h"

namespace lacuna::block_tests {

inline constexpr TokenId kMask = 2;
inline constexpr TokenId kEnd = 4;

inline BlockDiffusion settings(int32_t gen_length, int32_t block_length, int32_t steps) {
  BlockDiffusion options;
  options.mask_id = kMask;
  options.end_ids = {kEnd};
  options.gen_length = gen_length;
  options.block_length = block_length;
  options.sub_block_length = block_length;
  options.steps = steps;
  options.sampling.source = ConfidenceSource::kTempered;
  options.sampling.undrawn = {kMask};
  options.seed = 5;
  return options;
}

}  // namespace lacuna::block_tests
