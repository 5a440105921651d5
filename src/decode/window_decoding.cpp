#include "decode/window_decoding.h"

#include <utility>

#include "base/error.h"

namespace lacuna {

WindowDecoder::WindowDecoder(WindowDecoding options, std::vector<TokenId> prompt)
    : LeftToRightDecoder(std::move(options), std::move(prompt)) {}

void WindowDecoder::build_plan(int32_t begin, StepPlan& plan) const {
  plan.clear();
  const int32_t end = pass_end();
  if (begin < end) plan.add_group(canvas_, begin, end, OwnRows::kCausal).only_kv = true;
  if (has_logits()) add_window(plan);
}

void WindowDecoder::add_window(StepPlan& plan) const {
  const int32_t first = length() - 1;  // position of the text's last token
  const int32_t end = std::min(first + 1 + options_.num_masks, num_cells());
  RowGroup window{0, {plan.num_rows(), plan.num_rows() + end - first}, {}, OwnRows::kBidirectional};
  if (first > 0) window.visible.push_back({0, first});
  plan.rules.push_back(options_.sampling);
  for (int32_t position = first; position < end; ++position) {
    plan.logits.push_back({.row = plan.num_rows(), .noise = RngStream(options_.seed, position + 1)});
    plan.add_row(position == first ? canvas_.back() : options_.mask_id, position, position);
  }
  plan.groups.push_back(std::move(window));
}

StepReport WindowDecoder::apply(const PassResult& result) {
  const std::span<const RowStatistics> samples = result.samples;
  expects(!done_ && samples.size() == plan_.logits.size(),
          "apply: one sample for each planned row of logits");
  StepReport report;
  report.step = num_passes_++;
  report.kind = length() == prompt_length_ ? "prefill" : "decode";
  num_kept_ = pass_end();
  const auto is_unsure = [&](const RowStatistics& each) { return !(each.confidence > options_.threshold); };
  const auto num_confident = std::find_if(samples.begin(), samples.end(), is_unsure) - samples.begin();
  const auto num_written = std::min(samples.size(), std::max<size_t>(static_cast<size_t>(num_confident), 1));
  for (size_t i = 0; i < num_written && !done_; ++i) write(samples[i], report);
  return report;
}

}  // namespace lacuna
