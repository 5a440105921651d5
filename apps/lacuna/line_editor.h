// Lines that a person types, or that a script pipes in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace lacuna {

enum class LineEvent : uint8_t {
  kLine,
  kEnd,          ///< of the input; Ctrl-D on an empty line
  kInterrupted,  ///< Ctrl-C: the line is given up
};

/// Reads standard input. On a terminal with line editing, history and a prompt on standard error, by libedit
/// where the program was built with it. While one lives, SIGINT ends a line, or sets interrupted() where none
/// is read, and not the program.
class LineEditor {
 public:
  ///   prompt    shown on a terminal
  ///   history   file to keep lines in, made with its folder; empty: none
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

/// $XDG_STATE_HOME/lacuna/NAME, or ~/.local/state/lacuna/NAME; empty where neither folder is known.
std::filesystem::path state_file(const std::string& name);

}  // namespace lacuna
