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

/// Bytes of the longest message of an error. Longer ones quote a file or a request.
inline constexpr size_t kMaxErrorBytes = 1024;

/// `text` where it has at most `max_bytes`; else its beginning and its end with "..." between them, at most
/// `max_bytes` together. Cuts no character of UTF-8. `max_bytes` is at least 16.
std::string cut_middle(std::string_view text, size_t max_bytes = kMaxErrorBytes);

/// The formatted text. Where it would be longer than kMaxErrorBytes, long texts among the arguments lose
/// their middle, so that what stands around them is kept; what is then still too long loses its own.
std::string format_error(fmt::string_view format, fmt::format_args arguments);

/// Input that cannot be used. The message is a full sentence without a trailing period or newline, and not
/// longer than kMaxErrorBytes, whatever it quotes.
class InputError : public Error {
 public:
  explicit InputError(const std::string& sentence) : Error(cut_middle(sentence)) {}

  template <typename First, typename... Rest>
  InputError(fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest)
      : Error(format_error(format, fmt::make_format_args(first, rest...))) {}
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
