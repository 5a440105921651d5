// The page of `lacuna report masked`: which settings it measures, and how their figures become tables and
// plots beside those of the papers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report_page.h"

namespace lacuna {

/// What the grid spans.
struct MaskedGrid {
  std::string model, guide;
  int32_t samples = 200;
  int32_t timed_samples = 16;  ///< of what is timed, the first of them
  int32_t rounds = 3;          ///< runs of what is timed; the fastest counts
  std::vector<int32_t> lengths = {32, 64, 128};
  std::string common_flags;  ///< of every setting: " --threads 2", or nothing
};

/// Asks for every setting of the grid, some more than once, and writes masked.md and its plots.
std::vector<PageFile> write_masked_page(const MaskedGrid& grid, const Measure& measure);

}  // namespace lacuna
