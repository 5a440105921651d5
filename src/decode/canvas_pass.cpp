#include "decode/canvas_pass.h"

#include <algorithm>

#include "base/error.h"

namespace lacuna {

CanvasPass::CanvasPass(const CanvasPassOptions& options, const Canvas& canvas, int32_t most_positions)
    : options_(options) {
  if (options_.lock) lock_.emplace(*options_.lock, canvas);
  num_cells_ = std::max(canvas.length(), most_positions);
  if (lock_ && options_.lock->unlock_every > 0) {
    num_cells_ += std::min(options_.lock->probes, canvas.length());
  }
}

void CanvasPass::prepare(const Canvas& canvas, const Block& block, std::span<const int32_t> drawn_positions,
                         const std::function<RngStream(int32_t position)>& noise,
                         std::span<const int32_t> rules) {
  CachedPass pass = choose_rows(options_.cache, canvas, block, drawn_positions);
  rows_ = std::move(pass.rows);
  const bool may_lock = lock_ && pass.nothing_is_stale;
  if (lock_) lock_->remove_locked(rows_);
  std::vector<int32_t> probes;
  if (may_lock) probes = lock_->rows_to_probe(canvas);

  plan_.clear();
  plan_.rules.push_back(options_.sampling);
  plan_.rules.insert(plan_.rules.end(), options_.other_sampling.begin(), options_.other_sampling.end());
  add_rows(canvas, probes);
  num_drawn_ = drawn_positions.size();
  for (size_t i = 0; i < drawn_positions.size(); ++i) {
    const int32_t position = drawn_positions[i];
    LogitRow logit = logit_row(plan_row(canvas.predictor(position)));
    logit.rule = rules.empty() ? 0 : rules[i];
    logit.noise = noise(position);
    plan_.logits.push_back(logit);
  }
  judged_.clear();
  probed_.clear();
  if (may_lock) judge(canvas, drawn_positions, probes);
}

int32_t CanvasPass::plan_row(int32_t position) const {
  const auto found = std::lower_bound(rows_.begin(), rows_.end(), position);
  expects(found != rows_.end() && *found == position, "a row that is drawn from is computed");
  return static_cast<int32_t>(found - rows_.begin());
}

LogitRow CanvasPass::logit_row(int32_t plan_row) const {
  LogitRow logit;
  logit.row = plan_row;
  if (options_.cfg_scale > 0) {
    logit.unconditional_row = plan_.num_rows() / 2 + plan_row;
    logit.guidance = options_.cfg_scale;
  }
  return logit;
}

void CanvasPass::add_rows(const Canvas& canvas, std::span<const int32_t> probes) {
  const IndexRange all{0, canvas.length()};
  for (int32_t sequence = 0; sequence < num_sequences(); ++sequence) {
    const auto input = [&](int32_t position) {
      return sequence == 1 && canvas.is_given(position) ? canvas.mask_id() : canvas[position];
    };
    const int32_t first = plan_.num_rows();
    for (const int32_t row : rows_) plan_.add_row(input(row), row, row);
    if (!rows_.empty()) {
      plan_.groups.push_back({sequence, {first, plan_.num_rows()}, {all}, OwnRows::kNone});
    }
    if (probes.empty()) continue;
    const int32_t first_probe = plan_.num_rows();
    int32_t scratch = canvas.length();
    for (const int32_t row : probes) plan_.add_row(input(row), row, scratch++);
    plan_.groups.push_back({sequence, {first_probe, plan_.num_rows()}, {all}, OwnRows::kNone});
  }
}

void CanvasPass::judge(const Canvas& canvas, std::span<const int32_t> drawn_positions,
                       std::span<const int32_t> probes) {
  // The certainty of a row is the largest probability of its raw posterior: where tokens are sampled and
  // measured just so, the sample says it.
  const SamplingRule posterior;
  const bool draws_say_it = options_.sampling == posterior;
  const auto rule = static_cast<int32_t>(draws_say_it ? 0 : plan_.rules.size());
  if (!draws_say_it) plan_.rules.push_back(posterior);
  const auto ask = [&](int32_t row, int32_t plan_row) {
    LogitRow logit = logit_row(plan_row);
    logit.rule = rule;
    plan_.logits.push_back(logit);
    return Judged{row, plan_.logits.size() - 1, plan_row};
  };
  for (const int32_t row : lock_->rows_to_judge(canvas, rows_, drawn_positions)) {
    const int32_t index = plan_row(row);
    const auto drawn =
        std::find_if(plan_.logits.begin(), plan_.logits.begin() + static_cast<std::ptrdiff_t>(num_drawn_),
                     [&](const LogitRow& logit) { return logit.row == index; });
    const auto place = static_cast<size_t>(drawn - plan_.logits.begin());
    judged_.push_back(draws_say_it && place < num_drawn_ ? Judged{row, place, index} : ask(row, index));
  }
  auto plan_row_of_probe = static_cast<int32_t>(rows_.size());
  for (const int32_t row : probes) probed_.push_back(ask(row, plan_row_of_probe++));
}

void CanvasPass::close_gate(const Canvas& canvas, std::span<const RowStatistics> drawn) {
  drift_probes_.clear();
  measured_.clear();
  num_gated_ = 0;
  if (judged_.empty() && probed_.empty()) return;

  const auto measure = [&](const Judged& judged) {
    const LogitRow logit = logit_row(judged.plan_row);
    drift_probes_.push_back({logit.row, logit.unconditional_row, logit.guidance, judged.row});
    measured_.push_back(judged.row);
  };
  std::vector<int32_t> rows;
  std::vector<double> certainties;
  for (const Judged& judged : judged_) {
    rows.push_back(judged.row);
    certainties.push_back(drawn[judged.logits].confidence);
  }
  const std::vector<int32_t> passed = lock_->close_gate(canvas, rows, certainties);
  for (const Judged& judged : judged_) {
    if (std::binary_search(passed.begin(), passed.end(), judged.row)) measure(judged);
  }
  num_gated_ = measured_.size();
  for (const Judged& probed : probed_) {
    if (lock_->is_unsure(drawn[probed.logits].confidence)) measure(probed);
  }
}

void CanvasPass::apply_drift(const Canvas& canvas, std::span<const Drift> drifts, StepReport& report) {
  if (!lock_) return;
  expects(drifts.size() == measured_.size(), "apply_drift: one drift for each probe");
  std::vector<LockTable::RowDrift> measured;
  for (size_t i = 0; i < drifts.size(); ++i) {
    measured.push_back({measured_[i], drifts[i].kl, drifts[i].max_log_change});
  }
  const std::span<const LockTable::RowDrift> all(measured);
  std::vector<int32_t> probed;
  for (const Judged& probe : probed_) probed.push_back(probe.row);
  report.locked = lock_->lock(canvas, all.first(num_gated_));
  report.unlocked = lock_->unlock(canvas, probed, all.subspan(num_gated_));
  lock_->count_pass(rows_);
  drift_probes_.clear();
}

PassWork CanvasPass::uncached_work(const Canvas& canvas) const {
  const double length = canvas.length();
  const double sequences = num_sequences();
  PassWork work;
  work.rows = num_sequences() * canvas.length();
  work.pairs = sequences * length * length;
  work.cells = sequences * length;
  work.logit_rows = sequences * static_cast<double>(num_drawn_);
  return work;
}

}  // namespace lacuna
