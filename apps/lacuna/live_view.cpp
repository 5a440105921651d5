#include "live_view.h"

#include <fmt/format.h>
#include <unistd.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <string_view>
#include <utility>

#include "terminal.h"
#include "tokenizer/unicode.h"

namespace lacuna {
namespace {

constexpr std::string_view kBeginUpdate = "\x1b[?2026h";  // terminals that know it show whole frames only
constexpr std::string_view kEndUpdate = "\x1b[?2026l";
constexpr std::string_view kHideCursor = "\x1b[?25l";
constexpr std::string_view kShowCursor = "\x1b[?25h";
constexpr std::string_view kClearToEndOfLine = "\x1b[K";
constexpr std::string_view kClearBelow = "\x1b[J";

/// In order of what wins where several tokens share a character. The hues tell slots of one iteration from
/// those of the next.
enum class Look : uint8_t { kPlain, kHue0, kHue1, kHue2, kHue3, kHue4, kDim, kFresh };

constexpr int kHues = 5;

constexpr Look hue_of(int32_t iteration) {
  return static_cast<Look>(static_cast<int>(Look::kHue0) + iteration % kHues);
}

constexpr std::string_view code_of(Look look) {
  switch (look) {
    case Look::kPlain:
      return "\x1b[0m";
    case Look::kHue0:
      return "\x1b[0;36m";
    case Look::kHue1:
      return "\x1b[0;33m";
    case Look::kHue2:
      return "\x1b[0;35m";
    case Look::kHue3:
      return "\x1b[0;32m";
    case Look::kHue4:
      return "\x1b[0;34m";
    case Look::kDim:
      return "\x1b[0;2m";
    case Look::kFresh:
      return "\x1b[0;7m";
  }
  return "";
}

/// Breaks glyphs into lines of at most `columns` cells.
class LineWriter {
 public:
  explicit LineWriter(int columns) : columns_(columns) {}

  void put_mask() { append("░", 1, Look::kDim); }

  void put(std::string_view glyph, int width, Look look) {
    append(glyph, width, look);
    text_end_ = lines_.size() + 1;
  }

  void new_line() {
    if (look_ != Look::kPlain) line_ += code_of(Look::kPlain);
    look_ = Look::kPlain;
    used_ = 0;
    lines_.push_back(std::exchange(line_, {}));
  }

  /// At most `room` lines. Where there are more, those after the last text go, then the first.
  std::vector<std::string> finish(size_t room) {
    if (used_ > 0) new_line();
    lines_.resize(std::min(lines_.size(), std::max(text_end_, room)));
    const size_t surplus = lines_.size() - std::min(lines_.size(), room);
    lines_.erase(lines_.begin(), lines_.begin() + static_cast<std::ptrdiff_t>(surplus));
    return std::move(lines_);
  }

 private:
  void append(std::string_view glyph, int width, Look look) {
    if (used_ + width > columns_) new_line();
    if (look != look_) {
      line_ += code_of(look);
      look_ = look;
    }
    line_ += glyph;
    used_ += width;
  }

  int columns_;
  int used_ = 0;
  Look look_ = Look::kPlain;
  std::string line_;
  std::vector<std::string> lines_;
  size_t text_end_ = 0;  // one past the last line that holds more than masks
};

/// Whether a character may go to a terminal as it is: no control, no format character that could reorder the
/// line, nothing unassigned.
bool is_harmless(char32_t character) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(character))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

/// Text that arrives token by token; a character may be spread over several.
class TextWriter {
 public:
  explicit TextWriter(LineWriter& lines) : lines_(lines) {}

  void add(std::string_view bytes, Look look) {
    bytes_ += bytes;
    looks_.resize(bytes_.size(), look);
  }

  /// Writes what was added; a character that is not complete by now never will be.
  void flush() {
    size_t begin = 0;
    while (begin < bytes_.size()) {
      const std::string_view rest = std::string_view(bytes_).substr(begin);
      const size_t length = first_character_bytes(rest);
      const auto first_look = looks_.begin() + static_cast<std::ptrdiff_t>(begin);
      if (length == 0) {
        lines_.put("\uFFFD", 1, *first_look);
        ++begin;
        continue;
      }
      write(first_character(rest), rest.substr(0, length),
            *std::max_element(first_look, first_look + static_cast<std::ptrdiff_t>(length)));
      begin += length;
    }
    bytes_.clear();
    looks_.clear();
  }

 private:
  void write(char32_t character, std::string_view bytes, Look look) {
    if (character == '\n') {
      lines_.put("↵", 1, look == Look::kPlain ? Look::kDim : look);
      lines_.new_line();
    } else if (character == '\t') {
      lines_.put(" ", 1, look);
    } else if (character < 0x20) {
      std::string picture;
      append_utf8(U'\u2400' + character, picture);  // Unicode's pictures of control characters
      lines_.put(picture, 1, look);
    } else if (is_harmless(character)) {
      lines_.put(bytes, utf8proc_charwidth(static_cast<utf8proc_int32_t>(character)), look);
    } else {
      lines_.put("\uFFFD", 1, look);
    }
  }

  LineWriter& lines_;
  std::string bytes_;
  std::vector<Look> looks_;  // of each byte
};

void write_to_terminal(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

constexpr std::array kEndingSignals = {SIGINT, SIGTERM, SIGHUP};

void restore_and_die(int signal) {
  constexpr std::string_view kRestore = "\x1b[?2026l\x1b[0m\x1b[?25h\r\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kRestore.data(), kRestore.size());
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

LiveView::LiveView(const ModelConfig& config, const Tokenizer& tokenizer)
    : config_(config), tokenizer_(tokenizer) {
  for (const int signal : kEndingSignals) std::signal(signal, restore_and_die);
  write_to_terminal(kHideCursor);
}

LiveView::~LiveView() {
  draw({});
  write_to_terminal(kShowCursor);
  for (const int signal : kEndingSignals) std::signal(signal, SIG_DFL);
}

void LiveView::update(const StepEvent& event) {
  for (const Commit& commit : event.report.committed) {
    fresh_.push_back(commit.position);
    if (!event.report.slots.empty()) iterations_[commit.position] = event.report.iteration;
  }
  constexpr double kFrameSeconds = 1.0 / 60;
  if (lines_drawn_ > 0 && since_drawing_.seconds() < kFrameSeconds) return;
  since_drawing_.restart();

  const TerminalSize size = terminal_size(stderr);
  // Never the last column: terminals differ in where the cursor is after it.
  const int columns = std::max(size.columns - 1, 2);
  const auto room = static_cast<size_t>(std::max(size.lines - 1, 0));
  std::vector<std::string> lines = canvas_lines(event.decoder, columns, room);
  lines.push_back(status_line(event).substr(0, static_cast<size_t>(columns)));
  draw(lines);
  fresh_.clear();
}

std::vector<std::string> LiveView::canvas_lines(const Decoder& decoder, int columns, size_t room) const {
  LineWriter lines(columns);
  TextWriter text(lines);
  bool ended = false;
  const std::span<const TokenId> canvas = decoder.canvas();
  for (auto position = static_cast<size_t>(decoder.prompt_length()); position < canvas.size(); ++position) {
    const TokenId token = canvas[position];
    if (token == config_.mask_id) {
      text.flush();
      lines.put_mask();
      continue;
    }
    const bool is_end =
        std::find(config_.end_ids.begin(), config_.end_ids.end(), token) != config_.end_ids.end();
    ended = ended || is_end;
    const bool is_fresh =
        std::find(fresh_.begin(), fresh_.end(), static_cast<int32_t>(position)) != fresh_.end();
    const auto iteration = iterations_.find(static_cast<int32_t>(position));
    const Look written = iteration == iterations_.end() ? Look::kPlain : hue_of(iteration->second);
    const Look look = is_fresh ? Look::kFresh : ended ? Look::kDim : written;
    text.add(is_end ? "·" : tokenizer_.decode(std::array{token}, false), look);
  }
  text.flush();
  return lines.finish(room);
}

std::string LiveView::status_line(const StepEvent& event) const {
  const std::span<const TokenId> generated =
      event.decoder.canvas().subspan(static_cast<size_t>(event.decoder.prompt_length()));
  const auto masked = std::count(generated.begin(), generated.end(), config_.mask_id);
  const RunStatistics& statistics = event.statistics;
  const auto committed = static_cast<double>(static_cast<std::ptrdiff_t>(generated.size()) - masked);
  const double speed = statistics.seconds > 0 ? committed / statistics.seconds : 0;
  return fmt::format("step {} | block {} | {} masked | {:.1f} tokens/s | {} rows, {} in all",
                     event.report.step + 1, event.report.block + 1, masked, speed, event.plan.num_rows(),
                     statistics.cost.rows);
}

void LiveView::draw(const std::vector<std::string>& lines) {
  std::string frame(kBeginUpdate);
  frame += '\r';
  if (lines_drawn_ > 1) frame += fmt::format("\x1b[{}A", lines_drawn_ - 1);
  for (size_t i = 0; i < lines.size(); ++i) {
    frame += lines[i];
    frame += kClearToEndOfLine;
    if (i + 1 < lines.size()) frame += "\r\n";
  }
  if (static_cast<int>(lines.size()) < lines_drawn_) frame += kClearBelow;
  frame += kEndUpdate;
  write_to_terminal(frame);
  lines_drawn_ = static_cast<int>(lines.size());
}

}  // namespace lacuna
