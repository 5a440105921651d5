// Estimates the time of a whole decode from a sample of its passes, for model shapes without real weights.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "options/options.h"

namespace lacuna {

struct DecodeBenchOptions {
  int32_t prompt_length = 128;
  int32_t batch = 1;
  /// Number of timed passes of each setting, spread evenly over the run. If the run has fewer kinds of passes
  /// (equal rows and logits) than this, each kind is timed once, or once for every eight passes.
  int32_t timed_passes = 8;
  int32_t repeat = 1;  ///< number of times that each timed pass is computed
  // Random weights neither converge nor agree with drafts, so both are simulated.
  /// A row converges (its drift becomes 0) after this number of passes with its token.
  int32_t passes_to_converge = 2;
  double accept_rate =
      0.9;  ///< A guide, or ReFusion's verification, accepts each draft with this probability.
  double select_rate = 0.5;  ///< ReFusion: a slot's first token is confident enough with this probability.
  uint64_t seed = 0;
};

/// One setting's run.
struct DecodeTiming {
  int64_t passes = 0;  ///< forward passes of both models together
  int64_t rows = 0;    ///< rows of all passes
  double layer_flops = 0;
  double flops = 0;
  std::vector<std::vector<double>> pass_seconds;  ///< [repeat][timed passes]
  std::vector<double> total_seconds;              ///< [repeat] estimates for the whole run

  ///   weights  number of passes of the run that each timed pass represents
  void add_round(std::vector<double> seconds, const std::vector<double>& weights);
};

/// Decodes twice with simulated posteriors: with `generation`, and with the uncached baseline of the same
/// lengths and steps (for ReFusion: the released code's rules). Then times passes of both runs, interleaved.
/// The cost of a pass depends on its plan alone. Returns the baseline's timing first.
///   guide  null without one
std::pair<DecodeTiming, DecodeTiming> bench_decode(const BackendModel& model, const BackendModel* guide,
                                                   const GenerationOptions& generation,
                                                   const DecodeBenchOptions& options);

/// The baseline `plain`, the run `timing`, and their ratios.
nlohmann::ordered_json to_json(const DecodeTiming& plain, const DecodeTiming& timing);

}  // namespace lacuna
