#include "decode/row_lock.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace lacuna {

RowLock::RowLock(const SureLock& settings, const Canvas& canvas, int32_t first_cell)
    : table_(settings, canvas), length_(canvas.length()), first_cell_(first_cell) {}

void RowLock::restart(const Canvas& canvas, int32_t first_cell) {
  expects(canvas.length() == length_, "restart: a canvas of the same length");
  table_.restart();
  first_cell_ = first_cell;
  rows_.clear();
  judged_.clear();
  probed_.clear();
  drift_probes_.clear();
  measured_.clear();
}

int32_t RowLock::num_scratch_cells() const {
  const SureLock& settings = table_.settings();
  return settings.unlock_every > 0 ? std::min(settings.probes, length_) : 0;
}

void RowLock::watch(const Canvas& canvas, PassRows pass, bool may_lock,
                    std::span<const int32_t> sampled_positions,
                    const std::function<LogitRow(int32_t plan_row)>& logit_of, StepPlan& plan) {
  rows_ = std::move(pass.rows);
  judged_.clear();
  probed_.clear();
  if (!may_lock) return;
  // The certainty of a row is the largest probability of its raw posterior, which is the confidence of a
  // sample by the default rule.
  const SamplingRule posterior;
  const bool samples_say_it = plan.rules.front() == posterior;
  const auto rule = static_cast<int32_t>(samples_say_it ? 0 : plan.rules.size());
  if (!samples_say_it) plan.rules.push_back(posterior);
  const auto num_samples = static_cast<std::ptrdiff_t>(plan.logits.size());
  const auto ask = [&](int32_t row, int32_t plan_row) {
    Watched watched{row, plan.logits.size(), logit_of(plan_row)};
    watched.logit.rule = rule;
    plan.logits.push_back(watched.logit);
    return watched;
  };
  for (const int32_t row : table_.rows_to_judge(canvas, rows_, sampled_positions)) {
    const auto place = std::lower_bound(rows_.begin(), rows_.end(), row) - rows_.begin();
    const int32_t plan_row = pass.first_row + static_cast<int32_t>(place);
    const auto samples_end = plan.logits.begin() + num_samples;
    const auto sample = std::find_if(plan.logits.begin(), samples_end,
                                     [&](const LogitRow& logit) { return logit.row == plan_row; });
    if (samples_say_it && sample != samples_end) {
      judged_.push_back({row, static_cast<size_t>(sample - plan.logits.begin()), logit_of(plan_row)});
    } else {
      judged_.push_back(ask(row, plan_row));
    }
  }
  int32_t plan_row = pass.first_row + static_cast<int32_t>(rows_.size());
  for (const int32_t row : pass.probes) probed_.push_back(ask(row, plan_row++));
}

void RowLock::close_gate(const Canvas& canvas, std::span<const RowStatistics> samples) {
  drift_probes_.clear();
  measured_.clear();
  num_gated_ = 0;
  if (judged_.empty() && probed_.empty()) return;

  const auto measure = [&](const Watched& watched) {
    const LogitRow& logit = watched.logit;
    drift_probes_.push_back({logit.row, logit.unconditional_row, logit.guidance, first_cell_ + watched.row});
    measured_.push_back(watched.row);
  };
  std::vector<int32_t> rows;
  std::vector<double> certainties;
  for (const Watched& judged : judged_) {
    rows.push_back(judged.row);
    certainties.push_back(samples[judged.sample].confidence);
  }
  const std::vector<int32_t> passed = table_.close_gate(canvas, rows, certainties);
  for (const Watched& judged : judged_) {
    if (std::binary_search(passed.begin(), passed.end(), judged.row)) measure(judged);
  }
  num_gated_ = measured_.size();
  for (const Watched& probed : probed_) {
    if (table_.is_unsure(samples[probed.sample].confidence)) measure(probed);
  }
}

void RowLock::apply_drift(const Canvas& canvas, std::span<const Drift> drifts, StepReport& report) {
  expects(drifts.size() == measured_.size(), "apply_drift: one drift for each probe");
  std::vector<LockTable::RowDrift> measured;
  for (size_t i = 0; i < drifts.size(); ++i) {
    measured.push_back({measured_[i], drifts[i].kl, drifts[i].max_log_change});
  }
  const std::span<const LockTable::RowDrift> all(measured);
  std::vector<int32_t> probed;
  for (const Watched& probe : probed_) probed.push_back(probe.row);
  report.locked = positions(table_.lock(canvas, all.first(num_gated_)));
  report.unlocked = positions(table_.unlock(canvas, probed, all.subspan(num_gated_)));
  table_.count_pass(rows_);
  drift_probes_.clear();
}

std::vector<int32_t> RowLock::positions(std::vector<int32_t> rows) const {
  for (int32_t& row : rows) row += first_cell_;
  return rows;
}

}  // namespace lacuna
