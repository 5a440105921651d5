// Two kinds of failure. Bad input (a file, a flag, a prompt) throws InputError with one sentence that names
// what was wrong and what was expected; programs print it and exit with code 2. Bugs meet expects(), which
// throws std::logic_error.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "lacuna/error.h"

namespace lacuna {

/// Input that cannot be used. The message is a full sentence without a trailing period or newline.
class InputError : public Error {
 public:
  explicit InputError(const std::string& sentence) : Error(sentence) {}

  template <typename First, typename... Rest>
  InputError(fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest)
      : Error(fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...)) {}
};

/// A device that failed and computes nothing more. The message is a sentence that says how.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Checks an invariant. `sentence` states what must hold.
inline void expects(bool holds, const char* sentence) {
  if (!holds) throw std::logic_error(sentence);
}

}  // namespace lacuna
