#include "decode/alternatives.h"

#include <algorithm>
#include <utility>

namespace lacuna {

AlternativesDecoder::AlternativesDecoder(std::unique_ptr<Decoder> inner, int32_t count)
    : FollowUpWrapper(std::move(inner)), count_(count) {}

StepReport AlternativesDecoder::apply(const PassResult& result) {
  positions_ = inner().constrainable()->sampled_positions();
  const std::vector<LogitRow>& logits = inner().plan().logits;
  sampled_.assign(logits.begin(), logits.begin() + static_cast<std::ptrdiff_t>(positions_.size()));
  StepReport report = apply_inner(result);
  if (inner().follow_up().empty()) ask_for_alternatives(report);
  return report;
}

void AlternativesDecoder::apply_own_follow_up(const FollowUpResult& result, StepReport& report) {
  for (size_t i = 0; i < commits_.size(); ++i) {
    report.alternatives[commits_[i]] = result.samples[i].likeliest;
  }
  wanted_.clear();
}

void AlternativesDecoder::apply_inner_follow_up(const FollowUpResult& result, StepReport& report) {
  inner().apply_follow_up(result, report);
  if (inner().follow_up().empty()) ask_for_alternatives(report);
}

void AlternativesDecoder::ask_for_alternatives(StepReport& report) {
  commits_.clear();
  report.alternatives.assign(report.committed.size(), {});
  for (size_t i = 0; i < report.committed.size(); ++i) {
    const auto found = std::find(positions_.begin(), positions_.end(), report.committed[i].position);
    if (found == positions_.end()) continue;
    LogitRow row = sampled_[static_cast<size_t>(found - positions_.begin())];
    row.num_likeliest = count_;
    row.scored = -1;
    row.soft_embedding_slack = -1;  // the pass has already stored it
    wanted_.push_back(row);
    commits_.push_back(i);
  }
}

}  // namespace lacuna
