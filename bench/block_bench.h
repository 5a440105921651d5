// Times a block of block diffusion after a long prefix, by sparse attention policy.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "decode/sparse_policy.h"
#include "kernels/matmul.h"
#include "model/model.h"

namespace lacuna {

struct BlockBenchOptions {
  std::vector<int32_t> prefixes = {8192};
  /// Names of --sparse.
  std::vector<std::pair<std::string, SparsePolicy>> policies;
  int32_t block_length = 32;
  int32_t steps = 32;  ///< of a block; each samples half of the block's rows, the average over a block
  int32_t repeat = 3;  ///< timed passes of each kind
  uint64_t seed = 0;
};

/// A kind of pass over the block.
struct BlockPassTiming {
  double seconds = 0;  ///< median wall time
  double attention = 0;
  double selection = 0;  ///< selecting and gathering cells
  double flops = 0;
};

struct BlockTiming {
  int32_t prefix = 0;
  std::string policy;
  BlockPassTiming first, later, commit;
  double seconds = 0;  ///< of a whole block: its steps and the commit pass
  double flops = 0;
};

/// Times passes after a prefix of random keys and values, whose content does not affect the time. SparseD is
/// timed at its average over a run: exact for its share of the steps, then sparse.
std::vector<BlockTiming> bench_blocks(const Model& model, const KernelContext& context,
                                      const BlockBenchOptions& options);

/// Adds each policy's ratios to exact attention with the same prefix, if that was timed.
nlohmann::ordered_json to_json(const std::vector<BlockTiming>& timings);

}  // namespace lacuna
