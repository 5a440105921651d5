// Predicts by formulas the memory per rank, the traffic and the time of a pass of a model on several
// machines. Nothing is loaded or measured. Sizes are in bytes, times in seconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "model/parameters.h"
#include "weights/stored_matrix.h"

namespace lacuna {

/// Speeds of identical machines and of the links between them.
struct MachineSpeeds {
  double flops = 0;      ///< FLOP/s of matmuls on one machine
  double bandwidth = 0;  ///< memory bandwidth of one machine, bytes/s
  double link = 0;       ///< bytes/s that one machine receives
  double latency = 0;    ///< seconds per exchange
};

struct PlannedPass {
  int machines = 2;
  int64_t rows = 256;    ///< rows of a pass, all sampled
  int64_t cells = 1024;  ///< KV cells that each row attends to
};

/// One way to use the machines.
struct MachinePlan {
  std::string_view way;               ///< "one", "replicas", "rows", "outputs" or "layers"
  std::optional<ShardBy> shard = {};  ///< for the ways "rows", "outputs" and "layers"
  bool is_possible = true;            ///< false for "layers" with fewer layers than machines
  int64_t weight_bytes = 0;           ///< bytes of weights on the rank with the most
  int64_t kv_bytes = 0;               ///< bytes of K/V there, for one sequence of PlannedPass::cells
  double received_bytes = 0;          ///< bytes that a rank receives in one pass
  int64_t exchanges = 0;              ///< sequential exchanges in one pass
  double compute_seconds = 0;         ///< compute time of one pass
  double wire_seconds = 0;            ///< communication time of one pass, not overlapped with computing
  double passes_per_second = 0;       ///< throughput with enough requests to keep all machines busy

  double seconds() const { return compute_seconds + wire_seconds; }
};

/// `--shard auto`: the fastest possible way to shard with weights and K/V of at most `memory` bytes per
/// machine. Null if none fits.
const MachinePlan* fastest_that_fits(const std::vector<MachinePlan>& plans, int64_t memory);

/// Bytes per row that all layers gather with tensor parallelism ("outputs"); a rank of P receives (P - 1) / P
/// of them. Attention outputs and activations are sent as `dtype`, updates of the residual stream as f32.
double gathered_bytes_per_row(const ModelConfig& config, DType dtype);

/// Plans of all ways, "one" first.
///   stored  see predicted_bytes()
std::vector<MachinePlan> plan_machines(const ModelConfig& config, const WeightFormats& formats,
                                       const WeightSource* stored, const MachineSpeeds& speeds,
                                       const PlannedPass& pass);

}  // namespace lacuna
