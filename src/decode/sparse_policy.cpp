#include "decode/sparse_policy.h"

#include <cmath>

#include "base/overloaded.h"

namespace lacuna {
namespace {

using Choice = SparseAttention::Choice;

int32_t budget_of(const SparsePolicy& policy) {
  return std::visit(Overloaded{[](const ExactAttention&) { return 0; }, [](const FlashBlock&) { return 0; },
                               [](const auto& sparse) { return sparse.budget; }},
                    policy);
}

}  // namespace

int32_t dense_layers_of(const SparsePolicy& policy) {
  return std::visit(Overloaded{[](const ExactAttention&) { return kDenseLayers; },
                               [](const auto& sparse) { return sparse.dense_layers; }},
                    policy);
}

bool keeps_attention(const SparsePolicy& policy) {
  return std::holds_alternative<FlashBlock>(policy) || std::holds_alternative<Losa>(policy);
}

SparseSchedule::SparseSchedule(const SparsePolicy& policy, int32_t planned_steps, int32_t sparse_after)
    : policy_(policy), exact_steps_(0), exact_after_(sparse_after) {
  if (const auto* sparsed = std::get_if<SparseD>(&policy_)) {
    exact_steps_ = static_cast<int32_t>(std::floor(sparsed->exact_share * planned_steps));
  }
}

/// Attention to remembered cells or, for Quest, to pages that the pass chooses; to all cells within the
/// budget or with none remembered.
SparseAttention SparseSchedule::confined(int32_t prefix) const {
  const int32_t budget = budget_of(policy_);
  if (const auto* quest = std::get_if<Quest>(&policy_)) {
    if (prefix <= budget) return {};
    return {Choice::kBestPages, {0, prefix}, budget, quest->page_size, quest->dense_layers};
  }
  if (remembered_among_ == 0) return {};
  return {.choice = Choice::kRemembered,
          .among = {0, remembered_among_},
          .budget = budget,
          .dense_layers = dense_layers_of(policy_)};
}

SparseAttention SparseSchedule::denoise(int32_t prefix, int32_t step, int32_t rows) const {
  const int32_t budget = budget_of(policy_);
  const SparseAttention remember{.choice = Choice::kAllAndRemember,
                                 .among = {0, prefix},
                                 .budget = budget,
                                 .dense_layers = dense_layers_of(policy_)};
  SparseAttention keep = remember;
  keep.choice = Choice::kAllAndKeep;
  SparseAttention attention = std::visit(
      Overloaded{[](const ExactAttention&) { return SparseAttention(); },
                 [&](const Mage&) {
                   if (prefix <= budget) return SparseAttention();
                   return step == 0 ? remember : confined(prefix);
                 },
                 [&](const Quest&) { return confined(prefix); },
                 [&](const SparseD&) {
                   if (remembered_among_ > 0) return confined(prefix);
                   return num_steps_ < exact_steps_ || prefix <= budget ? SparseAttention() : remember;
                 },
                 [&](const FlashBlock& policy) {
                   if (prefix == 0) return SparseAttention();
                   if (step > 0 && num_written_ < policy.updates) keep.choice = Choice::kKept;
                   return keep;
                 },
                 [&](const Losa& policy) {
                   if (prefix <= budget) return SparseAttention();
                   if (step > 0) keep.choice = Choice::kKept;
                   keep.page_size = policy.page_size;
                   keep.active_rows = static_cast<int32_t>(std::ceil(policy.active_share * rows));
                   return keep;
                 }},
      policy_);
  const bool is_exact_again = exact_after_ > 0 && step >= exact_after_;
  return is_exact_again && attention.hides() ? SparseAttention() : attention;
}

SparseAttention SparseSchedule::commit(int32_t prefix) const {
  return confined(prefix);
}

void SparseSchedule::advance(const SparseAttention& attention, int32_t written) {
  ++num_steps_;
  num_written_ = attention.choice == Choice::kKept ? num_written_ + written : written;
  if (attention.choice == Choice::kAllAndRemember) remembered_among_ = attention.among.end;
}

}  // namespace lacuna
