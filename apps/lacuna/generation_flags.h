#pragma once

#include <CLI/CLI.hpp>

#include "options/options.h"

namespace lacuna {

/// Every setting of GenerationOptions as a flag, under all its names.
void add_generation_flags(CLI::App& command, GenerationOptions& options);

}  // namespace lacuna
