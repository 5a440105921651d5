// The page of `lacuna report server`: what the scripts of bench/ find when they load `lacuna serve`.
#pragma once

#include <string>
#include <vector>

#include "report_page.h"

namespace lacuna {

/// The commands that are run.
struct ServerGrid {
  std::vector<std::string> loads;      ///< of bench/serve_load.py
  std::vector<std::string> overheads;  ///< of bench/serve_overhead.py
};

/// What `make results` measures.
ServerGrid server_grid();

/// Asks for every command of the grid and writes server.md.
std::vector<PageFile> write_server_page(const ServerGrid& grid, const Measure& measure);

}  // namespace lacuna
