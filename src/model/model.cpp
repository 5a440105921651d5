// The forward pass of every pre-norm transformer we know: embed; for each layer norm, attend, add, norm, feed
// forward, add; norm, head. Families differ by the flags of ModelConfig.
#include "model/model.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/error.h"
#include "cache/sparse_cells.h"
#include "model/drift.h"
#include "model/families.h"
#include "model/sparse_attention.h"

namespace lacuna {
namespace {

/// Logits of some rows at a time: enough rows to use the head's weights well, at most 128 MiB.
int64_t head_chunk_rows(int64_t vocab) {
  constexpr int64_t kMostFloats = int64_t{1} << 25;
  return std::clamp<int64_t>(kMostFloats / vocab, 16, 256);
}

Matrix<float> sized(Buffer<float>& buffer, int64_t rows, int64_t cols) {
  const int64_t stride = output_stride(cols);
  buffer.reserve(rows * stride);
  return {buffer.data(), rows, cols, stride};
}

}  // namespace

/// One forward pass in flight: the plan, the memory and the clock that its parts share.
class Model::Pass {
 public:
  Pass(const Model& model, const KernelContext& context, const StepPlan& plan,
       std::span<KvCache* const> caches, Workspace& workspace)
      : config_(model.config_),
        parameters_(model.parameters_),
        frequencies_(model.rope_frequencies_),
        dtype_(model.dtype_),
        context_{context.kernels, context.threads, model.int8_activations_},
        kernels_(context.kernels),
        plan_(plan),
        caches_(caches),
        ws_(workspace),
        num_rows_(plan.num_rows()),
        x_(sized(ws_.residual, num_rows_, config_.hidden_dim)),
        projected_(sized(ws_.projected, num_rows_, config_.hidden_dim)),
        row_sequence_(static_cast<size_t>(num_rows_)) {
    ws_.times = {};
    for (const RowGroup& group : plan_.groups) {
      std::fill(row_sequence_.begin() + group.rows.begin, row_sequence_.begin() + group.rows.end,
                group.sequence);
    }
  }

  /// Runs all layers; the residual stream is then ready for the head.
  void run_layers() {
    prepare();
    ws_.layer = 0;
    prepare_attention();
    embed();
    for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
      attend(layer);
      if (num_rows_ == 0) return;  // the last layer; nobody asked for more than K/V
      feed_forward(parameters_.layers[static_cast<size_t>(layer)]);
    }
  }

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

  /// Draws each of `wanted`. Needs the residual stream that run_layers() left.
  void draw_all(std::span<const LogitRow> wanted, std::span<RowStatistics> drawn) {
    for_each_logits(wanted, [&](size_t first, Matrix<float> logits) {
      context_.threads.parallel_for(logits.rows, [&](int64_t i, int) {
        const size_t index = first + static_cast<size_t>(i);
        const LogitRow& logit = wanted[index];
        drawn[index] = draw(kernels_, plan_.rules[static_cast<size_t>(logit.rule)], logit.noise,
                            logits.row_span(i), logit.scored);
      });
    });
  }

  /// Needs the residual stream that run_layers() left.
  void compare(std::span<const DriftProbe> probes, std::span<OutputCache* const> outputs,
               std::span<Drift> drifts) {
    const int64_t chunk_probes = head_chunk_rows(config_.vocab_size) / 4;
    const auto count = static_cast<int64_t>(probes.size());
    for (int64_t first = 0; first < count; first += chunk_probes) {
      const auto size = static_cast<size_t>(std::min(chunk_probes, count - first));
      const auto begin = static_cast<size_t>(first);
      compare_chunk(probes.subspan(begin, size), outputs, drifts.subspan(begin, size));
    }
  }

  void compare_rows(ConstMatrix<float> now, ConstMatrix<float> before, std::span<Drift> drifts) {
    const int64_t chunk_rows = head_chunk_rows(config_.vocab_size) / 2;
    for (int64_t first = 0; first < now.rows; first += chunk_rows) {
      const int64_t count = std::min(chunk_rows, now.rows - first);
      const Matrix<float> head_rows = sized(ws_.head_rows, 2 * count, config_.hidden_dim);
      for (int64_t i = 0; i < count; ++i) {
        std::copy_n(now.row(first + i), config_.hidden_dim, head_rows.row(i));
        std::copy_n(before.row(first + i), config_.hidden_dim, head_rows.row(count + i));
      }
      ws_.packed.pack(context_, head_rows, {}, dtype_);
      const Matrix<float> logits = head();
      context_.threads.parallel_for(count, [&](int64_t i, int) {
        drifts[static_cast<size_t>(first + i)] =
            lacuna::measure_drift(logits.row_span(i), logits.row_span(count + i));
      });
    }
  }

  /// Every row but those of which the last layer wanted K/V alone: they have no output.
  void remember(std::span<OutputCache* const> outputs) {
    for_each_row(plan_.num_rows(), [&](int64_t row) {
      const auto index = static_cast<size_t>(row);
      if (!ws_.residual_row.empty() && ws_.residual_row[index] < 0) return;
      const OutputCache* output = outputs[static_cast<size_t>(row_sequence_[index])];
      if (output != nullptr) final_norm(row, output->rows().row(plan_.cells[index]));
    });
  }

 private:
  void prepare() {
    const auto half = static_cast<int64_t>(frequencies_.size());
    const int32_t last = *std::max_element(plan_.positions.begin(), plan_.positions.end());
    for (auto known = static_cast<int64_t>(ws_.cosines.size()) / half; known <= last; ++known) {
      for (int64_t j = 0; j < half; ++j) {
        // The product in f32 as the reference has it, the functions in double.
        const float angle = static_cast<float>(known) * frequencies_[static_cast<size_t>(j)];
        ws_.cosines.push_back(static_cast<float>(std::cos(double{angle})) * config_.rope.attention_scaling);
        ws_.sines.push_back(static_cast<float>(std::sin(double{angle})) * config_.rope.attention_scaling);
      }
    }

    if (plan_.measures_kv_drift) {
      ws_.kv_drift.assign(static_cast<size_t>(2 * num_rows_ * config_.num_layers), 0);
    }
  }

  static bool remembers_cells(const RowGroup& group) {
    return group.sparse.choice == SparseAttention::Choice::kAllAndRemember;
  }

  bool is_confined(const RowGroup& group) const {
    return ws_.layer >= group.sparse.dense_layers && group.sparse.is_confined();
  }

  /// For this layer and those that follow, until what the groups attend to changes: for all groups; once the
  /// last layer has left others behind, for those that are whole.
  void prepare_attention() {
    const size_t num_groups = plan_.groups.size();
    ws_.attention_groups.clear();
    ws_.attended_groups.clear();
    ws_.visible_ranges.resize(std::max(ws_.visible_ranges.size(), num_groups));
    ws_.cells_behind.resize(std::max(ws_.cells_behind.size(), num_groups));
    for (size_t g = 0; g < num_groups; ++g) {
      const RowGroup& group = plan_.groups[g];
      if (is_narrow_ && group.only_kv) continue;
      ws_.attended_groups.push_back(g);
      IndexRange rows = group.rows;
      if (is_narrow_) {
        rows.begin = ws_.residual_row[static_cast<size_t>(rows.begin)];
        rows.end = rows.begin + group.rows.size();
      }
      if (is_confined(group)) {
        list_cells_behind(g);
        const int32_t count = group.sparse.num_chosen() + static_cast<int32_t>(ws_.cells_behind[g].size());
        ws_.visible_ranges[g] = {{0, count}};
        ws_.attention_groups.push_back({rows, ws_.visible_ranges[g], {}, false});
        continue;
      }
      std::span<const int32_t> own_cells;
      if (group.own_rows != OwnRows::kNone) {
        own_cells =
            std::span<const int32_t>(plan_.cells)
                .subspan(static_cast<size_t>(group.rows.begin), static_cast<size_t>(group.rows.size()));
      }
      std::vector<IndexRange>& visible = ws_.visible_ranges[g];
      visible = group.visible;
      const int32_t sink = caches_[static_cast<size_t>(group.sequence)]->sink_cell();
      if (sink >= 0) visible.push_back({sink, sink + 1});
      ws_.attention_groups.push_back({rows, visible, own_cells, group.own_rows == OwnRows::kCausal,
                                      ws_.layer >= group.sparse.dense_layers && remembers_cells(group)});
    }
    const AttentionShape shape{config_.num_heads, config_.num_kv_heads, config_.head_dim,
                               1.0F / std::sqrt(static_cast<float>(config_.head_dim)), config_.attn_soft_cap};
    ws_.attention.prepare(context_, shape, dtype_, ws_.attention_groups);
  }

  /// What a confined group sees besides the chosen cells: what is visible but not to be chosen among, and its
  /// own rows.
  void list_cells_behind(size_t g) {
    const RowGroup& group = plan_.groups[g];
    expects(group.own_rows != OwnRows::kCausal, "sparse attention is for rows that all see the same");
    std::vector<int32_t>& behind = ws_.cells_behind[g];
    behind.clear();
    for (const IndexRange& range : group.visible) {
      if (range == group.sparse.among) continue;
      for (int32_t cell = range.begin; cell < range.end; ++cell) behind.push_back(cell);
    }
    if (group.own_rows == OwnRows::kNone) return;
    behind.insert(behind.end(), plan_.cells.begin() + group.rows.begin, plan_.cells.begin() + group.rows.end);
  }

  void embed() {
    for_each_row([&](int64_t row) {
      parameters_.embedding.read_row(plan_.tokens[static_cast<size_t>(row)], x_.row(row));
      if (config_.embedding_scale == 1) return;
      for (float& value : x_.row_span(row)) value *= config_.embedding_scale;
    });
    ws_.times.other += watch_.restart();
  }

  void attend(int64_t layer_index) {
    const LayerParameters& layer = parameters_.layers[static_cast<size_t>(layer_index)];
    ws_.layer = layer_index;
    const Matrix<float> k = sized(ws_.k, num_rows_, config_.kv_dim());
    const Matrix<float> v = sized(ws_.v, num_rows_, config_.kv_dim());

    pack_normed(layer.attn_norm);
    product(layer.k, k, ws_.times.qkv);
    product(layer.v, v, ws_.times.qkv);
    for_each_row([&](int64_t row) {
      finish_heads(layer.k_norm, config_.num_kv_heads, row, k.row(row));
      clip(v.row_span(row));
      write_kv(layer_index, row, k.row(row), v.row(row));
    });
    ws_.times.other += watch_.restart();
    if (attention_changes_at(layer_index)) prepare_attention();
    if (layer_index + 1 == config_.num_layers) leave_rows_behind(layer);
    if (num_rows_ == 0) return;

    const Matrix<float> q = sized(ws_.q, num_rows_, config_.q_dim());
    const Matrix<float> attended = sized(ws_.attended, num_rows_, config_.q_dim());
    product(layer.q, q, ws_.times.qkv);
    for_each_row(
        [&](int64_t row) { finish_heads(layer.q_norm, config_.num_heads, plan_row(row), q.row(row)); });
    ws_.times.other += watch_.restart();

    ws_.layer_views.clear();
    for (size_t i = 0; i < ws_.attended_groups.size(); ++i) {
      const RowGroup& group = plan_.groups[ws_.attended_groups[i]];
      KvCache& cache = *caches_[static_cast<size_t>(group.sequence)];
      if (is_confined(group)) {
        bring_chosen(i, q);
        ws_.layer_views.push_back(cache.sparse().chosen.layer(layer_index));
      } else {
        ws_.layer_views.push_back(cache.layer(layer_index));
      }
    }
    ws_.times.selection += watch_.restart();
    ws_.attention.run(context_, q, ws_.layer_views, attended, ws_.attention_probe);
    ws_.times.attention += watch_.restart();
    remember_heaviest();
    ws_.times.selection += watch_.restart();

    pack(attended, ws_.times.output);
    product(layer.o, projected_, ws_.times.output);
    add_projected();
  }

  /// Whether some group's attention is dense before this layer and sparse from it on.
  bool attention_changes_at(int64_t layer) const {
    return layer > 0 && std::any_of(plan_.groups.begin(), plan_.groups.end(), [&](const RowGroup& group) {
             return group.sparse.choice != SparseAttention::Choice::kAll &&
                    group.sparse.dense_layers == layer;
           });
  }

  /// Gathers what a confined group attends to in this layer; where its queries choose, chooses
  /// first.
  ///   i  index into ws_.attention_groups
  void bring_chosen(size_t i, ConstMatrix<float> q) {
    const size_t g = ws_.attended_groups[i];
    const RowGroup& group = plan_.groups[g];
    const SparseAttention& sparse = group.sparse;
    KvCache& cache = *caches_[static_cast<size_t>(group.sequence)];
    SparseCells& cells = cache.sparse();
    cells.chosen.reserve(ws_.visible_ranges[g].front().end, cache);
    PageBounds* pages =
        sparse.choice == SparseAttention::Choice::kBestPages ? &cells.pages_of(sparse.page_size) : nullptr;
    context_.threads.parallel_for(config_.num_kv_heads, [&](int64_t kv_head, int) {
      if (pages != nullptr) {
        const std::vector<int32_t> best =
            best_page_cells(*pages, sparse, kv_head, ws_.attention_groups[i].rows, q, cache);
        cells.chosen.choose(ws_.layer, kv_head, best, cache);
      }
      int64_t place = sparse.num_chosen();
      expects(static_cast<int64_t>(cells.chosen.cells(ws_.layer, kv_head).size()) == place,
              "a group is confined to cells that were chosen");
      for (const int32_t cell : ws_.cells_behind[g])
        cells.chosen.place(ws_.layer, kv_head, cell, place++, cache);
    });
  }

  std::vector<int32_t> best_page_cells(PageBounds& pages, const SparseAttention& sparse, int64_t kv_head,
                                       IndexRange rows, ConstMatrix<float> q, const KvCache& cache) const {
    pages.extend(ws_.layer, kv_head, sparse.among.end, cache);
    const int64_t heads = config_.num_heads / config_.num_kv_heads;
    thread_local std::vector<float> queries;
    queries.clear();
    for (int32_t row = rows.begin; row < rows.end; ++row) {
      const float* first = q.row(row) + kv_head * heads * config_.head_dim;
      queries.insert(queries.end(), first, first + heads * config_.head_dim);
    }
    const std::vector<float> means = split_mean({queries.data(), rows.size() * heads, config_.head_dim});
    return cells_of_best_pages(
        page_scores(means, pages.largest(ws_.layer, kv_head), pages.smallest(ws_.layer, kv_head)),
        sparse.budget / sparse.page_size, sparse.page_size, sparse.among.end);
  }

  /// After attention: each sequence that is to remember cells chooses those of most mass.
  void remember_heaviest() {
    for (size_t i = 0; i < ws_.attended_groups.size(); ++i) {
      const RowGroup& group = plan_.groups[ws_.attended_groups[i]];
      const SparseAttention& sparse = group.sparse;
      if (!remembers_cells(group) || ws_.layer < sparse.dense_layers) continue;
      KvCache& cache = *caches_[static_cast<size_t>(group.sequence)];
      ChosenCells& chosen = cache.sparse().chosen;
      chosen.reserve(sparse.num_chosen() + group.rows.size(), cache);
      context_.threads.parallel_for(config_.num_kv_heads, [&](int64_t kv_head, int) {
        const std::vector<int32_t> cells =
            heaviest_cells(ws_.attention.mass(i, kv_head), ws_.attention.visible(i).tile_runs(), sparse.among,
                           sparse.num_chosen());
        chosen.choose(ws_.layer, kv_head, cells, cache);
      });
    }
  }

  /// Writes one row's K/V to its cell and, where that is wanted, measures how far they moved.
  void write_kv(int64_t layer, int64_t row, const float* key, const float* value) {
    const auto index = static_cast<size_t>(row);
    KvCache& cache = *caches_[static_cast<size_t>(row_sequence_[index])];
    const int32_t cell = plan_.cells[index];
    if (!plan_.measures_kv_drift) return cache.write(layer, cell, key, value);
    thread_local std::vector<float> before, after;
    read_kv(cache, layer, cell, before);
    cache.write(layer, cell, key, value);
    read_kv(cache, layer, cell, after);  // as rounded
    const auto dim = static_cast<size_t>(config_.kv_dim());
    float* drift = ws_.kv_drift.data() + 2 * (row * config_.num_layers + layer);
    drift[0] = static_cast<float>(cosine_distance(std::span(before).first(dim), std::span(after).first(dim)));
    drift[1] =
        static_cast<float>(cosine_distance(std::span(before).subspan(dim), std::span(after).subspan(dim)));
  }

  /// All heads' keys, then all heads' values.
  void read_kv(const KvCache& cache, int64_t layer, int32_t cell, std::vector<float>& out) const {
    out.resize(static_cast<size_t>(2 * config_.kv_dim()));
    for (int64_t head = 0; head < config_.num_kv_heads; ++head) {
      float* key = out.data() + head * config_.head_dim;
      cache.read(layer, cell, head, key, key + config_.kv_dim());
    }
  }

  /// In the last layer, once all K/V are written: gathers the rows of which more is wanted, and continues
  /// with them.
  void leave_rows_behind(const LayerParameters& layer) {
    ws_.residual_row.clear();
    is_narrow_ = std::any_of(plan_.groups.begin(), plan_.groups.end(),
                             [](const RowGroup& group) { return group.only_kv; });
    if (!is_narrow_) return;
    ws_.whole_rows.clear();
    ws_.residual_row.assign(static_cast<size_t>(num_rows_), -1);
    for (const RowGroup& group : plan_.groups) {
      if (group.only_kv) continue;
      for (int32_t row = group.rows.begin; row < group.rows.end; ++row) {
        const auto place = static_cast<int32_t>(ws_.whole_rows.size());
        ws_.residual_row[static_cast<size_t>(row)] = place;
        ws_.whole_rows.push_back(row);
        std::copy_n(x_.row(row), config_.hidden_dim, x_.row(place));
      }
    }
    num_rows_ = static_cast<int64_t>(ws_.whole_rows.size());
    if (num_rows_ == 0) return;
    x_ = x_.first_rows(num_rows_);
    projected_ = projected_.first_rows(num_rows_);
    pack_normed(layer.attn_norm);
    prepare_attention();
    ws_.times.other += watch_.restart();
  }

  /// The row of the plan that is at this place of the residual stream.
  int64_t plan_row(int64_t row) const { return is_narrow_ ? ws_.whole_rows[static_cast<size_t>(row)] : row; }

  /// Norm, clip and rotation of one row's heads, in the order in which the families apply them.
  void finish_heads(const std::vector<float>& norm, int64_t num_heads, int64_t row, float* heads) {
    const int64_t head_dim = config_.head_dim;
    const int64_t dim = num_heads * head_dim;
    if (config_.qk_norm_full) kernels_.rms_norm(heads, norm.data(), dim, config_.norm_eps, heads);
    for (int64_t d = 0; config_.qk_norm_per_head && d < dim; d += head_dim) {
      kernels_.rms_norm(heads + d, norm.data(), head_dim, config_.norm_eps, heads + d);
    }
    clip({heads, static_cast<size_t>(dim)});
    const auto half = static_cast<int64_t>(frequencies_.size());
    const int64_t angles = plan_.positions[static_cast<size_t>(row)] * half;
    for (int64_t d = 0; d < dim; d += head_dim) {
      kernels_.rope(heads + d, ws_.cosines.data() + angles, ws_.sines.data() + angles, half);
    }
  }

  void clip(std::span<float> values) const {
    if (!config_.qkv_clip) return;
    for (float& value : values) value = std::clamp(value, -*config_.qkv_clip, *config_.qkv_clip);
  }

  void feed_forward(const LayerParameters& layer) {
    if (layer.experts.empty()) {
      pack_normed(layer.ffn_norm);
      return feed_all_rows(layer.ffn, config_.ffn_dim);
    }
    // Each row is packed for several experts, and normed once.
    normed_ = sized(ws_.normed, num_rows_, config_.hidden_dim);
    for_each_row([&](int64_t row) { norm(x_.row(row), layer.ffn_norm, normed_.row(row)); });
    ws_.times.norms += watch_.restart();
    route(layer);
    for (size_t e = 0; e < layer.experts.size(); ++e) run_expert(layer.experts[e], e);
    if (config_.moe.shared_ffn_dim == 0) return;
    pack(normed_, ws_.times.ffn);
    feed_all_rows(layer.shared_expert, config_.moe.shared_ffn_dim);
  }

  /// Adds what becomes of the rows that are packed, which are all.
  void feed_all_rows(const FeedForward& ffn, int64_t dim) {
    activated_product(ffn, num_rows_, dim);
    add_projected();
  }

  /// projected = down(silu(gate) * up), or down(max(up, 0)^2), for the rows that are packed.
  void activated_product(const FeedForward& ffn, int64_t rows, int64_t dim) {
    const Matrix<float> up = sized(ws_.up, rows, dim);
    product(ffn.up, up, ws_.times.ffn);
    if (config_.squared_relu) {
      ws_.packed.pack_each(context_, rows, dim, dtype_, [&](int64_t row, float* /*space*/) {
        kernels_.squared_relu(up.row(row), dim);
        return up.row(row);
      });
    } else {
      const Matrix<float> gate = sized(ws_.gate, rows, dim);
      product(ffn.gate, gate, ws_.times.ffn);
      ws_.packed.pack_each(context_, rows, dim, dtype_, [&](int64_t row, float* space) {
        kernels_.swiglu(gate.row(row), up.row(row), dim, space);
        return space;
      });
    }
    ws_.times.other += watch_.restart();
    product(ffn.down, projected_, ws_.times.ffn);
  }

  /// Gives each row to its experts.
  void route(const LayerParameters& layer) {
    const MoeConfig& moe = config_.moe;
    const auto num_chosen = static_cast<size_t>(moe.experts_per_token);
    const Matrix<float> logits = sized(ws_.router_logits, num_rows_, moe.num_experts);
    ws_.packed.pack(context_, normed_, {}, moe.router_in_f32 ? DType::kF32 : dtype_);
    product(layer.router, logits, ws_.times.ffn);
    ws_.expert_choices.resize(static_cast<size_t>(num_rows_) * num_chosen);
    const auto choices_of = [&](int64_t row) {
      return std::span(ws_.expert_choices).subspan(static_cast<size_t>(row) * num_chosen, num_chosen);
    };
    for_each_row(
        [&](int64_t row) { choose_experts(moe, logits.row_span(row), layer.expert_bias, choices_of(row)); });

    ws_.expert_rows.resize(layer.experts.size());
    ws_.expert_weights.resize(layer.experts.size());
    for (size_t e = 0; e < layer.experts.size(); ++e) {
      ws_.expert_rows[e].clear();
      ws_.expert_weights[e].clear();
    }
    for (int64_t row = 0; row < num_rows_; ++row) {
      for (const ExpertChoice& choice : choices_of(row)) {
        ws_.expert_rows[static_cast<size_t>(choice.expert)].push_back(static_cast<int32_t>(row));
        ws_.expert_weights[static_cast<size_t>(choice.expert)].push_back(choice.weight);
      }
    }
    ws_.times.other += watch_.restart();
  }

  /// Adds one expert's output to its rows. Experts run in ascending order, so a row's sum has one order.
  void run_expert(const FeedForward& expert, size_t index) {
    const std::vector<int32_t>& rows = ws_.expert_rows[index];
    if (rows.empty()) return;
    ws_.packed.pack(context_, normed_, rows, dtype_);
    const auto count = static_cast<int64_t>(rows.size());
    activated_product(expert, count, config_.moe.expert_ffn_dim);
    for_each_row(count, [&](int64_t i) {
      const float weight = ws_.expert_weights[index][static_cast<size_t>(i)];
      float* x = x_.row(rows[static_cast<size_t>(i)]);
      const float* y = projected_.row(i);
      for (int64_t d = 0; d < config_.hidden_dim; ++d) x[d] += weight * y[d];
    });
    ws_.times.other += watch_.restart();
  }

  Matrix<float> compute_logits(std::span<const LogitRow> wanted) {
    // Rows, then the rows that guide them; a row without guidance brings none.
    const auto count = static_cast<int64_t>(wanted.size());
    std::vector<int32_t>& rows = ws_.head_row_indices;
    rows.clear();
    for (const LogitRow& logit : wanted) rows.push_back(logit.row);
    for (const LogitRow& logit : wanted) {
      if (logit.unconditional_row >= 0) rows.push_back(logit.unconditional_row);
    }
    const auto num_rows = static_cast<int64_t>(rows.size());
    ws_.packed.pack_each(context_, num_rows, config_.hidden_dim, dtype_, [&](int64_t i, float* space) {
      final_norm(rows[static_cast<size_t>(i)], space);
      return space;
    });
    const Matrix<float> logits = head();
    int64_t guide = count;
    for (int64_t i = 0; i < count; ++i) {
      const LogitRow& logit = wanted[static_cast<size_t>(i)];
      if (logit.unconditional_row < 0) continue;
      apply_guidance(logits.row(guide++), logit.guidance, logits.row_span(i));
    }
    ws_.times.head += watch_.restart();
    return logits.first_rows(count);
  }

  /// Rows of a chunk: first all rows as they are now, then as they were, each followed by those that guide
  /// them.
  void compare_chunk(std::span<const DriftProbe> probes, std::span<OutputCache* const> outputs,
                     std::span<Drift> drifts) {
    const auto count = static_cast<int64_t>(probes.size());
    const bool guided = std::any_of(probes.begin(), probes.end(),
                                    [](const DriftProbe& probe) { return probe.unconditional_row >= 0; });
    const int64_t kinds = guided ? 4 : 2;  // now, before, and the same without the prompt
    const Matrix<float> head_rows = sized(ws_.head_rows, kinds * count, config_.hidden_dim);
    for_each_row(count, [&](int64_t i) {
      const DriftProbe& probe = probes[static_cast<size_t>(i)];
      const auto fill = [&](int32_t row, int64_t now, int64_t before) {
        const auto sequence = static_cast<size_t>(row_sequence_[static_cast<size_t>(row)]);
        final_norm(row, head_rows.row(now));
        std::copy_n(outputs[sequence]->rows().row(probe.cell), config_.hidden_dim, head_rows.row(before));
      };
      fill(probe.row, i, count + i);
      if (guided) {
        const int32_t other = probe.unconditional_row >= 0 ? probe.unconditional_row : probe.row;
        fill(other, 2 * count + i, 3 * count + i);
      }
    });
    ws_.packed.pack(context_, head_rows, {}, dtype_);
    const Matrix<float> logits = head();
    context_.threads.parallel_for(count, [&](int64_t i, int) {
      const DriftProbe& probe = probes[static_cast<size_t>(i)];
      if (probe.unconditional_row >= 0) {
        apply_guidance(logits.row(2 * count + i), probe.guidance, logits.row_span(i));
        apply_guidance(logits.row(3 * count + i), probe.guidance, logits.row_span(count + i));
      }
      drifts[static_cast<size_t>(i)] = lacuna::measure_drift(logits.row_span(i), logits.row_span(count + i));
    });
    ws_.times.head += watch_.restart();
  }

  void final_norm(int64_t row, float* out) const {
    if (!ws_.residual_row.empty()) row = ws_.residual_row[static_cast<size_t>(row)];
    expects(row >= 0, "logits are asked of rows that the last layer computes whole");
    norm(x_.row(row), parameters_.final_norm, out);
  }

  /// Logits of the rows that are packed, which have had the final norm.
  Matrix<float> head() {
    const int64_t num_rows = ws_.packed.num_rows();
    const Matrix<float> logits = sized(ws_.logits, num_rows, config_.vocab_size);
    multiply(context_, ws_.packed, parameters_.head().view(), nullptr, logits);
    if (config_.logit_scale != 1) {
      for_each_row(num_rows, [&](int64_t i) {
        for (float& logit : logits.row_span(i)) logit *= config_.logit_scale;
      });
    }
    return logits;
  }

  static void apply_guidance(const float* unconditional, float guidance, std::span<float> logits) {
    for (size_t n = 0; n < logits.size(); ++n) {
      logits[n] = unconditional[n] + (guidance + 1) * (logits[n] - unconditional[n]);
    }
  }

  void norm(const float* x, const std::vector<float>& weight, float* out) const {
    kernels_.rms_norm(x, weight.data(), config_.hidden_dim, config_.norm_eps, out);
  }

  void pack_normed(const std::vector<float>& weight) {
    ws_.packed.pack_each(context_, num_rows_, config_.hidden_dim, dtype_, [&](int64_t row, float* space) {
      norm(x_.row(row), weight, space);
      return space;
    });
    ws_.times.norms += watch_.restart();
  }

  void add_projected() {
    for_each_row([&](int64_t row) {
      kernels_.add_scaled(x_.row(row), projected_.row(row), config_.residual_scale, config_.hidden_dim);
    });
    ws_.times.other += watch_.restart();
  }

  /// `seconds` is the part of the times that this counts for.
  void pack(ConstMatrix<float> rows, double& seconds) {
    ws_.packed.pack(context_, rows, {}, dtype_);
    seconds += watch_.restart();
  }

  void product(const Linear& linear, Matrix<float> out, double& seconds) {
    multiply(context_, ws_.packed, linear.weight.view(), linear.bias_or_null(), out);
    seconds += watch_.restart();
  }

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
  const Parameters& parameters_;
  const std::vector<float>& frequencies_;
  DType dtype_;
  const KernelContext context_;
  const KernelTable& kernels_;
  const StepPlan& plan_;
  std::span<KvCache* const> caches_;
  Workspace& ws_;
  int64_t num_rows_;
  Matrix<float> x_, normed_, projected_;
  bool is_narrow_ = false;  // the last layer continued with some rows alone; num_rows_ counts them
  std::vector<int32_t> row_sequence_;
  Stopwatch watch_;
};

int64_t Workspace::bytes() const {
  int64_t floats = 0;
  for (const auto* buffer : {&residual, &q, &k, &v, &attended, &projected, &gate, &up, &head_rows, &logits,
                             &normed, &router_logits})
    floats += buffer->size();
  return floats * static_cast<int64_t>(sizeof(float)) + packed.bytes();
}

int64_t predicted_workspace_bytes(const ModelConfig& config, const WeightFormats& formats,
                                  const KernelTable& kernels, int64_t rows) {
  const MoeConfig& moe = config.moe;
  int64_t widest = config.num_expert_layers() < config.num_layers ? config.ffn_dim : 0;
  int64_t row = 2 * output_stride(config.hidden_dim) + 2 * output_stride(config.q_dim()) +
                2 * output_stride(config.kv_dim());
  if (config.has_experts()) {
    widest = std::max({widest, moe.expert_ffn_dim, moe.shared_ffn_dim});
    row += output_stride(config.hidden_dim) + output_stride(moe.num_experts);
  }
  row += (config.squared_relu ? 1 : 2) * output_stride(widest);
  const int64_t logits =
      std::min(rows, head_chunk_rows(config.vocab_size)) * output_stride(config.vocab_size);

  const int64_t deepest = std::max({config.hidden_dim, config.q_dim(), widest});
  int64_t packed = PackedRows::bytes_for(kernels, rows, deepest, formats.dtype);
  const WeightFormat layers = formats.layers.value_or(formats.dtype);
  if (formats.dtype == DType::kBF16 &&
      kernels.integer_activations(layers.quantisation, formats.int8_activations) != nullptr)
    packed *= 2;
  return (rows * row + logits) * static_cast<int64_t>(sizeof(float)) + packed;
}

Model::Model(ModelConfig config, const WeightFormats& formats, Parameters parameters)
    : config_(std::move(config)),
      dtype_(formats.dtype),
      kv_in_codes_(formats.kv_in_codes),
      int8_activations_(formats.int8_activations),
      parameters_(std::move(parameters)),
      rope_frequencies_(lacuna::rope_frequencies(
          config_.rope, config_.rotary_dim > 0 ? config_.rotary_dim : config_.head_dim)) {}

std::shared_ptr<const Model> Model::load(const std::filesystem::path& folder, const WeightFormats& formats,
                                         ThreadPool& threads, const LoadProgress& progress) {
  return load(folder, read_config(folder), formats, threads, progress);
}

std::shared_ptr<const Model> Model::load(const std::filesystem::path& folder, const ModelConfig& config,
                                         const WeightFormats& formats, ThreadPool& threads,
                                         const LoadProgress& progress) {
  const std::unique_ptr<WeightSource> weights = open_weights(folder, config);
  return std::make_shared<const Model>(config, formats,
                                       load_parameters(config, *weights, formats, threads, progress));
}

std::shared_ptr<const Model> Model::random(const ModelConfig& config, uint64_t seed,
                                           const WeightFormats& formats, ThreadPool& threads,
                                           const LoadProgress& progress) {
  return std::make_shared<const Model>(config, formats,
                                       random_parameters(config, seed, formats, threads, progress));
}

ModelBytes Model::bytes_of_passes() const {
  constexpr int64_t kCells = 1024;
  const int64_t ends = parameters_.embedding.bytes() + parameters_.own_head.bytes();
  return {static_cast<double>(parameters_.bytes() - ends), static_cast<double>(parameters_.head().bytes()),
          static_cast<double>(KvCache::bytes_for(kv_shape(), kCells)) / kCells};
}

KvCache Model::make_cache(int64_t num_cells) const {
  KvCache cache(kv_shape(), num_cells);
  for (int64_t layer = 0; config_.kv_sink && layer < config_.num_layers; ++layer) {
    const LayerParameters& parameters = parameters_.layers[static_cast<size_t>(layer)];
    cache.write(layer, cache.sink_cell(), parameters.k_sink.data(), parameters.v_sink.data());
  }
  return cache;
}

PassResult Model::forward(const KernelContext& context, const StepPlan& plan,
                          std::span<KvCache* const> caches, Workspace& workspace) const {
  workspace.samples.resize(plan.logits.size());
  Pass pass(*this, context, plan, caches, workspace);
  pass.run_layers();
  pass.draw_all(plan.logits, workspace.samples);
  PassResult result{workspace.samples};
  if (plan.measures_kv_drift) result.kv_drift = workspace.kv_drift;
  return result;
}

FollowUpResult Model::follow_up(const KernelContext& context, const StepPlan& plan, const FollowUp& wanted,
                                std::span<OutputCache* const> outputs, Workspace& workspace,
                                bool remembers) const {
  expects(wanted.probes.empty() || !outputs.empty(), "follow_up: probes need remembered outputs");
  workspace.further_samples.resize(wanted.logits.size());
  workspace.drifts.resize(wanted.probes.size());
  Pass pass(*this, context, plan, {}, workspace);
  pass.draw_all(wanted.logits, workspace.further_samples);
  pass.compare(wanted.probes, outputs, workspace.drifts);
  if (remembers && !outputs.empty()) pass.remember(outputs);
  return {workspace.further_samples, workspace.drifts};
}

void Model::forward_logits(const KernelContext& context, const StepPlan& plan,
                           std::span<KvCache* const> caches, Workspace& workspace, Matrix<float> out) const {
  expects(out.rows == static_cast<int64_t>(plan.logits.size()) && out.cols == config_.vocab_size,
          "forward_logits: out is logits by vocabulary");
  Pass pass(*this, context, plan, caches, workspace);
  pass.run_layers();
  pass.for_each_logits(plan.logits, [&](size_t first, Matrix<float> logits) {
    for (int64_t i = 0; i < logits.rows; ++i) {
      std::copy_n(logits.row(i), config_.vocab_size, out.row(static_cast<int64_t>(first) + i));
    }
  });
}

void Model::read_logits(const KernelContext& context, const StepPlan& plan, std::span<const LogitRow> wanted,
                        Workspace& workspace, Matrix<float> out) const {
  expects(out.rows == static_cast<int64_t>(wanted.size()) && out.cols == config_.vocab_size,
          "read_logits: out is rows by vocabulary");
  Pass(*this, context, plan, {}, workspace).for_each_logits(wanted, [&](size_t first, Matrix<float> logits) {
    for (int64_t i = 0; i < logits.rows; ++i) {
      std::copy_n(logits.row(i), config_.vocab_size, out.row(static_cast<int64_t>(first) + i));
    }
  });
}

void Model::compare_outputs(const KernelContext& context, ConstMatrix<float> now, ConstMatrix<float> before,
                            Workspace& workspace, std::span<Drift> drifts) const {
  expects(now.rows == before.rows && static_cast<int64_t>(drifts.size()) == now.rows,
          "compare_outputs: as many rows now as before");
  const StepPlan nothing;
  Pass(*this, context, nothing, {}, workspace).compare_rows(now, before, drifts);
}

}  // namespace lacuna
