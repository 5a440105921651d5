#include "constraint/code_points.h"

#include <algorithm>
#include <utility>

namespace lacuna {
namespace {

constexpr uint32_t kLastCodePoint = 0x10FFFF;
constexpr CodePointSet::Interval kSurrogates{0xD800, 0xDFFF};

std::vector<CodePointSet::Interval> without_surrogates(const std::vector<CodePointSet::Interval>& intervals) {
  std::vector<CodePointSet::Interval> kept;
  for (const auto& [first, last] : intervals) {
    const uint32_t end = std::min(last, kLastCodePoint);
    if (first > end) continue;
    if (first < kSurrogates.first) kept.push_back({first, std::min(end, kSurrogates.first - 1)});
    if (end > kSurrogates.last) kept.push_back({std::max(first, kSurrogates.last + 1), end});
  }
  return kept;
}

}  // namespace

CodePointSet::CodePointSet(std::vector<Interval> intervals) {
  intervals = without_surrogates(intervals);
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.first < b.first; });
  for (const Interval& interval : intervals) {
    if (!intervals_.empty() && interval.first <= intervals_.back().last + 1) {
      intervals_.back().last = std::max(intervals_.back().last, interval.last);
    } else {
      intervals_.push_back(interval);
    }
  }
}

CodePointSet CodePointSet::all() {
  return CodePointSet({{0, kLastCodePoint}});
}

CodePointSet CodePointSet::complement() const {
  std::vector<Interval> gaps;
  uint32_t next = 0;
  for (const auto& [first, last] : intervals_) {
    if (first > next) gaps.push_back({next, first - 1});
    next = last + 1;
  }
  if (next <= kLastCodePoint) gaps.push_back({next, kLastCodePoint});
  return CodePointSet(std::move(gaps));
}

bool CodePointSet::contains(uint32_t code_point) const {
  return std::any_of(intervals_.begin(), intervals_.end(), [&](const Interval& interval) {
    return interval.first <= code_point && code_point <= interval.last;
  });
}

}  // namespace lacuna
