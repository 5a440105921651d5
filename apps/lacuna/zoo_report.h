// The page of `lacuna report zoo`: what the models that ship with the repository can do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report_page.h"

namespace lacuna {

/// A model that ships with the repository.
struct ZooModel {
  std::string name;
  std::string family;              ///< as `lacuna-train --family` spells it
  std::string flags;               ///< of the plain decoder of its family: no cache, one token a step
  std::vector<std::string> tasks;  ///< what it was trained on, as ZooGrid::columns() names it
};

struct ZooGrid {
  std::vector<ZooModel> models;
  int32_t samples = 200;
  /// Of each comparison of formats, which differ by little; the first of them are the `samples` above.
  int32_t format_samples() const { return 5 * samples; }
  uint64_t seed = 0;
  std::string common_flags;  ///< of every setting: " --threads 2", or nothing

  /// Tasks, and lengths of retrieval: "arithmetic", "retrieval 1024", ...
  static const std::vector<std::string>& columns();
};

/// The models of this repository.
std::vector<ZooModel> zoo_models();

/// Evaluates every model on every task that it was trained on and writes zoo.md.
std::vector<PageFile> write_zoo_page(const ZooGrid& grid, const Measure& measure);

}  // namespace lacuna
