// The page of the papers' claims: each beside what was measured here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report_page.h"

namespace lacuna {

struct ClaimsGrid {
  int32_t samples = 200;
  bool has_shapes = true;    ///< whether claims about time at published shapes are judged
  std::string common_flags;  ///< of every setting: " --threads 2", or nothing
};

/// Asks for the rows that the claims are judged by and writes claims.md.
std::vector<PageFile> write_claims_page(const ClaimsGrid& grid, const Measure& measure);

}  // namespace lacuna
