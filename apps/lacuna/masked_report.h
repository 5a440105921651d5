// The page of `lacuna report masked`: which settings it measures, and how their figures become tables and
// plots beside those of the papers. Nothing here computes or keeps time: the same measurements give the same
// page.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace lacuna {

/// What the grid spans.
struct MaskedGrid {
  std::string model, guide;
  int32_t samples = 200;
  int32_t timed_samples = 16;  ///< of what is timed, the first of them
  int32_t rounds = 3;          ///< runs of what is timed; the fastest counts
  std::vector<int32_t> lengths = {32, 64, 128};
  std::string common_flags;  ///< of every setting: " --threads 2", or nothing
};

/// One setting's figures, as its raw row has them.
struct Measurement {
  std::string machine, commit;
  int64_t samples = 0;
  double accuracy = 0, accuracy_low = 0, accuracy_high = 1;
  double steps = 0;  ///< mean
  double rows = 0;
  double row_ratio = 0;  ///< to the same passes without cache or lock
  double layer_flops = 0, layer_flops_ratio = 0;
  double seconds = 0, processor_seconds = 0;  ///< per sample
  double canvas_tokens = 0;                   ///< generated per sample, those after end tokens included
  std::optional<double> perplexity, repetition;
  std::vector<double> row_ratio_by_step;
};

/// Throws nlohmann::json::exception if the row lacks a figure.
Measurement measurement_of(const nlohmann::json& row);

/// A file of the page.
struct PageFile {
  std::string name;
  std::string text;
};

/// Whether a command's times matter, so that it is run more than once.
enum class Purpose : uint8_t { kFigures, kTimes };

/// The measurement that a command stands for: "lacuna eval -m mini-llada ...".
using Measure = std::function<Measurement(const std::string& command, Purpose purpose)>;

/// Asks for every setting of the grid, some more than once, and writes masked.md and its plots.
std::vector<PageFile> write_masked_page(const MaskedGrid& grid, const Measure& measure);

}  // namespace lacuna
