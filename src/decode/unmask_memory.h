// The memory of an unmask rule for the steps of one request, and which tokens it masks again: KLASS, WINO,
// Saber and CreditDecoding (unmask.h). Positions are those of the canvas.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "decode/canvas.h"
#include "decode/unmask.h"
#include "model/drift.h"

namespace lacuna {

/// Passes in a row of the present block in which the posterior of a position moved by less than KLASS allows.
class CalmPasses {
 public:
  CalmPasses(const Klass& rule, int32_t num_positions);
  void start_block();
  /// Counts a pass. Returns, for each candidate, whether its posterior has been stable for long enough.
  ///   drifts  of the candidates' rows since the pass before; empty where there was none
  std::vector<bool> count(std::span<const Commit> candidates, std::span<const Drift> drifts);

 private:
  Klass rule_;
  std::vector<int32_t> passes_;  // by position
};

/// The tokens that WINO masks again.
class Verdicts {
 public:
  explicit Verdicts(const Wino& rule) : rule_(rule) {}
  void start_block() { last_accepted_ = kFirstAccepted; }
  /// The positions to mask again after a step.
  ///   verified  written before the pass
  ///   probabilities  of their tokens, by the masks next to them
  std::vector<int32_t> revoked(std::span<const int32_t> verified, std::span<const double> probabilities,
                               size_t num_committed);

 private:
  static constexpr size_t kFirstAccepted = 30;  // of the published loop, at the beginning of a block

  Wino rule_;
  size_t last_accepted_ = kFirstAccepted;
};

/// Confidences of all positions that a request writes, for Saber.
class ConfidenceTrace {
 public:
  ConfidenceTrace(const Saber& rule, int32_t num_positions);
  /// Positions of a new block, which may be predicted from now on. Those of the first block begin with a
  /// confidence of 0.
  void open(std::span<const int32_t> positions, bool is_first_block);
  /// Takes the predictions of a pass, of masks and of what is written.
  void see(std::span<const Commit> predictions);
  /// Mean confidence, when they were last written, of the positions that have been; 1 if none has.
  double mean_written() const;
  void write(std::span<const Commit> commits);
  /// The written positions to mask again after a step, of those that see() was given last.
  std::vector<int32_t> revoked(const Canvas& canvas, size_t num_committed) const;

 private:
  static constexpr double kNone = -std::numeric_limits<double>::infinity();

  Saber rule_;
  std::vector<double> last_;                        // by position; kNone: not predicted yet
  std::vector<double> written_;                     // by position; kNone: never written
  std::vector<std::pair<double, int32_t>> growth_;  // of the pass, with their positions
};

/// Credits of tokens at positions, for CreditDecoding.
class CreditLedger {
 public:
  CreditLedger(const TraceCredit& rule, int32_t num_positions);
  void start_block();
  /// Tokens that have credit at the position, ascending.
  std::vector<TokenId> credited(int32_t position) const;
  /// Counts the predictions of a pass, and returns them with credit: the best tokens, and their
  /// probabilities.
  ///   rows  of the candidates; listed_logprobs of the credited tokens, in their order
  std::vector<Commit> with_credit(std::span<const Commit> candidates, std::span<const RowStatistics> rows);

 private:
  TraceCredit rule_;
  std::vector<std::map<TokenId, double>> credits_;  // by position
};

/// Mean lead of the best token over the second, in logits; rows have RowStatistics::likeliest.
double mean_lead(std::span<const RowStatistics> rows);
/// The lead at which Prophet writes everything, at this share of its steps.
double lead_to_exit(const Prophet& rule, double progress);

}  // namespace lacuna
