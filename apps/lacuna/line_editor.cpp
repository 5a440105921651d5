#include "line_editor.h"

#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <string_view>
#include <system_error>
#include <utility>

#include "terminal.h"

#ifdef LACUNA_HAS_LIBEDIT
#include <histedit.h>
#endif

namespace lacuna {
namespace {

volatile std::sig_atomic_t interrupt_flag = 0;
volatile std::sig_atomic_t resize_flag = 0;

void note_interrupt(int /*signal*/) {
  interrupt_flag = 1;
}

void note_resize(int /*signal*/) {
  resize_flag = 1;
}

/// Installs a handler without SA_RESTART, so that a signal interrupts read().
void handle_signal(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

#ifdef LACUNA_HAS_LIBEDIT
/// Sets a UTF-8 locale, which libedit needs to decode characters.
void use_utf8() {
  std::setlocale(LC_CTYPE, "");
  const std::u8string_view probe = u8"é";
  wchar_t wide = 0;
  std::mbstate_t state{};
  const auto* const bytes = reinterpret_cast<const char*>(probe.data());
  if (std::mbrtowc(&wide, bytes, probe.size(), &state) != probe.size()) std::setlocale(LC_CTYPE, "C.UTF-8");
}

/// Reads one character for libedit; returns 1, or 0 at the end of the input. Ctrl-C ends the line.
int read_character(EditLine* editor, wchar_t* character) {
  std::mbstate_t state{};
  while (true) {
    if (interrupt_flag != 0) {
      *character = L'\n';
      return 1;
    }
    char byte = 0;
    const ssize_t count = ::read(STDIN_FILENO, &byte, 1);
    if (count < 0 && errno == EINTR) {
      if (resize_flag != 0) el_resize(editor);
      resize_flag = 0;
      continue;
    }
    if (count <= 0) return 0;
    const size_t length = std::mbrtowc(character, &byte, 1, &state);
    constexpr auto kIncomplete = static_cast<size_t>(-2);
    if (length == kIncomplete) continue;
    if (length == static_cast<size_t>(-1)) *character = L'\uFFFD';
    return 1;
  }
}
#endif

}  // namespace

#ifdef LACUNA_HAS_LIBEDIT

/// libedit on the program's terminal.
class LineEditor::Terminal {
 public:
  Terminal(std::string prompt, std::filesystem::path history_file)
      : prompt_(std::move(prompt)), history_file_(std::move(history_file)) {
    use_utf8();
    editor_ = el_init("lacuna", stdin, stderr, stderr);
    history_ = history_init();
    HistEvent event;
    constexpr int kMaxLines = 1000;
    history(history_, &event, H_SETSIZE, kMaxLines);
    history(history_, &event, H_SETUNIQUE, 1);
    el_set(editor_, EL_CLIENTDATA, this);
    el_set(editor_, EL_PROMPT, &Terminal::prompt_of);
    el_set(editor_, EL_EDITOR, "emacs");
    el_set(editor_, EL_HIST, history, history_);
    el_set(editor_, EL_GETCFN, read_character);
    el_set(editor_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    load_history();
  }

  ~Terminal() {
    history_end(history_);
    el_end(editor_);
  }

  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  LineEvent read(std::string& line) {
    resize_flag = 0;
    handle_signal(SIGWINCH, note_resize);
    el_resize(editor_);
    // Leaves canonical mode before libedit shows the prompt; else a Ctrl-D typed at once is lost.
    el_set(editor_, EL_PREP_TERM, 1);
    int count = 0;
    const char* const text = el_gets(editor_, &count);
    handle_signal(SIGWINCH, SIG_DFL);
    if (text == nullptr || count <= 0) return LineEvent::kEnd;
    line.assign(text, static_cast<size_t>(count));
    while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
    if (line.find_first_not_of(' ') != std::string::npos && interrupt_flag == 0) remember(line);
    return LineEvent::kLine;
  }

 private:
  static char* prompt_of(EditLine* editor) {
    Terminal* self = nullptr;
    el_get(editor, EL_CLIENTDATA, &self);
    return self->prompt_.data();
  }

  /// Saves each line at once, because closing the terminal ends the program.
  void remember(const std::string& line) {
    HistEvent event;
    history(history_, &event, H_ENTER, line.c_str());
    if (!history_file_.empty()) history(history_, &event, H_SAVE, history_file_.c_str());
  }

  /// The chat continues without a history file if its folder cannot be created or the file is not ours.
  void load_history() {
    if (history_file_.empty()) return;
    std::error_code error;
    std::filesystem::create_directories(history_file_.parent_path(), error);
    constexpr uintmax_t kMaxBytes = 4 << 20;
    if (std::filesystem::is_regular_file(history_file_, error) &&
        std::filesystem::file_size(history_file_, error) < kMaxBytes) {
      HistEvent event;
      history(history_, &event, H_LOAD, history_file_.c_str());
    }
  }

  std::string prompt_;
  std::filesystem::path history_file_;
  EditLine* editor_ = nullptr;
  History* history_ = nullptr;
};

#else

class LineEditor::Terminal {
 public:
  static LineEvent read(std::string& /*line*/) { return LineEvent::kEnd; }
};

#endif

LineEditor::LineEditor(std::string prompt, const std::filesystem::path& history_path)
    : prompt_(std::move(prompt)), is_terminal_(isatty(STDIN_FILENO) != 0) {
  if (is_terminal_) handle_signal(SIGINT, note_interrupt);
#ifdef LACUNA_HAS_LIBEDIT
  // Color settings do not matter: only cursor movement is needed.
  if (is_terminal_ && can_draw_on(stderr)) {
    terminal_ = std::make_unique<Terminal>(prompt_, history_path);
  }
#else
  static_cast<void>(history_path);
#endif
}

LineEditor::~LineEditor() {
  if (is_terminal_) handle_signal(SIGINT, SIG_DFL);
}

LineEvent LineEditor::read(std::string& line) {
  interrupt_flag = 0;
  const LineEvent event = terminal_ ? terminal_->read(line) : read_plain(line);
  return std::exchange(interrupt_flag, 0) != 0 ? LineEvent::kInterrupted : event;
}

LineEvent LineEditor::read_plain(std::string& line) {
  if (is_terminal_) print_message("{}", prompt_);
  line.clear();
  int next = 0;
  while ((next = std::getc(stdin)) != EOF && next != '\n') {
    constexpr size_t kMaxBytes = size_t{1} << 24;  // more than any context holds
    if (line.size() < kMaxBytes) line += static_cast<char>(next);
  }
  if (next != EOF) return LineEvent::kLine;
  std::clearerr(stdin);
  if (interrupt_flag != 0) print_message("\n");
  return line.empty() ? LineEvent::kEnd : LineEvent::kLine;
}

bool LineEditor::interrupted() {
  return interrupt_flag != 0;
}

std::filesystem::path state_file(const std::string& name) {
  const auto folder = [](const char* variable) {
    const char* const value = std::getenv(variable);
    return std::filesystem::path(value == nullptr ? "" : value);
  };
  const std::filesystem::path state = folder("XDG_STATE_HOME");
  if (state.is_absolute()) return state / "lacuna" / name;
  const std::filesystem::path home = folder("HOME");
  return home.is_absolute() ? home / ".local" / "state" / "lacuna" / name : std::filesystem::path();
}

}  // namespace lacuna
