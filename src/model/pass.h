// One forward pass in flight. Its parts are in layers.cpp (embedding, norms, feed-forward),
// layer_attention.cpp (K/V and attention), head.cpp (logits and what is made of them) and ranks.cpp (where
// ranks that compute a model together wait for each other). What ranks exchange, exchange_ carries.
//
// Some rows of the plan go through some layers: all rows through all layers, but where ranks divide either.
// The residual stream has a place for every row of the plan; while rows are computed, x_ views theirs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "cache/sparse_cells.h"
#include "model/model.h"
#include "model/rank_exchange.h"
#include "model/sampling.h"

namespace lacuna {

/// The plan, the memory and the clock that the parts of a pass share.
class Model::Pass {
 public:
  Pass(const Model& model, const KernelContext& context, const StepPlan& plan,
       std::span<KvCache* const> caches, Workspace& workspace);

  /// Runs all layers, with the other ranks; the residual stream is then ready for the head, on ranks that
  /// sample.
  void run_layers();

  /// Calls use(first, logits) for one chunk of `wanted` after the other; logits row i belongs to
  /// wanted[first + i], guidance applied.
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

  /// The same, where each rank samples some of `wanted` and gets the others' samples.
  void sample_shared(std::span<const LogitRow> wanted, std::span<RowStatistics> samples);

  /// After sample_shared(): read_classes() may take these rows' logits from memory, if all of them are there.
  void keep_logits(std::span<const LogitRow> wanted);

  /// Reads each of `wanted` by its classes. Needs the residual stream that run_layers() left.
  void read_classes(std::span<const ClassRow> wanted, std::span<ClassStatistics> values);

  /// Needs the residual stream that run_layers() left.
  void compare(std::span<const DriftProbe> probes, std::span<OutputCache* const> outputs,
               std::span<Drift> drifts);

  void compare_rows(ConstMatrix<float> now, ConstMatrix<float> before, std::span<Drift> drifts);

  /// Every row but those of which the last layer wanted K/V alone: they have no output.
  void remember(std::span<OutputCache* const> outputs);

 private:
  void prepare();

  /// Finds the rows that the last layer computes whole.
  void list_whole_rows();

  /// From now on x_, and what is made of it, are those of these rows.
  void take(IndexRange rows);
  /// x_ and what is made of it lie there from now on.
  void set_place(IndexRange place);
  /// Takes rows through the rank's layers.
  void compute(IndexRange rows);
  /// The rank's rows, then the other ranks' rows of the residual stream.
  void compute_own_rows();
  /// The plan piece by piece, where ranks compute layers: each rank takes a piece through its own and passes
  /// it on; the last one returns it to the first.
  void run_stages();
  /// The rows of the residual stream that a rank passes on after a step of run_stages(); may be none.
  IndexRange passed_on(std::span<const IndexRange> pieces, int64_t step, int rank) const;

  /// Where rows of the plan lie in the residual stream after the last layer.
  IndexRange places(IndexRange rows) const;

  static bool remembers_heaviest(const RowGroup& group) {
    return group.sparse.choice == SparseAttention::Choice::kAllAndRemember;
  }

  bool is_confined(const RowGroup& group) const {
    return ws_.layer >= group.sparse.dense_layers && group.sparse.is_confined();
  }

  /// For this layer and those that follow, until what the groups attend to changes: for all groups; once the
  /// last layer has left others behind, for those that are whole.
  void prepare_attention();

  void prepare_attention(LayerKind& kind);

  /// Hides from a group what lies before the window of layers that slide.
  ///   taken  those of its rows that are computed
  void narrow_to_window(const RowGroup& group, IndexRange taken, std::vector<IndexRange>& visible,
                        Attention::Group& attended);

  LayerKind& kind_of(int64_t layer) { return config_.slides(layer) ? ws_.sliding : ws_.everything; }

  /// Lists the cells that a confined group sees besides the chosen ones: visible cells that are not
  /// candidates, and its own rows.
  void list_cells_behind(size_t g);

  void embed();

  /// Rows of canvases: norms their embeddings, after adding what the last pass's distributions say.
  void enter_canvases();

  std::vector<int64_t> kept_rows(std::span<const ClassRow> wanted) const;

  /// Replaces the logits of rows that ask for it, as their samples left them, and keeps their soft
  /// embeddings.
  void keep_soft_embeddings(std::span<const LogitRow> wanted, Matrix<float> logits);

  void attend(int64_t layer_index);
  /// Computes keys and values of x_, gets the other ranks', and writes all to their cells.
  void store_kv(const LayerParameters& layer);
  void compute_kv(const LayerParameters& layer, Matrix<float> k, Matrix<float> v);
  /// Adds what x_ attends to; its normed rows are packed.
  void attend_rows(const LayerParameters& layer);

  /// Whether some group's attention is dense before this layer and sparse from it on.
  bool attention_changes_at(int64_t layer) const;

  /// Gathers what a confined group attends to in this layer; where its queries choose, chooses
  /// first.
  ///   i  index into LayerKind::groups
  void gather_selected_cells(size_t i, ConstMatrix<float> q);

  std::vector<int32_t> best_page_cells(PageBounds& pages, const SparseAttention& sparse, int64_t kv_head,
                                       IndexRange rows, ConstMatrix<float> q, const KvCache& cache) const;

  /// After attention: each sequence that is to remember cells chooses those of most mass.
  void remember_heaviest();
  /// The same for those that remember the best scores.
  void remember_best_scored(ConstMatrix<float> q);
  /// The score of each candidate for the mean query of a group's rows, the mean over all heads.
  ///   i  index into LayerKind::groups
  std::vector<float> candidate_scores(size_t i, ConstMatrix<float> q);

  /// Gives all ranks the cells that groups have chosen to remember, where the ranks divide the rows.
  void share_chosen();

  /// Writes one row's K/V to its cell and, where that is wanted, compares them with what it held.
  void write_kv(int64_t layer, int64_t row, const float* key, const float* value);
  /// From all heads' comparisons to the layer's part of kv_drift. Heads are added up in their order.
  void measure_kv_drift(int64_t layer);
  /// [rows, each of the rank's K/V heads: key, value]
  Matrix<CosineSums> own_kv_sums(int64_t layer);

  /// The rank's keys, then its values.
  void read_kv(const KvCache& cache, int64_t layer, int32_t cell, std::vector<float>& out) const;

  /// In the last layer, once all K/V are written: gathers the rows of which more is wanted, and continues
  /// with them.
  void keep_output_rows(const LayerParameters& layer);

  /// The row of the plan that is row `row` of x_.
  int64_t plan_row(int64_t row) const {
    const int64_t place = place_.begin + row;
    return is_narrow_ ? ws_.whole_rows[static_cast<size_t>(place)] : place;
  }
  IndexRange all_rows() const { return {0, plan_.num_rows()}; }
  /// Rows of the plan whose K/V the rank writes.
  IndexRange written_rows() const { return part_.cuts(ShardBy::kRows) ? all_rows() : rows_; }
  /// This layer among those whose K/V the rank keeps.
  int64_t kv_layer() const { return ws_.layer - part_.layers(config_.num_layers).begin; }

  /// For families that norm all heads of q or k as one vector.
  ///   heads  [rows, the rank's heads], of `dim` values on all ranks
  void norm_full_rows(const std::vector<float>& weight, int64_t dim, Matrix<float> heads);

  /// Norm of each head, clip and rotation of one row's heads, in the order in which the families apply them.
  void finish_heads(const std::vector<float>& norm, int64_t num_heads, int64_t row, float* heads);

  /// Norm and clip of one row's values.
  void finish_values(Matrix<float> v, int64_t row);
  /// Llama 4's temperature (RopeConfig::query_growth) of a row of the plan.
  void grow_query(int64_t row, std::span<float> q) const;

  void clip(std::span<float> values) const {
    if (!config_.qkv_clip) return;
    for (float& value : values) value = std::clamp(value, -*config_.qkv_clip, *config_.qkv_clip);
  }

  void feed_forward(const LayerParameters& layer);

  /// projected = down(activation(gate, up)), for the rows that are packed.
  void activated_product(const FeedForward& ffn, int64_t rows, int64_t dim);
  /// Packs activation(gate, up) of the rows that are packed, where the rank computes all of it.
  void activate_whole(const FeedForward& ffn, int64_t rows, int64_t dim);
  /// out = the rank's columns of activation(gate, up).
  void activate_own(const FeedForward& ffn, Matrix<float> out);

  /// The feed-forward part of layers whose dense part and experts read the same rows.
  void feed_forward_in_parallel(const LayerParameters& layer);

  /// normed_ = the residual stream's rows, normed.
  void norm_all(const std::vector<float>& weight);

  /// Gives each row of normed_ to its experts.
  void route(const LayerParameters& layer);

  /// For models whose windows of positions share experts: each window's, and which rows have it.
  void find_pools(const LayerParameters& layer, ConstMatrix<float> logits);

  /// Adds the outputs of all experts to their rows of `sum`, in ascending order of the experts.
  void run_experts(const LayerParameters& layer, Matrix<float> sum);

  void run_expert(const FeedForward& expert, size_t index, Matrix<float> sum);
  /// run_experts() of ranks: two exchanges for all experts together.
  void run_experts_in_parts(const LayerParameters& layer, Matrix<float> sum);

  /// After a layer: multiplies the residual stream by the layer's numbers.
  void scale_rows(const LayerParameters& layer);

  Matrix<float> compute_logits(std::span<const LogitRow> wanted);

  /// Rows of a chunk: first all rows as they are now, then as they were, each followed by those that guide
  /// them.
  void compare_chunk(std::span<const DriftProbe> probes, std::span<OutputCache* const> outputs,
                     std::span<Drift> drifts);

  void final_norm(int64_t row, float* out) const;

  /// Logits of the rows that are packed, which have had the final norm.
  Matrix<float> head();

  /// The model's norm of a row; `out` may be `x`.
  ///   weight  as LayerParameters has it
  void norm(const float* x, const std::vector<float>& weight, float* out) const;

  void pack_normed(const std::vector<float>& weight);

  /// Adds projected_ to the residual stream.
  ///   weight  of the norm that it has first; empty: none
  void add_projected(const std::vector<float>& weight);

  /// `seconds` is the part of the times that this counts for.
  void pack(ConstMatrix<float> rows, double& seconds);

  /// The rank's outputs of the rows that are packed.
  void product(const Linear& linear, Matrix<float> out, double& seconds);
  /// All outputs: those of the other ranks are gathered.
  void whole_product(const Linear& linear, Matrix<float> out, double& seconds);

  int64_t own_kv_heads(int64_t layer) const { return part_.kv_heads(config_.num_kv_heads_of(layer)).size(); }
  int64_t own_query_heads(int64_t layer) const {
    return own_kv_heads(layer) * (config_.num_heads / config_.num_kv_heads_of(layer));
  }
  /// Gives all ranks the soft embeddings that each has kept of its rows.
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
  IndexRange rows_;                    // rows of the plan that are computed
  IndexRange place_;                   // range of x_ in the residual stream
  int64_t num_rows_ = 0;               // rows in x_
  Matrix<float> x_, normed_, projected_;
  bool is_narrow_ = false;  // the last layer continued with some rows alone: x_ has only these
  std::vector<int32_t> row_sequence_;
  std::vector<CanvasRows> row_canvas_;
  Stopwatch watch_;
};

}  // namespace lacuna
