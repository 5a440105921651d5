// The forward pass of every pre-norm transformer we know: embed; for each layer norm, attend, add, norm, feed
// forward, add; norm, head. Families differ by the flags of ModelConfig.
#include "model/model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/clock.h"
#include "base/error.h"
#include "model/families.h"

namespace lacuna {
namespace {

/// Logits of some rows at a time: enough rows to use the head's weights well, at most 128 MiB.
int64_t head_chunk_rows(int64_t vocab) {
  constexpr int64_t kMostFloats = int64_t{1} << 25;
  return std::clamp<int64_t>(kMostFloats / vocab, 16, 256);
}

Matrix<float> sized(Buffer<float>& buffer, int64_t rows, int64_t cols) {
  const int64_t stride = round_up(cols, kPanelWidth);  // products write whole panels
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
        context_(context),
        kernels_(context.kernels),
        plan_(plan),
        caches_(caches),
        ws_(workspace),
        num_rows_(plan.num_rows()),
        x_(sized(ws_.residual, num_rows_, config_.hidden_dim)),
        normed_(sized(ws_.normed, num_rows_, config_.hidden_dim)),
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
    embed();
    for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
      attend(layer);
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
      const Matrix<float> logits = head(head_rows);
      context_.threads.parallel_for(count, [&](int64_t i, int) {
        drifts[static_cast<size_t>(first + i)] =
            lacuna::measure_drift(logits.row_span(i), logits.row_span(count + i));
      });
    }
  }

  void remember(std::span<OutputCache* const> outputs) {
    for_each_row([&](int64_t row) {
      const auto index = static_cast<size_t>(row);
      const OutputCache* output = outputs[static_cast<size_t>(row_sequence_[index])];
      if (output != nullptr) final_norm(row, output->rows().row(plan_.cells[index]));
    });
  }

 private:
  void prepare() {
    const int64_t half = config_.head_dim / 2;
    const int32_t last = *std::max_element(plan_.positions.begin(), plan_.positions.end());
    for (auto known = static_cast<int64_t>(ws_.cosines.size()) / half; known <= last; ++known) {
      for (int64_t j = 0; j < half; ++j) {
        // The product in f32 as the reference has it, the functions in double.
        const float angle = static_cast<float>(known) * frequencies_[static_cast<size_t>(j)];
        ws_.cosines.push_back(static_cast<float>(std::cos(double{angle})) * config_.rope.attention_scaling);
        ws_.sines.push_back(static_cast<float>(std::sin(double{angle})) * config_.rope.attention_scaling);
      }
    }

    ws_.attention_groups.clear();
    for (const RowGroup& group : plan_.groups) {
      std::span<const int32_t> own_cells;
      if (group.own_rows != OwnRows::kNone) {
        own_cells =
            std::span<const int32_t>(plan_.cells)
                .subspan(static_cast<size_t>(group.rows.begin), static_cast<size_t>(group.rows.size()));
      }
      ws_.attention_groups.push_back(
          {group.rows, group.visible, own_cells, group.own_rows == OwnRows::kCausal});
    }
    const AttentionShape shape{config_.num_heads, config_.num_kv_heads, config_.head_dim,
                               1.0F / std::sqrt(static_cast<float>(config_.head_dim))};
    ws_.attention.prepare(context_, shape, dtype_, ws_.attention_groups);
  }

  void embed() {
    for_each_row([&](int64_t row) {
      parameters_.embedding.read(plan_.tokens[static_cast<size_t>(row)], x_.row(row));
      if (config_.embedding_scale == 1) return;
      for (float& value : x_.row_span(row)) value *= config_.embedding_scale;
    });
    ws_.times.other += watch_.restart();
  }

  void attend(int64_t layer_index) {
    const LayerParameters& layer = parameters_.layers[static_cast<size_t>(layer_index)];
    const Matrix<float> q = sized(ws_.q, num_rows_, config_.q_dim());
    const Matrix<float> k = sized(ws_.k, num_rows_, config_.kv_dim());
    const Matrix<float> v = sized(ws_.v, num_rows_, config_.kv_dim());
    const Matrix<float> attended = sized(ws_.attended, num_rows_, config_.q_dim());

    norm_rows(layer.attn_norm);
    pack(normed_);
    product(layer.q, q);
    product(layer.k, k);
    product(layer.v, v);
    for_each_row([&](int64_t row) {
      finish_heads(layer.q_norm, config_.num_heads, row, q.row(row));
      finish_heads(layer.k_norm, config_.num_kv_heads, row, k.row(row));
      clip(v.row_span(row));
      KvCache& cache = *caches_[static_cast<size_t>(row_sequence_[static_cast<size_t>(row)])];
      cache.write(layer_index, plan_.cells[static_cast<size_t>(row)], k.row(row), v.row(row));
    });
    ws_.times.other += watch_.restart();

    ws_.layer_views.clear();
    for (const RowGroup& group : plan_.groups) {
      ws_.layer_views.push_back(caches_[static_cast<size_t>(group.sequence)]->layer(layer_index));
    }
    ws_.attention.run(context_, q, ws_.layer_views, attended);
    ws_.times.attention += watch_.restart();

    pack(attended);
    product(layer.o, projected_);
    add_projected();
  }

  /// Norm, clip and rotation of one row's heads, in the order in which the families apply them.
  void finish_heads(const std::vector<float>& norm, int64_t num_heads, int64_t row, float* heads) {
    const int64_t head_dim = config_.head_dim;
    const int64_t dim = num_heads * head_dim;
    if (config_.qk_norm_full) kernels_.rms_norm(heads, norm.data(), dim, config_.norm_eps, heads);
    for (int64_t d = 0; config_.qk_norm_per_head && d < dim; d += head_dim) {
      kernels_.rms_norm(heads + d, norm.data(), head_dim, config_.norm_eps, heads + d);
    }
    clip({heads, static_cast<size_t>(dim)});
    const int64_t angles = plan_.positions[static_cast<size_t>(row)] * (head_dim / 2);
    for (int64_t d = 0; d < dim; d += head_dim) {
      kernels_.rope(heads + d, ws_.cosines.data() + angles, ws_.sines.data() + angles, head_dim / 2);
    }
  }

  void clip(std::span<float> values) const {
    if (!config_.qkv_clip) return;
    for (float& value : values) value = std::clamp(value, -*config_.qkv_clip, *config_.qkv_clip);
  }

  void feed_forward(const LayerParameters& layer) {
    norm_rows(layer.ffn_norm);
    if (config_.has_experts()) {
      route(layer);
      for (size_t e = 0; e < layer.experts.size(); ++e) run_expert(layer.experts[e], e);
      return;
    }
    pack(normed_);
    gated_product(layer.ffn, num_rows_, config_.ffn_dim);
    add_projected();
  }

  /// projected = down(silu(gate) * up) for the rows that are packed.
  void gated_product(const FeedForward& ffn, int64_t rows, int64_t dim) {
    const Matrix<float> gate = sized(ws_.gate, rows, dim);
    const Matrix<float> up = sized(ws_.up, rows, dim);
    product(ffn.gate, gate);
    product(ffn.up, up);
    for_each_row(rows, [&](int64_t row) { kernels_.swiglu(gate.row(row), up.row(row), dim, gate.row(row)); });
    ws_.times.other += watch_.restart();
    pack(gate);
    product(ffn.down, projected_);
  }

  /// Gives each row to its experts: the largest router probabilities, ties to the lowest expert.
  void route(const LayerParameters& layer) {
    const auto num_experts = static_cast<size_t>(config_.moe.num_experts);
    const auto chosen = static_cast<size_t>(config_.moe.experts_per_token);
    const Matrix<float> logits = sized(ws_.router_logits, num_rows_, config_.moe.num_experts);
    pack(normed_);
    product(layer.router, logits);

    ws_.expert_rows.resize(num_experts);
    ws_.expert_weights.resize(num_experts);
    for (size_t e = 0; e < num_experts; ++e) {
      ws_.expert_rows[e].clear();
      ws_.expert_weights[e].clear();
    }
    std::vector<size_t> order(num_experts);
    for (int64_t row = 0; row < num_rows_; ++row) {
      const float* scores = logits.row(row);
      std::iota(order.begin(), order.end(), 0);
      std::partial_sort(
          order.begin(), order.begin() + static_cast<std::ptrdiff_t>(chosen), order.end(),
          [&](size_t a, size_t b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
      // Softmax over all experts, or, where weights are normalised, over the chosen ones.
      const size_t counted = config_.moe.normalize_weights ? chosen : num_experts;
      float sum = 0;
      for (size_t i = 0; i < counted; ++i) sum += std::exp(scores[order[i]] - scores[order[0]]);
      for (size_t i = 0; i < chosen; ++i) {
        ws_.expert_rows[order[i]].push_back(static_cast<int32_t>(row));
        ws_.expert_weights[order[i]].push_back(std::exp(scores[order[i]] - scores[order[0]]) / sum);
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
    gated_product(expert, count, config_.moe.expert_ffn_dim);
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
    const Matrix<float> head_rows = sized(ws_.head_rows, num_rows, config_.hidden_dim);
    for_each_row(num_rows, [&](int64_t i) { final_norm(rows[static_cast<size_t>(i)], head_rows.row(i)); });
    const Matrix<float> logits = head(head_rows);
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
    const Matrix<float> logits = head(head_rows);
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
    kernels_.rms_norm(x_.row(row), parameters_.final_norm.data(), config_.hidden_dim, config_.norm_eps, out);
  }

  /// Logits of rows that have had the final norm.
  Matrix<float> head(ConstMatrix<float> rows) {
    const Matrix<float> logits = sized(ws_.logits, rows.rows, config_.vocab_size);
    ws_.packed.pack(context_, rows, {}, dtype_);
    multiply(context_, ws_.packed, parameters_.head.view(), nullptr, logits);
    if (config_.logit_scale != 1) {
      for_each_row(rows.rows, [&](int64_t i) {
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

  void norm_rows(const std::vector<float>& weight) {
    for_each_row([&](int64_t row) {
      kernels_.rms_norm(x_.row(row), weight.data(), config_.hidden_dim, config_.norm_eps, normed_.row(row));
    });
    ws_.times.other += watch_.restart();
  }

  void add_projected() {
    for_each_row([&](int64_t row) { kernels_.add(x_.row(row), projected_.row(row), config_.hidden_dim); });
    ws_.times.other += watch_.restart();
  }

  void pack(ConstMatrix<float> rows) {
    ws_.packed.pack(context_, rows, {}, dtype_);
    ws_.times.products += watch_.restart();
  }

  void product(const Linear& linear, Matrix<float> out) {
    multiply(context_, ws_.packed, linear.weight.view(), linear.bias_or_null(), out);
    ws_.times.products += watch_.restart();
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
  const KernelContext& context_;
  const KernelTable& kernels_;
  const StepPlan& plan_;
  std::span<KvCache* const> caches_;
  Workspace& ws_;
  int64_t num_rows_;
  Matrix<float> x_, normed_, projected_;
  std::vector<int32_t> row_sequence_;
  Stopwatch watch_;
};

Model::Model(ModelConfig config, DType dtype, Parameters parameters)
    : config_(std::move(config)),
      dtype_(dtype),
      parameters_(std::move(parameters)),
      rope_frequencies_(lacuna::rope_frequencies(config_.rope, config_.head_dim)) {}

std::shared_ptr<const Model> Model::load(const std::filesystem::path& folder, DType dtype,
                                         ThreadPool& threads, const LoadProgress& progress) {
  ModelConfig config = read_config(folder);
  const Checkpoint checkpoint = Checkpoint::open(folder);
  Parameters parameters = load_parameters(config, checkpoint, dtype, threads, progress);
  return std::make_shared<const Model>(std::move(config), dtype, std::move(parameters));
}

std::shared_ptr<const Model> Model::random(const ModelConfig& config, uint64_t seed, DType dtype,
                                           ThreadPool& threads, const LoadProgress& progress) {
  return std::make_shared<const Model>(config, dtype,
                                       random_parameters(config, seed, dtype, threads, progress));
}

void Model::forward(const KernelContext& context, const StepPlan& plan, std::span<KvCache* const> caches,
                    Workspace& workspace, std::span<RowStatistics> drawn) const {
  expects(drawn.size() == plan.logits.size(), "forward: one place for each token drawn");
  Pass pass(*this, context, plan, caches, workspace);
  pass.run_layers();
  pass.draw_all(plan.logits, drawn);
}

void Model::draw_further(const KernelContext& context, const StepPlan& plan, std::span<const LogitRow> logits,
                         Workspace& workspace, std::span<RowStatistics> drawn) const {
  expects(drawn.size() == logits.size(), "draw_further: one place for each token drawn");
  Pass(*this, context, plan, {}, workspace).draw_all(logits, drawn);
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

void Model::measure_drift(const KernelContext& context, const StepPlan& plan,
                          std::span<const DriftProbe> probes, std::span<OutputCache* const> outputs,
                          Workspace& workspace, std::span<Drift> drifts) const {
  expects(drifts.size() == probes.size(), "measure_drift: one place for each probe");
  Pass pass(*this, context, plan, {}, workspace);
  pass.compare(probes, outputs, drifts);
  pass.remember(outputs);
}

void Model::compare_outputs(const KernelContext& context, ConstMatrix<float> now, ConstMatrix<float> before,
                            Workspace& workspace, std::span<Drift> drifts) const {
  expects(now.rows == before.rows && static_cast<int64_t>(drifts.size()) == now.rows,
          "compare_outputs: as many rows now as before");
  const StepPlan nothing;
  Pass(*this, context, nothing, {}, workspace).compare_rows(now, before, drifts);
}

}  // namespace lacuna
