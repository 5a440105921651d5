#include "instruments/instruments.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/buffer.h"
#include "base/error.h"
#include "model/drift.h"

namespace lacuna {
namespace {

constexpr std::array<std::string_view, kAges> kAgeNames = {"0", "1", "2-3", "4-7", "8-15", "16+"};

/// The rows that predict the block's positions and have outputs.
std::vector<int32_t> block_rows(const FollowedPass& pass, bool shifted_logits) {
  std::vector<int32_t> rows;
  for_each_row(pass.plan, [&](int32_t row, int32_t position, const RowGroup& group) {
    const int32_t predicted = position + (shifted_logits ? 1 : 0);
    if (!group.only_kv && contains(pass.window.block, predicted)) rows.push_back(row);
  });
  return rows;
}

}  // namespace

std::string_view name_of_age(size_t index) {
  return kAgeNames[index];
}

// Drift.

namespace {

/// Sums of several variables and of their products, for Pearson's r.
class Correlations {
 public:
  explicit Correlations(size_t variables)
      : size_(variables), sums_(variables, 0.0), products_(variables * variables, 0.0) {}

  /// values  [variables]
  void add(std::span<const double> values) {
    ++count_;
    for (size_t a = 0; a < size_; ++a) {
      sums_[a] += values[a];
      for (size_t b = 0; b <= a; ++b) products_[a * size_ + b] += values[a] * values[b];
    }
  }
  /// Adds `count` observations of zeros.
  void add_zeros(int64_t count) { count_ += count; }

  /// Pearson's r of variables a > b. Empty if one of them is constant.
  std::optional<double> pearson(size_t a, size_t b) const {
    const double variances = covariance(a, a) * covariance(b, b);
    if (!(variances > 0)) return {};
    return std::clamp(covariance(a, b) / std::sqrt(variances), -1.0, 1.0);
  }

  /// Mean of Pearson's r over all pairs of non-constant variables.
  std::optional<double> mean_pearson() const {
    Average average;
    for (size_t a = 1; a < size_; ++a) {
      for (size_t b = 0; b < a; ++b) {
        if (const std::optional<double> r = pearson(a, b)) average.add(*r);
      }
    }
    if (average.count == 0) return {};
    return average.mean();
  }

 private:
  /// The covariance times the number of observations.
  double covariance(size_t a, size_t b) const {
    if (count_ == 0) return 0;
    return products_[a * size_ + b] - sums_[a] * sums_[b] / static_cast<double>(count_);
  }

  size_t size_;
  int64_t count_ = 0;
  std::vector<double> sums_, products_;
};

class DriftInstrument final : public Instrument {
 public:
  DriftInstrument(const ModelConfig& config, const std::optional<MapSettings>& map)
      : config_(config),
        layers_(static_cast<size_t>(config.num_layers)),
        keys_and_values_(2),
        key_layers_(layers_),
        value_layers_(layers_),
        keys_(layers_),
        values_(layers_) {
    if (map) findings_.map.emplace(*map);
  }

  void begin(const Decoder& /*decoder*/) override { was_computed_.clear(); }

  void prepare(FollowedPass& pass) override { pass.plan.measures_kv_drift = true; }

  void computed(const FollowedPass& pass) override {
    placed_.clear();
    const auto positions = static_cast<size_t>(pass.window.num_positions);
    was_computed_.resize(positions, false);
    row_of_.assign(positions, -1);
    for_each_row(pass.plan, [&](int32_t row, int32_t position, const RowGroup&) {
      row_of_[static_cast<size_t>(position)] = row;
    });
    for (int32_t position = 0; position < pass.window.num_positions; ++position) {
      const auto index = static_cast<size_t>(position);
      // Before the first computation the cell held zeros; this change is not drift.
      if (was_computed_[index]) {
        count(pass, position, row_of_[index]);
        if (findings_.map) keep(position, part_of(pass, position));
      }
      was_computed_[index] = was_computed_[index] || row_of_[index] >= 0;
    }
    before_.resize(positions);
    for (size_t i = 0; i < positions; ++i) before_[i] = content_of(config_, pass, static_cast<int32_t>(i));
  }

  void finished(const FollowedPass& pass, const StepReport& report) override {
    for (const Placed& drift : placed_) {
      const MapPlace place{report.step, drift.layer, drift.position - pass.window.answer.begin};
      findings_.map->add(place, static_cast<int32_t>(drift.part), std::array{drift.key, drift.value});
    }
  }

  DriftFindings findings() const {
    DriftFindings findings = findings_;
    findings.key_value = keys_and_values_.pearson(1, 0);
    findings.key_layers = key_layers_.mean_pearson();
    findings.value_layers = value_layers_.mean_pearson();
    return findings;
  }

 private:
  ///   row  -1: the pass did not compute the position
  void count(const FollowedPass& pass, int32_t position, int32_t row) {
    auto& regions = pass.at_boundary ? findings_.boundary : findings_.within;
    KvAverage& region = regions[index_of(region_of(pass.window, position))];
    if (row < 0) {
      std::fill(keys_.begin(), keys_.end(), 0.0);
      std::fill(values_.begin(), values_.end(), 0.0);
      region.key.add(0);
      region.value.add(0);
      keys_and_values_.add_zeros(static_cast<int64_t>(layers_));
      key_layers_.add_zeros(1);
      value_layers_.add_zeros(1);
      return;
    }
    const float* drift = pass.result.kv_drift.data() + 2 * static_cast<size_t>(row) * layers_;
    for (size_t layer = 0; layer < layers_; ++layer) {
      keys_[layer] = drift[2 * layer];
      values_[layer] = drift[2 * layer + 1];
      keys_and_values_.add(std::array{keys_[layer], values_[layer]});
    }
    region.key.add(mean(keys_));
    region.value.add(mean(values_));
    key_layers_.add(keys_);
    value_layers_.add(values_);
  }

  /// Keeps the drifts that count() found for the map, until the pass's step is known.
  void keep(int32_t position, DriftPart part) {
    for (size_t layer = 0; layer < layers_; ++layer) {
      placed_.push_back({position, static_cast<int32_t>(layer), part, keys_[layer], values_[layer]});
    }
  }

  DriftPart part_of(const FollowedPass& pass, int32_t position) const {
    switch (content_of(config_, pass, position)) {
      case Content::kPrompt:
        return DriftPart::kPrompt;
      case Content::kDecoded:
        return before_[static_cast<size_t>(position)] == Content::kDecoded ? DriftPart::kDecoded
                                                                           : DriftPart::kJustDecoded;
      case Content::kMasked:
        return DriftPart::kMasked;
      case Content::kFiller:
        break;
    }
    return DriftPart::kFiller;
  }

  static double mean(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  }

  const ModelConfig& config_;
  size_t layers_;
  DriftFindings findings_;
  Correlations keys_and_values_, key_layers_, value_layers_;
  std::vector<double> keys_, values_;  // [layers] of the current position
  std::vector<bool> was_computed_;     // by position
  std::vector<int32_t> row_of_;        // by position

  struct Placed {
    int32_t position, layer;
    DriftPart part;
    double key, value;
  };
  std::vector<Placed> placed_;   // drifts of the current pass
  std::vector<Content> before_;  // by position, in the previous pass
};

// Entropy and changes.

class EntropyInstrument final : public Instrument {
 public:
  explicit EntropyInstrument(const BackendModel& model) : model_(model) {}

  void prepare(FollowedPass& pass) override {
    SamplingRule rule;
    if (model_.config().mask_id >= 0) rule.forbidden.push_back(model_.config().mask_id);
    first_rule_ = static_cast<int32_t>(pass.plan.rules.size());
    for (const ConfidenceMeasure measure :
         {ConfidenceMeasure::kNegativeEntropy, ConfidenceMeasure::kProbability}) {
      rule.measure = measure;
      pass.plan.rules.push_back(rule);
    }
  }

  void computed(const FollowedPass& pass) override {
    step_ = {};
    std::vector<LogitRow> wanted;
    for (const int32_t row : block_rows(pass, model_.config().shifted_logits)) {
      for (const int32_t rule : {first_rule_, first_rule_ + 1}) {
        wanted.push_back(logit_row(pass.plan, row, rule));
      }
    }
    const std::span<const RowStatistics> samples = pass.ticket->follow_up({.logits = wanted}).samples;
    for (size_t i = 0; i < samples.size(); i += 2) {
      step_.entropy.add(-samples[i].confidence);
      step_.largest_probability.add(samples[i + 1].confidence);
    }
  }

  void finished(const FollowedPass& /*pass*/, const StepReport& report) override {
    if (step_.entropy.count == 0) return;
    EntropyFindings::Step& step = findings_.steps[report.step];
    step.entropy.add(step_.entropy.mean());
    step.largest_probability.add(step_.largest_probability.mean());
  }

  const EntropyFindings& findings() const { return findings_; }

 private:
  /// A logit row with the guidance of the plan's own rows.
  static LogitRow logit_row(const StepPlan& plan, int32_t row, int32_t rule) {
    LogitRow wanted;
    wanted.row = row;
    wanted.rule = rule;
    if (plan.logits.empty() || plan.logits.front().unconditional_row < 0) return wanted;
    const LogitRow& guided = plan.logits.front();
    wanted.unconditional_row = row + guided.unconditional_row - guided.row;
    wanted.guidance = guided.guidance;
    return wanted;
  }

  const BackendModel& model_;
  int32_t first_rule_ = 0;
  EntropyFindings::Step step_;  // of the current pass
  EntropyFindings findings_;
};

class ChangeInstrument final : public Instrument {
 public:
  void finished(const FollowedPass& pass, const StepReport& report) override {
    ChangeFindings::Step& step = findings_.steps[report.step];
    const auto committed = static_cast<int64_t>(report.committed.size());
    step.committed += committed;
    step.of_answer.add(static_cast<double>(committed) / pass.window.answer.size());
    step.of_block.add(static_cast<double>(committed) / pass.window.block.size());
  }

  const ChangeFindings& findings() const { return findings_; }

 private:
  ChangeFindings findings_;
};

// Staleness.

/// Key and value of one cell of one layer, all heads as one vector.
struct CellContent {
  std::vector<float> key, value;

  CellContent(const ModelConfig& config, const KvSequence& sequence, int64_t layer, int32_t cell) {
    const int64_t dim = config.head_dim;
    key.resize(static_cast<size_t>(config.kv_dim()));
    value.resize(key.size());
    for (int64_t head = 0; head < config.num_kv_heads; ++head) {
      sequence.read_cells(layer, head, {cell, cell + 1}, {key.data() + head * dim, 1, dim},
                          {value.data() + head * dim, 1, dim});
    }
  }
};

size_t age_index(int32_t steps) {
  size_t index = 0;
  for (; steps > 0 && index + 1 < kAges; steps /= 2) ++index;
  return index;
}

class StalenessInstrument final : public Instrument {
 public:
  StalenessInstrument(const BackendModel& model, ThreadPool& threads)
      : model_(model), threads_(threads), pool_(model.make_pool()) {}

  void begin(const Decoder& decoder) override {
    expect_uncached_plan(decoder);
    fresh_ = pool_->make_sequence({decoder.num_cells()});

    computed_at_.assign(static_cast<size_t>(decoder.num_cells()), 0);
  }

  /// Computes the full pass while the decoder still has the pass's input tokens.
  void computed(const FollowedPass& pass) override {
    StepPlan full = *pass.decoder.uncached_plan();
    std::vector<LogitRow> of_cached;
    for (const int32_t row : block_rows(pass, /*shifted_logits=*/false)) {
      LogitRow logit;
      logit.row = row;
      of_cached.push_back(logit);
    }
    full.logits.clear();
    const std::vector<LogitRow> of_full = same_positions(of_cached, pass.plan, full);
    const Matrix<float> cached_logits = logits(*pass.ticket, of_cached, cached_memory_);
    KvSequence* sequences[] = {fresh_.get()};
    const std::unique_ptr<PassTicket> ticket = model_.submit(full, sequences);
    ticket->wait();
    const Matrix<float> full_logits = logits(*ticket, of_full, full_memory_);
    compare(full_logits, cached_logits);
  }

  void finished(const FollowedPass& pass, const StepReport& report) override {
    for_each_row(pass.plan, [&](int32_t, int32_t position, const RowGroup&) {
      computed_at_[static_cast<size_t>(position)] = report.step;
    });
    const int32_t count = pass.window.num_positions;
    std::vector<Error> errors(static_cast<size_t>(count));
    threads_.parallel_for(count, [&](int64_t position, int) {
      errors[static_cast<size_t>(position)] = error_at(pass.sequence, static_cast<int32_t>(position));
    });
    for (int32_t position = 0; position < count; ++position) {
      const auto index = static_cast<size_t>(position);
      KvAverage& average = findings_.error[index_of(region_of(pass.window, position))]
                                          [age_index(report.step - computed_at_[index])];
      average.key.add(errors[index].key);
      average.value.add(errors[index].value);
    }
  }

  const StalenessFindings& findings() const { return findings_; }

 private:
  struct Error {
    double key = 0;
    double value = 0;
  };

  /// The rows of `full` at the positions of rows of `cached`.
  static std::vector<LogitRow> same_positions(std::span<const LogitRow> of_cached, const StepPlan& cached,
                                              const StepPlan& full) {
    std::map<int32_t, int32_t> row_of;
    for (int32_t row = 0; row < full.num_rows(); ++row) {
      row_of[full.positions[static_cast<size_t>(row)]] = row;
    }
    std::vector<LogitRow> rows;
    for (const LogitRow& logit : of_cached) {
      LogitRow wanted;
      wanted.row = row_of.at(cached.positions[static_cast<size_t>(logit.row)]);
      rows.push_back(wanted);
    }
    return rows;
  }

  Matrix<float> logits(PassTicket& ticket, std::span<const LogitRow> wanted, Buffer<float>& memory) const {
    const int64_t vocab = model_.config().vocab_size;
    memory.reserve(std::ssize(wanted) * vocab);
    const Matrix<float> out(memory.data(), std::ssize(wanted), vocab);
    ticket.read_logits(wanted, out);
    return out;
  }

  void compare(Matrix<float> full, Matrix<float> cached) {
    std::vector<double> kls(static_cast<size_t>(full.rows));
    std::vector<char> flips(kls.size());
    threads_.parallel_for(full.rows, [&](int64_t row, int) {
      leave_out_mask(full.row_span(row));
      leave_out_mask(cached.row_span(row));
      const auto index = static_cast<size_t>(row);
      kls[index] = measure_drift(full.row_span(row), cached.row_span(row)).kl;
      flips[index] = likeliest(full.row_span(row)) != likeliest(cached.row_span(row)) ? 1 : 0;
    });
    for (size_t row = 0; row < kls.size(); ++row) {
      findings_.kl.add(kls[row]);
      findings_.flips.add(flips[row]);
    }
  }

  /// Sets the mask's logit so low that its probability is 0, but finite, because logits are subtracted.
  void leave_out_mask(std::span<float> logits_of_row) const {
    const TokenId mask = model_.config().mask_id;
    if (mask >= 0) logits_of_row[static_cast<size_t>(mask)] = -1e30F;
  }

  static std::ptrdiff_t likeliest(std::span<const float> logits_of_row) {
    return std::max_element(logits_of_row.begin(), logits_of_row.end()) - logits_of_row.begin();
  }

  /// Error at a position: the mean over layers.
  Error error_at(const KvSequence& sequence, int32_t position) const {
    Error error;
    const int64_t layers = model_.config().num_layers;
    for (int64_t layer = 0; layer < layers; ++layer) {
      const CellContent held(model_.config(), sequence, layer, position);
      const CellContent fresh(model_.config(), *fresh_, layer, position);
      error.key += cosine_distance(held.key, fresh.key) / static_cast<double>(layers);
      error.value += cosine_distance(held.value, fresh.value) / static_cast<double>(layers);
    }
    return error;
  }

  const BackendModel& model_;
  ThreadPool& threads_;
  std::unique_ptr<KvPool> pool_;
  std::unique_ptr<KvSequence> fresh_;  // K/V of passes that compute everything
  Buffer<float> cached_memory_, full_memory_;
  std::vector<int32_t> computed_at_;  // step of the last computation, by position
  StalenessFindings findings_;
};

// Profile.

class ProfileInstrument final : public Instrument {
 public:
  bool reads_blocks() const override { return false; }

  void finished(const FollowedPass& pass, const StepReport& report) override {
    const int32_t rows = pass.plan.num_rows();
    const ProfileFindings::Passes one{1, rows, pass.seconds, pass.times};
    findings_.all += one;
    findings_.by_kind[std::string(report.kind)] += one;
    findings_.by_rows[rows] += one;
  }

  const ProfileFindings& findings() const { return findings_; }

 private:
  ProfileFindings findings_;
};

}  // namespace

std::string_view name_of(DriftPart part) {
  constexpr std::array<std::string_view, kDriftParts> kNames = {"prompt", "decoded", "just decoded", "masked",
                                                                "filler"};
  return kNames[static_cast<size_t>(part)];
}

ProfileFindings::Passes& ProfileFindings::Passes::operator+=(const Passes& more) {
  count += more.count;
  rows += more.rows;
  seconds += more.seconds;
  times += more.times;
  return *this;
}

DriftFindings analyze_drift(const BackendModel& model, Requests requests,
                            const std::optional<MapSettings>& map, const AnalysisProgress& progress) {
  DriftInstrument instrument(model.config(), map);
  follow_all(model, requests, instrument, progress);
  return instrument.findings();
}

EntropyFindings analyze_entropy(const BackendModel& model, Requests requests,
                                const AnalysisProgress& progress) {
  EntropyInstrument instrument(model);
  follow_all(model, requests, instrument, progress);
  return instrument.findings();
}

ChangeFindings analyze_changes(const BackendModel& model, Requests requests,
                               const AnalysisProgress& progress) {
  ChangeInstrument instrument;
  follow_all(model, requests, instrument, progress);
  return instrument.findings();
}

StalenessFindings analyze_staleness(const BackendModel& model, ThreadPool& threads, Requests requests,
                                    const AnalysisProgress& progress) {
  StalenessInstrument instrument(model, threads);
  follow_all(model, requests, instrument, progress);
  return instrument.findings();
}

ProfileFindings analyze_profile(const BackendModel& model, Requests requests, const BackendModel* guide,
                                const AnalysisProgress& progress) {
  ProfileInstrument instrument;
  follow_all(model, requests, instrument, progress, guide);
  return instrument.findings();
}

}  // namespace lacuna
