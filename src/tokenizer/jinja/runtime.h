// State of one rendering: its budget and its current line in the template.
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/budget.h"
#include "tokenizer/jinja.h"

namespace lacuna::jinja {

/// Thrown for a failed operation. Template::render() adds the template's name and line.
class RenderError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw RenderError(fmt::format(format, std::forward<Args>(args)...));
}

/// Maximum nesting of containers, generators and methods, so that recursion does not overflow the stack.
inline constexpr int kMaxValueDepth = 200;
/// Maximum depth of nested evaluations: macros within expressions within statements.
inline constexpr int kMaxEvaluation = 1500;

struct Object;

/// Counts the work of one rendering. Every operation that visits items or writes bytes must report it here.
class Runtime {
 public:
  Runtime(const Limits& limits, int64_t now) : limits_(limits), now_(now), steps_left_(limits.max_steps) {}
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// Counts steps. Throws RenderError if max_steps are exceeded.
  void step(size_t count = 1) {
    if (count > static_cast<size_t>(steps_left_)) {
      steps_left_ = 0;
      fail("the template takes more than {} steps", limits_.max_steps);
    }
    steps_left_ -= static_cast<int64_t>(count);
    constexpr size_t kBudgetSteps = 64;  // a node takes about this many nanoseconds
    spend_steps(count * kBudgetSteps);
  }
  /// Counts the reading or writing of `bytes` bytes.
  void touch(size_t bytes) { step(bytes / 256); }
  /// Throws RenderError for a text above max_output_bytes.
  void check_size(size_t bytes) const {
    if (bytes > limits_.max_output_bytes) fail("a text has more than {} bytes", limits_.max_output_bytes);
  }

  const Limits& limits() const { return limits_; }
  int64_t now() const { return now_; }

  int line = 1;        ///< line of the current node
  int calls = 0;       ///< active macros and recursive loops
  int evaluation = 0;  ///< active node evaluations
  int printing = 0;    ///< namespaces being printed

  /// Keeps a mutable object until the rendering ends, and then clears it to break reference cycles.
  void keep(std::shared_ptr<Object> object) { kept_.push_back(std::move(object)); }

 private:
  Limits limits_;
  int64_t now_;
  int64_t steps_left_;
  std::vector<std::shared_ptr<Object>> kept_;
};

}  // namespace lacuna::jinja
