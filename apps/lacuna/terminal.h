// Properties of the terminal, and sanitizing of text that is printed on it.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

namespace lacuna {

/// --color.
enum class ColorChoice : uint8_t { kAuto, kAlways, kNever };

/// Colours that a terminal shows.
enum class ColorDepth : uint8_t { kNone, k256, kTrue };

/// Whether `stream` is a terminal that can be drawn on.
bool can_draw_on(std::FILE* stream);

/// True colour where COLORTERM says so, else 256 colours; none with kNever, and with kAuto where NO_COLOR is
/// set.
ColorDepth color_depth(ColorChoice choice);

struct TerminalSize {
  int columns = 80;
  int lines = 24;

  bool operator==(const TerminalSize&) const = default;
};

/// The present size; 80 by 24 where the terminal does not say.
TerminalSize terminal_size(std::FILE* stream);

/// `text` without anything that a terminal would obey: control characters become Unicode's symbols for them,
/// ill-formed bytes and characters that reorder or hide text U+FFFD. Newlines and tabs stay, and so do the
/// joiners that some scripts and emoji need.
std::string safe_for_terminal(std::string_view text);

/// `text` for standard output: as it is for a pipe or a file, safe for a terminal.
std::string for_standard_output(std::string_view text);

/// Writes to standard output or standard error as they are buffered by stdio.
void write_to(std::FILE* stream, std::string_view text);

// All that commands print goes through these three, so that no text of a file, a model or the hub reaches a
// terminal as it is (tests/check_printing.py).

/// A message on standard error, safe for a terminal.
template <typename... Arguments>
void print_message(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  write_to(stderr, safe_for_terminal(fmt::format(format, std::forward<Arguments>(arguments)...)));
}

/// Text for people on standard output, safe for a terminal.
template <typename... Arguments>
void print_text(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  write_to(stdout, safe_for_terminal(fmt::format(format, std::forward<Arguments>(arguments)...)));
}

/// Answers and JSON on standard output (for_standard_output).
template <typename... Arguments>
void print_data(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  write_to(stdout, for_standard_output(fmt::format(format, std::forward<Arguments>(arguments)...)));
}

/// `text` cut or padded to exactly `width` columns of a terminal, on one line and safe. A text that is cut
/// ends with an ellipsis.
std::string fit_to_columns(std::string_view text, int width);

}  // namespace lacuna
