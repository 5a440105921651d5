// Block diffusion that edits its block by insertions and deletions (LLaDA 2.2): besides filling masks and
// replacing tokens, a pass may write DELETE, which removes its position, and SPLIT, which inserts a mask
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

/// After this many steps a block is finished as it is.
inline constexpr int32_t kMaxEditingSteps = 1000;

struct EditingDiffusion {
  TokenId mask_id = 0;
  TokenId delete_id = 0;
  TokenId split_id = 0;
  std::vector<TokenId> end_ids;  ///< empty: nothing ends the answer
  TokenId filler_id = 0;         ///< token after the text of an infill, up to the end of its block
  int32_t gen_length = 128;
  int32_t block_length = 32;
  int32_t steps = 32;       ///< steps that fill a block's initial masks; may exceed block_length
  double tau = 0.5;         ///< a mask is filled if its token is more probable than this, or by the quota
  double edit_tau = 0;      ///< a token is replaced by another that is more probable than this
  int32_t most_edits = 16;  ///< maximum passes of a block after its initial masks are filled
  SamplingRule sampling;    ///< rule for masks; other positions take the best token
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

/// Applies the DELETE and SPLIT tokens that a pass wrote: DELETE removes its position, SPLIT becomes a mask
/// and the position's previous token. The result is cut or filled to the previous length.
///   before   input of the pass     written  [before.size()], not used for fixed positions
///   filler   appended where tokens are missing
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
  ///   holes   ascending and disjoint, positions of `answer`, which has at most gen_length positions if all
  ///           holes have their maximum length; block_length must be infill_block_length()
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
  /// Chooses the tokens that the pass writes. True: plain tokens must first replace some edits.
  bool choose(std::span<const RowStatistics> drawn);
  void leave_repeated_state(std::span<const RowStatistics> drawn);
  /// Requests plain tokens for SPLIT in a full hole and for any edit in a hole of fixed length.
  void keep_holes_short();
  void ask_for_plain_token(size_t i);
  /// Moves the holes and the end of the text by the applied edits.
  void move_holes(std::span<const EditedToken> after);
  void number_draws();
  /// Writes the chosen tokens and goes to the next step.
  void write(StepReport& report);
  void finish_block();

  EditingDiffusion options_;
  int32_t first_block_;
  std::vector<GrowingHole> holes_;  // of an infill, in canvas positions
  std::vector<IndexRange> ranges_;  // positions of holes_
  std::vector<bool> keeps_length_;  // [holes_]
  int32_t text_end_ = 0;            // end of an infill's text

  // The block that is edited:
  int32_t block_ = 0;
  std::vector<EditedToken> edited_;
  std::vector<size_t> draws_;  // [block_length] index of the position's sample in a pass
  int32_t num_original_ = 0;   // masks that the block began with
  int32_t step_ = 0;
  int32_t edit_steps_ = 0;  // consecutive passes that left none of these masks
  std::set<std::vector<TokenId>> seen_;

  // The current pass:
  int32_t first_row_ = 0;
  std::vector<TokenId> written_;       // tokens of the block
  std::vector<double> probabilities_;  // probability of each written token
  std::vector<LogitRow> further_;      // follow-up: best plain tokens in place of edits
  std::vector<size_t> replaced_;       // [further_] positions within the block
};

}  // namespace lacuna
