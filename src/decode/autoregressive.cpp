#include "decode/autoregressive.h"

#include <utility>

#include "base/error.h"

namespace lacuna {

AutoregressiveDecoder::AutoregressiveDecoder(LeftToRight options, std::vector<TokenId> prompt)
    : LeftToRightDecoder(std::move(options), std::move(prompt)) {}

const StepPlan& AutoregressiveDecoder::plan() {
  build_plan(num_kept_, pass_end(), plan_);
  return plan_;
}

void AutoregressiveDecoder::build_plan(int32_t begin, int32_t end, StepPlan& plan) const {
  plan.clear();
  for (int32_t position = begin; position < end; ++position) {
    plan.add_row(canvas_[static_cast<size_t>(position)], position, position);
  }
  RowGroup group{0, {0, end - begin}, {}, OwnRows::kCausal};
  if (begin > 0) group.visible.push_back({0, begin});
  group.only_kv = end < length();
  plan.groups.push_back(std::move(group));
  if (end < length()) return;
  plan.rules.push_back(options_.sampling);
  LogitRow logit;
  logit.row = end - begin - 1;
  logit.noise = RngStream(options_.seed, end);
  plan.logits.push_back(logit);
}

PassWork AutoregressiveDecoder::uncached_work() const {
  if (pass_end() < length()) return {};  // without a cache nothing is kept
  StepPlan everything;
  build_plan(0, length(), everything);
  return work_of(everything);
}

StepReport AutoregressiveDecoder::apply(const PassResult& result) {
  const std::span<const RowStatistics> drawn = result.samples;
  const bool reads_prompt = num_kept_ < prompt_length_;
  num_kept_ = pass_end();
  const int32_t position = length();
  const bool is_read = num_kept_ == position;
  expects(!done_ && drawn.size() == (is_read ? 1 : 0), "apply: one draw for the next token");
  StepReport report;
  report.step = position - prompt_length_;
  report.kind = reads_prompt ? "prefill" : "decode";
  if (!is_read) return report;
  write(drawn[0], report);
  return report;
}

}  // namespace lacuna
