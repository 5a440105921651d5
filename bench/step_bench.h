// Times one denoising step, by number of rows that it computes.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "backend/backend.h"
#include "bench/machine.h"
#include "constraint/token_automaton.h"
#include "constraint/token_vocabulary.h"
#include "model/cost.h"

namespace lacuna {

struct StepBenchOptions {
  int32_t canvas = 1024;  ///< cells that every row attends to
  std::vector<int32_t>
      rows;            ///< row counts to time, each in [1, canvas]; empty: canvas and its 2nd, 4th, 8th
  int32_t repeat = 5;  ///< timed passes per row count, after one to warm up
  /// Where given, each pass is followed by what a constrained answer costs at worst: every row is read by the
  /// automaton's classes, and the best accepted answer is found.
  std::shared_ptr<const TokenAutomaton> constraint = nullptr;
  const CurrentPeaks* peaks = nullptr;  ///< where given, measured before each timed pass; not owned
};

/// Tokens for models without a tokenizer: all bytes, then words of 2 to 8 letters, some of which begin or end
/// with the punctuation of JSON.
TokenTable synthetic_tokens(const ModelConfig& config);

/// Timed passes of one row count.
struct StepTiming {
  int32_t rows = 0;
  StepCost cost;          ///< of one pass
  double head_bytes = 0;  ///< of cost.bytes, those of the output head
  std::vector<double> seconds;
  std::vector<PassTimes> times;
  std::vector<double> class_seconds, witness_seconds;  ///< with a constraint
  int64_t witness_steps = 0;                           ///< steps of a Budget that a witness takes
  std::vector<Roofline> peaks;                         ///< before each pass, if they were measured

  double median_seconds() const;
  /// Time of the layers and of the head by the roofline. Experts that no row chooses are not read
  /// (share_of_weights_read()).
  double least_seconds(const Roofline& limits) const;
  /// Share of a pass that is neither GEMM nor attention; the median over passes.
  double other_share() const;
  /// With a constraint: FLOP of the pass in the time of one step of a witness.
  double flops_per_step() const;
};

/// A full pass fills the cells. Row counts are then interleaved, so that a change of the machine's speed
/// affects all of them. A pass computes rows spread evenly over the canvas, each attends to all of it, and a
/// token is sampled for every row, as in a denoising step with these rows masked.
std::vector<StepTiming> bench_steps(const BackendModel& model, const StepBenchOptions& options);

/// One object per row count: seconds and their parts, speed, speed relative to the fastest, and the ratios of
/// FLOPs and time to those of the most rows. With peaks also their medians, that of the least time that they
/// allow, and that of its share of the pass.
nlohmann::ordered_json to_json(const std::vector<StepTiming>& timings);

}  // namespace lacuna
