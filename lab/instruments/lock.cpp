#include "instruments/lock.h"

#include <algorithm>
#include <cmath>

#include "base/buffer.h"
#include "base/error.h"
#include "model/drift.h"

namespace lacuna {
namespace {

/// The f32 logits of a canvas, one row for each position.
class LogitTable {
 public:
  void reset(int64_t num_rows, int64_t vocab) {
    memory_.reserve(num_rows * vocab);
    matrix_ = Matrix<float>(memory_.data(), num_rows, vocab);
  }
  Matrix<float>& matrix() { return matrix_; }
  std::span<float> row(int32_t index) { return matrix_.row_span(index); }

 private:
  Buffer<float> memory_;
  Matrix<float> matrix_;
};

/// Summary of softmax(logits): its largest probability and ln sum exp.
struct Posterior {
  double largest = 0;
  double log_sum = 0;
};

/// The change of a posterior from one pass to the next.
struct PosteriorStep {
  Posterior now;
  Drift drift;
};

Posterior posterior_of(std::span<const float> logits) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit} - top);
  return {1 / sum, top + std::log(sum)};
}

/// Compares two rows of logits more precisely than measure_drift(), for ratios of small divergences. With
/// changes c of ln p, KL = sum p (exp(-c) - 1 + c): no term is negative, so there is no cancellation.
///   before  logits of the previous pass; empty: none
PosteriorStep measure_step(std::span<const float> now, std::span<const float> before, const Posterior& was) {
  PosteriorStep step{posterior_of(now), {}};
  for (size_t token = 0; token < before.size(); ++token) {
    const double log_p = double{now[token]} - step.now.log_sum;
    const double change = log_p - (double{before[token]} - was.log_sum);
    step.drift.kl += std::exp(log_p) * (std::expm1(-change) + change);
    step.drift.max_log_change = std::max(step.drift.max_log_change, std::abs(change));
  }
  return step;
}

/// Largest change of a log-probability among tokens with probability >= kMinLikely in either row.
double likely_change(std::span<const float> now, std::span<const float> before) {
  const double lse_now = posterior_of(now).log_sum;
  const double lse_before = posterior_of(before).log_sum;
  double largest = 0;
  for (size_t token = 0; token < now.size(); ++token) {
    const double log_now = double{now[token]} - lse_now;
    const double log_before = double{before[token]} - lse_before;
    if (std::max(log_now, log_before) < std::log(kMinLikely)) continue;
    largest = std::max(largest, std::abs(log_now - log_before));
  }
  return largest;
}

/// The contraction and gain of a step. The divisor is at least kMinDivergence, because smaller divergences
/// are rounding errors.
TailConstants constants_of(const Drift& now, double divergence_before) {
  const double before = std::max(divergence_before, kMinDivergence);
  return {now.kl / before, now.max_log_change / std::sqrt(before)};
}

class LockInstrument final : public Instrument {
 public:
  LockInstrument(const BackendModel& model, ThreadPool& threads, const SureLock& settings, int64_t most_bytes)
      : config_(model.config()), threads_(threads), most_bytes_(most_bytes) {
    findings_.settings = settings;
  }

  void begin(const Decoder& decoder) override {
    length_ = static_cast<int32_t>(decoder.canvas().size());
    check_memory();
    for (LogitTable* table : {&now_, &before_, &at_lock_}) table->reset(length_, config_.vocab_size);
    rows_.assign(static_cast<size_t>(length_), {});
    num_passes_ = 0;
  }

  void prepare(FollowedPass& pass) override {
    for (RowGroup& group : pass.plan.groups) group.only_kv = false;  // every row's logits are read
  }

  void computed(const FollowedPass& pass) override {
    std::vector<LogitRow> wanted(static_cast<size_t>(length_));
    if (pass.plan.num_rows() != length_) {
      throw InputError("analyze lock: a pass computed {} of {} rows; expected --cache none",
                       pass.plan.num_rows(), length_);
    }
    for (int32_t row = 0; row < length_; ++row) {
      wanted[static_cast<size_t>(pass.plan.positions[static_cast<size_t>(row)])].row = row;
    }
    pass.ticket->read_logits(wanted, now_.matrix());
    for (int32_t position = 0; position < length_; ++position) {
      if (is_known(pass, position)) ++rows_[static_cast<size_t>(position)].age;
    }
  }

  void finished(const FollowedPass& pass, const StepReport& report) override {
    measure();
    std::vector<int32_t> lockable;
    for (int32_t position = 0; position < length_; ++position) {
      if (may_lock(pass, position)) {
        lockable.push_back(position);
      } else {
        rows_[static_cast<size_t>(position)].chain.clear();
      }
    }
    if (num_passes_ > 0) add_steps(pass, report.step, lockable);
    ++num_passes_;
    if (pass.decoder.done()) {
      end_request();
    } else {
      std::swap(now_, before_);
    }
  }

  LockFindings take_findings() { return std::move(findings_); }

 private:
  struct Row {
    int32_t age = 0;            // number of passes with its token as input
    Posterior posterior;        // of the current pass
    Drift drift;                // of the current pass
    std::vector<double> chain;  // divergences of consecutive passes in which the row could lock
    int64_t locked = -1;        // index into findings_.locks

    double uncertainty() const { return 1 - posterior.largest; }
  };

  void check_memory() const {
    const int64_t bytes = 3 * int64_t{sizeof(float)} * length_ * config_.vocab_size;
    if (bytes <= most_bytes_) return;
    throw InputError(
        "analyze lock: three distributions of {} positions over {} tokens need {:.1f} GiB; expected a canvas "
        "that needs at most {:.1f} GiB",
        length_, config_.vocab_size, static_cast<double>(bytes) / (1 << 30),
        static_cast<double>(most_bytes_) / (1 << 30));
  }

  bool is_known(const FollowedPass& pass, int32_t position) const {
    return position >= length_ ||
           pass.decoder.canvas()[static_cast<size_t>(position)] != static_cast<TokenId>(config_.mask_id);
  }
  int32_t predicted(int32_t position) const { return position + (config_.shifted_logits ? 1 : 0); }

  /// Whether the row could lock, after the commits of the current pass.
  bool may_lock(const FollowedPass& pass, int32_t position) const {
    return is_known(pass, position) && is_known(pass, predicted(position)) &&
           rows_[static_cast<size_t>(position)].age >= findings_.settings.min_age;
  }

  void measure() {
    threads_.parallel_for(length_, [&](int64_t index, int) {
      const auto position = static_cast<int32_t>(index);
      Row& row = rows_[static_cast<size_t>(position)];
      const std::span<const float> before =
          num_passes_ > 0 ? before_.row(position) : std::span<const float>();
      const PosteriorStep step = measure_step(now_.row(position), before, row.posterior);
      row.posterior = step.now;
      row.drift = step.drift;
    });
  }

  bool skips_gate(const FollowedPass& pass, int32_t position) const {
    return findings_.settings.eager_prompt && predicted(position) < pass.decoder.prompt_length();
  }

  /// The largest uncertainty that passes the gate; empty: no gate.
  std::optional<double> gate(const FollowedPass& pass, std::span<const int32_t> lockable) const {
    if (findings_.settings.gate >= 100) return {};
    std::vector<double> population;
    for (int32_t position = 0; position < length_; ++position) {
      const Row& row = rows_[static_cast<size_t>(position)];
      const bool counts = findings_.settings.gate_counts_unlocked ||
                          std::binary_search(lockable.begin(), lockable.end(), position);
      if (counts && row.locked < 0 && !skips_gate(pass, position)) population.push_back(row.uncertainty());
    }
    if (population.empty()) return 0.0;
    const auto count = static_cast<double>(population.size());
    const double rank = std::clamp(std::ceil(findings_.settings.gate * count / 100), 1.0, count);
    const auto kth = population.begin() + static_cast<std::ptrdiff_t>(rank) - 1;
    std::nth_element(population.begin(), kth, population.end());
    return *kth;
  }

  void add_steps(const FollowedPass& pass, int32_t step, std::span<const int32_t> lockable) {
    const std::optional<double> largest = gate(pass, lockable);
    for (const int32_t position : lockable) {
      Row& row = rows_[static_cast<size_t>(position)];
      RowStep found{request_, position - pass.decoder.prompt_length(), step};
      found.divergence = static_cast<float>(row.drift.kl);
      found.uncertainty = static_cast<float>(row.uncertainty());
      found.converged = row.drift.kl <= findings_.settings.eps;
      found.confident = !largest || skips_gate(pass, position) || row.uncertainty() <= *largest;
      found.locks = row.locked < 0 && found.converged && found.confident;
      if (!row.chain.empty()) add_constants(row, found);
      row.chain.push_back(row.drift.kl);
      if (found.locks) lock(row, position, found);
      findings_.steps.push_back(found);
    }
  }

  void add_constants(const Row& row, RowStep& found) {
    const TailConstants constants = constants_of(row.drift, row.chain.back());
    found.contraction = static_cast<float>(constants.contraction);
    found.gain = static_cast<float>(constants.gain);
    if (std::ssize(row.chain) >= kContractionWindow) {
      const double first = std::max(row.chain[row.chain.size() - kContractionWindow], kMinDivergence);
      const double last = std::max(row.drift.kl, kMinDivergence);
      found.windowed_contraction = static_cast<float>(std::pow(last / first, 1.0 / kContractionWindow));
    }
    if (row.locked < 0) return;
    LockedRow& locked = findings_.locks[static_cast<size_t>(row.locked)];
    ++locked.steps_after;
    locked.constants.contraction = std::max(locked.constants.contraction, constants.contraction);
    locked.constants.gain = std::max(locked.constants.gain, constants.gain);
  }

  void lock(Row& row, int32_t place, const RowStep& found) {
    row.locked = std::ssize(findings_.locks);
    LockedRow& locked = findings_.locks.emplace_back();
    locked.request = request_;
    locked.position = found.position;
    locked.step = found.step;
    locked.divergence = row.drift.kl;
    locked.uncertainty = row.uncertainty();
    std::copy_n(now_.row(place).begin(), config_.vocab_size, at_lock_.row(place).begin());
  }

  void end_request() {
    threads_.parallel_for(length_, [&](int64_t index, int) {
      const auto position = static_cast<int32_t>(index);
      const int64_t lock = rows_[static_cast<size_t>(position)].locked;
      if (lock < 0) return;
      LockedRow& locked = findings_.locks[static_cast<size_t>(lock)];
      const Posterior at_lock = posterior_of(at_lock_.row(position));
      locked.error = measure_step(now_.row(position), at_lock_.row(position), at_lock).drift.max_log_change;
      locked.likely_error = likely_change(now_.row(position), at_lock_.row(position));
    });
    ++request_;
  }

  const ModelConfig& config_;
  ThreadPool& threads_;
  int64_t most_bytes_;
  LogitTable now_, before_, at_lock_;  // by position
  std::vector<Row> rows_;              // by position
  int32_t length_ = 0;
  int32_t num_passes_ = 0;  // of the current request
  int32_t request_ = 0;
  LockFindings findings_;
};

}  // namespace

std::optional<double> TailConstants::bound(double divergence) const {
  if (contraction >= 1) return {};
  return gain / (1 - std::sqrt(contraction)) * std::sqrt(std::max(divergence, kMinDivergence));
}

double quantile(std::vector<float>& values, double share) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto count = static_cast<double>(values.size());
  const double rank = std::clamp(std::ceil(share * count), 1.0, count);
  const auto kth = values.begin() + static_cast<std::ptrdiff_t>(rank) - 1;
  std::nth_element(values.begin(), kth, values.end());
  return double{*kth};
}

LockFindings analyze_lock(const BackendModel& model, ThreadPool& threads, Requests requests,
                          const SureLock& settings, int64_t most_bytes, const AnalysisProgress& progress) {
  if (settings.delta) {
    throw InputError("--lock delta={}: analyze lock tries a given eps; expected eps=E", *settings.delta);
  }
  if (settings.unlock_every > 0) {
    throw InputError("--lock unlock-every={}: Theorem 1 is about locks that stay; expected no unlocking",
                     settings.unlock_every);
  }
  LockInstrument instrument(model, threads, settings, most_bytes);
  follow_all(model, requests, instrument, progress);
  return instrument.take_findings();
}

}  // namespace lacuna
