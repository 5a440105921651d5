// Decisions: scores candidate tokens (labels) at a few open positions of an otherwise given text.
//
// A canvas is a prefix, computed once, and branches after it that do not see each other.
// engine/decision_canvas.h lays them out as each family needs; here the paradigm decides which cells a row
// sees:
//   masked          no prefix; a branch is a whole canvas with its prompt
//   uniform         the prefix sees itself alone, a branch the prefix and itself
//   blocks          a block sees itself and all blocks before it
//   causal, slots   a row sees those before it, and predicts the next position
//   canvases        the prefix is causal, a branch is a fresh canvas; one branch to a pass
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "decode/decoder.h"
#include "model/config.h"

namespace lacuna {

/// A position that holds one of several tokens.
struct DecisionSlot {
  int32_t position = 0;         ///< position of the token; the row that predicts it belongs to the branch
  std::vector<TokenId> labels;  ///< distinct
};

struct DecisionBranch {
  std::vector<TokenId> tokens;      ///< after the prefix, with a mask or noise where a label goes
  std::vector<DecisionSlot> slots;  ///< positions ascend
};

struct DecisionCanvas {
  std::vector<TokenId> prefix;           ///< whole blocks for models with blocks
  std::vector<DecisionBranch> branches;  ///< at least one
};

/// Reads every slot of every canvas.
class DecisionDecoder final : public Decoder, public Measurements {
 public:
  /// Canvases must fit the model, as src/engine/decision_canvas.cpp makes them; at least one.
  DecisionDecoder(const ModelConfig& config, std::vector<DecisionCanvas> canvases);

  std::span<const SlotReading> readings() const override { return readings_; }

  int32_t num_sequences() const override { return 1; }
  int32_t num_cells() const override { return num_cells_; }
  bool done() const override { return canvas_ == canvases_.size(); }
  /// Empty with several canvases, which share cells.
  ExactPrefix exact_prefix() const override;
  void skip_prefix(int32_t count) override { num_kept_ = count; }
  const StepPlan& plan() override;
  PassWork uncached_work() const override { return work_of(plan_); }
  StepReport apply(const PassResult& result) override;

  const Measurements& measurements() const override { return *this; }
  /// Prefix and first branch of the current canvas; once done(), of the last one.
  std::span<const TokenId> canvas() const override { return shown_; }
  int32_t prompt_length() const override { return static_cast<int32_t>(shown_.size()); }
  int32_t num_final() const override { return 0; }
  IndexRange block() const override;
  StopReason stop_reason() const override { return StopReason::kLength; }

 private:
  const DecisionCanvas& current() const;
  int32_t prefix_length() const { return static_cast<int32_t>(current().prefix.size()); }
  /// One past the last prefix position of a pass that begins at `begin`.
  int32_t kept_end(int32_t begin) const;
  void add_prefix(int32_t begin, int32_t end);
  /// Adds branches while they fit in a pass; an empty plan always gets one.
  void add_branches();
  void add_branch(const DecisionBranch& branch, int32_t begin_cell);
  /// First cell of a branch after the cells before `end`: a tile boundary, so that attention accumulates in
  /// the same order, bit for bit, wherever the branch lies.
  int32_t first_cell(int64_t end) const;
  void add_group(IndexRange rows, int32_t begin_cell, OwnRows own_rows);
  void add_slot(const DecisionSlot& slot, int32_t row);
  void show();
  int32_t most_cells() const;

  Paradigm paradigm_;
  int32_t block_length_;  // 0: no blocks
  bool row_before_;       // a row predicts the position after it
  float noise_level_;     // of noise alone, in models whose layers depend on it
  std::vector<DecisionCanvas> canvases_;
  int32_t num_cells_;
  std::vector<TokenId> shown_;

  size_t canvas_ = 0;
  int32_t num_kept_ = 0;     // positions of the prefix that passes have computed
  size_t next_branch_ = 0;   // branches before this one were read
  size_t next_reading_ = 0;  // slots before this one have readings
  int32_t num_passes_ = 0;
  std::vector<SlotReading> readings_;
  size_t planned_branches_ = 0;  // end of the branches in the planned pass
  bool is_planned_ = false;
  StepPlan plan_;
};

}  // namespace lacuna
