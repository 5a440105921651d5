// The page of `lacuna report uniform`: which settings of Uniform-Cache it measures, and how their figures
// become tables and plots beside those of the thesis.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report_page.h"

namespace lacuna {

/// What the grid spans.
struct UniformGrid {
  std::string model, masked, judge;
  std::vector<std::string>
      shapes;  ///< what is timed at published shapes, the first in more ways; may be empty
  int32_t samples = 200;
  int32_t timed_samples = 16;      ///< of what is timed, the first of them
  int32_t instrument_samples = 8;  ///< that the instruments follow
  int32_t rounds = 3;              ///< runs of what is timed; the fastest counts
  std::string deep_shape;          ///< with more layers, timed once; may be empty
  int32_t shape_length = 64;       ///< positions generated at a published shape, in blocks of 32
  std::vector<int> batches = {1, 2, 8};
  std::vector<int> block_lengths = {8, 16, 32};
  std::vector<int> refreshes = {0, 1, 2, 4};
  std::vector<int> tokens_per_step = {1, 2, 3, 5};
  std::vector<int> step_counts = {4, 8, 16, 32, 64};
  std::string common_flags;  ///< of every setting: " --threads 2", or nothing
};

/// Asks for every setting of the grid, some more than once, and writes uniform.md and its plots.
std::vector<PageFile> write_uniform_page(const UniformGrid& grid, const Measure& measure);

}  // namespace lacuna
