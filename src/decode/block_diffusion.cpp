#include "decode/block_diffusion.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace lacuna {
BlockDiffusionDecoder::BlockDiffusionDecoder(BlockDiffusion options, std::vector<TokenId> prompt)
    : options_(std::move(options)),
      prompt_length_(static_cast<int32_t>(prompt.size())),
      length_(prompt_length_ + options_.gen_length),
      tokens_(std::move(prompt)),
      first_block_(prompt_length_ / options_.block_length) {
  const int32_t num_blocks = (length_ + options_.block_length - 1) / options_.block_length;
  tokens_.resize(static_cast<size_t>(begin_of(num_blocks)), options_.mask_id);
  start_block(first_block_);
}

std::span<const TokenId> BlockDiffusionDecoder::canvas() const {
  return std::span(tokens_).first(std::min(tokens_.size(), static_cast<size_t>(length_)));
}

void BlockDiffusionDecoder::start_block(int32_t block) {
  block_ = block;
  progress_ = {0, options_.steps, options_.block_length, 0};
}

std::vector<int32_t> BlockDiffusionDecoder::masked_positions() const {
  std::vector<int32_t> masked;
  for (int32_t position = begin_of(block_); position < begin_of(block_ + 1); ++position) {
    if (tokens_[static_cast<size_t>(position)] == options_.mask_id) masked.push_back(position);
  }
  return masked;
}

const StepPlan& BlockDiffusionDecoder::plan() {
  if (!is_planned_) build_plan(num_kept_, plan_);
  is_planned_ = true;
  return plan_;
}

PassWork BlockDiffusionDecoder::uncached_work() const {
  StepPlan everything;
  build_plan(0, everything);
  return work_of(everything);
}

void BlockDiffusionDecoder::build_plan(int32_t first, StepPlan& plan) const {
  plan.clear();
  plan.rules.push_back(options_.sampling);
  for (int32_t block = first; block <= block_; ++block) {
    const int32_t first_row = plan.num_rows();
    for (int32_t position = begin_of(block); position < begin_of(block + 1); ++position) {
      plan.add_row(tokens_[static_cast<size_t>(position)], position, position);
    }
    RowGroup group{0, {first_row, plan.num_rows()}, {}, OwnRows::kBidirectional};
    if (block > 0) group.visible.push_back({0, begin_of(block)});
    plan.groups.push_back(std::move(group));
  }
  const int32_t block_row = plan.num_rows() - options_.block_length;
  for (const int32_t position : masked_positions()) {
    LogitRow logit;
    logit.row = block_row + position - begin_of(block_);
    logit.noise = RngStream(options_.seed, kTokenNoise, block_, progress_.step, position);
    plan.logits.push_back(logit);
  }
}

StepReport BlockDiffusionDecoder::apply(std::span<const RowStatistics> drawn) {
  expects(is_planned_ && drawn.size() == plan_.logits.size(), "apply: one draw for each that was planned");
  is_planned_ = false;
  std::vector<Commit> candidates;
  for (const int32_t position : masked_positions()) {
    const RowStatistics& draw = drawn[candidates.size()];
    candidates.push_back({position, draw.token, draw.confidence});
  }
  progress_.masked_now = static_cast<int32_t>(candidates.size());
  StepReport report;
  report.step = step_++;
  report.block = block_ - first_block_;
  report.kind = "denoise";
  report.committed = choose(options_.unmask, candidates, progress_,
                            RngStream(options_.seed, kOrderNoise, block_, progress_.step));
  for (const Commit& commit : report.committed) tokens_[static_cast<size_t>(commit.position)] = commit.token;
  // What was masked in this pass has no K/V of its token yet; all before has.
  num_kept_ = block_;
  ++progress_.step;
  if (report.committed.size() == candidates.size()) finish_block();
  std::erase_if(report.committed, [&](const Commit& commit) { return commit.position >= length_; });
  return report;
}

void BlockDiffusionDecoder::finish_block() {
  const std::span<const TokenId> written =
      canvas().first(std::min(canvas().size(), static_cast<size_t>(begin_of(block_ + 1))));
  const std::span<const TokenId> answer = written.subspan(static_cast<size_t>(prompt_length_));
  const bool has_end = std::find_first_of(answer.begin(), answer.end(), options_.end_ids.begin(),
                                          options_.end_ids.end()) != answer.end();
  if (!has_end && begin_of(block_ + 1) < length_) return start_block(block_ + 1);
  done_ = true;
  if (!has_end) return;
  stop_reason_ = StopReason::kEndToken;
  length_ = static_cast<int32_t>(written.size());
}

}  // namespace lacuna
