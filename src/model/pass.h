// One forward pass. Its parts are in layers.cpp (embedding, norms, feed-forward), layer_attention.cpp (K/V
// and attention), head.cpp (logits, sampling and drift) and ranks.cpp (synchronization of the ranks of a
// distributed model). exchange_ transfers data between ranks.
//
// Rows that keep what layers add to them are in layer_reuse.cpp, masks that leave a pass in
// mask_eviction.cpp.
//
// A rank computes all rows in all layers unless ranks divide rows or layers. The residual stream has a place
// for every row of the plan; x_ views the rows being computed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/clock.h"
#include "cache/sparse_cells.h"
#include "model/model.h"
#include "model/rank_exchange.h"
#include "model/sampling.h"

namespace lacuna {

/// State shared by the parts of a pass.
class Model::Pass {
 public:
  Pass(const Model& model, const KernelContext& context, const StepPlan& plan,
       std::span<KvCache* const> caches, Workspace& workspace);

  /// Runs all layers, together with the other ranks. Afterwards, ranks that sample have the residual stream
  /// for the head.
  void run_layers();

  /// Calls use(first, logits) for each chunk of `wanted`; logits row i belongs to wanted[first + i], guidance
  /// applied.
  template <typename Use>
  void for_each_logits(std::span<const LogitRow> wanted, Use&& use) {
    const auto chunk_rows = static_cast<size_t>(head_chunk_rows(config_.vocab_size));
    for (size_t first = 0; first < wanted.size(); first += chunk_rows) {
      use(first, compute_logits(wanted.subspan(first, std::min(chunk_rows, wanted.size() - first))));
      ws_.times.draws += watch_.restart();
    }
  }

  /// Samples each of `wanted`. Needs the residual stream that run_layers() left.
  void sample_all(std::span<const LogitRow> wanted, std::span<RowStatistics> samples);

  /// Same, but each rank samples some of `wanted` and receives the others' samples.
  void sample_shared(std::span<const LogitRow> wanted, std::span<RowStatistics> samples);

  /// Whether some rows may not be computed to the end.
  bool evicts() const { return evicts_; }
  /// sample_all(), in which rows that were evicted have the token -1.
  void sample_staying(std::span<const LogitRow> wanted, std::span<RowStatistics> samples);

  /// After sample_shared(): lets read_classes() reuse the logits of these rows, if all are still in memory.
  void keep_logits(std::span<const LogitRow> wanted);

  /// Reduces each row of `wanted` by its token classes. Needs the residual stream that run_layers() left.
  void read_classes(std::span<const ClassRow> wanted, std::span<ClassStatistics> values);

  /// Compares posteriors with remembered ones. Needs the residual stream that run_layers() left.
  void compare(std::span<const DriftProbe> probes, std::span<OutputCache* const> outputs,
               std::span<Drift> drifts);

  void compare_rows(ConstMatrix<float> now, ConstMatrix<float> before, std::span<Drift> drifts);

  /// Stores the outputs of all rows except those of only_kv groups, which have none.
  void remember(std::span<OutputCache* const> outputs);

  /// After run_layers(): computes PassResult::rollout.
  void find_rollouts(std::vector<double>& rollout);

 private:
  void prepare();

  /// Lists the rows that have outputs in the last layer.
  void list_whole_rows();

  /// Makes x_ the view of these rows.
  void take(IndexRange rows);
  /// Makes x_ view this range of the residual stream.
  void set_place(IndexRange place);
  /// Computes the rank's layers for these rows.
  void compute(IndexRange rows);
  /// Computes the rank's rows, then receives the other ranks' rows of the residual stream.
  void compute_own_rows();
  /// Pipeline parallelism, if ranks divide the layers: each rank computes a piece of the plan in its layers
  /// and passes it on; the last rank returns it to the first.
  void run_stages();
  /// The rows of the residual stream that a rank passes on after a step of run_stages(); may be empty.
  IndexRange passed_on(std::span<const IndexRange> pieces, int64_t step, int rank) const;

  /// Range of these rows of the plan in the residual stream after the last layer.
  IndexRange places(IndexRange rows) const;
  /// Range of these rows of the plan in an ascending list.
  static IndexRange places_in(std::span<const int32_t> list, IndexRange rows);

  // LayerReuse:
  /// Before a layer: makes x_ a copy of the rows that it computes. The others store their values.
  void take_layer_rows(const LayerParameters& layer);
  /// After a layer: returns x_ to the residual stream, and adds to the other rows what they kept.
  void return_layer_rows();
  /// Appends the rows of a group that the layer computes to ws_.taken_rows, and stores values of all others.
  void choose_layer_rows(const LayerParameters& layer, const RowGroup& group);

  static bool remembers_heaviest(const RowGroup& group) {
    return group.sparse.choice == SparseAttention::Choice::kAllAndRemember;
  }

  bool is_confined(const RowGroup& group) const {
    return ws_.layer >= group.sparse.dense_layers && group.sparse.is_confined();
  }

  /// Whether a group's rows use the attention to the candidates that they kept.
  bool uses_kept(const RowGroup& group) const {
    return ws_.layer >= group.sparse.dense_layers && group.sparse.choice == SparseAttention::Choice::kKept;
  }
  /// End of the cells whose part of the attention is needed; 0: no part is.
  int32_t part_end(const RowGroup& group) const {
    if (uses_kept(group)) return std::numeric_limits<int32_t>::max();
    return ws_.layer >= group.sparse.dense_layers && group.sparse.keeps() ? group.sparse.among.end : 0;
  }

  // MaskEviction:
  /// In the second layer, after writing K/V: continues with the rows that stay.
  void evict_masks(const LayerParameters& layer);
  /// [groups][masks] for groups that evict.
  std::vector<std::vector<double>> attention_of_masks(ConstMatrix<float> q) const;
  /// Rows of the plan.
  std::vector<int32_t> masks_of(const RowGroup& group) const;

  /// After writing K/V: continues with these of the rows, in ascending order, at the front of the residual
  /// stream, and packs them again.
  void narrow_to(std::span<const int32_t> rows, const LayerParameters& layer);

  /// Prepares attention for this and the following layers, until attended cells change: for all groups or,
  /// once listed_, only for those with rows in the list.
  void prepare_attention();

  void prepare_attention(LayerKind& kind);
  /// Prepares the attention of active rows to chosen pages.
  void prepare_active_rows(const AttentionShape& shape);

  /// Hides cells before the sliding window from a group.
  ///   taken  the group's rows that are computed
  void narrow_to_window(const RowGroup& group, IndexRange taken, std::vector<IndexRange>& visible,
                        Attention::Group& attended);

  LayerKind& kind_of(int64_t layer) { return config_.slides(layer) ? ws_.sliding : ws_.everything; }

  /// Lists the cells that a confined group attends to besides the chosen ones: visible cells that are not
  /// candidates, and its own rows.
  void list_cells_behind(size_t g);

  void embed();

  /// For StepPlan::mixed.
  void mix_with_mask();

  /// For rows of canvases: adds the self-conditioning of the last pass, then norms the embeddings.
  void condition_canvases();

  std::vector<int64_t> kept_rows(std::span<const ClassRow> wanted) const;

  /// Stores the soft embeddings of rows that request them, which overwrites their logits.
  void keep_soft_embeddings(std::span<const LogitRow> wanted, Matrix<float> logits);

  /// adaLN: computes each group's scale, shift and gate, before the layers' own are added.
  void embed_noise_levels();
  /// A row's scale, shift and gate in a layer, each the sum of what its group and what the layer has.
  struct Modulation {
    const float* of_group;  // [3 hidden]
    const float* of_layer;
    int64_t dim;
    float apply(float x, int64_t d) const { return x * (1 + part(d)) + part(dim + d); }
    float gate(int64_t d) const { return 1 + part(2 * dim + d); }

    float part(int64_t i) const { return of_group[i] + of_layer[i]; }
  };
  ///   row  of the plan
  Modulation modulation_of(int64_t layer, int64_t row) const;
  /// Before a layer: remembers the residual stream, then scales and shifts it.
  void modulate(int64_t layer);
  /// After a layer: adds what the layer has added, gated, to the remembered residual stream.
  void gate(int64_t layer);

  /// In layers that convolve: computes the convolution's inputs of x_ and writes them to their cells.
  void store_convolved(const LayerParameters& layer);
  /// Adds the convolution's output of x_, whose normed rows are packed already.
  void convolve_rows(const LayerParameters& layer);

  void attend(int64_t layer_index);
  /// Computes keys and values of x_, receives the other ranks', and writes all to their cells.
  void store_kv(const LayerParameters& layer);
  void compute_kv(const LayerParameters& layer, Matrix<float> k, Matrix<float> v);
  /// Queries of x_, whose normed rows are packed already.
  Matrix<float> compute_queries(const LayerParameters& layer);
  AttentionShape attention_shape(bool slides) const;
  /// Adds the attention output of x_, whose normed rows are packed already.
  void attend_rows(const LayerParameters& layer);

  /// First row of a group in layer_weights().
  int32_t weights_at(size_t g) const;
  /// Attention::run()'s weights of the layer; empty if no group wants a rollout.
  Matrix<float> layer_weights();
  ///   shares  [RowGroup::rollout_size()] a group's part of PassResult::rollout
  void find_rollout(size_t g, std::span<double> shares) const;

  /// Whether some group's attention is dense before this layer and sparse from it on.
  bool attention_changes_at(int64_t layer) const;

  /// Gathers the cells that a group attends to in this layer; chooses pages first if it attends to pages.
  ///   g     group of the plan
  ///   rows  rows of `q` whose queries choose the pages
  void gather_selected_cells(size_t g, IndexRange rows, ConstMatrix<float> q);

  std::vector<int32_t> best_page_cells(PageBounds& pages, const SparseAttention& sparse, int64_t kv_head,
                                       IndexRange rows, ConstMatrix<float> q, const KvCache& cache) const;

  /// After attention: for each kAllAndRemember group, its sequence remembers the cells with the most
  /// attention mass.
  void remember_heaviest();
  /// Same for kAllAndRememberScored groups, by best score.
  void remember_best_scored(ConstMatrix<float> q);
  /// The score of each candidate: its key times the mean query of a group's rows, averaged over all heads.
  ///   i  index into LayerKind::groups
  std::vector<float> candidate_scores(size_t i, ConstMatrix<float> q);

  /// After attention: completes the outputs of rows that use kept attention, and keeps that of other rows.
  ///   parts  [rows, own query heads * Attention::part_dim()]
  void use_kept_attention(ConstMatrix<float> q, Matrix<float> parts, Matrix<float> attended);
  /// Chooses the active rows and overwrites their outputs and parts by those of chosen pages.
  void attend_active_rows(ConstMatrix<float> q, Matrix<float> parts, Matrix<float> attended);
  /// The rows of x_ of a group whose input has changed most since their last pass.
  ///   i  index into LayerKind::groups
  std::vector<int32_t> most_changed_rows(size_t i, int32_t count);
  void keep(KeptAttention& kept, const RowGroup& group, int64_t row, ConstMatrix<float> parts);
  void merge_kept(const KeptAttention& kept, const RowGroup& group, int64_t row, ConstMatrix<float> parts,
                  Matrix<float> attended) const;
  /// A group's kept attention in this layer, with room for its rows.
  ///   i  index into LayerKind::groups
  KeptAttention& kept_of(size_t i);
  std::span<float> kept_input(KeptAttention& kept, const RowGroup& group, int64_t row) const;
  /// Place of a row of x_ in KeptAttention.
  size_t kept_place(const RowGroup& group, int64_t row) const {
    return static_cast<size_t>(plan_.cells[static_cast<size_t>(plan_row(row))] - group.sparse.among.end);
  }

  /// Sends the remembered cells to all ranks, if ranks divide the rows.
  void share_chosen();

  /// Writes one row's K/V to its cell and, if the plan measures K/V drift, compares them with the cell's
  /// previous K/V.
  void write_kv(int64_t layer, int64_t row, const float* key, const float* value);
  /// Computes the layer's part of kv_drift from the sums of all heads, added in head order.
  void measure_kv_drift(int64_t layer);
  /// [rows, each of the rank's K/V heads: key, value]
  Matrix<CosineSums> own_kv_sums(int64_t layer);

  /// Reads a cell: the rank's keys, then its values.
  void read_kv(const KvCache& cache, int64_t layer, int32_t cell, std::vector<float>& out) const;

  /// In the last layer, after writing K/V: moves the rows with outputs to the front, and continues with only
  /// these.
  void keep_output_rows(const LayerParameters& layer);

  /// The plan's row index of row `row` of x_.
  int64_t plan_row(int64_t row) const {
    const int64_t place = place_.begin + row;
    return listed_.empty() ? place : listed_[static_cast<size_t>(place)];
  }
  IndexRange all_rows() const { return {0, plan_.num_rows()}; }
  /// Rows of the plan whose K/V the rank writes.
  IndexRange written_rows() const { return part_.cuts(ShardBy::kRows) ? all_rows() : rows_; }
  /// Index of this layer in the rank's caches.
  int64_t kv_layer() const { return ws_.layer - part_.layers(config_.num_layers).begin; }

  /// RMSNorm over all heads of q or k as one vector (ModelConfig::qk_norm_full).
  ///   heads  [rows, the rank's heads]; `dim` is the width of all ranks' heads
  void norm_full_rows(const std::vector<float>& weight, int64_t dim, Matrix<float> heads);

  /// Applies norm, clipping and RoPE to each head of one row, in this order.
  void finish_heads(const std::vector<float>& norm, int64_t num_heads, int64_t row, float* heads);

  /// Norms and clips one row's values.
  void finish_values(Matrix<float> v, int64_t row);
  /// Applies Llama 4's temperature (RopeConfig::query_growth) to a query of the plan's row.
  void grow_query(int64_t row, std::span<float> q) const;

  void clip(std::span<float> values) const {
    if (!config_.qkv_clip) return;
    for (float& value : values) value = std::clamp(value, -*config_.qkv_clip, *config_.qkv_clip);
  }

  void feed_forward(const LayerParameters& layer);

  /// projected_ = down(activation(gate, up)) of the packed rows.
  void activated_product(const FeedForward& ffn, int64_t rows, int64_t dim);
  /// Packs activation(gate, up) of the packed rows, if the rank computes all of it.
  void activate_whole(const FeedForward& ffn, int64_t rows, int64_t dim);
  /// out = the rank's columns of activation(gate, up).
  void activate_own(const FeedForward& ffn, Matrix<float> out);

  /// Feed-forward part of layers whose dense layer and experts read the same rows.
  void feed_forward_in_parallel(const LayerParameters& layer);

  /// normed_ = the residual stream's rows, normed.
  void norm_all(const std::vector<float>& weight);

  /// Gives each row of normed_ to its experts.
  void route(const LayerParameters& layer);

  /// For models whose windows of positions share experts: finds each window's pool, and the pool of each row.
  void find_pools(const LayerParameters& layer, ConstMatrix<float> logits);

  /// Adds the outputs of all experts to their rows of `sum`, in ascending order of the experts.
  void run_experts(const LayerParameters& layer, Matrix<float> sum);

  void run_expert(const FeedForward& expert, size_t index, Matrix<float> sum);
  /// run_experts() if ranks divide the outputs: two exchanges for all experts together.
  void run_experts_in_parts(const LayerParameters& layer, Matrix<float> sum);

  /// After a layer: multiplies the residual stream by the layer's scalars.
  void scale_rows(const LayerParameters& layer);

  Matrix<float> compute_logits(std::span<const LogitRow> wanted);

  /// compare() of one chunk.
  void compare_chunk(std::span<const DriftProbe> probes, std::span<OutputCache* const> outputs,
                     std::span<Drift> drifts);

  void final_norm(int64_t row, float* out) const;

  /// Logits of the packed rows, after the final norm.
  Matrix<float> head();

  /// The model's norm of a row; `out` may be `x`.
  ///   weight  see LayerParameters
  void norm(const float* x, const std::vector<float>& weight, float* out) const;

  void pack_normed(const std::vector<float>& weight);

  /// Adds projected_ to the residual stream.
  ///   weight  weight of a norm to apply first; empty: none
  void add_projected(const std::vector<float>& weight);

  /// Packs rows; adds the time to `seconds`.
  void pack(ConstMatrix<float> rows, double& seconds);

  /// Multiplies the packed rows: the rank's outputs.
  void product(const Linear& linear, Matrix<float> out, double& seconds);
  /// Same, but all ranks' outputs, gathered.
  void whole_product(const Linear& linear, Matrix<float> out, double& seconds);

  int64_t own_kv_heads(int64_t layer) const { return part_.kv_heads(config_.num_kv_heads_of(layer)).size(); }
  int64_t own_query_heads(int64_t layer) const {
    return own_kv_heads(layer) * (config_.num_heads / config_.num_kv_heads_of(layer));
  }
  /// Sends each rank's stored soft embeddings to all ranks.
  void share_soft_embeddings(std::span<const LogitRow> wanted);

  template <typename Body>
  void for_each_row(Body&& body) {
    for_each_row(num_rows_, body);
  }

  template <typename Body>
  void for_each_row(int64_t count, Body&& body) {
    constexpr int64_t kRowsPerTask = 8;
    context_.threads.parallel_for((count + kRowsPerTask - 1) / kRowsPerTask, [&](int64_t task, int) {
      const int64_t end = std::min(count, (task + 1) * kRowsPerTask);
      for (int64_t row = task * kRowsPerTask; row < end; ++row) body(row);
    });
  }

  const ModelConfig& config_;
  const ModelPart part_;
  const Parameters& parameters_;
  const std::vector<float>& frequencies_;
  const std::vector<float>& sliding_frequencies_;
  const std::vector<float>& ones_;
  DType dtype_;
  float embedding_scale_;
  const KernelContext context_;
  const KernelTable& kernels_;
  const StepPlan& plan_;
  std::span<KvCache* const> caches_;
  Workspace& ws_;
  RankExchange exchange_;
  const Matrix<float> residual_;       // [rows of the plan, hidden]
  std::vector<IndexRange> rank_rows_;  // rows that each rank computes, if they divide the rows
  IndexRange rows_;                    // rows of the plan being computed
  IndexRange place_;                   // range of x_ in the residual stream
  int64_t num_rows_ = 0;               // rows in x_
  Matrix<float> x_, normed_, projected_;
  std::span<const int32_t> listed_;  // if x_ has not all rows: those it may have, ascending rows of the plan
  bool evicts_ = false;
  bool reuses_layers_ = false;  // whether rows keep what layers add to them
  std::vector<int32_t> row_sequence_;
  std::vector<int32_t> row_group_;
  Buffer<float> weights_;       // [layers, rows of groups that want a rollout, cells of their tiles]
  int64_t weights_stride_ = 0;  // cells of the group with the most
  Stopwatch watch_;
};

}  // namespace lacuna
