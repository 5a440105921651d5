#include "live_view.h"

#include <fmt/format.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <map>
#include <string_view>
#include <utility>

#include "numbers.h"

namespace lacuna {
namespace {

constexpr std::string_view kBeginUpdate =
    "\x1b[?2026h";  // synchronized update: the terminal shows complete frames only
constexpr std::string_view kEndUpdate = "\x1b[?2026l";
constexpr std::string_view kHideCursor = "\x1b[?25l";
constexpr std::string_view kShowCursor = "\x1b[?25h";
constexpr std::string_view kClearToEndOfLine = "\x1b[K";
constexpr std::string_view kClearBelow = "\x1b[J";

void write_to_terminal(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

constexpr std::array kEndingSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

// State that signal handlers share with the view.
termios echoing_settings;
volatile std::sig_atomic_t is_echo_off = 0;
volatile std::sig_atomic_t was_stopped = 0;  // set when the drawn lines may no longer be on the screen

/// A program in the background must not change the terminal's settings.
bool owns_terminal() {
  return isatty(STDIN_FILENO) != 0 && tcgetpgrp(STDIN_FILENO) == getpgrp();
}

void stop_echo() {
  if (!owns_terminal() || tcgetattr(STDIN_FILENO, &echoing_settings) != 0) return;
  termios silent = echoing_settings;
  silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
  is_echo_off = tcsetattr(STDIN_FILENO, TCSANOW, &silent) == 0 ? 1 : 0;
}

void restore_echo() {
  if (is_echo_off != 0) tcsetattr(STDIN_FILENO, TCSANOW, &echoing_settings);
  is_echo_off = 0;
}

void write_at_once(std::string_view text) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

void restore_terminal() {
  write_at_once("\x1b[?2026l\x1b[0m\x1b[?25h\r\n");
  restore_echo();
}

void restore_and_die(int signal) {
  restore_terminal();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void restore_and_stop(int signal) {
  const int error = errno;
  restore_terminal();
  std::signal(signal, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  std::raise(signal);
  sigprocmask(SIG_UNBLOCK, &only, nullptr);  // the program stops here and continues
  std::signal(signal, restore_and_stop);
  was_stopped = 1;
  stop_echo();
  write_at_once(kHideCursor);
  errno = error;
}

using Handler = void (*)(int);

/// Installs `to` only if the current handler is `from`.
void replace_handler(int signal, Handler from, Handler to) {
  struct sigaction present {};
  if (sigaction(signal, nullptr, &present) == 0 && present.sa_handler == from) std::signal(signal, to);
}

/// Returns early if a signal arrives.
void wait_seconds(double seconds) {
  if (seconds <= 0) return;
  const double whole = std::floor(seconds);
  const timespec time{static_cast<time_t>(whole), static_cast<long>((seconds - whole) * 1e9)};
  nanosleep(&time, nullptr);
}

/// Columns of a line of render(): none for an escape sequence, one for any character, which is accurate
/// enough for a line that is redrawn anyway.
int columns_of(std::string_view line) {
  int columns = 0;
  bool is_escape = false;
  for (const char byte : line) {
    if (byte == '\x1b') is_escape = true;
    if (!is_escape && (static_cast<unsigned char>(byte) & 0xC0) != 0x80) ++columns;
    if (is_escape && ((byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z'))) is_escape = false;
  }
  return columns;
}

CanvasFollower::Settings follower_settings(const ModelConfig& config, const Decoder& decoder,
                                           bool shows_prompt) {
  if (shows_prompt) return {config.mask_id, {}, 0};
  return {config.mask_id, config.end_ids, static_cast<size_t>(decoder.prompt_length())};
}

}  // namespace

void add_view_flags(CLI::App& command, LiveFlags& flags) {
  static const std::map<std::string, ColorChoice> kChoices = {
      {"auto", ColorChoice::kAuto}, {"always", ColorChoice::kAlways}, {"never", ColorChoice::kNever}};
  static const std::map<std::string, ColorBy> kColorings = {{"age", ColorBy::kAge},
                                                            {"confidence", ColorBy::kConfidence}};
  const auto add_choice = [&](const char* name, auto& field, const auto& names, const char* help) {
    command
        .add_option_function<std::string>(
            name, [&field, &names](const std::string& text) { field = names.at(text); }, help)
        ->check(CLI::IsMember(names))
        ->type_name("TEXT")
        ->group("Output");
  };
  command
      .add_option("--fps", flags.fps,
                  "Show at most this many passes a second, 0.1 to 1000; the run waits for the view")
      ->check(number_in(0.1, 1000.0))
      ->group("Output");
  add_choice("--color", flags.color, kChoices,
             "Colours of the canvas: auto (none if NO_COLOR is set), always or never (default: auto)");
  add_choice("--color-by", flags.color_by, kColorings,
             "Meaning of the canvas's colours: age or confidence of a token (default: age)");
}

void add_live_flags(CLI::App& command, LiveFlags& flags) {
  add_view_flags(command, flags);
  command.add_flag("--no-live", flags.no_live, "Do not draw the canvas on a terminal")->group("Output");
}

LiveView::LiveView(const LiveFlags& flags) : flags_(flags), style_{color_depth(flags.color), flags.color_by} {
  for (const int signal : kEndingSignals) replace_handler(signal, SIG_DFL, restore_and_die);
  replace_handler(SIGTSTP, SIG_DFL, restore_and_stop);
  stop_echo();
  write_to_terminal(kHideCursor);
}

LiveView::~LiveView() {
  if (flags_.fps && since_frame_) wait_seconds(1 / *flags_.fps - since_frame_->seconds());
  draw({}, terminal_size(stderr));
  write_to_terminal(kShowCursor);
  restore_echo();
  for (const int signal : kEndingSignals) replace_handler(signal, restore_and_die, SIG_DFL);
  replace_handler(SIGTSTP, restore_and_stop, SIG_DFL);
}

bool LiveView::is_time() {
  constexpr double kFrameSeconds = 1.0 / 60;
  if (!since_frame_) return true;
  if (!flags_.fps) return since_frame_->seconds() >= kFrameSeconds;
  wait_seconds(1 / *flags_.fps - since_frame_->seconds());
  return true;
}

void LiveView::show(const CanvasFrame& frame) {
  since_frame_.emplace();
  const TerminalSize size = terminal_size(stderr);
  draw(render(frame, style_, size), size);
}

void LiveView::draw(const std::vector<std::string>& lines, TerminalSize size) {
  if (was_stopped != 0) widths_.clear();  // the shell may have written since
  was_stopped = 0;
  std::string frame(kBeginUpdate);
  frame += '\r';
  // A terminal that became narrower has wrapped the lines that no longer fit.
  int rows = 0;
  for (const int width : widths_) rows += 1 + std::max(width - 1, 0) / size.columns;
  if (rows > 1) frame += fmt::format("\x1b[{}A", rows - 1);
  const bool is_same_size = size == size_;
  if (!is_same_size) frame += kClearBelow;
  for (size_t i = 0; i < lines.size(); ++i) {
    frame += lines[i];
    frame += kClearToEndOfLine;
    if (i + 1 < lines.size()) frame += "\r\n";
  }
  if (lines.size() < widths_.size()) frame += kClearBelow;
  frame += kEndUpdate;
  write_to_terminal(frame);
  widths_.clear();
  for (const std::string& line : lines) widths_.push_back(columns_of(line));
  size_ = size;
}

LiveRequest::LiveRequest(const LiveFlags& flags, const ModelConfig& config, const Tokenizer& tokenizer,
                         const Decoder& decoder, bool shows_prompt, std::string label)
    : view_(flags),
      follower_(
          follower_settings(config, decoder, shows_prompt),
          [&tokenizer](TokenId token) { return tokenizer.decode(std::array{token}, false); },
          decoder.canvas()),
      label_(std::move(label)) {
  CanvasFrame frame = follower_.frame(decoder.block().begin);
  if (!label_.empty()) frame.status.push_back(label_);
  frame.status.push_back(fmt::format("{} masked", follower_.num_masked()));
  view_.show(frame);
}

void LiveRequest::update(const StepEvent& event) {
  follower_.follow(event.decoder.canvas(), event.report.committed, event.report.edits);
  if (!view_.is_time()) return;
  CanvasFrame frame = follower_.frame(event.decoder.block().begin);
  frame.status = status(event);
  view_.show(frame);
}

std::vector<std::string> LiveRequest::status(const StepEvent& event) const {
  const int64_t masked = follower_.num_masked();
  const RunStatistics& statistics = event.statistics;
  const auto generated = static_cast<int64_t>(event.decoder.canvas().size()) - event.decoder.prompt_length();
  const double speed =
      statistics.seconds > 0 ? static_cast<double>(generated - masked) / statistics.seconds : 0;
  std::vector<std::string> parts;
  if (!label_.empty()) parts.push_back(label_);
  parts.push_back(fmt::format("step {}", event.report.step + 1));
  parts.push_back(fmt::format("{} masked", masked));
  parts.push_back(fmt::format("{:.1f} tokens/s", speed));
  parts.push_back(fmt::format("block {}", event.report.block + 1));
  parts.push_back(fmt::format("{} rows, {} in all", event.plan.num_rows(), statistics.cost.rows));
  return parts;
}

}  // namespace lacuna
