// The measurement of `lacuna bench decode`, shared by all subcommands that run it.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "bench/decode_bench.h"
#include "loading.h"

namespace lacuna {

struct DecodeTimingFlags : GuidedModelFlags {
  DecodeBenchOptions options;
  GenerationOptions generation;
};

void add_decode_timing_flags(CLI::App& command, DecodeTimingFlags& flags);

/// The object that `lacuna bench decode --json` prints.
nlohmann::ordered_json time_decode(const DecodeTimingFlags& flags);

}  // namespace lacuna
