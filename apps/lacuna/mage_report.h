// The page of `lacuna report mage`: which settings of sparse attention over block diffusion it measures, and
// how their figures become tables and pictures beside those of the papers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report_page.h"

namespace lacuna {

/// What the grid spans.
struct MageGrid {
  std::string model;                ///< of block diffusion, trained on arithmetic
  std::string needles;              ///< of block diffusion, trained on retrieval; may be empty
  std::string twin;                 ///< an autoregressive model, the control of the instruments; may be empty
  std::vector<std::string> shapes;  ///< whose blocks are timed; may be empty
  int32_t samples = 200;            ///< of each accuracy
  int32_t needle_samples = 40;      ///< of each accuracy on retrieval
  int32_t cell_samples = 10;        ///< of each cell of the heat maps
  int32_t instrument_samples = 4;
  int32_t control_block = 8;  ///< positions of the twin's blocks
  std::vector<int> contexts = {512, 1024, 2048, 4096};
  std::vector<int> depth_steps = {0, 1, 2, 3, 4};    ///< quarters of the list
  std::vector<int> budgets = {8, 16, 24};            ///< of arithmetic, whose prompts have some 30 tokens
  std::vector<int> needle_budgets = {64, 128, 256};  ///< the middle one is that of the heat maps
  std::vector<int> prefixes = {8192, 16384, 32768, 65536};
  std::string common_flags;  ///< of every setting: " --threads 2", or nothing
};

/// Asks for every setting of the grid and writes mage.md and its pictures.
std::vector<PageFile> write_mage_page(const MageGrid& grid, const Measure& measure);

}  // namespace lacuna
