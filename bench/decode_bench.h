// Estimates the time of a whole decode at shapes without weights at hand, from a sample of its passes.
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
  /// Timed passes of each setting, spread evenly over the run. If the passes are of fewer kinds than this
  /// (same rows and logits), each kind is timed once, or once for every eight passes.
  int32_t timed_passes = 8;
  int32_t repeat = 1;  ///< times that each of these is computed
  /// Random weights neither converge nor agree, so both are simulated: a row converges (its drift becomes 0)
  /// after this number of passes have computed its token,
  int32_t settle_passes = 2;
  double accept_rate =
      0.9;  ///< and a guide, or ReFusion's verification, accepts each draft with this probability;
  double select_rate = 0.5;  ///< ReFusion: a slot's first token is confident enough with this probability.
  uint64_t seed = 0;
};

/// One setting's run.
struct DecodeTiming {
  int64_t passes = 0;  ///< forward passes of both models together
  int64_t rows = 0;    ///< of the whole run
  double layer_flops = 0;
  double flops = 0;
  std::vector<std::vector<double>> pass_seconds;  ///< [repeat][timed passes]
  std::vector<double> total_seconds;              ///< [repeat] estimates for the whole run

  /// weights  how many passes of the run each timed one stands for
  void add_round(std::vector<double> seconds, const std::vector<double>& weights);
};

/// Decodes twice with simulated posteriors, with the options and with the uncached baseline of the same
/// lengths and steps (for a ReFusion model: with the released code's rules); then computes interleaved passes
/// of both runs. The cost of a pass depends on its plan alone.
///   guide  null without one
std::pair<DecodeTiming, DecodeTiming> bench_decode(const BackendModel& model, const BackendModel* guide,
                                                   const GenerationOptions& generation,
                                                   const DecodeBenchOptions& options);

/// The baseline, the run in question, and their ratios.
nlohmann::ordered_json to_json(const DecodeTiming& plain, const DecodeTiming& timing);

}  // namespace lacuna
