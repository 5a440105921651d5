// Copies of models with weights in the kernels' packed layout: `lacuna pack` and --pack-cache.
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
  int64_t bytes = 0;  ///< size of all tensors
};

/// Writes a packed copy of the model into a folder, config.json last, with a progress bar. Throws InputError
/// if a file cannot be written.
PackReport write_packed_copy(const ModelSource& source, const WeightFormats& formats,
                             const std::filesystem::path& folder, ThreadPool& threads);

/// The folder in `cache` for a copy of this model in these formats. It depends on the files, adapters,
/// formats and layout.
std::filesystem::path cached_copy(const std::filesystem::path& cache, const ModelSource& source,
                                  const WeightFormats& formats);

/// Writes the copy if it does not exist. It appears atomically, even if several processes write it. Returns
/// whether it exists; says on standard error why it could not be written.
bool ensure_cached_copy(const std::filesystem::path& copy, const ModelSource& source,
                        const WeightFormats& formats, ThreadPool& threads);

}  // namespace lacuna
