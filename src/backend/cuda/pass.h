// One forward pass on the device: uploads the plan in one copy, then launches the kernels of layers and head.
// The host does not wait for any kernel.
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
  ///   memory     not used by any unfinished pass
  DevicePass(DeviceModel& model, const StepPlan& plan, std::span<const CudaSequence* const> sequences,
             PassMemory& memory);

  /// Sends the whole pass, which writes residual stream, K/V drift and statistics to `memory`.
  ///   drawn  the plan's logits that the device samples
  void send(std::span<const LogitRow> drawn);

 private:
  void send_plan(std::span<const LogitRow> drawn);
  /// Decides whether the layers are launched as a graph; if so, pads the plan's arrays.
  bool pads_to_graph(int64_t num_pages);
  /// Pads `rows` with distinct rows without wanted outputs, up to num_output_rows_.
  void pad_output_rows(std::vector<int32_t>& rows) const;
  /// Appends the window of each row of a group; `windows` then has an entry for every row so far.
  void add_windows(const RowGroup& group, std::vector<RowWindow>& windows) const;
  void send_layers();
  /// Attention tasks for the layers from `first` up to the next AttentionOfLayers. Tasks of K/V-only groups
  /// come last, so that the last layer can skip them.
  struct AttentionOfLayers {
    int64_t first = 0;
    AttentionPlan plan;
    size_t num_output_tasks = 0, num_output_merges = 0;  ///< for groups with wanted outputs
    Staged<AttendTask> tasks;
    Staged<MergeTask> merges;
    Staged<TileRun> runs;
    Staged<int32_t> masks, mask_ends;

    AttentionSize size() const;
    /// Adds empty tasks and merges.
    void pad_to(const AttentionSize& size);
    void stage(Staging& staging);
  };
  ///   slides  whether the layers have a sliding window
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

  /// Lists the canvas rows that read soft embeddings, and the soft embeddings.
  void list_conditioned_rows(std::vector<int32_t>& rows, std::vector<const float*>& soft_embeddings) const;
  /// Norms the embeddings of canvas rows, after adding the conditioning on the last pass's soft embeddings.
  void condition_canvases();
  void run_layer(int64_t index);
  void project_and_attend(const DeviceLayer& layer, int64_t index);
  void attend_rows(const DeviceLayer& layer, int64_t index);
  /// In the last layer, after all K/V are written: continues only with rows with wanted outputs.
  void drop_kv_only_rows();
  void feed_forward(const DeviceLayer& layer);
  /// A dense layer and experts with the same input rows.
  void feed_forward_in_parallel(const DeviceLayer& layer);
  void run_dense(const DeviceFeedForward& ffn, int64_t dim, const DeviceBuffer& output_norm);
  /// First matmul of a feed-forward layer with activation, from the normed rows to Scratch::inner.
  void activate(const DeviceFeedForward& ffn, int64_t dim, int64_t rows);
  /// Activation function of feed-forward layers.
  Epilogue activation() const;
  /// Routes the normed rows to experts, and sorts the entries by expert.
  SortArguments route_rows(const DeviceLayer& layer);
  /// Computes the outputs of the chosen experts for the normed rows.
  void run_experts(const DeviceLayer& layer, const SortArguments& sorted);
  /// Adds the weighted sum of expert outputs to the residual stream.
  void add_experts();
  /// Grouped matmul of the sorted entries with their experts' matrices.
  void multiply_experts(const DeviceMatrix& matrix, ProductArguments product, const SortArguments& sorted,
                        const int32_t* x_rows);
  void norm(const DeviceBuffer& weight, bool wants_f32 = false);
  /// Adds x times the matrix to the rows of the residual stream.
  ///   output_norm  weight of the norm of the product before it is added; empty: no norm
  void add_product(const DeviceMatrix& matrix, const DeviceBuffer& x, const int32_t* rows_of_x,
                   const DeviceBuffer& output_norm);
  /// Writes x times the matrix to `out`, to be normed and added later.
  ///   out  [rows, hidden] f32
  void project(const DeviceMatrix& matrix, const DeviceBuffer& x, const int32_t* rows_of_x,
               const DeviceBuffer& out);
  /// Norms the rows of Scratch::projected and adds them to the residual stream.
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
  std::vector<AttentionOfLayers> attention_;  // layers without a sliding window
  std::optional<AttentionOfLayers> sliding_;
  bool is_output_rows_only_ = false;  ///< true from the last layer's attention on
  PassShape shape_;
  bool is_graph_ = false;

  int64_t num_rows_;               // rows of the residual stream for the next kernels
  const int32_t* rows_ = nullptr;  // [num_rows_] their indices; null: 0, 1, 2, ...

  int64_t num_output_rows_ = 0;
  Staged<float> weights_;  // of rows, if some are mixed with the mask
  Staged<int32_t> tokens_, positions_, cells_, first_pages_, page_table_, output_rows_;
  Staged<RowWindow> windows_,
      output_windows_;           // windows of all rows, and of `output_rows_`, that share experts
  Staged<int32_t> is_denoised_;  // [rows] 1: row of a canvas that is denoised
  int64_t num_conditioned_ = 0;
  Staged<int32_t> conditioned_rows_;
  Staged<const float*> soft_embeddings_;
};

}  // namespace lacuna::cuda
