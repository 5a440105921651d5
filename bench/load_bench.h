// How long a model takes to load, and how much memory it takes beside what is predicted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/threads.h"
#include "model/model.h"

namespace lacuna {

struct LoadBenchOptions {
  int repeat = 3;  ///< timed loads, after one that brings the files into the system's cache
};

struct LoadTiming {
  int64_t file_bytes = 0;       ///< of the checkpoint's tensors, or of the packed matrices of a random model
  int64_t predicted_bytes = 0;  ///< of the matrices once packed, as `lacuna inspect` says
  int64_t weight_bytes = 0;     ///< the same, as they turned out
  int64_t peak_bytes = 0;  ///< the most memory of its own that the process gained while it loaded, seen as
                           ///< each parameter arrived; pages of mapped files are the system's to take back
  std::vector<double> seconds;
};

/// Memory of this process that no file stands behind. 0 where the system does not say.
int64_t anonymous_bytes();

/// Loads the folder or .gguf file again and again; a model of random weights where `folder` is empty.
LoadTiming bench_load(const std::filesystem::path& folder, const ModelConfig& config,
                      const WeightFormats& formats, ThreadPool& threads, const LoadBenchOptions& options);

nlohmann::ordered_json to_json(const LoadTiming& timing);

}  // namespace lacuna
