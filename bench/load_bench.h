// Times loading a model, and compares its memory with the prediction.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/threads.h"
#include "model/model.h"

namespace lacuna {

struct LoadBenchOptions {
  int repeat = 3;  ///< timed loads, after one that brings the files into the page cache
};

struct LoadTiming {
  int64_t file_bytes = 0;       ///< of the checkpoint's tensors, or of the packed matrices of a random model
  int64_t predicted_bytes = 0;  ///< of the packed matrices, as in `lacuna inspect`
  int64_t weight_bytes = 0;     ///< actual bytes of the packed matrices
  int64_t mapped_bytes = 0;     ///< the mapped part of weight_bytes
  int64_t peak_bytes = 0;  ///< the most memory that the process gained while it loaded, pages of mapped files
                           ///< included, seen as each parameter arrived
  double read_bandwidth =
      0;  ///< bytes per second that all threads read from memory, measured in the same run
  std::vector<double> seconds;
  std::vector<double> first_use_seconds;  ///< to bring in every page of mapped matrices afterwards, as the
                                          ///< first pass will
};

/// Loads the folder or .gguf file repeatedly; if `folder` is empty, a model with random weights.
LoadTiming bench_load(const std::filesystem::path& folder, const ModelConfig& config,
                      const WeightFormats& formats, ThreadPool& threads, const LoadBenchOptions& options);

nlohmann::ordered_json to_json(const LoadTiming& timing);

}  // namespace lacuna
