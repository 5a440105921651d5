#include "decode/strided_decoding.h"

#include <utility>

#include "base/error.h"

namespace lacuna {

StridedDecoder::StridedDecoder(StridedDecoding options, std::vector<TokenId> prompt)
    : LeftToRightDecoder(std::move(options), std::move(prompt)) {}

void StridedDecoder::build_plan(int32_t begin, StepPlan& plan) const {
  plan.clear();
  const int32_t end = pass_end();
  RowGroup& group = plan.add_group(canvas_, begin, end, OwnRows::kCausal);
  group.only_kv = end < length();
  if (!group.only_kv) {
    plan.rules.push_back(options_.sampling);
    // Each row samples the position after its own, with the random numbers of an autoregressive run; no row
    // has the answer's last position as its input.
    const int32_t rows_end = std::min(length() + num_drafted() + options_.num_drafts, num_cells() - 1);
    for (int32_t position = end; position < rows_end; ++position) {
      const auto index = static_cast<size_t>(position - end);
      plan.add_row(index < drafts_.size() ? drafts_[index] : options_.mask_id, position, position);
    }
    group.rows.end = plan.num_rows();
    for (int32_t row = end - begin - 1; row < plan.num_rows(); ++row)
      plan.logits.push_back({.row = row, .noise = RngStream(options_.seed, begin + row + 1)});
  }
}

std::vector<int32_t> StridedDecoder::sampled_positions() const {
  std::vector<int32_t> positions;
  for (size_t i = 0; i < plan_.logits.size(); ++i) {
    const bool judges = i <= drafts_.size();  // the others draft what may be written later
    positions.push_back(judges ? length() + static_cast<int32_t>(i) : -1);
  }
  return positions;
}

std::vector<TokenId> StridedDecoder::judged_drafts() const {
  std::vector<TokenId> drafts(plan_.logits.size(), -1);
  std::copy_n(drafts_.begin(), std::min(drafts_.size(), drafts.size()), drafts.begin());
  return drafts;
}

bool StridedDecoder::write_given(std::span<const Commit> tokens) {
  for (const Commit& each : tokens) canvas_.push_back(each.token);
  drafts_.clear();
  return true;
}

StepReport StridedDecoder::apply(const PassResult& result) {
  const std::span<const RowStatistics> samples = result.samples;
  expects(!done_ && samples.size() == plan_.logits.size(),
          "apply: one sample for each planned row of logits");
  StepReport report;
  report.step = options_.num_drafts == 0 ? length() - prompt_length_ : num_passes_++;
  report.kind = num_kept_ < prompt_length_ ? "prefill" : drafts_.empty() ? "decode" : "verify";
  num_kept_ = pass_end();
  if (samples.empty()) return report;

  bool all_accepted = true;
  for (size_t i = 0; i <= drafts_.size() && i < samples.size() && all_accepted && !done_; ++i) {
    all_accepted = i == drafts_.size() || accepts(samples[i], drafts_[i]);
    write(samples[i], report);
  }
  num_kept_ = length() - 1;  // K/V of accepted drafts are kept; the last token has not been read
  const auto judges = std::min(drafts_.size() + 1, samples.size());
  drafts_.clear();
  if (!all_accepted) return report;
  for (const RowStatistics& draft : samples.subspan(judges)) drafts_.push_back(draft.token);
  return report;
}

}  // namespace lacuna
