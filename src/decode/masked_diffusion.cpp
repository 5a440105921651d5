#include "decode/masked_diffusion.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace lacuna {

MaskedDiffusionDecoder::MaskedDiffusionDecoder(MaskedDiffusion options, std::vector<TokenId> prompt,
                                               std::span<const TokenId> answer)
    : options_(std::move(options)),
      canvas_(std::move(prompt), options_.gen_length, options_.mask_id, options_.shifted_logits, answer),
      pass_(options_.pass, canvas_) {
  const CountRule& count = options_.unmask.count;
  if (const auto* klass = std::get_if<Klass>(&count)) calm_.emplace(*klass, canvas_.length());
  if (const auto* wino = std::get_if<Wino>(&count)) verdicts_.emplace(*wino);
  if (const auto* saber = std::get_if<Saber>(&count)) trace_.emplace(*saber, canvas_.length());
  if (const auto* credit = std::get_if<TraceCredit>(&count)) credits_.emplace(*credit, canvas_.length());
  if (const auto* slow_fast = std::get_if<SlowFast>(&count)) cycle_.emplace(*slow_fast);
  if (const auto* sliding = std::get_if<SlidingBlock>(&count)) sliding_.emplace(*sliding);
  if (const auto* several = std::get_if<MultiBlock>(&count)) {
    begun_.emplace(*several, options_.block_length);
    options_.block_length = options_.gen_length;
  }
  if (const auto* prophet = std::get_if<Prophet>(&count)) {
    const int32_t begin = canvas_.prompt_length() + prophet->answer.value_or(0);
    const int32_t length = prophet->answer ? prophet->length : options_.gen_length;
    for (int32_t position = begin; position < std::min(begin + length, canvas_.length()); ++position)
      compared_.push_back(position);
  }
  if (const auto* d2 = std::get_if<D2Cache>(&options_.pass.cache)) {
    const ConfidenceMeasure measure = options_.pass.sampling.measure;
    rollout_.emplace(*d2, measure == ConfidenceMeasure::kNegativeEntropy, canvas_);
  }
  start_block(0);
  find_next_step();
}

StopReason MaskedDiffusionDecoder::stop_reason() const {
  return canvas_.answer_end(options_.end_ids) < canvas_.length() ? StopReason::kEndToken
                                                                 : StopReason::kLength;
}

std::vector<int32_t> MaskedDiffusionDecoder::sampled_positions() const {
  std::vector<int32_t> positions = drawn_positions_;
  for (int32_t& position : positions) {
    if (!canvas_.is_masked(position)) position = -1;
  }
  return positions;
}

int32_t MaskedDiffusionDecoder::num_final() const {
  const int32_t written = canvas_.num_final();
  if (done_ || open_positions_.empty()) return written;
  return std::clamp(open_positions_.front() - canvas_.prompt_length(), 0, written);
}

void MaskedDiffusionDecoder::start_block(int32_t index) {
  block_.index = index;
  block_.begin = index == 0 ? canvas_.prompt_length() : block_.end;
  block_.end = std::min(block_.begin + options_.block_length, canvas_.length());
  block_.pass = 0;
  progress_ = {};
  progress_.num_steps = options_.steps / num_blocks();
  progress_.masked_at_start = canvas_.count_masked(block_.begin, block_.end);
  if (options_.unmask.traits().remasks) {
    std::vector<int32_t> open = canvas_.masked_positions(0, block_.end);
    if (trace_) {  // tokens of earlier blocks may be remasked
      trace_->open(open, index == 0);
      open_positions_.insert(open_positions_.end(), open.begin(), open.end());
    } else {
      open_positions_ = std::move(open);
    }
  }
  if (calm_) calm_->start_block();
  if (verdicts_) verdicts_->start_block();
  if (credits_) credits_->start_block();
  if (cycle_) cycle_->start_block(block_);
  if (sliding_) sliding_->start_block(canvas_, block_);
  if (begun_) begun_->start(canvas_);
  written_masks_.clear();
  // The schedule counts the masks of the prompt, too, which its steps may write.
  if (options_.unmask.traits().writes_masks) progress_.masked_at_start = canvas_.count_masked(0, block_.end);
}

void MaskedDiffusionDecoder::finish_block() {
  const bool leaves_the_rest = options_.eos_exit && canvas_.answer_is_final(options_.end_ids);
  finished_steps_ += options_.unmask.traits().runs_until_done ? progress_.step : progress_.num_steps;
  if (leaves_the_rest || block_.end == canvas_.length()) {
    done_ = true;
  } else {
    start_block(block_.index + 1);
  }
}

int32_t MaskedDiffusionDecoder::open_end() const {
  if (cycle_) return cycle_->end();
  if (begun_) return begun_->end();
  const bool is_adaptive = std::holds_alternative<AdaptiveBlock>(options_.unmask.count);
  // A block whose usual length is written already ends there without a pass.
  if (is_adaptive && block_.pass == 0 && canvas_.count_masked(0, block_.end) > 0)
    return std::max(block_.end, delimiter_window().end);
  return sliding_ ? sliding_->end(canvas_) : block_.end;
}

IndexRange MaskedDiffusionDecoder::delimiter_window() const {
  const int32_t length = options_.gen_length / AdaptiveBlock::kWindowShare;
  return {block_.begin, std::min(block_.begin + length, canvas_.length())};
}

std::vector<int32_t> MaskedDiffusionDecoder::candidate_positions(int32_t end) const {
  if (options_.unmask.traits().remasks) {
    std::vector<int32_t> masked = canvas_.masked_positions(0, block_.end);
    return masked.empty() || !options_.unmask.traits().predicts_written ? masked : open_positions_;
  }
  // Quotas may also fill what earlier blocks or the prompt left masked, as the published samplers do;
  // parallel rules keep to the block.
  const bool keeps_to_block = options_.unmask.traits().runs_until_done && block_.index > 0;
  std::vector<int32_t> positions = canvas_.masked_positions(keeps_to_block ? block_.begin : 0, end);
  std::erase_if(positions, [&](int32_t position) {
    return std::binary_search(written_masks_.begin(), written_masks_.end(), position);
  });
  return positions;
}

std::vector<int32_t> MaskedDiffusionDecoder::predicted_masks(size_t num_candidates) {
  const bool is_counted = !options_.unmask.traits().runs_until_done;
  const int32_t least = is_counted ? fixed_count(options_.unmask.count, progress_) : 1;
  return rollout_->choose(canvas_, block_, candidate_positions(canvas_.length()), num_candidates, least);
}

RngStream MaskedDiffusionDecoder::step_noise(uint64_t purpose) const {
  return RngStream(options_.seed, purpose, block_.index, progress_.step);
}

double MaskedDiffusionDecoder::masked_share() const {
  if (progress_.step == 0) return 1;
  int32_t seen = 0, masked = 0;
  for (const IndexRange& part : pass_.visible(canvas_, block_)) {
    const int32_t begin = std::max(part.begin, block_.begin);
    seen += part.end - begin;
    masked += canvas_.count_masked(begin, part.end);
  }
  return static_cast<double>(masked) / seen;
}

void MaskedDiffusionDecoder::find_next_step() {
  is_planned_ = false;
  if (begun_) begun_->skip_written(canvas_);
  for (; !done_; finish_block()) {
    for (; options_.unmask.traits().runs_until_done || progress_.step < progress_.num_steps;
         ++progress_.step) {
      drawn_positions_ = candidate_positions(open_end());
      progress_.masked_now = static_cast<int32_t>(drawn_positions_.size());
      if (std::holds_alternative<DecayingThreshold>(options_.unmask.count))
        progress_.masked_share = masked_share();
      if (drawn_positions_.empty()) break;
      if (options_.unmask.ignores_logits()) {
        std::vector<Commit> blind;
        for (const int32_t position : drawn_positions_) blind.push_back({position, 0, 0});
        drawn_positions_.clear();
        for (const Commit& chosen : choose(options_.unmask, blind, progress_, step_noise(kOrderNoise))) {
          drawn_positions_.push_back(chosen.position);
        }
      } else if (!options_.unmask.traits().runs_until_done &&
                 fixed_count(options_.unmask.count, progress_) == 0) {
        continue;
      }
      if (options_.unmask.traits().exits_early)
        drawn_positions_ = canvas_.masked_positions(0, canvas_.length());
      if (rollout_) drawn_positions_ = predicted_masks(drawn_positions_.size());
      if (!drawn_positions_.empty()) return;
    }
  }
}

std::vector<int32_t> MaskedDiffusionDecoder::verified_positions() const {
  std::vector<int32_t> verified;
  if (!options_.unmask.traits().verifies) return verified;
  for (const int32_t position : open_positions_) {
    if (position >= block_.begin && !canvas_.is_masked(position)) verified.push_back(position);
  }
  return verified;
}

const StepPlan& MaskedDiffusionDecoder::plan() {
  expects(!done_, "plan: the request is not done");
  if (!is_planned_) {
    verified_ = verified_positions();
    const auto noise = [&](int32_t position) {
      return RngStream(options_.seed, kTokenNoise, block_.index, progress_.step, position);
    };
    std::vector<std::vector<TokenId>> listed;
    if (credits_) {
      for (const int32_t position : drawn_positions_) listed.push_back(credits_->credited(position));
    }
    PassRequests questions{.verified = verified_, .listed = listed, .compared = compared_};
    if (cycle_ && cycle_->is_cut()) questions.end = cycle_->end();
    if (rollout_) questions.computed = rollout_->rows();
    pass_.prepare(canvas_, block_, drawn_positions_, noise, questions);
    is_planned_ = true;
  }
  return pass_.plan();
}

std::vector<Commit> MaskedDiffusionDecoder::remask(std::span<const Commit> candidates,
                                                   std::span<const Commit> kept) {
  std::vector<Commit> written;
  size_t next = 0;  // index of the next commit that is kept
  for (const Commit& candidate : candidates) {
    if (next == kept.size() || kept[next].position != candidate.position) {
      canvas_.commit({candidate.position, canvas_.mask_id(), 0});
      continue;
    }
    if (canvas_.is_masked(candidate.position)) written.push_back(candidate);
    ++next;
  }
  return written;
}

StepReport MaskedDiffusionDecoder::apply(const PassResult& result) {
  expects(is_planned_ && result.samples.size() == pass_.plan().logits.size(),
          "apply: one draw for each that was planned");
  StepReport report;
  report.step = finished_steps_ + progress_.step;
  report.block = block_.index;
  report.kind = "denoise";
  if (options_.unmask.traits().measures_drift && canvas_.num_passes() > 0) {
    probes_ = pass_.posterior_probes(canvas_, drawn_positions_);
    drawn_.assign(result.samples.begin(), result.samples.end());
  } else {
    finish_step(result.samples, {}, report, result.rollout);
  }
  return report;
}

void MaskedDiffusionDecoder::apply_follow_up(const FollowUpResult& result, StepReport& report) {
  if (probes_.empty()) {
    pass_.apply_drift(canvas_, result.drifts, report);
    return;
  }
  probes_.clear();
  finish_step(drawn_, result.drifts, report);
  if (pass_.drift_probes().empty()) pass_.apply_drift(canvas_, {}, report);
}

std::vector<Commit> MaskedDiffusionDecoder::choose_commits(std::span<const Commit> candidates,
                                                           std::span<const RowStatistics> drawn,
                                                           std::span<const Drift> drifts) {
  StepHistory history;
  std::vector<Commit> masked(candidates.begin(), candidates.end());
  if (credits_) masked = credits_->with_credit(candidates, drawn.first(candidates.size()));
  if (const auto* prophet = std::get_if<Prophet>(&options_.unmask.count)) {
    const double step = finished_steps_ + progress_.step + 1;
    const auto leads = drawn.subspan(candidates.size(), compared_.size());
    if (mean_lead(leads) >= lead_to_exit(*prophet, step / options_.steps)) return masked;
    std::erase_if(masked, [&](const Commit& each) { return each.position >= block_.end; });
  }
  const auto* adaptive = std::get_if<AdaptiveBlock>(&options_.unmask.count);
  if (adaptive != nullptr && block_.pass == 0) {
    block_.end = delimited_end(*adaptive, options_.delimiters, candidates, delimiter_window(), block_.end);
    std::erase_if(masked, [&](const Commit& each) { return each.position >= block_.end; });
  }
  if (begun_) {
    history.first_end = begun_->first_end(canvas_);
    history.takes_best = !options_.shifted_logits;
  }
  if (cycle_) {
    history.is_exploring = cycle_->is_exploring();
    cycle_->see(candidates);
  }
  if (calm_) history.is_stable = calm_->count(candidates, drifts);
  if (trace_) {
    trace_->see(candidates);
    history.written_confidence = trace_->mean_written();
    std::erase_if(masked, [&](const Commit& each) { return !canvas_.is_masked(each.position); });
  }
  return choose(options_.unmask, masked, progress_, step_noise(kOrderNoise), drawn.first(candidates.size()),
                history);
}

std::vector<int32_t> MaskedDiffusionDecoder::revoked_positions(size_t num_committed,
                                                               std::span<const RowStatistics> verdicts) {
  if (verdicts_) {
    std::vector<double> probabilities;
    for (const RowStatistics& verdict : verdicts) probabilities.push_back(verdict.scored_probability);
    return verdicts_->revoked(verified_, probabilities, num_committed);
  }
  if (trace_ && canvas_.count_masked(0, block_.end) > 0) return trace_->revoked(canvas_, num_committed);
  return {};
}

void MaskedDiffusionDecoder::end_answer(std::vector<Commit>& committed) {
  const int32_t end = canvas_.answer_end(options_.end_ids);
  if (end == canvas_.length()) return;
  const TokenId token = canvas_[end];
  std::erase_if(committed, [&](const Commit& each) { return each.position > end && each.token != token; });
  for (int32_t position = end + 1; position < canvas_.length(); ++position) {
    if (canvas_[position] == token) continue;
    canvas_.commit({position, token, 1.0});
    committed.push_back({position, token, 1.0});
  }
  std::ranges::sort(committed, {}, &Commit::position);
}

void MaskedDiffusionDecoder::finish_step(std::span<const RowStatistics> drawn, std::span<const Drift> drifts,
                                         StepReport& report, std::span<const double> rollout) {
  std::vector<Commit> candidates;
  for (size_t i = 0; i < drawn_positions_.size(); ++i) {
    candidates.push_back({drawn_positions_[i], drawn[i].token, drawn[i].confidence});
  }
  const size_t num_drawn = candidates.size();
  if (rollout_) {
    rollout_->see(candidates, rollout);
    while (candidates.back().position >= open_end()) candidates.pop_back();
  }
  std::vector<Commit> chosen =
      options_.unmask.ignores_logits() ? candidates : choose_commits(candidates, drawn, drifts);
  pass_.count_rows(canvas_);
  const bool masks_the_rest = std::holds_alternative<Remasking>(options_.unmask.count);
  report.committed = masks_the_rest ? remask(candidates, chosen) : std::move(chosen);
  for (const Commit& commit : report.committed) {
    canvas_.commit(commit);
    if (options_.unmask.traits().writes_masks && commit.token == canvas_.mask_id())
      written_masks_.push_back(commit.position);
  }
  std::sort(written_masks_.begin(), written_masks_.end());
  if (begun_) {
    if (options_.eos_exit) end_answer(report.committed);
    begun_->finish_pass(canvas_);
  }
  if (trace_) trace_->write(report.committed);
  const auto verdicts = drawn.subspan(num_drawn, verified_.size());
  for (const int32_t position : revoked_positions(report.committed.size(), verdicts)) {
    canvas_.commit({position, canvas_.mask_id(), 0});
  }
  pass_.close_gate(canvas_, drawn);

  ++progress_.step;
  ++block_.pass;
  if (cycle_) cycle_->finish_pass(canvas_);
  find_next_step();
}

}  // namespace lacuna
