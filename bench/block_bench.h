// How long block diffusion takes for a block of output behind a long prefix, by sparse policy.
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
  /// By the names of --sparse.
  std::vector<std::pair<std::string, SparsePolicy>> policies;
  int32_t block_length = 32;
  int32_t steps = 32;  ///< of a block; each is drawn half of its rows' tokens, as on average
  int32_t repeat = 3;  ///< timed passes of each kind
  uint64_t seed = 0;
};

/// A kind of pass over the block.
struct BlockPassTiming {
  double seconds = 0;  ///< median wall time
  double attention = 0;
  double selection = 0;  ///< choosing cells and bringing them side by side
  double flops = 0;
};

struct BlockTiming {
  int32_t prefix = 0;
  std::string policy;
  BlockPassTiming first, later, commit;
  double seconds = 0;  ///< of a whole block: its steps and the commit pass
  double flops = 0;
};

/// Times passes behind a prefix of random keys and values: how long a pass takes does not depend on what they
/// are. SparseD is taken where it is on average over a run: exact for its share of the steps, then confined.
std::vector<BlockTiming> bench_blocks(const Model& model, const KernelContext& context,
                                      const BlockBenchOptions& options);

/// With each policy's ratios to exact attention behind the same prefix, where that was timed.
nlohmann::ordered_json to_json(const std::vector<BlockTiming>& timings);

}  // namespace lacuna
