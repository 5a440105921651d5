// The measurement of `lacuna bench block`, shared by all subcommands that run it.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/block_bench.h"
#include "loading.h"

namespace lacuna {

struct BlockTimingFlags : ModelFlags {
  BlockBenchOptions options;
  std::vector<std::string> sparse = {"exact", "mage=512", "quest=512", "sparsed=512"};
};

void add_block_timing_flags(CLI::App& command, BlockTimingFlags& flags);

/// The object that `lacuna bench block --json` prints.
nlohmann::ordered_json time_blocks(const BlockTimingFlags& flags);

}  // namespace lacuna
