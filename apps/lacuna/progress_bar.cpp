#include "progress_bar.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "terminal.h"

namespace lacuna {

ProgressBar::ProgressBar(std::string label) : label_(std::move(label)), shown_(can_draw_on(stderr)) {}

void ProgressBar::update(int64_t done, int64_t total) {
  const auto percent = static_cast<int>(100 * done / std::max<int64_t>(total, 1));
  if (!shown_ || percent == last_percent_) return;
  last_percent_ = percent;
  constexpr int kWidth = 30;
  const int filled = kWidth * percent / 100;
  fmt::print(stderr, "\r{} [{:#<{}}{:.<{}}] {:3}%", label_, "", filled, "", kWidth - filled, percent);
  std::fflush(stderr);
}

void ProgressBar::clear() {
  if (last_percent_ >= 0) fmt::print(stderr, "\r\033[K");
  last_percent_ = -1;
}

}  // namespace lacuna
