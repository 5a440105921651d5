// Block diffusion that edits its block by insertions and deletions (LLaDA 2.2): besides filling masks and
// replacing tokens, a pass may write DELETE, which takes its position out, and SPLIT, which puts a mask
// before it. docs/methods/block_diffusion.md has the rule and its sources. An infill is one block that holds
// the text after its first hole, too: edits change the lengths of the holes and move the text.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "decode/growing_diffusion.h"
#include "decode/sequence_decoder.h"
#include "model/sampling.h"

namespace lacuna {

/// A block that is not done after so many steps is taken as it is.
inline constexpr int32_t kMaxEditingSteps = 1000;

struct EditingDiffusion {
  TokenId mask_id = 0;
  TokenId delete_id = 0;
  TokenId split_id = 0;
  std::vector<TokenId> end_ids;  ///< empty: nothing ends the answer
  TokenId filler_id = 0;         ///< token after the text of an infill, up to the end of its block
  int32_t gen_length = 128;
  int32_t block_length = 32;
  int32_t steps = 32;       ///< in which the masks that a block begins with are filled; may be more than
                            ///< block_length
  double tau = 0.5;         ///< masks are filled by tokens that are likelier than this, or by the quota
  double edit_tau = 0;      ///< tokens give way to others that are likelier than this
  int32_t most_edits = 16;  ///< passes of a block after the masks that it began with are filled
  SamplingRule sampling;    ///< of masks; other positions take the best token
  uint64_t seed = 0;
};

/// A position of a block while it is edited.
struct EditedToken {
  static constexpr int32_t kFixed = -1;  ///< for `hole`: no hole; the token stays

  TokenId token = 0;
  bool is_original = false;  ///< it was a mask when the block began
  int32_t hole = 0;          ///< index of the infill's hole that it belongs to; 0 outside infills

  bool is_fixed() const { return hole == kFixed; }
  bool operator==(const EditedToken&) const = default;
};

/// Carries out the DELETE and SPLIT that a pass wrote: DELETE goes, SPLIT becomes a mask and the token that
/// the pass read at its position. What no longer fits is cut off, what is missing is filled up.
///   before   what the pass read     written  [before.size()], of fixed positions the same tokens
///   filler   added at the end where tokens are missing
std::vector<EditedToken> carry_out_edits(std::span<const EditedToken> before,
                                         std::span<const TokenId> written, const EditingDiffusion& options,
                                         const EditedToken& filler);

/// Returns the length of the block in which an infill is edited: the smallest multiple of `block_length` such
/// that the block with position `prompt_length` contains the whole answer and ends within `positions`.
/// Returns 0 if no multiple does.
int32_t infill_block_length(int32_t block_length, int32_t prompt_length, int32_t answer_length,
                            int64_t positions);

class EditingDiffusionDecoder final : public SequenceDecoder {
 public:
  /// Options must be consistent (make_decoder checks them).
  ///   answer  text of an infill after the prompt, with masks in its holes; empty: gen_length masks
  ///   holes   ascending and disjoint, positions of `answer`; with their most positions, the answer has
  ///           gen_length at most, and block_length is infill_block_length()
  EditingDiffusionDecoder(EditingDiffusion options, std::vector<TokenId> prompt,
                          std::vector<TokenId> answer = {}, std::vector<GrowingHole> holes = {});

  ExactPrefix exact_prefix() const override;
  void skip_prefix(int32_t count) override { num_kept_ = count / options_.block_length; }
  PassWork uncached_work() const override;
  std::optional<BaselineRequest> baseline_request() const override;
  StepReport apply(const PassResult& result) override;
  FollowUp follow_up() const override { return {.logits = further_}; }
  void apply_follow_up(const FollowUpResult& result, StepReport& report) override;
  std::span<const IndexRange> holes() const override { return ranges_; }
  int32_t num_final() const override;
  IndexRange block() const override { return {begin_of(block_), begin_of(block_ + 1)}; }
  int32_t planned_steps() const override {
    return (num_cells() / options_.block_length - first_block_) * options_.steps;
  }

 private:
  int32_t begin_of(int32_t block) const { return block * options_.block_length; }
  bool is_infill() const { return !holes_.empty(); }
  bool is_open(size_t i) const;
  bool keeps_only() const;
  void start_block(int32_t block);
  void build_plan() override;
  void add_group(int32_t block, bool only_kv);
  LogitRow draw_at(size_t i, int32_t rule) const;
  /// Chooses what the pass writes; true: edits among it must give way to plain tokens first.
  bool choose(std::span<const RowStatistics> drawn);
  void leave_repeated_state(std::span<const RowStatistics> drawn);
  /// Asks for plain tokens where a hole would become longer than it may, or has a length that stays.
  void keep_holes_short();
  void ask_for_plain_token(size_t i);
  /// Moves the holes and the end of the text by the edits that were carried out.
  void move_holes(std::span<const EditedToken> after);
  void number_draws();
  /// Writes what was chosen, and moves on.
  void write(StepReport& report);
  void finish_block();

  EditingDiffusion options_;
  int32_t first_block_;
  std::vector<GrowingHole> holes_;  // of an infill, positions of the canvas
  std::vector<IndexRange> ranges_;  // the same positions
  std::vector<bool> keeps_length_;  // of each hole
  int32_t text_end_ = 0;            // of an infill

  // The block that is edited:
  int32_t block_ = 0;
  std::vector<EditedToken> edited_;
  std::vector<size_t> draws_;  // for each position of the block: its draw in a pass
  int32_t num_original_ = 0;   // masks that it began with
  int32_t step_ = 0;
  int32_t edit_steps_ = 0;  // passes in a row that found none of these masks
  std::set<std::vector<TokenId>> seen_;

  // The current pass:
  int32_t first_row_ = 0;
  std::vector<TokenId> written_;       // of the block
  std::vector<double> probabilities_;  // probability of each written token
  std::vector<LogitRow> further_;      // edits of the last pass: the best plain tokens are wanted
  std::vector<size_t> replaced_;       // where they are
};

}  // namespace lacuna
