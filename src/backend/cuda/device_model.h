// A model on the device, with the memory that its passes share.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/cuda/kv_pool.h"
#include "backend/cuda/pass_graphs.h"
#include "backend/cuda/runtime.h"
#include "backend/cuda/staging.h"
#include "backend/cuda/weights.h"
#include "model/config.h"

namespace lacuna::cuda {

/// Memory that passes use one after the other. Grown where a pass needs more, and kept.
struct Scratch {
  DeviceBuffer normed, normed_f32, qkv, queries, attended, inner;
  DeviceBuffer partial_out, partial_max, partial_sum;
  DeviceBuffer router_logits, chosen, sorted_entries, sorted_rows, tiles, expert_inner, expert_out;
  DeviceBuffer logits;          ///< [rows of a chunk of the head, vocab]
  DeviceBuffer cosines, sines;  ///< [num_rotations, rotary_dim / 2]
  int64_t num_rotations = 0;    ///< positions
};

/// Memory that a pass keeps for its ticket.
struct PassMemory {
  Staging plan;                                 ///< what the pass sends
  Staging questions;                            ///< what follow-ups send
  DeviceBuffer residual;                        ///< [rows of the plan, hidden]
  DeviceBuffer kv_drift;                        ///< [rows, layers, 2]
  DeviceBuffer statistics, further_statistics;  ///< DrawStatistics
  PassGraphs graphs;                            ///< of passes that use this memory
  HostBuffer results;                           ///< what is copied back: the statistics, then the K/V drift
};

struct DeviceModel {
  ModelConfig config;
  DeviceWeights weights;
  std::vector<float> rope;  ///< radians per position of each pair
  std::shared_ptr<DeviceStream> device;
  Scratch scratch;
  bool uses_graphs = true;

  Stream& stream() { return device->stream; }
  int64_t hidden_depth() const { return padded_depth(config.hidden_dim); }
};

inline const float* floats_or_null(const DeviceBuffer& buffer) {
  return buffer.bytes() == 0 ? nullptr : buffer.as<float>();
}

/// x times a matrix, in parts of as many rows as a kernel takes, which changes no bits.
///   whole  all but weights, bias, depth and numbers of rows and outputs
void multiply(Stream& stream, const DeviceMatrix& matrix, ProductArguments whole, int64_t rows);

/// InputError, with the family and the feature, where a model needs what no kernel computes.
void check_supported(const ModelConfig& config);

}  // namespace lacuna::cuda
