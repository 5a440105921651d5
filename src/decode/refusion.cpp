// The state of an answer and what the results of passes change in it; refusion_plan.cpp has the plans.
#include "decode/refusion.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace lacuna {

RefusionDecoder::RefusionDecoder(Refusion options, std::vector<TokenId> prompt)
    : options_(std::move(options)),
      prompt_length_(static_cast<int32_t>(prompt.size())),
      canvas_(std::move(prompt)) {
  for (int32_t position = 0; position < prompt_length_; ++position) {
    pending_.push_back(position);
    clean_.push_back({position, canvas_[static_cast<size_t>(position)]});
  }
  canvas_.resize(canvas_.size() + static_cast<size_t>(options_.gen_length), options_.mask_id);
  next_iteration();
}

ExactPrefix RefusionDecoder::exact_prefix() const {
  // The answer's cells hold slots in the order of writing, so that other requests cannot share them.
  const int32_t kept = pending_.empty() ? prompt_length_ : std::min(pending_.front(), prompt_length_);
  return {1, prompt_length_, prompt_length_, kept};
}

StepReport RefusionDecoder::apply(const PassResult& result) {
  const std::span<const RowStatistics> drawn = result.samples;
  expects(is_planned_ && drawn.size() == plan_.logits.size(), "apply: as many draws as the plan asked for");
  is_planned_ = false;
  pending_.clear();
  further_.clear();
  StepReport report;
  report.step = step_++;
  report.block = block_;
  report.iteration = iteration_;
  report.round = round_;
  if (owes_recomputation_) {
    owes_recomputation_ = false;
    report.kind = "recompute";
    return report;
  }
  switch (phase_) {
    case Phase::kPlan:
      report.kind = "plan";
      select_slots(drawn, report);
      break;
    case Phase::kVerify:
      report.kind = "verify";
      take_verified(drawn, report);
      break;
    case Phase::kPredict:
      report.kind = "predict";
      take_predicted(drawn, report);
      break;
    case Phase::kCheck:
      report.kind = "check";
      take_checked(drawn, report);
      break;
    case Phase::kFill:
      report.kind = "fill";
      take_filled(drawn, report);
      break;
  }
  std::ranges::sort(report.committed, {}, &Commit::position);
  return report;
}

void RefusionDecoder::select_slots(std::span<const RowStatistics> drawn, StepReport& report) {
  std::vector<size_t> first_draws;  // index of each slot's first sample
  size_t next = 0;
  for (const IndexRange& slot : open_) {
    first_draws.push_back(next);
    next += is_lacuna() ? 1 : static_cast<size_t>(slot.size());
  }
  const auto score = [&](size_t slot) { return drawn[first_draws[slot]].confidence; };
  std::vector<size_t> selected;
  size_t best = 0;
  for (size_t slot = 0; slot < open_.size(); ++slot) {
    if (score(slot) > options_.slot_threshold) selected.push_back(slot);
    if (score(slot) > score(best)) best = slot;
  }
  if (selected.empty()) selected.push_back(best);

  working_.clear();
  for (const size_t index : selected) {
    Slot& slot = working_.emplace_back();
    slot.begin = open_[index].begin;
    slot.open_index = index;
    slot.tokens.resize(static_cast<size_t>(open_[index].size()), options_.mask_id);
    slot.probabilities.resize(slot.tokens.size());
    const size_t count = is_lacuna() ? 1 : slot.tokens.size();
    if (is_lacuna()) slot.known = 1;  // no row to its left judges a slot's first token
    for (size_t offset = 0; offset < count; ++offset) {
      const RowStatistics& draft = drawn[first_draws[index] + offset];
      slot.tokens[offset] = draft.token;
      slot.probabilities[offset] = draft.confidence;
    }
  }
  for (size_t slot = 0; slot < open_.size(); ++slot) {
    const bool is_selected = std::find(selected.begin(), selected.end(), slot) != selected.end();
    report.slots.push_back(
        {open_[slot].begin, is_selected, 0, {drawn[first_draws[slot]].token}, {score(slot)}});
  }
  if (is_lacuna()) ask_for_drafts();
  if (further_.empty()) begin_verification(report);
}

/// Requests logits for the other rows of the selected slots, which the plan computed without logits.
void RefusionDecoder::ask_for_drafts() {
  for (const Slot& slot : working_) {
    const int32_t first_row = plan_.logits[slot.open_index].row;
    for (int32_t offset = 1; offset < slot.size(); ++offset) {
      further_.push_back(draft(first_row + offset, slot.begin + offset, kPick));
    }
  }
}

void RefusionDecoder::apply_follow_up(const FollowUpResult& result, StepReport& report) {
  const std::span<const RowStatistics> drawn = result.samples;
  if (further_.empty()) return;
  size_t next = 0;
  for (Slot& slot : working_) {
    for (size_t offset = 1; offset < slot.tokens.size(); ++offset) {
      slot.tokens[offset] = drawn[next].token;
      slot.probabilities[offset] = drawn[next++].confidence;
    }
  }
  further_.clear();
  begin_verification(report);
}

void RefusionDecoder::begin_verification(StepReport& report) {
  if (is_lacuna()) {
    const auto has_end = [&](const Slot& slot) { return first_end(slot.tokens) < slot.size(); };
    const auto end = std::find_if(working_.begin(), working_.end(), has_end);
    if (end != working_.end()) drop_working_after(static_cast<size_t>(end - working_.begin()));
  }
  for (SlotReport& slot : report.slots) {
    slot.selected = slot.selected && slot.position <= working_.back().begin;
  }
  selected_.clear();
  for (Slot& slot : working_) {
    selected_.push_back(slot.begin);
    slot.known = 1;  // no row to its left judges a slot's first token
  }
  place_working();
  phase_ = Phase::kVerify;
}

/// Gives the working slots scratch cells, one slot after the other. K/V that a slot kept in other cells are
/// lost.
void RefusionDecoder::place_working() {
  int32_t cell = num_clean();
  for (Slot& slot : working_) {
    if (slot.base != cell) slot.kept = 0;
    slot.base = cell;
    cell += slot.size();
  }
}

/// Extends the accepted tokens from offset `first` on. `judged` are the samples for the offsets from there to
/// the slot's end. Returns the sample that refused a draft, if one did.
const RowStatistics* RefusionDecoder::extend(Slot& slot, int32_t first,
                                             std::span<const RowStatistics> judged) const {
  slot.known = first;
  for (const RowStatistics& draw : judged) {
    const auto offset = static_cast<size_t>(slot.known);
    if (!accepts(draw, slot.tokens[offset])) return &draw;
    slot.probabilities[offset] = draw.scored_probability;
    ++slot.known;
  }
  return nullptr;
}

void RefusionDecoder::take_verified(std::span<const RowStatistics> drawn, StepReport& report) {
  const RowStatistics* refusal = nullptr;  // row that rejected a draft of the first incomplete slot
  size_t whole = 0;
  for (size_t i = 0; i < working_.size(); ++i) {
    Slot& slot = working_[i];
    const auto judged = drawn.first(static_cast<size_t>(end_of(slot) - slot.known));
    drawn = drawn.subspan(judged.size());
    const bool first_stands =
        options_.rules != RefusionRules::kPaper || slot.probabilities[0] > options_.token_threshold;
    if (!first_stands) slot.known = 0;
    const RowStatistics* refused = first_stands ? extend(slot, slot.known, judged) : nullptr;
    slot.kept = slot.known;
    if (i > whole) continue;
    refusal = refused;
    if (is_done(slot)) ++whole;
  }
  describe(report);
  if (is_lacuna()) return go_on_after_verification(whole, refusal, report);
  if (commit_up_to_end(whole, report)) return;
  if (whole > 0) {
    commit(whole, false, report);
    return next_iteration();
  }
  for (Slot& slot : working_) {
    slot.kept = 0;  // slots are independent from here: drop K/V that depend on earlier slots
    if (options_.rules == RefusionRules::kPaper) slot.known = 0;
  }
  phase_ = is_released() ? Phase::kPredict : Phase::kCheck;
}

/// Paper and released: an end token in the verified prefix ends the answer, even within a slot.
bool RefusionDecoder::commit_up_to_end(size_t whole, StepReport& report) {
  for (size_t i = 0; i < std::min(whole + 1, working_.size()); ++i) {
    Slot& slot = working_[i];
    const int32_t end = first_end(std::span(slot.tokens).first(static_cast<size_t>(slot.known)));
    if (end == slot.known) continue;
    slot.known = end + 1;
    if (is_released()) {
      open_.resize(slot.open_index + 1);
      is_last_block_ = true;
    }
    commit(i + 1, false, report);
    next_iteration();
    return true;
  }
  return false;
}

void RefusionDecoder::go_on_after_verification(size_t whole, const RowStatistics* refusal,
                                               StepReport& report) {
  for (size_t i = 0; i < whole && i < working_.size(); ++i) {
    revoke(working_[i]);
    drop_behind_end(i);
  }
  commit(std::min(whole, working_.size()), false, report);
  if (stops_at_text()) return finish(StopReason::kStopText);
  if (working_.empty()) return next_iteration();
  for (size_t i = 1; i < working_.size(); ++i) {  // their K/V depend on the rejected draft
    working_[i].known = 1;
    working_[i].kept = 0;
  }
  expects(refusal != nullptr, "a slot that is not whole has a draft that fell");
  replace(working_.front(), *refusal);
  place_working();
  ++round_;
  for (size_t i = 0; i < working_.size(); ++i) {
    if (is_done(working_[i])) finish_slot(i);
  }
  fill_or_commit(report);
}

/// Replaces a rejected draft by the judge's own token.
void RefusionDecoder::replace(Slot& slot, const RowStatistics& drawn) {
  const auto offset = static_cast<size_t>(slot.known);
  slot.tokens[offset] = drawn.token;
  slot.probabilities[offset] = drawn.confidence;
  ++slot.known;
}

void RefusionDecoder::take_predicted(std::span<const RowStatistics> drawn, StepReport& report) {
  size_t next = 0;
  for (Slot& slot : working_) {
    if (!takes_part(slot)) continue;
    for (auto offset = static_cast<size_t>(slot.known); offset < slot.tokens.size(); ++offset) {
      slot.tokens[offset] = drawn[next].token;
      slot.probabilities[offset] = drawn[next++].confidence;
    }
  }
  describe(report);
  phase_ = Phase::kCheck;
}

void RefusionDecoder::take_checked(std::span<const RowStatistics> drawn, StepReport& report) {
  const bool is_paper = options_.rules == RefusionRules::kPaper;
  for (Slot& slot : working_) {
    if (is_done(slot)) continue;
    const int32_t first = first_judged(slot);
    const auto judged = drawn.first(static_cast<size_t>(slot.size() - first));
    drawn = drawn.subspan(judged.size());
    const bool first_stands = !is_paper || round_ > 0 || slot.probabilities[0] > options_.token_threshold;
    if (first_stands) extend(slot, first, judged);
  }
  for (size_t i = 0; i < working_.size(); ++i) {
    Slot& slot = working_[i];
    const int32_t end = first_end(std::span(slot.tokens).first(static_cast<size_t>(slot.known)));
    if (end == slot.known) continue;
    // The paper's slot ends here; the released code marks the rest as known, and cuts it off later.
    if (is_paper) slot.tokens.resize(static_cast<size_t>(end) + 1);
    slot.probabilities.resize(slot.tokens.size());
    slot.known = slot.size();
    end_slot_ = i;
    drop_working_after(i);
  }
  describe(report);
  ++round_;
  const bool all_done =
      std::all_of(working_.begin(), working_.end(), [&](const Slot& s) { return is_done(s); });
  int32_t slowest = working_.front().known;
  for (const Slot& slot : working_) slowest = std::min(slowest, slot.known);
  for (Slot& slot : working_) {
    // With advances_together, the slowest slot's last token is computed again, as in the released code.
    slot.kept = options_.advances_together && !all_done ? std::max(0, slowest - 1) : slot.known;
  }
  phase_ = Phase::kPredict;
  if (all_done) commit_completed(report);
}

void RefusionDecoder::take_filled(std::span<const RowStatistics> drawn, StepReport& report) {
  for (size_t i = 0; i < working_.size(); ++i) {
    Slot& slot = working_[i];
    if (!takes_part(slot)) continue;
    const auto judged = drawn.first(static_cast<size_t>(end_of(slot) - slot.known));
    drawn = drawn.subspan(judged.size());
    const RowStatistics* refusal = extend(slot, slot.known, judged);
    slot.kept = slot.known;
    if (refusal != nullptr) replace(slot, *refusal);
    if (is_done(slot)) finish_slot(i);
  }
  describe(report);
  ++round_;
  fill_or_commit(report);
}

/// Lacuna's completion: goes to the next fill pass or, once all slots are filled, to the commit.
void RefusionDecoder::fill_or_commit(StepReport& report) {
  phase_ = Phase::kFill;
  if (std::any_of(working_.begin(), working_.end(), [&](const Slot& slot) { return takes_part(slot); }))
    return;
  if (!options_.verifies_fills) return commit_completed(report);
  // The first slot has seen all text before it; the others are drafts for another verify pass.
  revoke(working_.front());
  commit(1, false, report);
  if (stops_at_text()) return finish(StopReason::kStopText);
  if (working_.empty()) return next_iteration();
  for (Slot& slot : working_) {
    slot.is_filled = true;
    slot.known = 1;
    slot.kept = 0;
  }
  place_working();
  phase_ = Phase::kVerify;
}

/// Finishes a slot whose tokens are all known; cuts unsure tokens if no later pass verifies it.
void RefusionDecoder::finish_slot(size_t index) {
  if (!options_.verifies_fills) revoke(working_[index]);
  drop_behind_end(index);
}

/// Drops the slots after one whose known tokens include an end token.
void RefusionDecoder::drop_behind_end(size_t index) {
  const Slot& slot = working_[index];
  const auto known = std::span(slot.tokens).first(static_cast<size_t>(slot.known));
  if (first_end(known) < slot.known) drop_working_after(index);
}

/// Cuts a slot before its first token less probable than `revoke`, except at offset 0, and remasks the rest.
void RefusionDecoder::revoke(Slot& slot) const {
  for (int32_t offset = 1; offset < slot.known; ++offset) {
    if (!(slot.probabilities[static_cast<size_t>(offset)] < options_.revoke)) continue;
    slot.known = offset;
    slot.kept = std::min(slot.kept, offset);
    slot.given_back = {slot.begin + offset, slot.begin + slot.size()};
    break;
  }
  slot.tokens.resize(static_cast<size_t>(slot.known));
  slot.probabilities.resize(slot.tokens.size());
}

// ---- Committing

/// Commits the known tokens of the first `count` working slots and removes these slots from working_.
void RefusionDecoder::commit(size_t count, bool by_completion, StepReport& report) {
  const bool recomputes = by_completion && options_.recomputes_kv;
  owes_recomputation_ = recomputes && options_.recomputes_apart && count > 0;
  for (const Slot& slot : std::span(working_).first(count)) {
    const auto is_slot = [&](const IndexRange& open) { return open.begin == slot.begin; };
    const auto open = std::find_if(open_.begin(), open_.end(), is_slot);
    expects(open != open_.end(), "commit: the slot is open");
    *open = slot.given_back;
    for (int32_t offset = 0; offset < slot.known; ++offset) {
      const int32_t cell = num_clean();
      const int32_t position = slot.begin + offset;
      const TokenId token = slot.tokens[static_cast<size_t>(offset)];
      const bool has_kv = offset < slot.kept && slot.base + offset == cell;
      if (!has_kv || recomputes) pending_.push_back(cell);
      clean_.push_back({position, token});
      report.committed.push_back({position, token, slot.probabilities[static_cast<size_t>(offset)]});
      if (position < static_cast<int32_t>(canvas_.size())) canvas_[static_cast<size_t>(position)] = token;
      if (is_end(token) && !is_released()) limit_to(position + 1);
    }
  }
  std::erase_if(open_, [](const IndexRange& open) { return open.size() == 0; });
  working_.erase(working_.begin(), working_.begin() + static_cast<std::ptrdiff_t>(count));
}

void RefusionDecoder::commit_completed(StepReport& report) {
  if (is_released()) return commit_released_completion(report);
  commit(working_.size(), true, report);
  next_iteration();
}

void RefusionDecoder::commit_released_completion(StepReport& report) {
  std::vector<int32_t> leaving = selected_;
  if (end_slot_) {
    // The released code uses the slot's index among the selected slots as its index in the block.
    for (size_t i = *end_slot_; i < open_.size(); ++i) leaving.push_back(open_[i].begin);
    is_last_block_ = true;
  }
  for (size_t i = 0; i < working_.size(); ++i) {
    Slot& slot = working_[i];
    const int32_t end = first_end(slot.tokens);
    if (end == slot.size()) continue;
    slot.known = end + 1;
    drop_working_after(i);
  }
  commit(working_.size(), true, report);
  std::erase_if(open_, [&](const IndexRange& open) {
    return std::find(leaving.begin(), leaving.end(), open.begin) != leaving.end();
  });
  next_iteration();
}

void RefusionDecoder::drop_working_after(size_t slot) {
  working_.erase(working_.begin() + static_cast<std::ptrdiff_t>(slot) + 1, working_.end());
}

/// Cuts the answer at `limit`.
void RefusionDecoder::limit_to(int32_t limit) {
  canvas_.resize(std::min(canvas_.size(), static_cast<size_t>(limit)));
  std::erase_if(open_, [&](const IndexRange& open) { return open.begin >= limit; });
}

void RefusionDecoder::next_iteration() {
  working_.clear();
  if (stops_at_text()) return finish(StopReason::kStopText);
  const auto limit = static_cast<int32_t>(canvas_.size());
  while (open_.empty()) {
    const int32_t begin = prompt_length_ + (block_ + 1) * options_.block_length;
    if (is_last_block_ || begin >= limit) {
      const auto answer = std::span(canvas_).subspan(static_cast<size_t>(prompt_length_));
      const bool has_end = first_end(answer) < static_cast<int32_t>(answer.size());
      return finish(has_end ? StopReason::kEndToken : StopReason::kLength);
    }
    ++block_;
    const int32_t end = std::min(begin + options_.block_length, limit);
    for (int32_t slot = begin; slot < end; slot += options_.slot_size) {
      open_.push_back({slot, std::min(slot + options_.slot_size, end)});
    }
  }
  ++iteration_;
  round_ = 0;
  end_slot_.reset();
  phase_ = Phase::kPlan;
}

void RefusionDecoder::finish(StopReason reason) {
  done_ = true;
  stop_reason_ = reason;
  if (!is_released()) return;
  // The released code returns the written tokens in order of position, without gaps.
  std::ranges::sort(clean_, {}, &CleanToken::position);
  const size_t length = std::min(canvas_.size(), clean_.size());
  canvas_.resize(length);
  for (size_t i = 0; i < length; ++i) canvas_[i] = clean_[i].token;
}

int32_t RefusionDecoder::num_final() const {
  const auto answer = canvas_.begin() + prompt_length_;
  const auto gap = done_ ? canvas_.end() : std::find(answer, canvas_.end(), options_.mask_id);
  return static_cast<int32_t>(gap - answer);
}

/// The committed token, or the accepted one of a slot in progress.
TokenId RefusionDecoder::held_token(int32_t position) const {
  const TokenId token = canvas_[static_cast<size_t>(position)];
  if (token != options_.mask_id) return token;
  for (const Slot& slot : working_) {
    const int32_t offset = position - slot.begin;
    if (offset >= 0 && offset < slot.known) return slot.tokens[static_cast<size_t>(offset)];
  }
  return -1;
}

IndexRange RefusionDecoder::block() const {
  const auto end = static_cast<int32_t>(canvas_.size());
  const int32_t begin = std::min(prompt_length_ + block_ * options_.block_length, end);
  return {begin, std::min(begin + options_.block_length, end)};
}

/// Whether the answer has a stop text before its first gap; cuts the answer there.
bool RefusionDecoder::stops_at_text() {
  if (!options_.find_stop) return false;
  const auto answer = std::span<const TokenId>(canvas_).subspan(static_cast<size_t>(prompt_length_));
  const auto gap = std::find(answer.begin(), answer.end(), options_.mask_id);
  const auto written = answer.first(static_cast<size_t>(gap - answer.begin()));
  const std::optional<int32_t> length =
      options_.find_stop(written.first(static_cast<size_t>(first_end(written))));
  if (length) canvas_.resize(static_cast<size_t>(prompt_length_) + static_cast<size_t>(*length));
  return length.has_value();
}

void RefusionDecoder::describe(StepReport& report) const {
  for (const Slot& slot : working_) {
    report.slots.push_back({slot.begin, true, slot.known, slot.tokens, slot.probabilities});
  }
}

bool RefusionDecoder::is_end(TokenId token) const {
  return std::find(options_.end_ids.begin(), options_.end_ids.end(), token) != options_.end_ids.end();
}

/// Index of the first end token; tokens.size() without one.
int32_t RefusionDecoder::first_end(std::span<const TokenId> tokens) const {
  const auto end = std::find_if(tokens.begin(), tokens.end(), [&](TokenId token) { return is_end(token); });
  return static_cast<int32_t>(end - tokens.begin());
}

/// One past the last offset that is computed and judged. Only Lacuna's rules stop at an end token.
int32_t RefusionDecoder::end_of(const Slot& slot) const {
  return is_lacuna() ? std::min(first_end(slot.tokens) + 1, slot.size()) : slot.size();
}

}  // namespace lacuna
