// ReFusion: a diffusion pass plans which slots of the answer can be written now and drafts them;
// left-to-right passes check the drafts and complete them; written tokens keep their K/V.
//
// "ReFusion: A Diffusion Large Language Model with Parallel Autoregressive Decoding", sections 4.2 and A.2;
// docs/methods/refusion.md has the rules of each mode and where the paper and its code differ.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "decode/decoder.h"
#include "decode/stop_text.h"
#include "model/sampling.h"

namespace lacuna {

/// The rules of the paper, the released code or Lacuna. They differ in how a draft's first token is accepted,
/// how drafts are completed and what an end token does.
enum class RefusionRules : uint8_t { kPaper, kReleased, kLacuna };

/// Settings of a run.
struct SlotPolicy {
  RefusionRules rules = RefusionRules::kLacuna;
  int32_t block_length = 64;     ///< positions that are planned together; the last block may be shorter
  int32_t slot_size = 8;         ///< the last slot of a block may be shorter
  double slot_threshold = 0.9;   ///< a slot is selected if its first token is likelier than this
  double token_threshold = 0.9;  ///< a draft is accepted if it is more probable than this
  /// kLacuna: slots that were completed in parallel are verified once more in order before they are
  /// committed; otherwise they are committed without having attended to each other.
  bool verifies_fills = true;
  bool recomputes_kv = false;     ///< compute the K/V of completed slots once more, in their final order
  bool recomputes_apart = false;  ///< with recomputes_kv: in a separate pass, as in the paper's ablation
  /// kLacuna: a draft is accepted if it is the left-to-right model's own sample.
  bool accepts_exactly = false;
  double revoke = 0;  ///< kLacuna: remask a finished slot from its first less probable token; 0: never

  bool operator==(const SlotPolicy&) const = default;
};

struct Refusion : SlotPolicy {
  TokenId mask_id = 0;
  std::vector<TokenId> end_ids;
  int32_t gen_length = 128;
  /// Completion passes compute all slots, finished ones too, from the offset of the slowest slot, as the
  /// released code does; otherwise each slot from its own offset. The tokens are the same. Not for kLacuna.
  bool advances_together = false;
  SamplingRule sampling;  ///< its confidence is the raw probability
  uint64_t seed = 0;
  StopFinder find_stop;  ///< may be empty
};

class RefusionDecoder final : public Decoder, public Constrainable, public Measurements {
 public:
  /// Options must be consistent (make_decoder checks them).
  RefusionDecoder(Refusion options, std::vector<TokenId> prompt);

  int32_t num_sequences() const override { return 1; }
  int32_t num_cells() const override { return prompt_length_ + options_.gen_length; }
  bool done() const override { return done_; }
  ExactPrefix exact_prefix() const override;
  void skip_prefix(int32_t count) override { pending_.erase(pending_.begin(), pending_.begin() + count); }
  const StepPlan& plan() override;
  PassWork uncached_work() const override;
  std::optional<BaselineRequest> baseline_request() const override {
    return BaselineRequest{prompt_length_, options_.gen_length,
                           static_cast<int32_t>(canvas_.size()) - prompt_length_};
  }
  StepReport apply(const PassResult& result) override;
  FollowUp follow_up() const override { return {.logits = further_}; }
  void apply_follow_up(const FollowUpResult& result, StepReport& report) override;
  std::vector<int32_t> sampled_positions() const override;
  std::vector<int32_t> follow_up_positions() const override;
  std::vector<TokenId> judged_drafts() const override;
  bool accepts(const RowStatistics& judge, TokenId draft) const override {
    return options_.accepts_exactly ? judge.token == draft
                                    : judge.scored_probability > options_.token_threshold;
  }
  TokenId held_token(int32_t position) const override;
  Constrainable* constrainable() override { return this; }
  const Measurements& measurements() const override { return *this; }
  std::span<const TokenId> canvas() const override { return canvas_; }
  int32_t prompt_length() const override { return prompt_length_; }
  int32_t num_final() const override;
  IndexRange block() const override;
  StopReason stop_reason() const override { return stop_reason_; }

 private:
  enum class Phase : uint8_t {
    kPlan,     // masks of all of the block's open slots: scores and drafts
    kVerify,   // tokens of the selected slots, one slot after the other
    kPredict,  // each slot on its own: masks after the accepted tokens
    kCheck,    // each slot on its own: its tokens; the first after the accepted ones is accepted without a
               // check
    kFill,     // each slot on its own: its tokens; a rejected draft is replaced in the same pass
  };

  /// Indices into StepPlan::rules.
  enum Rule : uint8_t { kPick, kBest };

  struct Slot {
    int32_t begin = 0;                  // position
    std::vector<TokenId> tokens;        // drafts, replaced by accepted tokens
    std::vector<double> probabilities;  // probability of each token
    int32_t known = 0;                  // leading tokens that are accepted
    int32_t kept = 0;                   // leading tokens whose K/V lie in base, base + 1, ...
    int32_t base = 0;                   // first cell
    size_t open_index = 0;              // index into open_ when it was selected
    bool is_filled = false;             // it was completed on its own once
    IndexRange given_back;              // positions that a revocation remasks

    int32_t size() const { return static_cast<int32_t>(tokens.size()); }
  };

  struct CleanToken {
    int32_t position = 0;
    TokenId token = 0;
  };

  // Building passes.
  void build_pass(std::span<const int32_t> pending, StepPlan& plan) const;
  void add_pending(std::span<const int32_t> pending, StepPlan& plan) const;
  void add_masks(StepPlan& plan) const;
  void add_drafts(StepPlan& plan) const;
  void add_slots(StepPlan& plan) const;
  void add_group(int32_t first_row, std::vector<IndexRange> visible, StepPlan& plan) const;
  LogitRow draft(int32_t row, int32_t position, Rule rule) const;
  LogitRow judgement(int32_t row, const Slot& slot, int32_t offset) const;
  int32_t first_judged(const Slot& slot) const;
  bool takes_part(const Slot& slot) const;

  // Taking results.
  void select_slots(std::span<const RowStatistics> drawn, StepReport& report);
  void ask_for_drafts();
  void begin_verification(StepReport& report);
  void take_verified(std::span<const RowStatistics> drawn, StepReport& report);
  bool commit_up_to_end(size_t whole, StepReport& report);
  void go_on_after_verification(size_t whole, const RowStatistics* refusal, StepReport& report);
  void take_predicted(std::span<const RowStatistics> drawn, StepReport& report);
  void take_checked(std::span<const RowStatistics> drawn, StepReport& report);
  void take_filled(std::span<const RowStatistics> drawn, StepReport& report);
  const RowStatistics* extend(Slot& slot, int32_t first, std::span<const RowStatistics> judged) const;
  static void replace(Slot& slot, const RowStatistics& drawn);
  void finish_slot(size_t index);
  void drop_behind_end(size_t index);
  void revoke(Slot& slot) const;
  void place_working();
  void drop_working_after(size_t slot);
  void describe(StepReport& report) const;

  // Committing.
  void commit(size_t count, bool by_completion, StepReport& report);
  void fill_or_commit(StepReport& report);
  void commit_completed(StepReport& report);
  void commit_released_completion(StepReport& report);
  void limit_to(int32_t limit);
  void next_iteration();
  bool stops_at_text();
  void finish(StopReason reason);

  bool is_lacuna() const { return options_.rules == RefusionRules::kLacuna; }
  bool is_released() const { return options_.rules == RefusionRules::kReleased; }
  int32_t num_clean() const { return static_cast<int32_t>(clean_.size()); }
  bool is_end(TokenId token) const;
  int32_t first_end(std::span<const TokenId> tokens) const;
  int32_t end_of(const Slot& slot) const;
  bool is_done(const Slot& slot) const { return slot.known >= end_of(slot); }

  Refusion options_;
  int32_t prompt_length_;
  std::vector<TokenId> canvas_;  // ends where the answer must end
  bool done_ = false;
  StopReason stop_reason_ = StopReason::kLength;

  Phase phase_ = Phase::kPlan;
  int32_t block_ = -1;
  int32_t step_ = 0;
  int32_t iteration_ = -1;
  int32_t round_ = 0;  // round of a completion
  bool is_last_block_ = false;

  std::vector<CleanToken> clean_;   // committed tokens, by cell
  std::vector<int32_t> pending_;    // cells of clean_ that do not hold their K/V yet, ascending
  std::vector<IndexRange> open_;    // positions of the block's masked slots, ascending
  std::vector<Slot> working_;       // the selected slots, ascending
  std::vector<int32_t> selected_;   // first positions of the slots that the last plan selected
  std::optional<size_t> end_slot_;  // index into working_: where a completion found an end token

  bool owes_recomputation_ = false;  // the next pass computes pending_ alone
  bool is_planned_ = false;
  StepPlan plan_;
  std::vector<LogitRow> further_;  // follow-up: drafts of the selected slots
};

}  // namespace lacuna
