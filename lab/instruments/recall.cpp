#include "instruments/recall.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/buffer.h"
#include "base/error.h"
#include "cache/sparse_cells.h"
#include "model/sparse_attention.h"

namespace lacuna {
namespace {

constexpr std::array<std::string_view, kChosenBy> kPolicyNames = {"this step", "first step", "quest",
                                                                  "quest per token", "sparsed"};

size_t index_of(ChosenBy policy) {
  return static_cast<size_t>(policy);
}

}  // namespace

std::string_view name_of(ChosenBy policy) {
  return kPolicyNames[index_of(policy)];
}

// Watching.

namespace {

/// Attention weights, queries and hidden states of the current block's rows in one pass, for every layer that
/// may be sparse. A "unit" is one kv head of one such layer.
class Recording {
 public:
  explicit Recording(const ModelConfig& config)
      : num_kv_heads_(static_cast<int32_t>(config.num_kv_heads)),
        num_heads_(static_cast<int32_t>(config.num_heads / config.num_kv_heads)),
        head_dim_(static_cast<int32_t>(config.head_dim)),
        hidden_dim_(config.hidden_dim),
        num_units_(static_cast<int32_t>(config.num_layers - kDenseLayers) * num_kv_heads_) {}

  int32_t num_units() const { return num_units_; }
  int32_t num_heads() const { return num_heads_; }
  int32_t head_dim() const { return head_dim_; }
  int32_t layer_of(int32_t unit) const { return static_cast<int32_t>(kDenseLayers) + unit / num_kv_heads_; }
  int32_t kv_head_of(int32_t unit) const { return unit % num_kv_heads_; }
  IndexRange block() const { return block_; }

  ///   block      cells of the block, after all other visible cells
  ///   first_row  row of the plan with the block's first position
  void start(IndexRange block, int32_t first_row) {
    block_ = block;
    first_row_ = first_row;
    const auto num_rows = static_cast<size_t>(num_units_) * static_cast<size_t>(block.size() * num_heads_);
    weights_.resize(num_rows * static_cast<size_t>(block.end));
    queries_.resize(num_rows * static_cast<size_t>(head_dim_));
    hidden_.resize(static_cast<size_t>(num_units_ / num_kv_heads_ * block.size() * hidden_dim_));
  }

  /// Called once for each row and head, concurrently.
  void add(const ObservedAttention& row) {
    const int32_t block_row = row.row - first_row_;
    if (row.layer < kDenseLayers || block_row < 0 || block_row >= block_.size()) return;
    const int64_t layer = row.layer - kDenseLayers;
    if (row.head == 0) {
      const int64_t begin = (layer * block_.size() + block_row) * hidden_dim_;
      std::ranges::copy(row.hidden, hidden_.begin() + begin);
    }
    const int64_t unit = layer * num_kv_heads_ + row.head / num_heads_;
    const int64_t place = (unit * block_.size() + block_row) * num_heads_ + row.head % num_heads_;
    std::ranges::copy(row.query, queries_.begin() + place * head_dim_);
    float* weights = weights_.data() + place * block_.end;
    std::fill_n(weights, block_.end, 0.0F);
    const float* weight = row.weights.data();
    for (const IndexRange& run : row.tile_runs) {
      for (int64_t cell = run.begin * kCellTile; cell < run.end * kCellTile; ++cell, ++weight) {
        if (cell < block_.end) weights[cell] = *weight / row.sum;
      }
    }
  }

  HeadAttention attention(int32_t unit) const {
    const auto size = static_cast<size_t>(block_.size() * num_heads_) * static_cast<size_t>(block_.end);
    return {block_.size(), num_heads_, block_.begin, block_.end,
            std::span(weights_).subspan(static_cast<size_t>(unit) * size, size)};
  }

  /// [rows * heads, head_dim]
  ConstMatrix<float> queries(int32_t unit) const {
    const int64_t rows = int64_t{block_.size()} * num_heads_;
    return {queries_.data() + unit * rows * head_dim_, rows, head_dim_};
  }

  /// [rows, hidden_dim] hidden states of a unit's layer
  ConstMatrix<float> hidden(int32_t unit) const { return hidden_of(hidden_, unit); }
  /// Hidden states of all layers.
  const std::vector<float>& all_hidden() const { return hidden_; }
  ///   all  all_hidden() of this pass or of another pass over the block
  ConstMatrix<float> hidden_of(const std::vector<float>& all, int32_t unit) const {
    const int64_t layer = unit / num_kv_heads_;
    return {all.data() + layer * block_.size() * hidden_dim_, block_.size(), hidden_dim_};
  }

 private:
  int32_t num_kv_heads_, num_heads_, head_dim_;
  int64_t hidden_dim_;
  int32_t num_units_;
  IndexRange block_;
  int32_t first_row_ = 0;
  std::vector<float> weights_;  // [units, rows, heads, cells]
  std::vector<float> queries_;  // [units, rows, heads, head_dim]
  std::vector<float> hidden_;   // [layers, rows, hidden_dim]
};

/// Rows of one head; the heads of a row are contiguous.
ConstMatrix<float> of_head(ConstMatrix<float> queries, int32_t head, int32_t num_heads) {
  return {queries.row(head), queries.rows / num_heads, queries.cols, queries.stride * num_heads};
}

/// Quest's scores of the pages of one unit.
struct PageScores {
  std::vector<float> of_block;              ///< [pages]
  std::vector<std::vector<float>> of_rows;  ///< [rows, pages]
};

/// State of one unit: data of the block's first step, and SparseD's sets.
struct UnitMemory {
  std::vector<float> first_queries;
  std::vector<CellSet> first;    // [budgets]
  std::vector<CellSet> sparsed;  // [budgets]
};

struct UnitFigures {
  struct Policy {
    double accuracy = 0;
    double mass = 0;
    OutputError error;
  };
  struct OfBudget {
    double recall = 0;
    double union_ratio = 0;
    std::array<std::optional<Policy>, kChosenBy> policies;
  };
  StateGap query_gap;
  double prefix_share = 0;
  std::vector<OfBudget> budgets;  // for the budgets smaller than the prefix
};

class RecallInstrument final : public Instrument {
 public:
  RecallInstrument(const BackendModel& model, ThreadPool& threads, const RecallSettings& settings)
      : model_(model),
        threads_(threads),
        settings_(settings),
        recording_(model.config()),
        memories_(static_cast<size_t>(recording_.num_units())) {
    findings_.settings = settings;
  }

  void begin(const Decoder& decoder) override {
    const ModelConfig& config = model_.config();
    pages_.emplace(KvShape{config.num_layers, config.num_kv_heads, config.head_dim}, settings_.page_size);
    exact_steps_ =
        static_cast<int32_t>(std::floor(settings_.exact_share * decoder.measurements().planned_steps()));
    request_steps_ = 0;
    block_begin_ = -1;
    sparsed_among_.assign(settings_.budgets.size(), 0);
  }

  void prepare(FollowedPass& pass) override {
    is_recorded_ = false;
    const RowGroup& last = pass.plan.groups.back();
    const IndexRange block = pass.window.block;
    is_denoising_ = pass.plan.positions[static_cast<size_t>(last.rows.begin)] >= block.begin;
    count_commits(pass);
    for (RowGroup& group : pass.plan.groups) {
      if (group.sparse.choice != SparseAttention::Choice::kAll) {
        throw InputError(
            "analyze recall: the run is sparse; expected --sparse exact, with which all are compared");
      }
      // Otherwise the last layer would drop and renumber rows.
      group.only_kv = false;
    }
    if (!is_denoising_) return;
    if (last.rows.size() != block.size()) {
      throw InputError("analyze recall: a pass computes {} of the block's {} rows; expected --cache none",
                       last.rows.size(), block.size());
    }
    if (block.begin != block_begin_) findings_.block_steps.push_back(0);
    block_begin_ = block.begin;
    ++findings_.block_steps.back();
    ++request_steps_;
    first_row_ = last.rows.begin;
    if (block.begin <= settings_.budgets.front()) return;
    is_recorded_ = true;
    recording_.start(block, first_row_);
    pass.options.observe_attention = [this](const ObservedAttention& row) { recording_.add(row); };
  }

  void computed(const FollowedPass& pass) override {
    if (!is_recorded_) return;
    compare_predictions(pass);
    if (is_first_step()) first_hidden_ = recording_.all_hidden();
    std::vector<UnitFigures> figures(memories_.size());
    threads_.parallel_for(recording_.num_units(), [&](int64_t unit, int) {
      figures[static_cast<size_t>(unit)] = measure(pass.sequence, static_cast<int32_t>(unit));
    });
    for (size_t b = 0; b < num_budgets(); ++b) {
      if (remembers_now(b)) sparsed_among_[b] = block_begin_;
    }
    const size_t heads = static_cast<size_t>(model_.config().num_kv_heads);
    for (size_t unit = 0; unit < figures.size(); unit += heads) {
      observe(static_cast<int32_t>(unit), place_in(pass), std::span(figures).subspan(unit, heads));
    }
  }

  void finished(const FollowedPass& pass, const StepReport& report) override {
    if (report.kind != "prefill") ++findings_.forward_passes;
    for (const Commit& commit : report.committed) {
      // An edited token was counted when it was written.
      if (!is_denoising_ || is_masked(pass, commit.position)) ++findings_.tokens;
    }
  }

  const RecallFindings& findings() const { return findings_; }

 private:
  /// Number of budgets smaller than the prefix; they come first.
  size_t num_budgets() const {
    const auto& budgets = settings_.budgets;
    return static_cast<size_t>(std::ranges::lower_bound(budgets, block_begin_) - budgets.begin());
  }

  bool is_masked(const FollowedPass& pass, int32_t position) const {
    const auto row = static_cast<size_t>(first_row_ + position - block_begin_);
    return position >= pass.decoder.prompt_length() && pass.plan.tokens[row] == model_.config().mask_id;
  }

  std::vector<int32_t> masked_positions(const FollowedPass& pass) const {
    std::vector<int32_t> masked;
    for (int32_t position = pass.window.block.begin; position < pass.window.block.end; ++position) {
      if (is_masked(pass, position)) masked.push_back(position);
    }
    return masked;
  }

  RecallPlace place_in(const FollowedPass& pass) const {
    RecallPlace place;
    place.step = findings_.block_steps.back();
    place.masked = static_cast<double>(masked_positions(pass).size()) / pass.window.block.size();
    return place;
  }

  void count_commits(const FollowedPass& pass) {
    const int32_t first_denoised = pass.decoder.prompt_length() / pass.window.block.size();
    for (const RowGroup& group : pass.plan.groups) {
      const int32_t position = pass.plan.positions[static_cast<size_t>(group.rows.begin)];
      const bool was_denoised = position / pass.window.block.size() >= first_denoised;
      if (was_denoised && position < pass.window.block.begin) ++findings_.commits;
    }
  }

  bool is_first_step() const { return findings_.block_steps.back() == 1; }

  /// Whether SparseD stores this step's cells.
  bool remembers_now(size_t budget) const {
    return sparsed_among_[budget] == 0 && request_steps_ > exact_steps_;
  }

  /// Stores the predictions of the block's first step, and compares later ones with them.
  void compare_predictions(const FollowedPass& pass) {
    std::vector<int32_t> positions;
    std::vector<LogitRow> wanted;
    if (is_first_step()) first_logits_.clear();
    for (const int32_t position : masked_positions(pass)) {
      // With shifted logits the block's first position is predicted by a row before the block.
      const int32_t predicting = position - (model_.config().shifted_logits ? 1 : 0);
      const bool counts = is_first_step() || first_logits_.contains(position);
      if (predicting < block_begin_ || !counts) continue;
      positions.push_back(position);
      wanted.emplace_back().row = first_row_ + predicting - block_begin_;
    }
    if (positions.empty()) return;
    logits_.reserve(std::ssize(wanted) * model_.config().vocab_size);
    const Matrix<float> logits(logits_.data(), std::ssize(wanted), model_.config().vocab_size);
    pass.ticket->read_logits(wanted, logits);
    std::vector<std::span<float>> first;
    for (size_t i = 0; i < positions.size(); ++i) {
      const std::span<float> now = logits.row_span(static_cast<int64_t>(i));
      const auto known = first_logits_.try_emplace(positions[i], now.begin(), now.end()).first;
      first.push_back(known->second);
    }
    std::vector<double> divergences(positions.size());
    threads_.parallel_for(logits.rows, [&](int64_t i, int) {
      const auto index = static_cast<size_t>(i);
      divergences[index] = prediction_divergence(first[index], logits.row_span(i), model_.config().mask_id);
    });
    Average divergence;
    for (const double each : divergences) divergence.add(each);
    findings_.predictions.push_back({place_in(pass), divergence.mean()});
  }

  UnitFigures measure(const KvSequence& sequence, int32_t unit) {
    UnitFigures figures;
    UnitMemory& memory = memories_[static_cast<size_t>(unit)];
    const HeadAttention attention = recording_.attention(unit);
    const ConstMatrix<float> queries = recording_.queries(unit);
    if (is_first_step()) {
      memory.first_queries.assign(queries.data, queries.data + queries.rows * queries.cols);
      memory.first.resize(settings_.budgets.size());
      memory.sparsed.resize(settings_.budgets.size());
    }
    figures.query_gap = query_gap_since(memory, queries);
    figures.prefix_share = prefix_share(attention);

    const std::vector<float> values = values_of(sequence, unit);
    const AttentionOutputs outputs(attention, {values.data(), attention.num_cells, recording_.head_dim()});
    const PageScores pages = scored_pages(sequence, unit, queries);
    for (size_t b = 0; b < num_budgets(); ++b) {
      figures.budgets.push_back(measure(attention, outputs, pages, b, memory));
    }
    return figures;
  }

  UnitFigures::OfBudget measure(const HeadAttention& attention, const AttentionOutputs& outputs,
                                const PageScores& pages, size_t b, UnitMemory& memory) const {
    const int32_t budget = settings_.budgets[b];
    const CellSet now = heaviest_of_block(attention, budget);
    const std::vector<CellSet> of_rows = heaviest_of_rows(attention, budget);
    if (is_first_step()) memory.first[b] = now;
    UnitFigures::OfBudget figures;
    figures.recall = recall(memory.first[b], now, budget);
    figures.union_ratio = union_ratio(of_rows, budget);
    const auto judge = [&](ChosenBy policy, const auto& chosen) {
      figures.policies[index_of(policy)] = {token_accuracy(chosen, of_rows, budget),
                                            covered_mass(attention, chosen), outputs.error(chosen)};
    };
    judge(ChosenBy::kThisStep, now);
    judge(ChosenBy::kFirstStep, memory.first[b]);
    const auto cells_of_best = [&](std::span<const float> scores) {
      const int32_t count = budget / settings_.page_size;
      return cells_of_best_pages(scores, count, settings_.page_size, attention.prefix);
    };
    judge(ChosenBy::kQuest, cells_of_best(pages.of_block));
    std::vector<CellSet> own_pages;
    for (const std::vector<float>& scores : pages.of_rows) own_pages.push_back(cells_of_best(scores));
    judge(ChosenBy::kQuestPerToken, own_pages);
    if (sparsed_among_[b] > 0) {
      CellSet chosen = memory.sparsed[b];
      for (int32_t cell = sparsed_among_[b]; cell < attention.prefix; ++cell) chosen.push_back(cell);
      judge(ChosenBy::kSparseD, chosen);
    }
    if (remembers_now(b)) memory.sparsed[b] = now;
    return figures;
  }

  /// Gap of the queries since the block's first step: the mean over query heads.
  StateGap query_gap_since(const UnitMemory& memory, ConstMatrix<float> queries) const {
    const ConstMatrix<float> first(memory.first_queries.data(), queries.rows, queries.cols);
    const int32_t heads = recording_.num_heads();
    StateGap mean;
    for (int32_t head = 0; head < heads; ++head) {
      add_share(mean, state_gap(of_head(first, head, heads), of_head(queries, head, heads)), heads);
    }
    return mean;
  }

  static void add_share(StateGap& mean, const StateGap& gap, int32_t count) {
    for (const auto part :
         {&StateGap::row, &StateGap::row_relative, &StateGap::block, &StateGap::block_relative}) {
      mean.*part += gap.*part / count;
    }
  }

  std::vector<float> values_of(const KvSequence& sequence, int32_t unit) const {
    const int32_t cells = recording_.block().end;
    const int32_t dim = recording_.head_dim();
    std::vector<float> keys(static_cast<size_t>(cells) * static_cast<size_t>(dim)), values(keys.size());
    sequence.read_cells(recording_.layer_of(unit), recording_.kv_head_of(unit), {0, cells},
                        {keys.data(), cells, dim}, {values.data(), cells, dim});
    return values;
  }

  PageScores scored_pages(const KvSequence& sequence, int32_t unit, ConstMatrix<float> queries) {
    const int32_t layer = recording_.layer_of(unit);
    const int32_t kv_head = recording_.kv_head_of(unit);
    pages_->extend(layer, kv_head, recording_.block().begin, [&](int32_t cell, float* key, float* value) {
      const Matrix<float> keys(key, 1, recording_.head_dim());
      sequence.read_cells(layer, kv_head, {cell, cell + 1}, keys, {value, 1, recording_.head_dim()});
    });
    const auto score = [&](ConstMatrix<float> of_rows) {
      return page_scores(split_mean(of_rows), pages_->largest(layer, kv_head),
                         pages_->smallest(layer, kv_head));
    };
    PageScores scores{score(queries), {}};
    const int32_t heads = recording_.num_heads();
    for (int64_t row = 0; row < queries.rows; row += heads) {
      scores.of_rows.push_back(score({queries.row(row), heads, queries.cols, queries.stride}));
    }
    return scores;
  }

  ///   first_unit  first unit of a layer
  ///   figures     [kv heads] of that layer
  void observe(int32_t first_unit, RecallPlace place, std::span<const UnitFigures> figures) {
    place.layer = recording_.layer_of(first_unit);
    const auto heads = static_cast<int32_t>(figures.size());
    StateObservation states{place};
    states.hidden = state_gap(recording_.hidden_of(first_hidden_, first_unit), recording_.hidden(first_unit));
    for (const UnitFigures& unit : figures) {
      add_share(states.query, unit.query_gap, heads);
      states.prefix_share += unit.prefix_share / heads;
    }
    findings_.states.push_back(states);
    for (size_t b = 0; b < num_budgets(); ++b) {
      CellObservation cells{place, settings_.budgets[b]};
      std::array<OutputError, kChosenBy> errors;
      for (const UnitFigures& unit : figures) {
        const UnitFigures::OfBudget& of_budget = unit.budgets[b];
        cells.recall += of_budget.recall / heads;
        cells.union_ratio += of_budget.union_ratio / heads;
        for (size_t p = 0; p < kChosenBy; ++p) {
          if (!of_budget.policies[p]) continue;
          if (!cells.policies[p]) cells.policies[p].emplace();
          cells.policies[p]->accuracy += of_budget.policies[p]->accuracy / heads;
          cells.policies[p]->mass += of_budget.policies[p]->mass / heads;
          errors[p] += of_budget.policies[p]->error;
        }
      }
      for (size_t p = 0; p < kChosenBy; ++p) {
        if (cells.policies[p]) cells.policies[p]->error = errors[p].relative();
      }
      findings_.cells.push_back(cells);
    }
  }

  const BackendModel& model_;
  ThreadPool& threads_;
  RecallSettings settings_;
  Recording recording_;
  std::vector<UnitMemory> memories_;  // [units]
  // From the block's first step:
  std::vector<float> first_hidden_;                     // Recording::all_hidden()
  std::map<int32_t, std::vector<float>> first_logits_;  // by position
  // State of the request:
  std::optional<PageBounds> pages_;
  int32_t exact_steps_ = 0;  // SparseD
  int32_t request_steps_ = 0;
  std::vector<int32_t> sparsed_among_;  // [budgets] prefix when SparseD remembered its cells; 0: not yet
  // State of the pass:
  int32_t block_begin_ = -1;
  int32_t first_row_ = 0;
  bool is_denoising_ = false;
  bool is_recorded_ = false;
  Buffer<float> logits_;
  RecallFindings findings_;
};

void check(const RecallSettings& settings, const ModelConfig& config) {
  const std::vector<int32_t>& budgets = settings.budgets;
  const bool grow =
      std::adjacent_find(budgets.begin(), budgets.end(), std::greater_equal<>()) == budgets.end();
  if (budgets.empty() || !grow) {
    throw InputError("--budgets: expected numbers of cells that grow, such as 64,128,256");
  }
  if (budgets.front() < settings.page_size) {
    throw InputError("--budgets {}: expected at least {} cells, a page of Quest (--page)", budgets.front(),
                     settings.page_size);
  }
  if (!config.block_causal || config.causal_context) {
    throw InputError(
        "analyze recall needs a model of block diffusion (SDAR, Fast-dLLM v2, LLaDA 2), or --as-blocks N "
        "with an autoregressive one");
  }
  if (config.num_layers <= kDenseLayers) {
    throw InputError(
        "analyze recall: the model has {} layers; expected more than {}, which always attend to all",
        config.num_layers, kDenseLayers);
  }
}

}  // namespace

RecallFindings analyze_recall(const BackendModel& model, ThreadPool& threads, Requests requests,
                              const RecallSettings& settings, const AnalysisProgress& progress) {
  check(settings, model.config());
  RecallInstrument instrument(model, threads, settings);
  follow_all(model, requests, instrument, progress);
  if (instrument.findings().states.empty()) {
    throw InputError(
        "analyze recall: no block was denoised with more than {} cells before it; expected longer prompts or "
        "smaller --budgets",
        settings.budgets.front());
  }
  return instrument.findings();
}

}  // namespace lacuna
