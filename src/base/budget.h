// Bounds on the work and memory that an untrusted client's input may take, counted and not timed: whether an
// input is accepted does not depend on the machine.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "base/error.h"

namespace lacuna {

/// Thrown where a Budget has nothing left: "schema: reading it takes more than 300 million steps".
class BudgetSpent : public InputError {
 public:
  using InputError::InputError;
};

/// Thrown in work for which nobody waits any more. Not an InputError: the input may have been fine.
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

/// The work that may be spent on this thread while the object lives. Whatever reads foreign input calls
/// spend_steps() and spend_bytes(); they charge the innermost budget of their thread; without one they do
/// nothing. A budget within another one has limits of its own, obeys the deadlines and flags of both, and
/// adds what it spent to the outer one's counts when it ends.
class Budget {
 public:
  static constexpr int64_t kUnlimited = INT64_MAX / 2;
  /// Told whenever a budget looks at flags and clocks, every 16,384 steps of its own.
  class Observer {
   public:
    virtual ~Observer() = default;
    /// May make the work wait while budget.check_wanted() does not throw, and may end it with an exception.
    ///   budget  the innermost one, where the work is
    virtual void looked(const Budget& budget) = 0;
  };
  struct Limits {
    int64_t steps = kUnlimited;  ///< a step is an operation of some nanoseconds
    int64_t bytes = kUnlimited;  ///< of what is allocated, freed or not (BytesMark)
    std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
    const std::atomic<bool>* stop = nullptr;  ///< true: nobody waits any more. Must outlive the budget.
    Observer* observer = nullptr;             ///< of this budget and those within it. Must outlive it.
  };

  /// `part` begins messages: the flag, field or file that the work is for.
  Budget(std::string part, const Limits& limits);
  ~Budget();
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  /// The innermost budget of this thread; null without one.
  static Budget* current() { return current_; }

  /// Call before the work is done, or the memory allocated. Throws BudgetSpent; WorkCancelled.
  void spend(int64_t steps) {
    steps_left_ -= steps;
    if (steps_left_ < next_look_) look();
  }
  void allocate(int64_t bytes) {
    bytes_left_ -= bytes;
    if (bytes_left_ < 0) refuse_bytes();
  }
  /// Throws WorkCancelled where a flag is set or a deadline is over, of this budget or one around it.
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
  int64_t next_look_;  // steps left at which flag and clock are looked at again
};

/// Remembers how much memory the thread's budget has left, for work that may be tried again.
class BytesMark {
 public:
  BytesMark() : budget_(Budget::current()), bytes_left_(budget_ ? budget_->bytes_left_ : 0) {}
  /// All that has been allocated since was freed.
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
