// State of unmask rules across the steps of one request: results of earlier passes for KLASS, WINO, Saber and
// CreditDecoding, tokens to remask, and the ranges in which SlowFast, DSB, AdaBlock and d3LLM write
// (unmask.h). Positions are those of the canvas.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "decode/canvas.h"
#include "decode/unmask.h"
#include "model/drift.h"

namespace lacuna {

/// Counts consecutive passes of the block in which the posterior of a position moved by less than Klass::kl.
class StablePasses {
 public:
  StablePasses(const Klass& rule, int32_t num_positions);
  void start_block();
  /// Counts a pass. Returns, for each candidate, whether its posterior has been stable for long enough.
  ///   drifts  of the candidates' rows since the previous pass; empty without one
  std::vector<bool> count(std::span<const Commit> candidates, std::span<const Drift> drifts);

 private:
  Klass rule_;
  std::vector<int32_t> passes_;  // by position
};

/// The tokens that WINO remasks.
class Verdicts {
 public:
  explicit Verdicts(const Wino& rule) : rule_(rule) {}
  void start_block() { last_accepted_ = kFirstAccepted; }
  /// The positions to mask again after a step.
  ///   verified  positions written before the pass
  ///   probabilities  of their tokens, by the extra mask rows
  std::vector<int32_t> revoked(std::span<const int32_t> verified, std::span<const double> probabilities,
                               size_t num_committed);

 private:
  static constexpr size_t kFirstAccepted = 30;  // initial value in the published loop

  Wino rule_;
  size_t last_accepted_ = kFirstAccepted;
};

/// Confidences of all positions that a request writes, for Saber.
class ConfidenceTrace {
 public:
  ConfidenceTrace(const Saber& rule, int32_t num_positions);
  /// Begins a block with these positions; in the first block their confidence starts at 0.
  void open(std::span<const int32_t> positions, bool is_first_block);
  /// Takes the predictions of a pass for masked and written positions.
  void see(std::span<const Commit> predictions);
  /// Mean confidence of written positions when they were last written; 1 without any.
  double mean_written() const;
  void write(std::span<const Commit> commits);
  /// The written positions to remask after a step, among those of the last see().
  std::vector<int32_t> revoked(const Canvas& canvas, size_t num_committed) const;

 private:
  static constexpr double kNone = -std::numeric_limits<double>::infinity();

  Saber rule_;
  std::vector<double> last_;                        // by position; kNone: not predicted yet
  std::vector<double> written_;                     // by position; kNone: never written
  std::vector<std::pair<double, int32_t>> growth_;  // growth in the pass, with positions
};

/// Credits of tokens at positions, for CreditDecoding.
class CreditLedger {
 public:
  CreditLedger(const TraceCredit& rule, int32_t num_positions);
  void start_block();
  /// Tokens that have credit at the position, ascending.
  std::vector<TokenId> credited(int32_t position) const;
  /// Updates credits by the predictions of a pass. Returns the best tokens with credit, and their
  /// probabilities.
  ///   rows  of the candidates; listed_logprobs of the credited tokens, in their order
  std::vector<Commit> with_credit(std::span<const Commit> candidates, std::span<const RowStatistics> rows);

 private:
  TraceCredit rule_;
  std::vector<std::map<TokenId, double>> credits_;  // by position
};

/// The cycles of SlowFast within a block.
class SpanCycle {
 public:
  explicit SpanCycle(const SlowFast& rule) : rule_(rule) {}
  void start_block(const Block& block);
  bool is_exploring() const { return is_exploring_; }
  /// One past the last position that the step may write.
  int32_t end() const { return is_exploring_ ? block_end_ : span_end_; }
  /// Whether the pass sees no more than what is before end().
  bool is_cut() const { return !is_exploring_ && pass_ > 0; }
  /// Takes the predictions of a pass, before its commits.
  void see(std::span<const Commit> predictions);
  /// Ends a pass, after its commits: the next one may belong to the next phase.
  void finish_pass(const Canvas& canvas);

 private:
  void start(int32_t position);

  SlowFast rule_;
  int32_t start_ = 0;  // everything before it is written
  int32_t span_end_ = 0;
  int32_t block_end_ = 0;
  int32_t pass_ = 0;                 // passes of the phase
  std::optional<int32_t> estimate_;  // span's end by the previous pass
  bool is_exploring_ = true;
  bool is_settled_ = false;  // two estimates in a row agree
};

/// The part of a block in which a step of DSB writes.
class SlidingEnd {
 public:
  explicit SlidingEnd(const SlidingBlock& rule) : rule_(rule) {}
  void start_block(const Canvas& canvas, const Block& block);
  /// One past the last position that the next step may write; a mask precedes it unless the block has none.
  int32_t end(const Canvas& canvas) const;

 private:
  SlidingBlock rule_;
  int32_t block_begin_ = 0;
  int32_t block_end_ = 0;
  size_t masked_at_start_ = 0;  // masks before the block's end
};

/// The begun blocks of d3LLM's decoding, which divide an answer.
class BegunBlocks {
 public:
  ///   length  of a block
  BegunBlocks(const MultiBlock& rule, int32_t length) : rule_(rule), length_(length) {}
  void start(const Canvas& canvas);
  /// One past the last position of the begun blocks.
  int32_t end() const { return end_; }
  /// One past the first block that has masks.
  int32_t first_end(const Canvas& canvas) const;
  /// After the commits of a pass: begins the next block if enough of the last one is written.
  void finish_pass(const Canvas& canvas);
  /// Begins blocks until one has masks.
  void skip_written(const Canvas& canvas);

 private:
  MultiBlock rule_;
  int32_t length_;
  int32_t end_ = 0;
};

/// One past the last position of an AdaBlock block.
///   predictions  of the block's first pass
///   window  where a delimiter may end the block
///   usual_end  of a block without a delimiter that is confident enough
int32_t delimited_end(const AdaptiveBlock& rule, std::span<const TokenId> delimiters,
                      std::span<const Commit> predictions, IndexRange window, int32_t usual_end);

/// Mean lead of the best token over the second, in logits; rows have RowStatistics::likeliest.
double mean_lead(std::span<const RowStatistics> rows);
/// The lead at which Prophet writes all masks, after this share of its steps.
double lead_to_exit(const Prophet& rule, double progress);

}  // namespace lacuna
