// Predicts memory, traffic and speed of a model over several machines by formulas: memory of a rank, bytes
// sent, and the time of a pass. Nothing is loaded or measured. Sizes are in bytes, times in seconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "model/parameters.h"
#include "weights/stored_matrix.h"

namespace lacuna {

/// Machines that are alike, and the links between them.
struct MachineSpeeds {
  double flops = 0;      ///< FLOP/s of matrix products of one machine
  double bandwidth = 0;  ///< bytes/s that one machine reads from memory
  double link = 0;       ///< bytes/s that one machine receives
  double latency = 0;    ///< of one exchange
};

struct PlannedPass {
  int machines = 2;
  int64_t rows = 256;    ///< of a pass, all of which are sampled
  int64_t cells = 1024;  ///< cells that each row attends to
};

/// One way to use the machines.
struct MachinePlan {
  std::string_view way;               ///< "one", "replicas", "rows", "outputs" or "layers"
  std::optional<ShardBy> shard = {};  ///< for the ways "rows", "outputs" and "layers"
  bool is_possible = true;            ///< layers: there are as many layers as machines, at least
  int64_t weight_bytes = 0;           ///< bytes of weights on the rank that keeps the most
  int64_t kv_bytes = 0;               ///< likewise, of one sequence of PlannedPass::cells
  double received_bytes = 0;          ///< bytes that a rank receives in one pass
  int64_t exchanges = 0;              ///< sequential exchanges in one pass
  double compute_seconds = 0;         ///< of one pass
  double wire_seconds = 0;            ///< of one pass, not overlapped with computing
  double passes_per_second = 0;       ///< with as many requests as can be computed at once

  double seconds() const { return compute_seconds + wire_seconds; }
};

/// `--shard auto`: of the ways to shard that are possible and whose weights and K/V fit into this many bytes
/// of each machine, the one whose pass takes the least time. Null: none fits.
const MachinePlan* fastest_that_fits(const std::vector<MachinePlan>& plans, int64_t memory);

/// Bytes per row that the gathers of all layers put together where outputs are divided: what a rank receives
/// is (P - 1) / P of them. Attention's outputs and activations travel as `dtype`, sums for the residual as
/// f32.
double gathered_bytes_per_row(const ModelConfig& config, DType dtype);

/// All ways, "one" machine first.
///   stored  as predicted_bytes() takes it
std::vector<MachinePlan> plan_machines(const ModelConfig& config, const WeightFormats& formats,
                                       const WeightSource* stored, const MachineSpeeds& speeds,
                                       const PlannedPass& pass);

}  // namespace lacuna
