// Copies of models whose weights are in the layout of the kernels: `lacuna pack` and --pack-cache.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/threads.h"
#include "engine/opened_model.h"
#include "model/parameters.h"

namespace lacuna {

struct PackReport {
  int64_t matrices = 0;
  int64_t panel_bytes = 0;
  int64_t bytes = 0;  ///< of all tensors
};

/// Writes a copy of the model into a folder, config.json last, with a progress bar. Throws InputError where a
/// file cannot be written.
PackReport write_packed_copy(const ModelSource& source, const WeightFormats& formats,
                             const std::filesystem::path& folder, ThreadPool& threads);

/// The folder in `cache` where a copy of these files in these formats belongs. Other files, adapters, formats
/// or another layout give another one.
std::filesystem::path cached_copy(const std::filesystem::path& cache, const ModelSource& source,
                                  const WeightFormats& formats);

/// Writes that copy where it is not there yet. A copy appears whole or not at all, also where several
/// processes write it. Returns whether it is there; where it cannot be written a line on standard error says
/// why.
bool ensure_cached_copy(const std::filesystem::path& copy, const ModelSource& source,
                        const WeightFormats& formats, ThreadPool& threads);

}  // namespace lacuna
