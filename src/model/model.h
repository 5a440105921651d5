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

/// Visible cells and rotary angles of the rows in the layers of one kind.
struct LayerKind {
  Attention attention;
  std::vector<Attention::Group> groups;
  std::vector<std::vector<IndexRange>> visible_ranges;  // of each group of the plan, the sink included
  std::vector<int32_t> begins;                          // [rows] of layers that slide
  std::vector<float> cosines, sines;  // [position, rotary_dim / 2], as far as any pass has needed
};

/// Memory of forward passes, grown when a larger plan comes and kept. One pass at a time may use it.
struct Workspace {
  LayerKind everything, sliding;
  std::vector<KvLayerView> layer_views;
  std::vector<size_t> attended_groups;             // of the plan, one for each of a kind's groups
  std::vector<std::vector<int32_t>> cells_behind;  // further cells of each confined group
  PackedRows packed;
  Buffer<float> residual, q, k, v, attended, projected, gate, up, head_rows, logits;
  std::vector<int32_t> head_row_indices;
  /// Whose logits `logits` still has, row by row, as the pass's samples left them; of a row that they changed
  /// (keeps_logits) `row` is -1. Empty: nobody's.
  std::vector<LogitRow> kept_logits;
  std::vector<int32_t> vocabulary;  // [padded vocab] 0, as columns that a softmax sees, but where padded
  // Layers of experts:
  Buffer<float> normed, router_logits, dense, expert_sum;
  std::vector<ExpertChoice> expert_choices;  // [rows, experts_per_token]
  std::vector<std::vector<int32_t>> pools;   // experts that the rows of a window share
  std::vector<size_t> pool_of_row;
  std::vector<std::vector<int32_t>> expert_rows;
  std::vector<std::vector<float>> expert_weights;
  std::vector<int32_t> canvas_rows, conditioned_rows;  // of the plan, ascending
  // Rows that the last layer computes whole, where it does not do so for all:
  std::vector<int32_t> whole_rows;    // ascending, rows of the plan
  std::vector<int32_t> residual_row;  // [rows of the plan] where they lie in `residual`; -1: gone

  // Storage that PassResult and FollowUpResult view:
  std::vector<RowStatistics> samples, further_samples;
  std::vector<Drift> drifts;
  std::vector<ClassStatistics> classes;
  std::vector<float> kv_drift;
  Buffer<CosineSums> own_kv_sums, kv_sums;  // [rows, K/V heads: key, value], of the rank and of all

  // For ranks that compute a model together:
  Buffer<float> own_outputs, gathered;  // this rank's outputs of a matrix; all ranks' inputs of the next
  Buffer<float> expert_activations;     // [chosen rows of all experts, the rank's part of their width]
  Buffer<std::byte> sent, received;     // buffers of an all-gather

  /// Memory of rows and of logits. What attention keeps, which is little, is not counted.
  int64_t bytes() const;

  AttentionProbe attention_probe;  ///< sees every row's attention, if set
  int64_t layer = 0;               ///< layer that the probe is called for
  /// [hidden_dim] of a row of the pass: during a call of the probe, the layer's input before its norm.
  std::span<const float> layer_input(int64_t row, int64_t hidden_dim) const;
  PassTimes times;  ///< of the last pass
};

/// Upper estimate of Workspace::bytes(), a little low where experts share the rows.
///   rows  of one pass, all of which may be sampled from
int64_t predicted_workspace_bytes(const ModelConfig& config, const WeightFormats& formats,
                                  const KernelTable& kernels, int64_t rows);

/// Shape of the K/V that a sequence of the model keeps for each of its cells.
///   part  whose K/V are kept
KvShape kv_shape(const ModelConfig& config, DType dtype, bool is_int8, const ModelPart& part = {});

/// Weights and config; immutable, so any number of passes may share it, each with its own Workspace, caches
/// and threads. Passes of a model that several ranks compute together are made one after the other, the same
/// on all ranks, and throw RankError; its caches hold the K/V of the rank's heads or layers alone. What reads
/// a pass that has been made, such as follow_up(), needs no other rank, and rank 0 can do it.
class Model {
 public:
  /// A checkpoint folder or a GGUF file. Throws InputError.
  static std::shared_ptr<const Model> load(const std::filesystem::path& folder, const WeightFormats& formats,
                                           ThreadPool& threads, const LoadProgress& progress = {});
  /// The same with a config that differs from the folder's in what its tensors do not depend on (RoPE).
  static std::shared_ptr<const Model> load(const std::filesystem::path& folder, const ModelConfig& config,
                                           const WeightFormats& formats, ThreadPool& threads,
                                           const LoadProgress& progress = {});
  static std::shared_ptr<const Model> random(const ModelConfig& config, uint64_t seed,
                                             const WeightFormats& formats, ThreadPool& threads,
                                             const LoadProgress& progress = {});
  /// One rank's part: of random weights where `folder` is empty.
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
  /// Type of activations, K/V, and weights that are not quantized.
  DType dtype() const { return dtype_; }
  int64_t weight_bytes() const { return parameters_.bytes(); }
  ModelBytes bytes_of_passes() const;
  /// See Parameters.
  std::vector<std::span<const std::byte>> mapped_panels() const { return parameters_.mapped_panels(); }
  KvShape kv_shape() const { return lacuna::kv_shape(config_, dtype_, kv_in_codes_, part_); }
  const ModelPart& part() const { return part_; }
  /// An empty store for one sequence; its sink cell, if the model has one, is filled.
  ///   count  as KvCache wants it
  KvCache make_cache(int64_t num_cells, std::shared_ptr<int64_t> count = nullptr) const;

  /// Computes the plan's rows, writes their K/V to their cells, and samples a token for each of plan.logits.
  ///   caches  one per sequence that the plan names, each with room for its cells
  PassResult forward(const KernelContext& context, const StepPlan& plan, std::span<KvCache* const> caches,
                     Workspace& workspace) const;

  /// Right after forward() of the same plan in the same workspace: samples more tokens from its rows and
  /// compares rows with what `outputs` remember of earlier passes. Then remembers every row of the pass at
  /// its cell, except rows of which the plan wants K/V alone.
  ///   outputs    one per sequence that the plan names, nullptr where nothing is compared or remembered; or
  ///   empty
  ///   remembers  false: rows are compared only
  FollowUpResult follow_up(const KernelContext& context, const StepPlan& plan, const FollowUp& wanted,
                           std::span<OutputCache* const> outputs, Workspace& workspace,
                           bool remembers = true) const;

  /// The same pass, but hands out raw logits: out [plan.logits.size(), vocab_size] f32.
  void forward_logits(const KernelContext& context, const StepPlan& plan, std::span<KvCache* const> caches,
                      Workspace& workspace, Matrix<float> out) const;

  /// Right after forward() of the same plan in the same workspace: raw logits of its rows, guidance applied.
  ///   out  [wanted.size(), vocab_size] f32
  void read_logits(const KernelContext& context, const StepPlan& plan, std::span<const LogitRow> wanted,
                   Workspace& workspace, Matrix<float> out) const;

  /// Gives cells of a sequence soft embeddings, as a pass does. Of this rank's cache alone.
  ///   distributions  [cells, vocab] f32, each row a distribution
  void keep_soft_embeddings(const KernelContext& context, const KvCache& cache,
                            std::span<const int32_t> cells, ConstMatrix<float> distributions) const;

  /// Compares the posteriors of rows of outputs: now[i] with before[i], as OutputCache keeps them.
  void compare_outputs(const KernelContext& context, ConstMatrix<float> now, ConstMatrix<float> before,
                       Workspace& workspace, std::span<Drift> drifts) const;

 private:
  class Pass;

  /// Factor of the embeddings, rounded to the dtype of the rows.
  float embedding_scale() const;

  ModelConfig config_;
  DType dtype_;
  bool kv_in_codes_;
  bool int8_activations_;
  std::shared_ptr<Communicator> ranks_;  // null: this is all of the model
  ModelPart part_;
  Parameters parameters_;
  std::vector<float> rope_frequencies_;     // frequencies of layers without a window
  std::vector<float> sliding_frequencies_;  // frequencies of layers with a sliding window
  std::vector<float> ones_;                 // a norm's weights where it has none
};

}  // namespace lacuna
