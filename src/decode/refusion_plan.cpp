// Plans of ReFusion's passes: pending tokens, then masks of a block, drafts of its slots, or slots to
// complete.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "decode/refusion.h"

namespace lacuna {

const StepPlan& RefusionDecoder::plan() {
  if (!is_planned_) build_pass(pending_, plan_);
  is_planned_ = true;
  return plan_;
}

PassWork RefusionDecoder::uncached_work() const {
  std::vector<int32_t> all(clean_.size());
  for (size_t cell = 0; cell < all.size(); ++cell) all[cell] = static_cast<int32_t>(cell);
  StepPlan everything;
  build_pass(all, everything);
  return work_of(everything);
}

std::vector<int32_t> RefusionDecoder::sampled_positions() const {
  std::vector<int32_t> positions;
  for (const LogitRow& logit : plan_.logits) {
    const bool is_judgement = logit.scored >= 0;  // the row judges the token after its own
    positions.push_back(plan_.positions[static_cast<size_t>(logit.row)] + (is_judgement ? 1 : 0));
  }
  return positions;
}

std::vector<int32_t> RefusionDecoder::follow_up_positions() const {
  std::vector<int32_t> positions;
  for (const LogitRow& logit : further_) positions.push_back(plan_.positions[static_cast<size_t>(logit.row)]);
  return positions;
}

std::vector<TokenId> RefusionDecoder::judged_drafts() const {
  std::vector<TokenId> drafts;
  for (const LogitRow& logit : plan_.logits) {
    if (logit.scored >= 0) drafts.push_back(logit.scored);
  }
  return drafts;
}

void RefusionDecoder::build_pass(std::span<const int32_t> pending, StepPlan& plan) const {
  plan.clear();
  plan.rules.push_back(options_.sampling);
  plan.rules.push_back(options_.sampling);
  plan.rules[kBest].temperature = 0;
  add_pending(pending, plan);
  if (owes_recomputation_) return;
  switch (phase_) {
    case Phase::kPlan:
      return add_masks(plan);
    case Phase::kVerify:
      return add_drafts(plan);
    default:
      return add_slots(plan);
  }
}

void RefusionDecoder::add_group(int32_t first_row, std::vector<IndexRange> visible, StepPlan& plan) const {
  std::erase_if(visible, [](const IndexRange& range) { return range.size() == 0; });
  plan.groups.push_back({0, {first_row, plan.num_rows()}, std::move(visible), OwnRows::kCausal});
}

void RefusionDecoder::add_pending(std::span<const int32_t> pending, StepPlan& plan) const {
  for (size_t begin = 0; begin < pending.size();) {  // one group for each run of consecutive cells
    const int32_t first_row = plan.num_rows();
    size_t end = begin;
    for (; end < pending.size() && pending[end] - pending[begin] == static_cast<int32_t>(end - begin);
         ++end) {
      const CleanToken& clean = clean_[static_cast<size_t>(pending[end])];
      plan.add_row(clean.token, clean.position, pending[end]);
    }
    add_group(first_row, {{0, pending[begin]}}, plan);
    begin = end;
  }
}

void RefusionDecoder::add_masks(StepPlan& plan) const {
  const int32_t first_row = plan.num_rows();
  int32_t cell = num_clean();
  for (const IndexRange& slot : open_) {
    for (int32_t position = slot.begin; position < slot.end; ++position) {
      if (position == slot.begin || !is_lacuna()) {
        plan.logits.push_back(draft(plan.num_rows(), position, kPick));
      }
      plan.add_row(options_.mask_id, position, cell++);
    }
  }
  add_group(first_row, {{0, num_clean()}}, plan);
}

void RefusionDecoder::add_drafts(StepPlan& plan) const {
  const int32_t first_row = plan.num_rows();
  for (const Slot& slot : working_) {
    for (int32_t offset = slot.kept; offset < end_of(slot); ++offset) {
      if (offset >= slot.known) plan.logits.push_back(judgement(plan.num_rows() - 1, slot, offset));
      plan.add_row(slot.tokens[static_cast<size_t>(offset)], slot.begin + offset, slot.base + offset);
    }
  }
  // Only the first slot can have kept K/V, and its cells follow the clean ones.
  add_group(first_row, {{0, num_clean() + working_.front().kept}}, plan);
}

void RefusionDecoder::add_slots(StepPlan& plan) const {
  for (const Slot& slot : working_) {
    if (!takes_part(slot)) continue;
    const int32_t first_row = plan.num_rows();
    const int32_t end = end_of(slot);
    for (int32_t offset = slot.kept; offset < end; ++offset) {
      const bool is_mask = phase_ == Phase::kPredict && offset >= slot.known;
      if (is_mask) {
        // The released code samples drafts in its plans only.
        plan.logits.push_back(draft(plan.num_rows(), slot.begin + offset,
                                    options_.rules == RefusionRules::kReleased ? kBest : kPick));
      }
      plan.add_row(is_mask ? options_.mask_id : slot.tokens[static_cast<size_t>(offset)], slot.begin + offset,
                   slot.base + offset);
    }
    if (phase_ != Phase::kPredict) {
      for (int32_t offset = first_judged(slot); offset < end; ++offset) {
        plan.logits.push_back(judgement(first_row + offset - 1 - slot.kept, slot, offset));
      }
    }
    add_group(first_row, {{0, num_clean()}, {slot.base, slot.base + slot.kept}}, plan);
  }
}

LogitRow RefusionDecoder::draft(int32_t row, int32_t position, Rule rule) const {
  LogitRow logit;
  logit.row = row;
  logit.rule = rule;
  logit.noise = RngStream(options_.seed, position);
  return logit;
}

LogitRow RefusionDecoder::judgement(int32_t row, const Slot& slot, int32_t offset) const {
  LogitRow logit = draft(row, slot.begin + offset, is_lacuna() ? kPick : kBest);
  logit.scored = slot.tokens[static_cast<size_t>(offset)];
  return logit;
}

int32_t RefusionDecoder::first_judged(const Slot& slot) const {
  return phase_ == Phase::kCheck ? slot.known + 1 : slot.known;  // a check accepts the first draft unjudged
}

bool RefusionDecoder::takes_part(const Slot& slot) const {
  // Lacuna's rules: a slot that was filled once waits until all slots before it are clean.
  if (is_lacuna()) return !is_done(slot) && (!slot.is_filled || &slot == &working_.front());
  // A slot that a verify pass found whole has no K/V of its own yet.
  return options_.advances_together || !is_done(slot) || slot.kept < slot.known;
}

}  // namespace lacuna
