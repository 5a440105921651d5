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
  /// If set, each pass is followed by the worst-case work of a constrained answer: reading every row by the
  /// automaton's token classes, and finding the best accepted answer (the witness).
  std::shared_ptr<const TokenAutomaton> constraint = nullptr;
  const CurrentPeaks* peaks = nullptr;  ///< if set, measured before each timed pass; not owned
};

/// Tokens for models without a tokenizer: all bytes, then words of 2 to 8 letters, some with JSON punctuation
/// at the beginning or end.
TokenTable synthetic_tokens(const ModelConfig& config);

/// Timed passes of one row count.
struct StepTiming {
  int32_t rows = 0;
  StepCost cost;          ///< of one pass
  double head_bytes = 0;  ///< the output head's part of cost.bytes
  std::vector<double> seconds;
  std::vector<PassTimes> times;
  std::vector<double> class_seconds, witness_seconds;  ///< with a constraint
  int64_t witness_steps = 0;                           ///< Budget steps of finding a witness
  std::vector<Roofline> peaks;                         ///< before each pass, if they were measured

  double median_seconds() const;
  /// Roofline time of the layers plus that of the head. Experts that no row chooses are not read
  /// (share_of_weights_read()).
  double least_seconds(const Roofline& limits) const;
  /// Share of a pass that is neither GEMM nor attention; the median over passes.
  double other_share() const;
  /// With a constraint: FLOPs that the pass computes in the time of one Budget step of a witness.
  double flops_per_step() const;
};

/// Times passes by row count, interleaved, so that a change of the machine's speed affects all of them. A
/// full pass fills the cells first. A timed pass computes rows spread evenly over the canvas; each attends to
/// the whole canvas, and a token is sampled for every row, as in a denoising step with these rows masked.
std::vector<StepTiming> bench_steps(const BackendModel& model, const StepBenchOptions& options);

/// One object per row count: seconds and their parts, speed, speed relative to the fastest, and the ratios of
/// FLOPs and time to those of the largest row count. With peaks, also the medians of the peaks, of
/// least_seconds(), and of its share of the pass.
nlohmann::ordered_json to_json(const std::vector<StepTiming>& timings);

}  // namespace lacuna
