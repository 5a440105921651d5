#include "progress_bar.h"

#include <fmt/core.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "terminal.h"

namespace lacuna {
namespace {

constexpr std::chrono::milliseconds kDelay{500};
constexpr int kWidestBar = 30;
constexpr int kNarrowestBar = 8;

/// The longest prefix of a text that fits into `columns`, and its width. Drops control characters.
std::pair<std::string, int> fitted(std::string_view text, int columns) {
  std::string start;
  int width = 0;
  while (!text.empty()) {
    utf8proc_int32_t character = 0;
    const utf8proc_ssize_t size = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                                   static_cast<utf8proc_ssize_t>(text.size()), &character);
    const size_t bytes = size > 0 ? static_cast<size_t>(size) : 1;
    const int wide = size > 0 ? utf8proc_charwidth(character) : 0;
    if (width + wide > columns) break;
    if (size > 0 && wide > 0) start += text.substr(0, bytes);
    width += wide;
    text.remove_prefix(bytes);
  }
  return {start, width};
}

std::string bar_of(int percent, int width) {
  const int filled = width * percent / 100;
  return fmt::format(" [{:#<{}}{:.<{}}]", "", filled, "", width - filled);
}

}  // namespace

std::string progress_line(std::string_view label, int percent, std::string_view detail, int columns) {
  percent = std::clamp(percent, 0, 100);
  const int room = std::max(columns - 5, 0);  // before " 100%"
  const auto [whole_label, label_width] = fitted(label, room);
  const auto [whole_detail, detail_width] = fitted(detail, columns);
  constexpr int kFrame = 3;  // " []"
  const int with_detail = room - label_width - (detail.empty() ? 0 : detail_width + 1) - kFrame;
  const int without = room - label_width - kFrame;
  const std::string number = fmt::format(" {:3}%", percent);
  if (with_detail >= kNarrowestBar) {
    return whole_label + bar_of(percent, std::min(with_detail, kWidestBar)) + number +
           (detail.empty() ? "" : " " + whole_detail);
  }
  if (without >= kNarrowestBar) {
    return whole_label + bar_of(percent, std::min(without, kWidestBar)) + number;
  }
  return fitted(whole_label + number, columns).first;
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<int64_t>(seconds);
  if (whole >= 360'000) return "days";
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

ProgressBar::ProgressBar(std::string label) : label_(std::move(label)), shown_(can_draw_on(stderr)) {}

void ProgressBar::update(int64_t done, int64_t total, std::string_view detail) {
  if (!shown_ || std::chrono::steady_clock::now() - start_ < kDelay) return;
  const double share = static_cast<double>(done) / static_cast<double>(std::max<int64_t>(total, 1));
  // The last column stays free: some terminals wrap when it is written to.
  std::string line = progress_line(label_, static_cast<int>(100 * std::clamp(share, 0.0, 1.0)), detail,
                                   terminal_size(stderr).columns - 1);
  if (line == last_line_) return;
  write_to(stderr, fmt::format("\r{}\033[K", safe_for_terminal(line)));
  std::fflush(stderr);
  last_line_ = std::move(line);
}

void ProgressBar::clear() {
  if (!last_line_.empty()) write_to(stderr, "\r\033[K");
  last_line_.clear();
}

}  // namespace lacuna
