#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace lacuna {

/// "Loading mini [#####.....] 50% 1.2 MB/s" in at most `columns` columns. If there is too little room, it
/// shortens the bar, then drops the detail, then the bar, and last cuts the label.
std::string progress_line(std::string_view label, int percent, std::string_view detail, int columns);

/// Formats a duration: "4:05", "2:04:05"; "days" from a hundred hours on.
std::string duration_text(double seconds);

/// A one-line bar on standard error, if that is a terminal. Appears after half a second; the destructor
/// erases it.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Whether update() may draw.
  bool shown() const { return shown_; }
  /// Draws if the percentage or the detail changed.
  void update(int64_t done, int64_t total, std::string_view detail = {});
  void clear();

 private:
  std::string label_;
  bool shown_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::string last_line_;
};

}  // namespace lacuna
