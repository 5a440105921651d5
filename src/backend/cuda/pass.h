// One forward pass on the device: the plan in one copy, then the layers and the head as kernels in a stream.
// The host waits for nothing that a kernel computes.
#pragma once

#include <cstdint>
#include <span>

#include "backend/cuda/device_model.h"
#include "backend/cuda/head.h"
#include "backend/cuda/kernels/attention.h"
#include "model/plan.h"

namespace lacuna::cuda {

/// Not thread-safe: the caller holds the device's mutex.
class DevicePass {
 public:
  ///   sequences  one per sequence that the plan names
  ///   memory     that no pass uses which has not been waited for
  DevicePass(DeviceModel& model, const StepPlan& plan, std::span<const CudaSequence* const> sequences,
             PassMemory& memory);

  /// Sends the whole pass; `memory` then gets the residual stream, the K/V drift and the statistics.
  ///   drawn  of the plan's logits, those that are drawn on the device
  void send(std::span<const LogitRow> drawn);

 private:
  void send_plan(std::span<const LogitRow> drawn);
  /// Whether the layers are sent as a graph; the plan's arrays are then padded.
  bool pads_to_graph(int64_t num_pages);
  void send_layers();
  /// Tasks of the plan's groups: K/V-only groups come last, so that the last layer can skip them.
  void plan_attention_of_groups(std::span<const int32_t> first_pages);
  GroupCells cells_of(const RowGroup& group, int32_t first_page) const;
  void extend_rotations();
  void reserve_scratch();

  void run_layer(int64_t index);
  void project_and_attend(const DeviceLayer& layer, int64_t index);
  /// In the last layer, once all K/V are written: continues with the rows whose outputs are wanted.
  void drop_kv_only_rows();
  void feed_forward(const DeviceLayer& layer);
  void run_dense(const DeviceFeedForward& ffn, int64_t dim);
  void run_experts(const DeviceLayer& layer);
  void norm(const DeviceBuffer& weight, bool wants_f32 = false);
  /// Adds x times the matrix to the rows of the residual stream.
  void add_product(const DeviceMatrix& matrix, const uint16_t* x, const int32_t* rows_of_x);

  DeviceModel& model_;
  const ModelConfig& config_;
  const StepPlan& plan_;
  std::span<const CudaSequence* const> sequences_;
  PassMemory& memory_;
  Stream& stream_;
  Scratch& scratch_;
  DeviceHead head_;
  PagePool pool_;
  AttentionPlan attention_;
  size_t num_output_tasks_ = 0;  // of groups whose outputs are wanted
  size_t num_output_merges_ = 0;
  PassShape shape_;
  bool is_graph_ = false;

  // Rows that the next kernels compute: num_rows_ rows of the residual stream.
  int64_t num_rows_;
  const int32_t* rows_ = nullptr;  // which they are; null: 0, 1, 2, ...
  size_t num_tasks_ = 0;
  size_t num_merges_ = 0;

  int64_t num_output_rows_ = 0;
  Staged<int32_t> tokens_, positions_, cells_, first_pages_, page_table_, masks_, output_rows_;
  Staged<AttendTask> tasks_;
  Staged<MergeTask> merges_;
  Staged<TileRun> runs_;
};

}  // namespace lacuna::cuda
