#include "base/budget.h"

#include <algorithm>
#include <utility>

namespace lacuna {
namespace {

/// Steps between two checks of flag and deadline: well below a millisecond.
constexpr int64_t kStepsPerLook = 1 << 14;

}  // namespace

Budget::Budget(std::string part, const Limits& limits)
    : outer_(std::exchange(current_, this)),
      part_(std::move(part)),
      limits_(limits),
      steps_left_(limits.steps),
      bytes_left_(limits.bytes),
      next_look_(std::max<int64_t>(0, limits.steps - kStepsPerLook)) {}

Budget::~Budget() {
  current_ = outer_;
  if (outer_ == nullptr) return;
  // If this exhausts the outer budget, its next spend() or allocate() throws.
  outer_->steps_left_ -= steps_spent();
  outer_->bytes_left_ -= bytes_spent();
}

void Budget::check_wanted() const {
  if (limits_.stop != nullptr && limits_.stop->load(std::memory_order_relaxed))
    throw WorkCancelled(WorkCancelled::Reason::kStopped);
  if (limits_.deadline != std::chrono::steady_clock::time_point::max() &&
      std::chrono::steady_clock::now() >= limits_.deadline)
    throw WorkCancelled(WorkCancelled::Reason::kTooLate);
  if (outer_ != nullptr) outer_->check_wanted();
}

void Budget::look() {
  if (steps_left_ < 0)
    throw BudgetSpent("{}: reading it takes more than {} million steps", part_, limits_.steps / 1'000'000);
  next_look_ = std::max<int64_t>(0, steps_left_ - kStepsPerLook);
  check_wanted();
  for (const Budget* budget = this; budget != nullptr; budget = budget->outer_)
    if (budget->limits_.observer != nullptr) budget->limits_.observer->looked(*this);
}

void Budget::refuse_bytes() const {
  throw BudgetSpent("{}: reading it takes more than {} MiB", part_, limits_.bytes >> 20);
}

}  // namespace lacuna
