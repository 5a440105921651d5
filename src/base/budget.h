// Limits on the work and memory that untrusted input may cost. They are counts, not times, so that the same
// input is accepted or refused on every machine.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "base/error.h"

namespace lacuna {

/// Thrown when a Budget is exhausted: "schema: reading it takes more than 300 million steps".
class BudgetSpent : public InputError {
 public:
  using InputError::InputError;
};

/// Thrown when work was cancelled or is past its deadline. Not an InputError: the input may be valid.
class WorkCancelled : public std::runtime_error {
 public:
  enum class Reason { kStopped, kTooLate };
  explicit WorkCancelled(Reason reason)
      : std::runtime_error(reason == Reason::kStopped ? "the work was cancelled"
                                                      : "the time for the work is over"),
        reason_(reason) {}
  Reason reason() const { return reason_; }

 private:
  Reason reason_;
};

/// Limits the work of the calling thread while the object lives. Code that reads untrusted input calls
/// spend_steps() and spend_bytes(). These charge the thread's innermost budget; without a budget they do
/// nothing. A nested budget has limits of its own and obeys the deadlines and flags of both. Its destructor
/// adds its spending to the outer budget.
class Budget {
 public:
  static constexpr int64_t kUnlimited = INT64_MAX / 2;
  /// Called whenever a budget checks its flag and deadline: every 16,384 steps.
  class Observer {
   public:
    virtual ~Observer() = default;
    /// May block while budget.check_wanted() does not throw; may throw to end the work.
    ///   budget  the thread's innermost budget
    virtual void looked(const Budget& budget) = 0;
  };
  struct Limits {
    int64_t steps = kUnlimited;  ///< a step is an operation of some nanoseconds
    int64_t bytes = kUnlimited;  ///< bytes allocated; freeing gives none back, except by BytesMark
    std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
    const std::atomic<bool>* stop = nullptr;  ///< true: the work is cancelled. Must outlive the budget.
    Observer* observer = nullptr;             ///< for this and nested budgets. Must outlive the budget.
  };

  /// `part` begins error messages: the flag, field or file that is read.
  Budget(std::string part, const Limits& limits);
  ~Budget();
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  /// The innermost budget of this thread; null without one.
  static Budget* current() { return current_; }

  /// Call before the work or the allocation. Throws BudgetSpent; spend() also throws WorkCancelled.
  void spend(int64_t steps) {
    steps_left_ -= steps;
    if (steps_left_ < next_look_) look();
  }
  void allocate(int64_t bytes) {
    bytes_left_ -= bytes;
    if (bytes_left_ < 0) refuse_bytes();
  }
  /// Throws WorkCancelled if the flag is set or the deadline has passed, of this or an enclosing budget.
  void check_wanted() const;

  int64_t steps_spent() const { return limits_.steps - steps_left_; }
  int64_t bytes_spent() const { return limits_.bytes - bytes_left_; }

 private:
  friend class BytesMark;

  void look();
  [[noreturn]] void refuse_bytes() const;

  static thread_local constinit inline Budget* current_ = nullptr;
  Budget* const outer_;
  const std::string part_;
  const Limits limits_;
  int64_t steps_left_;
  int64_t bytes_left_;
  int64_t next_look_;  // steps left at which flag and deadline are checked again
};

/// Remembers the bytes left in the thread's budget, for work that may be repeated.
class BytesMark {
 public:
  BytesMark() : budget_(Budget::current()), bytes_left_(budget_ ? budget_->bytes_left_ : 0) {}
  /// Restores the bytes left. Call when everything allocated since construction was freed.
  void give_back() const {
    if (budget_ != nullptr) budget_->bytes_left_ = bytes_left_;
  }

 private:
  Budget* const budget_;
  const int64_t bytes_left_;
};

inline void spend_steps(size_t steps) {
  if (Budget* const budget = Budget::current()) budget->spend(static_cast<int64_t>(steps));
}
inline void spend_bytes(size_t bytes) {
  if (Budget* const budget = Budget::current()) budget->allocate(static_cast<int64_t>(bytes));
}

}  // namespace lacuna
