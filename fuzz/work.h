// Work of readers in steps of a Budget, which must not grow faster than the input.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "base/budget.h"
#include "fuzz.h"

namespace fuzz {

/// Bound of a target's work: `base` steps for any input and `per_byte` for each byte of it.
struct WorkBound {
  int64_t base;
  int64_t per_byte;
};

/// Counts the steps that are spent while it lives, and ends the program where they exceed the bound. The
/// most work that was seen is printed when the program ends.
class MeasuredWork {
 public:
  MeasuredWork(size_t input_bytes, const WorkBound& bound)
      : bytes_(static_cast<int64_t>(input_bytes)), bound_(bound), budget_("fuzz", {}) {}
  ~MeasuredWork() {
    const int64_t steps = budget_.steps_spent();
    static Most most(bound_);
    most.add(steps, bytes_);
    check(steps <= bound_.base + bound_.per_byte * bytes_);
  }
  MeasuredWork(const MeasuredWork&) = delete;
  MeasuredWork& operator=(const MeasuredWork&) = delete;

 private:
  class Most {
   public:
    explicit Most(const WorkBound& bound) : bound_(bound) {}
    ~Most() {
      std::printf("work: at most %lld steps, %lld per byte beyond the first %lld; bound %lld per byte\n",
                  static_cast<long long>(steps_), static_cast<long long>(per_byte_),
                  static_cast<long long>(bound_.base), static_cast<long long>(bound_.per_byte));
    }
    Most(const Most&) = delete;
    Most& operator=(const Most&) = delete;

    void add(int64_t steps, int64_t bytes) {
      steps_ = std::max(steps_, steps);
      per_byte_ = std::max(per_byte_, (steps - bound_.base) / std::max<int64_t>(bytes, 1));
    }

   private:
    WorkBound bound_;
    int64_t steps_ = 0;
    int64_t per_byte_ = 0;
  };

  int64_t bytes_;
  WorkBound bound_;
  lacuna::Budget budget_;
};

}  // namespace fuzz
