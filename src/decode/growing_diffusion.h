// Masked diffusion on a canvas whose length changes while it is denoised: by tokens that the model was
// trained to write (DreamOn), or by how sure it is that the answer has ended (DAEDAL).
// docs/methods/growing_canvases.md has the rules, their sources, and where they leave a choice.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "decode/canvas_pass.h"
#include "decode/decoder.h"
#include "decode/unmask.h"

namespace lacuna {

/// DreamOn: a step writes one position. The expand token turns its mask into two; the delete token removes
/// its position.
struct TokenGrowth {
  int32_t start = 4;        ///< initial masks of a whole answer; holes have their own
  bool drops_rest = false;  ///< the delete token also removes all later masks of its hole (pad_eos_to_right)
  /// Maximum expansions of a hole; 0: as published, twice the positions from the hole's begin to the end of
  /// the text, with the hole at its maximum length.
  int32_t budget = 0;

  bool operator==(const TokenGrowth&) const = default;
};

/// DAEDAL: an answer grows until the model is confident that it ends within the canvas; during denoising, a
/// position of low confidence becomes several.
///
/// The end mass of a pass: the sum of the end-of-text token's probabilities over the last `tail` positions
/// where it is the best token, divided by `tail`.
struct EndMassGrowth {
  int32_t start = 64;   ///< initial masks of a whole answer; holes have their own
  int32_t by = 8;       ///< masks that are appended at once, and that replace an unsure position
  int32_t tail = 32;    ///< positions of the end mass; tail / 2 end tokens are appended before denoising
  double enough = 0.5;  ///< end mass from which on no mask is appended
  double plenty = 0.9;  ///< end mass from which on no position becomes several
  double unsure = 0.1;  ///< a position becomes several only below this probability

  bool operator==(const EndMassGrowth&) const = default;
};

using CanvasGrowth = std::variant<TokenGrowth, EndMassGrowth>;

/// A hole whose length may change.
struct GrowingHole {
  IndexRange positions;
  int32_t most = 0;  ///< maximum length; the length is fixed if it equals this
  bool keeps_length() const { return most == positions.size(); }

  bool operator==(const GrowingHole&) const = default;
};

struct GrowingDiffusion {
  TokenId mask_id = 0;
  TokenId expand_id = -1;  ///< TokenGrowth: becomes two masks
  TokenId delete_id = -1;  ///< TokenGrowth: removes its position
  TokenId end_id = -1;     ///< EndMassGrowth: the end-of-text token
  bool shifted_logits = false;
  std::vector<TokenId> end_ids;  ///< tokens that end an answer, for stop_reason and eos_exit

  CanvasGrowth growth;
  int32_t most_length = 128;  ///< maximum length of the answer
  int32_t block_length = 32;  ///< EndMassGrowth: positions from which a step commits
  UnmaskPolicy unmask;  ///< TokenGrowth: only its order is used; EndMassGrowth: a rule that runs_until_done
  CanvasPassOptions pass;  ///< without a lock
  bool eos_exit = false;   ///< EndMassGrowth: stop once the text before an end token is final
  uint64_t seed = 0;
};

class GrowingDiffusionDecoder final : public Decoder, public Constrainable, public Measurements {
 public:
  /// Options must be consistent (make_decoder checks them).
  ///   answer  an infill's text with masks in its holes; empty: a whole answer of the growth's `start` masks
  ///   holes   of an infill: ascending, disjoint, positions of `answer`; masks outside them never grow
  ///   their places
  GrowingDiffusionDecoder(GrowingDiffusion options, std::vector<TokenId> prompt,
                          std::span<const TokenId> answer = {}, std::span<const GrowingHole> holes = {});

  int32_t num_sequences() const override { return pass_.num_sequences(); }
  int32_t num_cells() const override { return pass_.num_cells(); }
  bool done() const override { return done_; }
  const StepPlan& plan() override;
  PassWork uncached_work() const override { return pass_.uncached_work(canvas_); }
  std::optional<BaselineRequest> baseline_request() const override {
    return canvas_.baseline_request(num_sequences());
  }
  StepReport apply(const PassResult& result) override;
  std::vector<int32_t> sampled_positions() const override;
  std::optional<CanvasEdit> edit_of(int32_t position, TokenId token) const override;
  void edit_only_with(AllowsEdit allows) override;
  TokenId held_token(int32_t position) const override {
    return canvas_.is_masked(position) ? -1 : canvas_[position];
  }
  Constrainable* constrainable() override { return this; }
  const Measurements& measurements() const override { return *this; }
  std::span<const TokenId> canvas() const override { return canvas_.tokens(); }
  int32_t prompt_length() const override { return canvas_.prompt_length(); }
  int32_t num_final() const override { return canvas_.num_final(); }
  std::span<const IndexRange> holes() const override { return ranges_; }
  StopReason stop_reason() const override;
  IndexRange block() const override { return {block_.begin, block_.end}; }

 private:
  const EndMassGrowth& end_mass() const { return std::get<EndMassGrowth>(options_.growth); }
  bool grows_by_tokens() const { return std::holds_alternative<TokenGrowth>(options_.growth); }
  /// The hole of a position; null: it is in none.
  const GrowingHole* hole_at(int32_t position) const;
  int32_t room_in(const GrowingHole& hole) const { return hole.most - hole.positions.size(); }
  int32_t answer_length() const { return canvas_.length() - canvas_.prompt_length(); }

  /// Index of the rule by which the position is sampled.
  int32_t rule_at(int32_t position);
  void draw(int32_t position, int32_t rule);
  void prepare_by_tokens();
  void prepare_by_end_mass();
  /// Whether the pass measures the end mass.
  bool measures_end() const;
  double end_mass_of(std::span<const RowStatistics> drawn) const;

  void insert(int32_t position, int32_t count, StepReport& report);
  void drop(int32_t position, StepReport& report);
  void apply_by_tokens(std::span<const RowStatistics> drawn, StepReport& report);
  /// Before anything is denoised: appends masks, or ends the search for a length.
  void find_length(std::span<const RowStatistics> drawn);
  void apply_by_end_mass(std::span<const RowStatistics> drawn, StepReport& report);
  /// Expands the least confident position if it is unsure, and moves the reported commits.
  void expand_unsure(std::span<const Commit> candidates, StepReport& report);
  /// Maximum masks that may be inserted before the position.
  int32_t most_inserted(int32_t position) const;
  void find_block();
  void note_holes();

  GrowingDiffusion options_;
  Canvas canvas_;
  std::vector<GrowingHole> holes_;
  std::vector<int32_t> budgets_;    // TokenGrowth: how often each may still expand
  std::vector<bool> fixed_;         // TokenGrowth: whether each keeps its length
  std::vector<IndexRange> ranges_;  // ranges of holes_, for an infill
  CanvasPass pass_;
  Block block_;
  bool is_infill_;
  bool finds_length_;
  AllowsEdit allows_edit_;          // empty: every edit is allowed
  bool draws_measure_end_ = false;  // tokens are sampled by the rule that measures the end mass
  bool done_ = false;
  bool is_planned_ = false;
  int32_t step_ = 0;
  std::vector<int32_t> drawn_positions_;  // of the next pass, ascending
  std::vector<int32_t> rules_;            // rule of each drawn position
};

}  // namespace lacuna
