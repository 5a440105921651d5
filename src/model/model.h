// A loaded model and its one forward pass.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "base/buffer.h"
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

/// Memory of forward passes, grown when a larger plan comes and kept. One pass at a time may use it.
struct Workspace {
  Attention attention;
  std::vector<Attention::Group> attention_groups;
  std::vector<KvLayerView> layer_views;
  std::vector<size_t> attended_groups;                  // of the plan, one for each of attention_groups
  std::vector<std::vector<IndexRange>> visible_ranges;  // of each group, the sink included
  std::vector<std::vector<int32_t>> cells_behind;  // of each confined group: seen besides the chosen ones
  PackedRows packed;
  Buffer<float> residual, q, k, v, attended, projected, gate, up, head_rows, logits;
  std::vector<int32_t> head_row_indices;
  std::vector<float> cosines, sines;  // [position, rotary_dim / 2], as far as any pass has needed
  // Layers of experts:
  Buffer<float> normed, router_logits;
  std::vector<ExpertChoice> expert_choices;  // [rows, experts_per_token]
  std::vector<std::vector<int32_t>> expert_rows;
  std::vector<std::vector<float>> expert_weights;
  // Rows that the last layer computes whole, where it does not do so for all:
  std::vector<int32_t> whole_rows;    // ascending, rows of the plan
  std::vector<int32_t> residual_row;  // [rows of the plan] where they lie in `residual`; -1: gone

  // What PassResult and FollowUpResult view:
  std::vector<RowStatistics> samples, further_samples;
  std::vector<Drift> drifts;
  std::vector<float> kv_drift;

  /// Memory of rows and of logits. What attention keeps, which is little, is not counted.
  int64_t bytes() const;

  AttentionProbe attention_probe;  ///< sees every row's attention, if set
  int64_t layer = 0;               ///< that the probe is called for
  PassTimes times;                 ///< of the last pass
};

/// What Workspace::bytes() grows to, or a little less where experts share the rows.
///   rows  of one pass, all of which may be drawn from
int64_t predicted_workspace_bytes(const ModelConfig& config, const WeightFormats& formats,
                                  const KernelTable& kernels, int64_t rows);

/// Weights and config; immutable, so any number of passes may share it, each with its own Workspace, caches
/// and threads.
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

  Model(ModelConfig config, const WeightFormats& formats, Parameters parameters);

  const ModelConfig& config() const { return config_; }
  /// Type of activations, K/V, and weights that are not quantized.
  DType dtype() const { return dtype_; }
  WeightFormat layer_format() const { return parameters_.layers.front().q.weight.format(); }
  int64_t weight_bytes() const { return parameters_.bytes(); }
  ModelBytes bytes_of_passes() const;
  /// See Parameters.
  std::vector<std::span<const std::byte>> mapped_panels() const { return parameters_.mapped_panels(); }
  KvShape kv_shape() const {
    return {config_.num_layers, config_.num_kv_heads, config_.head_dim, dtype_,
            config_.kv_sink,    kv_in_codes_};
  }
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

  /// Compares the posteriors of rows of outputs: now[i] with before[i], as OutputCache keeps them.
  void compare_outputs(const KernelContext& context, ConstMatrix<float> now, ConstMatrix<float> before,
                       Workspace& workspace, std::span<Drift> drifts) const;

 private:
  class Pass;

  ModelConfig config_;
  DType dtype_;
  bool kv_in_codes_;
  bool int8_activations_;
  Parameters parameters_;
  std::vector<float> rope_frequencies_;
};

}  // namespace lacuna
