#include "decode/likelihood.h"

#include <utility>

#include "base/error.h"

namespace lacuna {

LikelihoodDecoder::LikelihoodDecoder(std::vector<TokenId> tokens, int32_t most_rows)
    : tokens_(std::move(tokens)), most_rows_(most_rows) {
  expects(!tokens_.empty() && most_rows_ > 0, "a text has a token, and a pass a row");
}

const StepPlan& LikelihoodDecoder::plan() {
  plan_.clear();
  plan_.rules.emplace_back();
  for (int32_t position = num_read_; position < pass_end(); ++position) {
    LogitRow logit;
    logit.row = plan_.num_rows();
    logit.scored = tokens_[static_cast<size_t>(position) + 1];
    plan_.logits.push_back(logit);
    plan_.add_row(tokens_[static_cast<size_t>(position)], position, position);
  }
  RowGroup group{0, {0, plan_.num_rows()}, {}, OwnRows::kCausal};
  if (num_read_ > 0) group.visible.push_back({0, num_read_});
  plan_.groups.push_back(std::move(group));
  return plan_;
}

StepReport LikelihoodDecoder::apply(std::span<const RowStatistics> drawn) {
  expects(!done() && static_cast<int32_t>(drawn.size()) == pass_end() - num_read_,
          "apply: one draw for each token that is scored");
  for (const RowStatistics& row : drawn) {
    scores_.push_back({row.scored_probability, row.token, row.confidence});
  }
  num_read_ = pass_end();
  StepReport report;
  report.step = num_passes_++;
  report.kind = "prefill";
  return report;
}

}  // namespace lacuna
