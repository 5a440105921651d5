// A loaded model and its one forward pass.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/communicator.h"
#include "base/matrix.h"
#include "cache/kv_cache.h"
#include "cache/output_cache.h"
#include "kernels/attention.h"
#include "kernels/matmul.h"
#include "model/config.h"
#include "model/cost.h"
#include "model/drift.h"
#include "model/parameters.h"
#include "model/pass_result.h"
#include "model/pass_times.h"
#include "model/plan.h"
#include "model/router.h"
#include "model/sampling.h"

namespace lacuna {

/// Visible cells and rotary angles of the rows in full-attention or sliding-window layers.
struct LayerKind {
  Attention attention;
  std::vector<Attention::Group> groups;
  std::vector<std::vector<IndexRange>> visible_ranges;  // for each group of the plan, including the sink
  std::vector<int32_t> begins;        // [rows] first visible cell, for sliding-window layers
  std::vector<float> cosines, sines;  // [position, rotary_dim / 2], up to the last position seen so far
};

/// Reusable memory of forward passes; it grows with the largest plan. One pass at a time may use it.
struct Workspace {
  LayerKind everything, sliding;
  std::vector<KvLayerView> layer_views;
  std::vector<size_t> attended_groups;             // group of the plan for each of LayerKind::groups
  std::vector<std::vector<int32_t>> cells_behind;  // further cells of each confined group
  // Attention that rows keep:
  bool keeps_parts = false;           // whether a group does in this layer
  Buffer<float> parts;                // of all rows
  LayerKind active;                   // active rows of the groups that have any, one group after another
  std::vector<size_t> active_groups;  // index into LayerKind::groups
  std::vector<KvLayerView> active_views;
  std::vector<int32_t> active_rows;  // rows of `q`
  Buffer<float> active_q, active_out, active_parts;
  PackedRows packed;
  Buffer<float> residual, q, k, v, attended, projected, gate, up, head_rows, logits;
  std::vector<int32_t> head_row_indices;
  /// The rows whose logits are still in `logits`. `row` is -1 for logits that sampling changed (see
  /// keeps_logits()). Empty: none.
  std::vector<LogitRow> kept_logits;
  std::vector<int32_t> vocabulary;  // [padded vocab] first row that sees it: 0; INT32_MAX for padding
  // Layers of experts:
  Buffer<float> normed, router_logits, dense, expert_sum;
  // adaLN:
  Buffer<float> modulation;    // [groups, 3 hidden]
  Buffer<float> before_layer;  // [rows of the plan, hidden] residual stream before the layer's modulation
  std::vector<ExpertChoice> expert_choices;  // [rows, experts_per_token]
  std::vector<std::vector<int32_t>> pools;   // experts that the rows of a window share
  std::vector<size_t> pool_of_row;
  std::vector<std::vector<int32_t>> expert_rows;
  std::vector<std::vector<float>> expert_weights;
  std::vector<int32_t> canvas_rows, conditioned_rows;  // rows of the plan, ascending
  // Rows that keep what layers add to them:
  Buffer<float> layer_rows;           // [rows that the layer computes, hidden] their residual stream
  std::vector<int32_t> taken_rows;    // these rows of the plan, ascending
  std::vector<int32_t> offered_rows;  // rows of the plan among which the layer chooses
  // MaskEviction:
  std::vector<std::vector<double>> mask_attention;  // [groups][masks] of the first layer
  std::vector<int32_t> staying_rows;                // rows of the plan, ascending; empty: all
  // Rows with outputs in the last layer, if not all have any:
  std::vector<int32_t> whole_rows;    // ascending, rows of the plan
  std::vector<int32_t> residual_row;  // [rows of the plan] index in `residual`; -1: no output

  // Storage that PassResult and FollowUpResult view:
  std::vector<RowStatistics> samples, further_samples;
  std::vector<Drift> drifts;
  std::vector<ClassStatistics> classes;
  std::vector<float> kv_drift;
  std::vector<double> rollout;
  Buffer<CosineSums> own_kv_sums, kv_sums;  // [rows, K/V heads: key, value] of this rank; of all ranks

  // For ranks that compute a model together:
  Buffer<float> own_outputs, gathered;  // this rank's outputs of a matmul; all ranks' outputs
  Buffer<float> expert_activations;     // [chosen rows of all experts, the rank's part of their width]
  Buffer<std::byte> sent, received;     // buffers of an all-gather

  /// Bytes of rows and logits, without attention's little memory.
  int64_t bytes() const;

  AttentionProbe attention_probe;  ///< sees every row's attention, if set
  int64_t layer = 0;               ///< layer that the probe is called for
  /// During a call of the probe: a row's input of the layer before its norm, [hidden_dim].
  std::span<const float> layer_input(int64_t row, int64_t hidden_dim) const;
  PassTimes times;  ///< times of the last pass
};

/// Upper estimate of Workspace::bytes(), but slightly too low for models with experts.
///   rows  rows of one pass, all possibly sampled
int64_t predicted_workspace_bytes(const ModelConfig& config, const WeightFormats& formats,
                                  const KernelTable& kernels, int64_t rows);

/// Shape of a sequence's KvCache.
///   part  the part of the model whose K/V are kept
KvShape kv_shape(const ModelConfig& config, DType dtype, bool is_int8, const ModelPart& part = {});

/// Weights and config; immutable, so concurrent passes may share it, each with its own Workspace, caches and
/// threads. If several ranks compute a model together, all ranks must make the same passes in the same order,
/// which may throw RankError; caches hold only the K/V of the rank's heads or layers. Functions that read a
/// finished pass, such as follow_up(), need no other rank; rank 0 can call them.
class Model {
 public:
  /// Loads a checkpoint folder or a GGUF file. Throws InputError.
  static std::shared_ptr<const Model> load(const std::filesystem::path& folder, const WeightFormats& formats,
                                           ThreadPool& threads, const LoadProgress& progress = {});
  /// Same with a config that differs from the folder's only where tensors do not depend on it (RoPE).
  static std::shared_ptr<const Model> load(const std::filesystem::path& folder, const ModelConfig& config,
                                           const WeightFormats& formats, ThreadPool& threads,
                                           const LoadProgress& progress = {});
  static std::shared_ptr<const Model> random(const ModelConfig& config, uint64_t seed,
                                             const WeightFormats& formats, ThreadPool& threads,
                                             const LoadProgress& progress = {});
  /// Loads one rank's part; random weights if `folder` is empty.
  static std::shared_ptr<const Model> load_part(const std::filesystem::path& folder,
                                                const ModelConfig& config, uint64_t seed,
                                                const WeightFormats& formats, ThreadPool& threads,
                                                const LoadProgress& progress,
                                                std::shared_ptr<Communicator> ranks,
                                                ShardBy by = ShardBy::kOutputs);

  /// ranks  null: the parameters are those of the whole model
  Model(ModelConfig config, const WeightFormats& formats, Parameters parameters,
        std::shared_ptr<Communicator> ranks = nullptr, ShardBy by = ShardBy::kOutputs);

  const ModelConfig& config() const { return config_; }
  /// Type of activations, of K/V, and of weights that are not quantized.
  DType dtype() const { return dtype_; }
  int64_t weight_bytes() const { return parameters_.bytes(); }
  ModelBytes bytes_of_passes() const;
  /// See Parameters::mapped_panels().
  std::vector<std::span<const std::byte>> mapped_panels() const { return parameters_.mapped_panels(); }
  KvShape kv_shape() const { return lacuna::kv_shape(config_, dtype_, kv_int8_, part_); }
  const ModelPart& part() const { return part_; }
  /// An empty KvCache for one sequence, with its sink cell, if any, filled.
  ///   count  see KvCache
  KvCache make_cache(int64_t num_cells, std::shared_ptr<int64_t> count = nullptr) const;

  /// Computes the plan's rows, writes their K/V to their cells, and samples a token for each of plan.logits.
  ///   caches  one per sequence of the plan, with room for its cells
  PassResult forward(const KernelContext& context, const StepPlan& plan, std::span<KvCache* const> caches,
                     Workspace& workspace) const;

  /// Call right after forward() with the same plan and workspace. Samples more tokens from the plan's rows
  /// and compares rows with the outputs of earlier passes in `outputs`. Then stores all rows' outputs at
  /// their cells, except rows with RowGroup::only_kv.
  ///   outputs    one per sequence of the plan, nullptr if it compares and stores nothing; or empty
  ///   remembers  false: stores nothing
  FollowUpResult follow_up(const KernelContext& context, const StepPlan& plan, const FollowUp& wanted,
                           std::span<OutputCache* const> outputs, Workspace& workspace,
                           bool remembers = true) const;

  /// Same pass, but returns raw logits: out [plan.logits.size(), vocab_size] f32.
  void forward_logits(const KernelContext& context, const StepPlan& plan, std::span<KvCache* const> caches,
                      Workspace& workspace, Matrix<float> out) const;

  /// Call right after forward() with the same plan and workspace: raw logits of the plan's rows, guidance
  /// applied.
  ///   out  [wanted.size(), vocab_size] f32
  void read_logits(const KernelContext& context, const StepPlan& plan, std::span<const LogitRow> wanted,
                   Workspace& workspace, Matrix<float> out) const;

  /// Computes soft embeddings of cells, as a pass does, in this rank's cache only.
  ///   distributions  [cells, vocab] f32, each row a distribution
  void keep_soft_embeddings(const KernelContext& context, const KvCache& cache,
                            std::span<const int32_t> cells, ConstMatrix<float> distributions) const;

  /// Compares posteriors: those of outputs now[i] with before[i], in the format of OutputCache.
  void compare_outputs(const KernelContext& context, ConstMatrix<float> now, ConstMatrix<float> before,
                       Workspace& workspace, std::span<Drift> drifts) const;

 private:
  class Pass;

  /// Factor of the embeddings, rounded if ModelConfig::rounds_embedding_scale.
  float embedding_scale() const;

  ModelConfig config_;
  DType dtype_;
  bool kv_int8_;
  bool int8_activations_;
  std::shared_ptr<Communicator> ranks_;  // null: not distributed
  ModelPart part_;
  Parameters parameters_;
  std::vector<float> rope_frequencies_;     // frequencies of layers without a window
  std::vector<float> sliding_frequencies_;  // frequencies of layers with a sliding window
  std::vector<float> ones_;                 // weights of norms without weights
};

}  // namespace lacuna
