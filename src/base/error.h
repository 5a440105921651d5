// Two kinds of failure. Bad input (a file, a flag, a prompt) throws InputError with one sentence that names
// what was wrong and what was expected; programs print it and exit with code 2. Bugs meet expects(), which
// throws std::logic_error.
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

#include "lacuna/error.h"

namespace lacuna {

/// Largest size of an error message, in bytes. Longer ones quote a file or a request and are cut.
inline constexpr size_t kMaxErrorBytes = 1024;

/// Shortens `text` to at most `max_bytes` by replacing its middle with "...". Splits no UTF-8 character.
/// `max_bytes` is at least 16.
std::string cut_middle(std::string_view text, size_t max_bytes = kMaxErrorBytes);

/// Formats a message. If it exceeds kMaxErrorBytes, long text arguments are shortened with cut_middle()
/// first, so that the text around them stays; then the message itself.
std::string format_error(fmt::string_view format, fmt::format_args arguments);

/// Input that cannot be used. The message is a full sentence without a trailing period or newline, and is cut
/// to kMaxErrorBytes.
class InputError : public Error {
 public:
  explicit InputError(const std::string& sentence) : Error(cut_middle(sentence)) {}

  template <typename First, typename... Rest>
  InputError(fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest)
      : Error(format_error(format, fmt::make_format_args(first, rest...))) {}
};

/// A device failed and can compute nothing more. The message says how.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Checks an invariant. `sentence` states what must hold.
inline void expects(bool holds, const char* sentence) {
  if (!holds) throw std::logic_error(sentence);
}

}  // namespace lacuna
