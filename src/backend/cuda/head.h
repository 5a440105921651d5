// Output head on the device: logits of rows, and sampling and statistics over them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cuda/device_model.h"
#include "backend/cuda/kernels/draw.h"
#include "backend/cuda/kernels/soft_embedding.h"
#include "model/plan.h"
#include "model/sampling.h"

namespace lacuna::cuda {

/// Whether a row is sampled on the device. The host samples the others from downloaded logits: rows with
/// guidance or of which several likeliest tokens are asked, rules with adjusted, unsure or listed tokens, and
/// rows with filters that keep a soft embedding.
bool is_drawn_on_device(const StepPlan& plan, const LogitRow& logit);

/// The rule of a row that is sampled on the device; its lists are appended to `tokens`, each token once.
DrawRule draw_rule(const SamplingRule& rule, float logit_scale, std::vector<int32_t>& tokens);

RowStatistics to_row_statistics(const SamplingRule& rule, const DrawStatistics& drawn);

/// Not thread-safe: the caller holds the device's mutex.
class DeviceHead {
 public:
  ///   residual  [rows, hidden], the residual stream of a pass
  DeviceHead(DeviceModel& model, const DeviceBuffer& residual) : model_(model), residual_(residual) {}

  /// Stages the arguments of draw() for rows that the device samples.
  ///   soft_embeddings  result of soft_embeddings_of()
  void stage_draws(const StepPlan& plan, std::span<const LogitRow> wanted,
                   std::span<float* const> soft_embeddings, Staging& staging);
  /// After the staging was sent: samples the staged rows in order, and stores their soft embeddings.
  ///   out  [wanted.size()] on the device
  void draw_all(const Staging& staging, DrawStatistics* out);

  /// Reserves logits of `count` rows, at most head_chunk_rows(); previous logits may be lost.
  void reserve(int64_t count);
  /// Writes logits of rows of the residual stream to rows `to`, `to` + 1, ... of Scratch::logits, which has
  /// room (reserve()).
  ///   rows  on the device
  void logits_of_rows(const int32_t* rows, int64_t count, int64_t to = 0);
  /// logits_of_rows() for rows after the final norm.
  ///   outputs  on the device, [count] pointers to [hidden]
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
  std::vector<int64_t> soft_counts_;  // soft requests per chunk
  bool filters_ = false;              // whether any draw does
};

}  // namespace lacuna::cuda
