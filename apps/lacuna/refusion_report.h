// The page of `lacuna report refusion`: which settings it measures, and how their figures become tables and
// plots beside those of the paper.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report_page.h"

namespace lacuna {

/// What the grid spans.
struct RefusionGrid {
  std::string model, twin, masked, blocks;
  std::string shape;  ///< what is timed at a published shape; empty: nothing
  int32_t samples = 200;
  int32_t timed_samples = 16;  ///< of what is timed, the first of them
  int32_t rounds = 3;          ///< runs of what is timed; the fastest counts
  std::vector<double> slot_thresholds = {0.3, 0.5, 0.7, 0.9, 0.99};
  std::vector<double> token_thresholds = {0.1, 0.3, 0.5, 0.7, 0.9};
  std::vector<double> slot_sizes = {4, 8, 16};
  std::vector<double> block_lengths = {8, 16, 32, 64};
  std::string common_flags;  ///< of every setting: " --threads 2", or nothing
};

/// Asks for every setting of the grid, some more than once, and writes refusion.md and its plots.
std::vector<PageFile> write_refusion_page(const RefusionGrid& grid, const Measure& measure);

}  // namespace lacuna
