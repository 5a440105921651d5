// Input lines, typed or piped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace lacuna {

enum class LineEvent : uint8_t {
  kLine,
  kEnd,          ///< end of the input, or Ctrl-D on an empty line
  kInterrupted,  ///< Ctrl-C: the line is discarded
};

/// Reads lines of standard input. On a terminal it prompts on standard error; if built with libedit, it has
/// line editing and a history. While the object lives, SIGINT does not end the program: it discards the line
/// that is read, or sets interrupted().
class LineEditor {
 public:
  ///   prompt    shown on a terminal
  ///   history   history file, created with its folder; empty: none
  LineEditor(std::string prompt, const std::filesystem::path& history);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  /// The next line, without its newline.
  LineEvent read(std::string& line);

  /// Whether Ctrl-C was pressed since the last read().
  static bool interrupted();

 private:
  class Terminal;
  LineEvent read_plain(std::string& line);

  std::string prompt_;
  bool is_terminal_;
  std::unique_ptr<Terminal> terminal_;  // null: plain lines
};

/// $XDG_STATE_HOME/lacuna/NAME, or ~/.local/state/lacuna/NAME; empty if neither folder is known.
std::filesystem::path state_file(const std::string& name);

}  // namespace lacuna
