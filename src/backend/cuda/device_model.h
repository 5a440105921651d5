// A model on the device, and the memory that its passes share.
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

/// RoPE tables for positions from 0.
struct Rotations {
  DeviceBuffer cosines, sines;  ///< [num_positions, rotary_dim / 2]
  DeviceBuffer query_scales;    ///< [num_positions]; empty if queries are not scaled by position
  int64_t num_positions = 0;
};

/// Buffers that passes use one after the other. They grow on demand and never shrink.
struct Scratch {
  DeviceBuffer normed, normed_f32, qkv, queries, inner;
  DeviceBuffer attended, sliding_attended;  ///< the padding of their rows is 0
  DeviceBuffer projected;  ///< [rows, hidden] f32 outputs that are normed before they are added
  DeviceBuffer dense;      ///< [rows, hidden] f32 outputs of a dense layer parallel to experts
  DeviceBuffer partial_out, partial_max, partial_sum;
  DeviceBuffer router_logits, chosen, sorted_entries, sorted_rows, tiles, expert_inner, expert_out;
  DeviceBuffer row_max, row_sum, cell_mass, page_means, page_scores;  ///< for sparse attention
  DeviceBuffer logits;                                                ///< [rows of a head chunk, vocab]
  DeviceBuffer partials;                                              ///< of products whose inputs are split
  DeviceBuffer draw_parts;                                            ///< [rows of a head chunk, slices]
  DeviceBuffer token_weights, soft_factors, soft_means;               ///< for soft embeddings
  Rotations rotations, sliding_rotations;
};

/// Memory that a pass keeps for its ticket.
struct PassMemory {
  Staging plan;                                 ///< arrays of the plan
  Staging questions;                            ///< arrays of follow-ups
  DeviceBuffer residual;                        ///< [rows of the plan, hidden]
  DeviceBuffer kv_drift;                        ///< [rows, layers, 2]
  DeviceBuffer statistics, further_statistics;  ///< DrawStatistics
  PassGraphs graphs;                            ///< graphs of passes that use this memory
  HostBuffer results;                           ///< downloaded results: the statistics, then the K/V drift
  HostBuffer answers;                           ///< downloaded results of follow-ups
};

struct DeviceModel {
  ModelConfig config;
  DType dtype = DType::kBF16;  ///< type of activations, K/V and weights that are not quantized
  DeviceWeights weights;
  std::vector<float> rope, sliding_rope;  ///< RoPE frequencies, radians per position
  std::shared_ptr<DeviceStream> device;
  Scratch scratch;
  bool uses_graphs = true;

  Stream& stream() { return device->stream; }
  float embedding_scale() const {
    const bool rounds = config.rounds_embedding_scale && dtype == DType::kBF16;
    return rounds ? static_cast<float>(bf16(config.embedding_scale)) : config.embedding_scale;
  }
  int64_t hidden_depth() const { return padded_depth(config.hidden_dim); }

  bool in_f32() const { return dtype == DType::kF32; }
  int64_t number_bytes() const { return static_cast<int64_t>(size_of(dtype)); }
  // Input rows of matmuls are bf16 or f32; the function for the other type returns null.
  uint16_t* bf16_rows(const DeviceBuffer& buffer) const { return in_f32() ? nullptr : buffer.as<uint16_t>(); }
  float* f32_rows(const DeviceBuffer& buffer) const { return in_f32() ? buffer.as<float>() : nullptr; }
};

inline const float* floats_or_null(const DeviceBuffer& buffer) {
  return buffer.bytes() == 0 ? nullptr : buffer.as<float>();
}

/// Multiplies rows with a matrix. Results do not depend on which kernel computes a row.
///   whole  all arguments but weights, bias, depth, and numbers of rows and outputs, which are filled in
void multiply(DeviceModel& model, const DeviceMatrix& matrix, ProductArguments whole, int64_t rows);
/// Reserves the partial sums of multiply(). Without them blocks of few outputs read the whole matrix.
void reserve_partials(DeviceModel& model, const DeviceMatrix& matrix, int64_t rows);

/// Throws InputError, with the family and the feature, if a model needs a feature without a kernel, or more
/// shared memory than a block may have.
///   in_f32        whether activations are f32
///   shared_bytes  maximum shared memory of a block
void check_supported(const ModelConfig& config, bool in_f32, bool kv_int8, int64_t shared_bytes);

}  // namespace lacuna::cuda
