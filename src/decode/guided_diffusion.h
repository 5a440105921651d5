// Guided diffusion: the diffusion model drafts all masked positions of a block in one pass, an autoregressive
// guide reads the drafts in another, and the longest prefix that it confirms is committed.
//
// FlashDLM (arXiv 2505.21467), section 3.2.2 and Algorithm 1; docs/methods/guided_diffusion.md has the rules
// and where the paper and its code differ.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "decode/canvas_pass.h"
#include "decode/decoder.h"
#include "decode/token_alignment.h"

namespace lacuna {

/// The draft is among the guide's k best tokens; 1: it is the best.
struct MatchTopK {
  int32_t k = 2;
  bool operator==(const MatchTopK&) const = default;
};

/// The draft is among the guide's 2 best tokens, and its probability at least `ratio` of the best one's.
struct MatchRelative {
  double ratio = 0.5;
  bool operator==(const MatchRelative&) const = default;
};

/// Appendix C.4 as printed: the diffusion model's best logit is above tau times the guide's.
struct MatchTauLiteral {
  double tau = 0.5;
  bool operator==(const MatchTauLiteral&) const = default;
};

using GuideMatch = std::variant<MatchTopK, MatchRelative, MatchTauLiteral>;

/// Whether the guide accepts a draft.
///   judged      the guide's row before the draft, which scored it
///   draft_best  the diffusion model's best logit at the position
bool matches(const GuideMatch& match, const RowStatistics& judged, float draft_best);

enum class GuideFallback : uint8_t {
  kDraft,  ///< if no draft is accepted, the first one is committed anyway; the guide writes no token
  kGuide,  ///< after the accepted drafts, the guide's own token
};

struct GuidedDiffusion {
  TokenId mask_id = 0;
  bool shifted_logits = false;
  std::vector<TokenId> end_ids;
  int32_t gen_length = 128;
  int32_t block_length = 128;  ///< divides gen_length
  CanvasPassOptions pass;      ///< its sampling rule samples the drafts
  bool eos_exit = false;       ///< stop once the answer has an end
  uint64_t seed = 0;

  GuideMatch match;
  GuideFallback fallback = GuideFallback::kDraft;
  int32_t guide_block = 32;           ///< drafts that one pass of the guide judges
  std::vector<TokenId> guide_prompt;  ///< at least one token
  int64_t guide_positions = 0;        ///< maximum length of the guide's sequence
  std::shared_ptr<const TokenAlignment> alignment;
};

class GuidedDiffusionDecoder final : public Decoder, public Constrainable, public Measurements {
 public:
  /// Options must be consistent (make_decoder checks them); the prompt has no mask token.
  GuidedDiffusionDecoder(GuidedDiffusion options, std::vector<TokenId> prompt);

  int32_t num_sequences() const override { return pass_.num_sequences(); }
  int32_t num_cells() const override { return pass_.num_cells(); }
  int32_t num_guide_cells() const override { return num_guide_cells_; }
  BackendNeeds needs() const override {
    return {.remembers_outputs = pass_.remembers_outputs(), .kept_layers = pass_.kept_layers()};
  }
  bool done() const override { return done_; }
  ModelRole role() const override { return role_; }
  const StepPlan& plan() override;
  PassWork uncached_work() const override;
  std::optional<BaselineRequest> baseline_request() const override {
    return canvas_.baseline_request(num_sequences());
  }
  StepReport apply(const PassResult& result) override;
  FollowUp follow_up() const override;
  void apply_follow_up(const FollowUpResult& result, StepReport& report) override;
  std::vector<int32_t> sampled_positions() const override {
    return role_ == ModelRole::kMain ? drawn_positions_ : std::vector<int32_t>();
  }
  void write_only_with(AllowsToken allows) override { allows_ = std::move(allows); }
  Constrainable* constrainable() override { return this; }
  const Measurements& measurements() const override { return *this; }
  std::span<const TokenId> canvas() const override { return canvas_.tokens(); }
  int32_t prompt_length() const override { return canvas_.prompt_length(); }
  int32_t num_final() const override { return canvas_.num_final(); }
  IndexRange block() const override { return {block_.begin, block_.end}; }
  StopReason stop_reason() const override;
  const DriftEstimate* drift_estimate() const override { return pass_.drift_estimate(); }

 private:
  struct Draft {
    Commit commit;
    float best_logit = 0;
  };

  void start_round();
  /// Tokens of the guide's reading that its cells have room for.
  size_t num_readable() const;
  void take_drafts(std::span<const RowStatistics> drawn);
  void plan_guide();
  /// Judges what the guide's pass scored. True if the round is over.
  bool judge(std::span<const RowStatistics> drawn);
  void finish_round(StepReport& report);
  std::span<const TokenId> answer() const;
  /// Drafts that the guide's first `num_read` tokens cover.
  size_t drafts_covered(size_t num_read) const;

  GuidedDiffusion options_;
  Canvas canvas_;
  CanvasPass pass_;
  int32_t num_guide_cells_;
  ModelRole role_ = ModelRole::kMain;
  ModelRole applied_role_ = ModelRole::kMain;
  bool done_ = false;
  bool is_planned_ = false;

  int32_t round_ = 0;
  Block block_;
  std::vector<int32_t> drawn_positions_;
  int32_t num_committed_ = 0;  // committed tokens of the answer
  std::vector<Draft> drafts_;

  // The guide's side of a round: its reading of the committed tokens and the drafts.
  GuideReading reading_;
  size_t num_accepted_ = 0;              // accepted tokens of the reading, committed ones included
  size_t pass_end_ = 0;                  // end of the reading's tokens that this pass judges
  std::vector<TokenId> kept_;            // the guide's sequence whose K/V are in its cells
  std::optional<TokenId> guide_choice_;  // the guide's own token where it refused a draft
  StepPlan guide_plan_;
  AllowsToken allows_;  // empty: every token
};

}  // namespace lacuna
