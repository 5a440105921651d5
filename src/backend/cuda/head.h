// The output head on the device: logits of rows, and the statistics that are made of them there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cuda/device_model.h"
#include "backend/cuda/kernels/soft_embedding.h"
#include "backend/cuda/kernels/statistics.h"
#include "model/plan.h"
#include "model/sampling.h"

namespace lacuna::cuda {

/// Whether a row's token is drawn on the device. Others are drawn on the host, from downloaded logits: rows
/// with guidance, and rules with filters, tokens that count but are not drawn or are drawn but do not count,
/// listed, second or several likeliest tokens.
bool is_drawn_on_device(const StepPlan& plan, const LogitRow& logit);

RowStatistics to_row_statistics(const SamplingRule& rule, const DrawStatistics& drawn);

/// Not thread-safe: the caller holds the device's mutex.
class DeviceHead {
 public:
  ///   residual  [rows, hidden] of a pass
  DeviceHead(DeviceModel& model, const DeviceBuffer& residual) : model_(model), residual_(residual) {}

  /// Stages what draw() reads: of rows that are drawn on the device.
  ///   soft_embeddings  as soft_embeddings_of() has them
  void stage_draws(const StepPlan& plan, std::span<const LogitRow> wanted,
                   std::span<float* const> soft_embeddings, Staging& staging);
  /// Once the staging was sent: their statistics, in order. Sequences keep the soft embeddings.
  ///   out  [wanted.size()] on the device
  void draw_all(const Staging& staging, DrawStatistics* out);

  /// Makes room for the logits of so many rows, at most head_chunk_rows(); what was there is lost.
  void reserve(int64_t count);
  /// Logits of rows of the residual, to the scratch's `logits` from row `to` on, where there is room.
  ///   rows  on the device
  void logits_of_rows(const int32_t* rows, int64_t count, int64_t to = 0);
  /// The same of rows that have had the final norm.
  ///   outputs  on the device, [count] of hidden numbers each
  void logits_of_outputs(const float* const* outputs, int64_t count, int64_t to = 0);

 private:
  void multiply_normed(int64_t count, int64_t to);

  DeviceModel& model_;
  const DeviceBuffer& residual_;
  size_t num_draws_ = 0;
  Staged<int32_t> rows_, tokens_;
  Staged<DrawRequest> requests_;
  Staged<DrawRule> rules_;
  Staged<SoftRequest> soft_requests_;
  std::vector<int64_t> soft_counts_;  // of each chunk
};

}  // namespace lacuna::cuda
