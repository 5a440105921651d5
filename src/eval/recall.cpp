#include "eval/recall.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "cache/sparse_cells.h"
#include "model/sparse_attention.h"

namespace lacuna {
namespace {

constexpr std::array<std::string_view, kChosenBy> kPolicyNames = {"this step", "first step", "quest",
                                                                  "sparsed"};

size_t index_of(ChosenBy policy) {
  return static_cast<size_t>(policy);
}

int64_t in_common(const CellSet& a, const CellSet& b) {
  int64_t count = 0;
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end();) {
    count += *i == *j ? 1 : 0;
    const bool advances_a = *i <= *j;
    const bool advances_b = *j <= *i;
    i += advances_a ? 1 : 0;
    j += advances_b ? 1 : 0;
  }
  return count;
}

/// The heaviest cells of the prefix by the weights of rows [begin, end), added up.
CellSet heaviest_of(const HeadAttention& attention, IndexRange rows, int32_t budget) {
  const auto num_tiles = static_cast<int32_t>((attention.prefix + kCellTile - 1) / kCellTile);
  thread_local std::vector<float> mass;
  mass.assign(static_cast<size_t>(num_tiles * kCellTile), 0.0F);
  for (int32_t row = rows.begin; row < rows.end; ++row) {
    for (int32_t head = 0; head < attention.num_heads; ++head) {
      const float* weights = attention.row(row, head);
      for (int32_t cell = 0; cell < attention.prefix; ++cell)
        mass[static_cast<size_t>(cell)] += weights[cell];
    }
  }
  return heaviest_cells(mass, std::array{IndexRange{0, num_tiles}}, {0, attention.prefix}, budget);
}

/// Calls visit(weights) for each row and head.
template <typename Visit>
void for_each_row_head(const HeadAttention& attention, Visit&& visit) {
  for (int32_t row = 0; row < attention.num_rows; ++row) {
    for (int32_t head = 0; head < attention.num_heads; ++head) visit(attention.row(row, head));
  }
}

double sum_of(const float* weights, int32_t count) {
  double sum = 0;
  for (int32_t i = 0; i < count; ++i) sum += weights[i];
  return sum;
}

}  // namespace

std::string_view name_of(ChosenBy policy) {
  return kPolicyNames[index_of(policy)];
}

CellSet heaviest_of_block(const HeadAttention& attention, int32_t budget) {
  return heaviest_of(attention, {0, attention.num_rows}, budget);
}

std::vector<CellSet> heaviest_of_rows(const HeadAttention& attention, int32_t budget) {
  std::vector<CellSet> of_rows;
  of_rows.reserve(static_cast<size_t>(attention.num_rows));
  for (int32_t row = 0; row < attention.num_rows; ++row) {
    of_rows.push_back(heaviest_of(attention, {row, row + 1}, budget));
  }
  return of_rows;
}

double recall(const CellSet& before, const CellSet& now, int32_t budget) {
  return static_cast<double>(in_common(before, now)) / budget;
}

double union_ratio(std::span<const CellSet> of_rows, int32_t budget) {
  CellSet all;
  for (const CellSet& cells : of_rows) {
    CellSet merged;
    std::set_union(all.begin(), all.end(), cells.begin(), cells.end(), std::back_inserter(merged));
    all = std::move(merged);
  }
  return static_cast<double>(all.size()) / budget;
}

double token_accuracy(const CellSet& chosen, std::span<const CellSet> of_rows, int32_t budget) {
  Average accuracy;
  for (const CellSet& cells : of_rows) accuracy.add(static_cast<double>(in_common(chosen, cells)) / budget);
  return accuracy.mean();
}

double prefix_share(const HeadAttention& attention) {
  Average share;
  for_each_row_head(attention, [&](const float* weights) { share.add(sum_of(weights, attention.prefix)); });
  return share.mean();
}

double covered_mass(const HeadAttention& attention, const CellSet& chosen) {
  Average covered;
  for_each_row_head(attention, [&](const float* weights) {
    const double prefix = sum_of(weights, attention.prefix);
    double kept = 0;
    for (const int32_t cell : chosen) kept += weights[cell];
    covered.add(prefix > 0 ? kept / prefix : 1);
  });
  return covered.mean();
}

double OutputError::relative() const {
  return exact > 0 ? std::sqrt(difference / exact) : 0;
}

namespace {

void add_scaled(std::span<double> sum, double weight, const float* values) {
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += weight * values[i];
}

}  // namespace

AttentionOutputs::AttentionOutputs(const HeadAttention& attention, ConstMatrix<float> values)
    : attention_(attention), values_(values) {
  const auto width = static_cast<size_t>(values.cols);
  exact_.resize(static_cast<size_t>(attention.num_rows * attention.num_heads) * width);
  std::span<double> left = exact_;
  for_each_row_head(attention, [&](const float* weights) {
    for (int32_t cell = 0; cell < attention.num_cells; ++cell) {
      add_scaled(left.first(width), weights[cell], values.row(cell));
    }
    left = left.subspan(width);
  });
}

OutputError AttentionOutputs::error(const CellSet& chosen) const {
  OutputError error;
  std::vector<double> output(static_cast<size_t>(values_.cols));
  auto exact = exact_.begin();
  for_each_row_head(attention_, [&](const float* weights) {
    std::fill(output.begin(), output.end(), 0.0);
    double kept = 0;
    const auto attend = [&](int32_t cell) {
      kept += weights[cell];
      add_scaled(output, weights[cell], values_.row(cell));
    };
    for (const int32_t cell : chosen) attend(cell);
    for (int32_t cell = attention_.prefix; cell < attention_.num_cells; ++cell) attend(cell);
    for (const double sum : output) {
      const double wanted = *exact++;
      const double given = kept > 0 ? sum / kept : 0;
      error.difference += (given - wanted) * (given - wanted);
      error.exact += wanted * wanted;
    }
  });
  return error;
}

QueryGap query_gap(ConstMatrix<float> first, ConstMatrix<float> now) {
  const auto width = static_cast<size_t>(first.cols);
  const auto rows = static_cast<double>(first.rows);
  std::vector<double> mean_first(width);
  std::vector<double> mean_difference(width);
  double length = 0;
  QueryGap gap;
  const auto norm = [](double squares) { return std::sqrt(squares); };
  for (int64_t row = 0; row < first.rows; ++row) {
    double squares_first = 0;
    double squares_difference = 0;
    for (size_t i = 0; i < width; ++i) {
      const double value = first.row(row)[i];
      const double difference = now.row(row)[i] - value;
      squares_first += value * value;
      squares_difference += difference * difference;
      mean_first[i] += value / rows;
      mean_difference[i] += difference / rows;
    }
    length += norm(squares_first) / rows;
    gap.row += norm(squares_difference) / rows;
  }
  double squares_first = 0;
  double squares_difference = 0;
  for (size_t i = 0; i < width; ++i) {
    squares_first += mean_first[i] * mean_first[i];
    squares_difference += mean_difference[i] * mean_difference[i];
  }
  gap.block = norm(squares_difference);
  if (length > 0) gap.row_relative = gap.row / length;
  if (squares_first > 0) gap.block_relative = gap.block / norm(squares_first);
  return gap;
}

// Watching.

namespace {

/// Attention weights and queries of the current block's rows in one pass, for every layer that may be
/// sparse and every kv head ("unit").
class Recording {
 public:
  explicit Recording(const ModelConfig& config)
      : num_kv_heads_(static_cast<int32_t>(config.num_kv_heads)),
        num_heads_(static_cast<int32_t>(config.num_heads / config.num_kv_heads)),
        head_dim_(static_cast<int32_t>(config.head_dim)),
        num_units_(static_cast<int32_t>(config.num_layers - kDenseLayers) * num_kv_heads_) {}

  int32_t num_units() const { return num_units_; }
  int32_t num_heads() const { return num_heads_; }
  int32_t head_dim() const { return head_dim_; }
  int32_t layer_of(int32_t unit) const { return static_cast<int32_t>(kDenseLayers) + unit / num_kv_heads_; }
  int32_t kv_head_of(int32_t unit) const { return unit % num_kv_heads_; }
  IndexRange block() const { return block_; }

  ///   block      cells, which lie after all others that it sees
  ///   first_row  of the plan
  void start(IndexRange block, int32_t first_row) {
    block_ = block;
    first_row_ = first_row;
    const auto num_rows = static_cast<size_t>(num_units_) * static_cast<size_t>(block.size() * num_heads_);
    weights_.resize(num_rows * static_cast<size_t>(block.end));
    queries_.resize(num_rows * static_cast<size_t>(head_dim_));
  }

  /// Every row of each head once; by several threads at once.
  void add(const ObservedAttention& row) {
    const int32_t block_row = row.row - first_row_;
    if (row.layer < kDenseLayers || block_row < 0 || block_row >= block_.size()) return;
    const int64_t unit = (row.layer - kDenseLayers) * num_kv_heads_ + row.head / num_heads_;
    const int64_t place = (unit * block_.size() + block_row) * num_heads_ + row.head % num_heads_;
    std::copy(row.query.begin(), row.query.end(), queries_.begin() + place * head_dim_);
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

 private:
  int32_t num_kv_heads_, num_heads_, head_dim_, num_units_;
  IndexRange block_;
  int32_t first_row_ = 0;
  std::vector<float> weights_;  // [units, rows, heads, cells]
  std::vector<float> queries_;  // [units, rows, heads, head_dim]
};

/// Rows of one of the heads, which are contiguous.
ConstMatrix<float> of_head(ConstMatrix<float> queries, int32_t head, int32_t num_heads) {
  return {queries.row(head), queries.rows / num_heads, queries.cols, queries.stride * num_heads};
}

/// State of one unit: from the block's first step, and of SparseD.
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
  QueryGap gap;
  double prefix_share = 0;
  std::vector<OfBudget> budgets;  // those that are smaller than the prefix
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
    exact_steps_ = static_cast<int32_t>(std::floor(settings_.exact_share * decoder.planned_steps()));
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
      // The last layer would close ranks and number rows anew.
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
    std::vector<UnitFigures> figures(memories_.size());
    threads_.parallel_for(recording_.num_units(), [&](int64_t unit, int) {
      figures[static_cast<size_t>(unit)] = measure(pass.sequence, static_cast<int32_t>(unit));
    });
    for (size_t b = 0; b < num_budgets(); ++b) {
      if (remembers_now(b)) sparsed_among_[b] = block_begin_;
    }
    const size_t heads = static_cast<size_t>(model_.config().num_kv_heads);
    for (size_t unit = 0; unit < figures.size(); unit += heads) {
      RecallPlace place;
      place.layer = recording_.layer_of(static_cast<int32_t>(unit));
      place.step = findings_.block_steps.back();
      place.masked = static_cast<double>(num_masked(pass)) / pass.window.block.size();
      observe(place, std::span(figures).subspan(unit, heads));
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
  /// Budgets that are smaller than the prefix: the first ones.
  size_t num_budgets() const {
    const auto& budgets = settings_.budgets;
    return static_cast<size_t>(std::lower_bound(budgets.begin(), budgets.end(), block_begin_) -
                               budgets.begin());
  }

  bool is_masked(const FollowedPass& pass, int32_t position) const {
    const auto row = static_cast<size_t>(first_row_ + position - block_begin_);
    return position >= pass.decoder.prompt_length() && pass.plan.tokens[row] == model_.config().mask_id;
  }

  int32_t num_masked(const FollowedPass& pass) const {
    int32_t count = 0;
    for (int32_t position = pass.window.block.begin; position < pass.window.block.end; ++position) {
      count += is_masked(pass, position) ? 1 : 0;
    }
    return count;
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
    figures.gap = gap_since(memory, queries);
    figures.prefix_share = prefix_share(attention);

    const std::vector<float> values = values_of(sequence, unit);
    const AttentionOutputs outputs(attention, {values.data(), attention.num_cells, recording_.head_dim()});
    const std::vector<float> pages = scored_pages(sequence, unit, queries);
    for (size_t b = 0; b < num_budgets(); ++b) {
      figures.budgets.push_back(measure(attention, outputs, pages, b, memory));
    }
    return figures;
  }

  UnitFigures::OfBudget measure(const HeadAttention& attention, const AttentionOutputs& outputs,
                                std::span<const float> pages, size_t b, UnitMemory& memory) const {
    const int32_t budget = settings_.budgets[b];
    const CellSet now = heaviest_of_block(attention, budget);
    const std::vector<CellSet> of_rows = heaviest_of_rows(attention, budget);
    if (is_first_step()) memory.first[b] = now;
    UnitFigures::OfBudget figures;
    figures.recall = recall(memory.first[b], now, budget);
    figures.union_ratio = union_ratio(of_rows, budget);
    const auto judge = [&](ChosenBy policy, const CellSet& chosen) {
      figures.policies[index_of(policy)] = {token_accuracy(chosen, of_rows, budget),
                                            covered_mass(attention, chosen), outputs.error(chosen)};
    };
    judge(ChosenBy::kThisStep, now);
    judge(ChosenBy::kFirstStep, memory.first[b]);
    judge(ChosenBy::kQuest,
          cells_of_best_pages(pages, budget / settings_.page_size, settings_.page_size, attention.prefix));
    if (sparsed_among_[b] > 0) {
      CellSet chosen = memory.sparsed[b];
      for (int32_t cell = sparsed_among_[b]; cell < attention.prefix; ++cell) chosen.push_back(cell);
      judge(ChosenBy::kSparseD, chosen);
    }
    if (remembers_now(b)) memory.sparsed[b] = now;
    return figures;
  }

  /// The mean over query heads.
  QueryGap gap_since(const UnitMemory& memory, ConstMatrix<float> queries) const {
    const ConstMatrix<float> first(memory.first_queries.data(), queries.rows, queries.cols);
    const int32_t heads = recording_.num_heads();
    QueryGap mean;
    for (int32_t head = 0; head < heads; ++head) {
      add_share(mean, query_gap(of_head(first, head, heads), of_head(queries, head, heads)), heads);
    }
    return mean;
  }

  static void add_share(QueryGap& mean, const QueryGap& gap, int32_t count) {
    for (const auto part :
         {&QueryGap::row, &QueryGap::row_relative, &QueryGap::block, &QueryGap::block_relative}) {
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

  std::vector<float> scored_pages(const KvSequence& sequence, int32_t unit, ConstMatrix<float> queries) {
    const int32_t layer = recording_.layer_of(unit);
    const int32_t kv_head = recording_.kv_head_of(unit);
    pages_->extend(layer, kv_head, recording_.block().begin, [&](int32_t cell, float* key, float* value) {
      const Matrix<float> keys(key, 1, recording_.head_dim());
      sequence.read_cells(layer, kv_head, {cell, cell + 1}, keys, {value, 1, recording_.head_dim()});
    });
    return page_scores(split_mean(queries), pages_->largest(layer, kv_head),
                       pages_->smallest(layer, kv_head));
  }

  ///   figures  [kv heads] of the place's layer
  void observe(const RecallPlace& place, std::span<const UnitFigures> figures) {
    const auto heads = static_cast<int32_t>(figures.size());
    QueryObservation queries{place};
    for (const UnitFigures& unit : figures) {
      add_share(queries.gap, unit.gap, heads);
      queries.prefix_share += unit.prefix_share / heads;
    }
    findings_.queries.push_back(queries);
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
        "with "
        "an autoregressive one");
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
  if (instrument.findings().queries.empty()) {
    throw InputError(
        "analyze recall: no block was denoised with more than {} cells before it; expected longer prompts or "
        "smaller --budgets",
        settings.budgets.front());
  }
  return instrument.findings();
}

}  // namespace lacuna
