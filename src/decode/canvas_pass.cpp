#include "decode/canvas_pass.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>

#include "base/error.h"

namespace lacuna {
namespace {

constexpr uint64_t kSuffixNoise = 21;  // noise stream by purpose, besides kTokenNoise

}  // namespace

CanvasPass::CanvasPass(const CanvasPassOptions& options, const Canvas& canvas, int32_t most_positions)
    : options_(options), kept_layers_(lacuna::kept_layers(options.cache, canvas)) {
  if (options_.lock) lock_.emplace(*options_.lock, canvas);
  num_cells_ = std::max(canvas.length(), most_positions);
  if (lock_) num_cells_ += lock_->num_scratch_cells();
  num_cells_ += options_.verified_block;
  if (options_.prompt_block == 0) return;
  // Rows that predict positions to fill are computed in every pass that draws from them.
  while (once_end_ < canvas.prompt_length() && !canvas.is_masked(once_end_)) ++once_end_;
  once_end_ = canvas.predictor(once_end_) / options_.prompt_block * options_.prompt_block;
}

void CanvasPass::count_rows(Canvas& canvas) {
  if (canvas.num_passes() > 0 || once_end_ == 0) return canvas.count_pass(rows_);
  // Positions whose K/V come from another request count as computed, so that the text is the same.
  std::vector<int32_t> rows = positions_in(0, num_kept_);
  rows.insert(rows.end(), rows_.begin(), rows_.end());
  canvas.count_pass(rows);
  num_kept_ = once_end_;
}

void CanvasPass::prepare(const Canvas& canvas, const Block& block, std::span<const int32_t> drawn_positions,
                         const std::function<RngStream(int32_t position)>& noise,
                         const PassRequests& questions) {
  std::vector<int32_t> wanted;
  std::set_union(drawn_positions.begin(), drawn_positions.end(), questions.compared.begin(),
                 questions.compared.end(), std::back_inserter(wanted));
  CachedPass pass = choose_rows(options_.cache, canvas, block, wanted);
  if (!questions.computed.empty()) pass.rows.assign(questions.computed.begin(), questions.computed.end());
  rows_ = std::move(pass.rows);
  rows_.erase(rows_.begin(), std::lower_bound(rows_.begin(), rows_.end(), num_kept_));
  sparse_ = pass.sparse;
  reuse_ = pass.reuse;
  live_ = pass.live;
  std::vector<IndexRange> seen = visible(canvas, block);
  if (questions.end) seen = {{0, *questions.end}};
  if (options_.suffix || questions.end)
    std::erase_if(rows_, [&](int32_t row) {
      return std::none_of(seen.begin(), seen.end(),
                          [&](const IndexRange& part) { return row >= part.begin && row < part.end; });
    });
  const bool may_lock = lock_ && pass.nothing_is_stale;
  if (lock_) lock_->remove_locked(rows_);
  std::vector<int32_t> probes;
  if (may_lock) probes = lock_->rows_to_probe(canvas);

  plan_.clear();
  plan_.rules.push_back(options_.sampling);
  plan_.rules.insert(plan_.rules.end(), options_.other_sampling.begin(), options_.other_sampling.end());
  add_rows(canvas, block, seen, probes, questions.verified);
  num_drawn_ = drawn_positions.size();
  for (size_t i = 0; i < drawn_positions.size(); ++i) {
    const int32_t position = drawn_positions[i];
    LogitRow logit = logit_row(plan_row(canvas.predictor(position)));
    logit.rule = questions.rules.empty() ? 0 : questions.rules[i];
    logit.noise = noise(position);
    if (!questions.listed.empty() && !questions.listed[i].empty()) {
      SamplingRule rule = plan_.rules[static_cast<size_t>(logit.rule)];
      rule.listed = questions.listed[i];
      logit.rule = static_cast<int32_t>(plan_.rules.size());
      plan_.rules.push_back(std::move(rule));
    }
    plan_.logits.push_back(logit);
  }
  const auto first_mask = static_cast<int32_t>(rows_.size());  // plan row of the first verifying mask
  for (const int32_t position : questions.verified) {
    LogitRow logit = logit_row(first_mask + position - block.begin);
    logit.scored = canvas[position];
    plan_.logits.push_back(logit);
  }
  for (const int32_t position : questions.compared) {
    LogitRow logit = logit_row(plan_row(canvas.predictor(position)));
    logit.num_likeliest = 2;
    plan_.logits.push_back(logit);
  }
  if (!lock_) return;
  const auto logit_of = [this](int32_t plan_row) { return logit_row(plan_row); };
  lock_->watch(canvas, {rows_, std::move(probes)}, may_lock, drawn_positions, logit_of, plan_);
}

std::vector<IndexRange> CanvasPass::visible(const Canvas& canvas, const Block& block) const {
  const int32_t length = canvas.length();
  const int64_t end = int64_t{block.end} + options_.suffix.value_or(length);
  if (options_.suffix_dropout) {
    std::vector<IndexRange> seen = {{0, block.end}};
    const RngStream noise(options_.seed, kSuffixNoise, block.index);
    const double step = options_.suffix_dropout->decay / std::max(*options_.suffix - 1, 1);
    for (int32_t position = block.end; position < std::min<int64_t>(end, length); ++position) {
      const double x = step * (position - block.end);
      const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
      if (noise.uniform(static_cast<uint64_t>(position)) >= options_.suffix_dropout->scale * density)
        continue;
      if (seen.back().end < position) seen.push_back({position, position});
      seen.back().end = position + 1;
    }
    return seen;
  }
  if (end + 1 >= length) return {{0, length}};
  return {{0, static_cast<int32_t>(end)}, {length - 1, length}};
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

void CanvasPass::add_verifying_masks(const Canvas& canvas, const Block& block,
                                     std::span<const int32_t> verified, int32_t sequence) {
  const int32_t shift = canvas.length() - block.begin;  // from a position to its mask's cell
  for (int32_t position = block.begin; position < block.end; ++position) {
    const int32_t row = plan_.num_rows();
    plan_.add_row(canvas.mask_id(), position, position + shift);
    RowGroup group{sequence, {row, row + 1}, {}, OwnRows::kNone};
    const IndexRange parts[] = {{0, position},
                                {position + 1, canvas.length()},
                                {canvas.length(), canvas.length() + block.end - block.begin}};
    for (const IndexRange& part : parts) {
      if (part.size() > 0) group.visible.push_back(part);
    }
    group.only_kv = !std::binary_search(verified.begin(), verified.end(), position);
    plan_.groups.push_back(std::move(group));
  }
}

void CanvasPass::add_rows(const Canvas& canvas, const Block& block, const std::vector<IndexRange>& seen,
                          std::span<const int32_t> probes, std::span<const int32_t> verified) {
  for (int32_t sequence = 0; sequence < num_sequences(); ++sequence) {
    const auto input = [&](int32_t position) {
      return sequence == 1 && canvas.is_given(position) ? canvas.mask_id() : canvas[position];
    };
    const int32_t first = plan_.num_rows();
    for (const int32_t row : rows_) plan_.add_row(input(row), row, row);
    add_groups(sequence, first, seen);
    if (!verified.empty()) add_verifying_masks(canvas, block, verified, sequence);
    if (probes.empty()) continue;
    const int32_t first_probe = plan_.num_rows();
    int32_t scratch = canvas.length();
    for (const int32_t row : probes) plan_.add_row(input(row), row, scratch++);
    plan_.groups.push_back({sequence, {first_probe, plan_.num_rows()}, seen, OwnRows::kNone});
  }
}

void CanvasPass::add_groups(int32_t sequence, int32_t first, const std::vector<IndexRange>& seen) {
  const auto add = [&](int32_t begin, int32_t end, const SparseAttention& sparse, LayerReuse reuse) {
    if (begin == end) return;
    RowGroup group{sequence, {begin, end}, seen, OwnRows::kNone};
    group.sparse = sparse;
    group.reuse = reuse;
    group.wants_rollout = sequence == 0 && std::holds_alternative<D2Cache>(options_.cache);
    plan_.groups.push_back(std::move(group));
  };
  const int32_t end = plan_.num_rows();
  const auto row_of = [&](int32_t position) {
    const auto found = std::lower_bound(rows_.begin(), rows_.end(), position);
    return first + static_cast<int32_t>(found - rows_.begin());
  };
  for (int32_t begin = num_kept_; begin < once_end_; begin += options_.prompt_block) {
    const int32_t behind = begin + options_.prompt_block;
    RowGroup group{sequence, {row_of(begin), row_of(behind)}, {{0, behind}}, OwnRows::kNone};
    group.only_kv = true;
    plan_.groups.push_back(std::move(group));
  }
  const int32_t begin = row_of(once_end_);
  const bool is_alike = sparse_.choice == SparseAttention::Choice::kAll && !reuse_.keeps;
  if (is_alike) return add(begin, end, {}, {});
  const int32_t live = row_of(live_.begin), behind = row_of(live_.end);
  add(begin, live, {}, {});
  add(live, behind, sparse_, reuse_);
  add(behind, end, {}, {});
}

void CanvasPass::close_gate(const Canvas& canvas, std::span<const RowStatistics> drawn) {
  if (lock_) lock_->close_gate(canvas, drawn);
}

std::span<const DriftProbe> CanvasPass::drift_probes() const {
  return lock_ ? lock_->drift_probes() : std::span<const DriftProbe>();
}

std::vector<DriftProbe> CanvasPass::posterior_probes(const Canvas& canvas,
                                                     std::span<const int32_t> positions) const {
  std::vector<DriftProbe> probes;
  for (const int32_t position : positions) {
    const int32_t cell = canvas.predictor(position);
    const LogitRow logit = logit_row(plan_row(cell));
    probes.push_back({logit.row, logit.unconditional_row, logit.guidance, cell});
  }
  return probes;
}

void CanvasPass::apply_drift(const Canvas& canvas, std::span<const Drift> drifts, StepReport& report) {
  if (lock_) lock_->apply_drift(canvas, drifts, report);
}

PassWork CanvasPass::uncached_work(const Canvas& canvas) const {
  const double length = canvas.length();
  const double sequences = num_sequences();
  return {.rows = num_sequences() * canvas.length(),
          .pairs = sequences * length * length,
          .cells = sequences * length,
          .logit_rows = sequences * static_cast<double>(num_drawn_)};
}

}  // namespace lacuna
