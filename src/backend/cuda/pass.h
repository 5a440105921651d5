// One forward pass on the device: the plan in one copy, then the layers and the head as kernels in a stream.
// The host waits for nothing that a kernel computes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/cuda/device_model.h"
#include "backend/cuda/head.h"
#include "backend/cuda/kernels/attention.h"
#include "backend/cuda/kernels/experts.h"
#include "backend/cuda/sparse_pass.h"
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
  /// Adds rows of which no outputs are wanted, each once, up to the shape's number.
  void pad_output_rows(std::vector<int32_t>& rows) const;
  /// Adds a window for each of a group's rows, which follow those that have one.
  void add_windows(const RowGroup& group, std::vector<RowWindow>& windows) const;
  void send_layers();
  /// The attention of the layers from `first` on until another begins. Tasks of K/V-only groups come last, so
  /// that the last layer can skip them.
  struct AttentionOfLayers {
    int64_t first = 0;
    AttentionPlan plan;
    size_t num_output_tasks = 0, num_output_merges = 0;  ///< of groups whose outputs are wanted
    Staged<AttendTask> tasks;
    Staged<MergeTask> merges;
    Staged<TileRun> runs;
    Staged<int32_t> masks, mask_ends;

    AttentionSize size() const;
    /// Adds tasks and merges of no rows.
    void pad_to(const AttentionSize& size);
    void stage(Staging& staging);
  };
  ///   slides  whether it is of layers with a window, or of those that see everything
  AttentionOfLayers plan_attention_from(int64_t first_layer, bool slides,
                                        std::span<const int32_t> first_pages) const;
  const AttentionOfLayers& attention_of(int64_t layer) const;
  /// The plans of all layers.
  std::vector<AttentionOfLayers*> attentions();
  GroupCells cells_of(const RowGroup& group, int32_t first_page, int64_t layer, bool slides) const;
  void extend_rotations();
  void extend_rotations(const RopeConfig& rope, std::span<const float> frequencies, Rotations& rotations);
  void reserve_scratch();
  void reserve_attention(int64_t layer);
  DeviceBuffer& attended_of(int64_t layer);
  PagePool pool_of(int64_t layer) const { return sequences_.front()->arena()->pool_of(layer); }

  /// The rows of canvases that read soft embeddings, and these.
  void list_conditioned_rows(std::vector<int32_t>& rows, std::vector<const float*>& soft_embeddings) const;
  /// Norms the embeddings of rows of canvases, after adding what the last pass's distributions say.
  void enter_canvases();
  void run_layer(int64_t index);
  void project_and_attend(const DeviceLayer& layer, int64_t index);
  void attend_rows(const DeviceLayer& layer, int64_t index);
  /// In the last layer, once all K/V are written: continues with the rows whose outputs are wanted.
  void drop_kv_only_rows();
  void feed_forward(const DeviceLayer& layer);
  /// A dense layer and experts, which read the same rows.
  void feed_forward_in_parallel(const DeviceLayer& layer);
  void run_dense(const DeviceFeedForward& ffn, int64_t dim, const DeviceBuffer& output_norm);
  /// The normed rows times the first matrix of a feed-forward layer, activated: Scratch::inner.
  void activate(const DeviceFeedForward& ffn, int64_t dim, int64_t rows);
  /// The end of the first product of a feed-forward layer.
  Epilogue activation() const;
  /// Chooses the experts of the normed rows, and sorts what they will multiply.
  SortArguments route_rows(const DeviceLayer& layer);
  /// The chosen experts' outputs of the normed rows.
  void run_experts(const DeviceLayer& layer, const SortArguments& sorted);
  /// Adds their sum to the rows of the residual stream.
  void add_experts();
  /// The products of the chosen experts, sorted.
  void multiply_experts(const DeviceMatrix& matrix, ProductArguments product, const SortArguments& sorted,
                        const int32_t* x_rows);
  void norm(const DeviceBuffer& weight, bool wants_f32 = false);
  /// Adds x times the matrix to the rows of the residual stream.
  ///   output_norm  of what is added; empty: none
  void add_product(const DeviceMatrix& matrix, const DeviceBuffer& x, const int32_t* rows_of_x,
                   const DeviceBuffer& output_norm);
  /// x times the matrix, where it is normed before it is added.
  ///   out  [rows, hidden] f32
  void project(const DeviceMatrix& matrix, const DeviceBuffer& x, const int32_t* rows_of_x,
               const DeviceBuffer& out);
  /// Adds the rows of Scratch::projected, normed, to those of the residual stream.
  void add_projected(const DeviceBuffer& output_norm);
  /// Multiplies the rows of the residual stream by the layer's scalars.
  void scale_by_layer(const DeviceLayer& layer);

  DeviceModel& model_;
  const ModelConfig& config_;
  const StepPlan& plan_;
  std::span<const CudaSequence* const> sequences_;
  PassMemory& memory_;
  Stream& stream_;
  Scratch& scratch_;
  DeviceHead head_;
  SparsePass sparse_;
  std::vector<AttentionOfLayers> attention_;  // of layers that see everything
  std::optional<AttentionOfLayers> sliding_;
  bool wants_outputs_alone_ = false;  ///< from the last layer's attention on
  PassShape shape_;
  bool is_graph_ = false;

  // Rows that the next kernels compute: num_rows_ rows of the residual stream.
  int64_t num_rows_;
  const int32_t* rows_ = nullptr;  // which they are; null: 0, 1, 2, ...

  int64_t num_output_rows_ = 0;
  Staged<int32_t> tokens_, positions_, cells_, first_pages_, page_table_, output_rows_;
  Staged<RowWindow> windows_,
      output_windows_;           // of all rows, and of `output_rows_`, where windows share experts
  Staged<int32_t> is_denoised_;  // [rows] whether they are of canvases
  int64_t num_conditioned_ = 0;
  Staged<int32_t> conditioned_rows_;
  Staged<const float*> soft_embeddings_;
};

}  // namespace lacuna::cuda
