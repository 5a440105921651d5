// The opening page of docs/results: for each family, accuracy against time and rows over all its methods.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report_page.h"

namespace lacuna {

struct FrontierSetting {
  std::string label;  ///< beside its point
  std::string flags;  ///< of `lacuna eval`; empty: the family's defaults
};

/// One model and the ways to decode it, the plain decoder first: what all others are compared with.
struct FrontierFamily {
  std::string family, model;
  std::string task;  ///< flags: "--task arithmetic"
  std::vector<FrontierSetting> settings;
};

struct FrontierGrid {
  std::vector<FrontierFamily> families;
  /// Decoders whose work on one prompt is drawn: labels, and the model and flags of `lacuna run`; may be
  /// empty.
  std::vector<FrontierSetting> film;
  int32_t samples = 200;
  int32_t rounds = 2;        ///< runs of each setting; the fastest counts
  std::string common_flags;  ///< of every setting: " --threads 2", or nothing
};

/// Every family that has a model of its own in the repository, with its methods and their combinations.
std::vector<FrontierFamily> frontier_families();

/// A decoder of each kind, for the film.
std::vector<FrontierSetting> film_settings();

/// Asks for every setting of the grid and writes README.md and a picture for each family.
std::vector<PageFile> write_frontier_page(const FrontierGrid& grid, const Measure& measure);

}  // namespace lacuna
