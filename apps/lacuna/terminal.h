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

/// Color support of a terminal.
enum class ColorDepth : uint8_t { kNone, k256, kTrue };

/// Whether `stream` is a terminal that can be drawn on.
bool can_draw_on(std::FILE* stream);

/// True color if COLORTERM says so, else 256 colors; none with kNever, or with kAuto if NO_COLOR is set.
ColorDepth color_depth(ColorChoice choice);

struct TerminalSize {
  int columns = 80;
  int lines = 24;

  bool operator==(const TerminalSize&) const = default;
};

/// The current size; 80 by 24 if unknown.
TerminalSize terminal_size(std::FILE* stream);

/// Neutralizes terminal control sequences: control characters become their Unicode symbols; ill-formed bytes
/// and characters that reorder or hide text become U+FFFD. Newlines, tabs and zero-width joiners stay.
std::string safe_for_terminal(std::string_view text);

/// `text` for standard output: safe_for_terminal() on a terminal, unchanged for a pipe or a file.
std::string for_standard_output(std::string_view text);

/// Writes to a stdio stream, with its buffering.
void write_to(std::FILE* stream, std::string_view text);

// Commands print only through these three functions, so that text of files, models or the hub reaches a
// terminal only after sanitizing (checked by tests/check_printing.py).

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

/// Cuts or pads `text` to exactly `width` terminal columns, on one line and sanitized. Cut text ends with an
/// ellipsis.
std::string fit_to_columns(std::string_view text, int width);

}  // namespace lacuna
