#pragma once

#include <cstdint>
#include <string>

namespace lacuna {

/// A bar on standard error, if that is a terminal; gone when destroyed.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(int64_t done, int64_t total);
  void clear();

 private:
  std::string label_;
  bool shown_;
  int last_percent_ = -1;
};

}  // namespace lacuna
