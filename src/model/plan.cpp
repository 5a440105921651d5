#include "model/plan.h"

#include <algorithm>

namespace lacuna {
namespace {

template <typename T>
void append_to(std::vector<T>& target, const std::vector<T>& more) {
  target.insert(target.end(), more.begin(), more.end());
}

}  // namespace

int32_t SparseAttention::num_chosen() const {
  if (choice == Choice::kKept && active_rows == 0) return 0;
  if (choice != Choice::kBestPages && choice != Choice::kKept) return std::min(budget, num_candidates());
  const int32_t num_pages = (among.end + page_size - 1) / page_size;
  const int32_t last_page = among.end - (num_pages - 1) * page_size;
  return std::min((budget / page_size - 1) * page_size + last_page, among.size());
}

void StepPlan::append(const StepPlan& other, int32_t first_sequence) {
  const int32_t first_row = num_rows();
  const auto first_rule = static_cast<int32_t>(rules.size());
  append_to(tokens, other.tokens);
  append_to(positions, other.positions);
  append_to(cells, other.cells);
  append_to(rules, other.rules);
  for (RowGroup group : other.groups) {
    group.sequence += first_sequence;
    group.rows.begin += first_row;
    group.rows.end += first_row;
    groups.push_back(std::move(group));
  }
  for (const MixedRow& each : other.mixed) mixed.push_back({each.row + first_row, each.weight});
  for (LogitRow logit : other.logits) {
    logit.row += first_row;
    if (logit.unconditional_row >= 0) logit.unconditional_row += first_row;
    logit.rule += first_rule;
    logits.push_back(logit);
  }
  measures_kv_drift = measures_kv_drift || other.measures_kv_drift;
}

}  // namespace lacuna
