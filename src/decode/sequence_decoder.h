// Base of decoders that write one sequence in blocks or canvases.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "decode/decoder.h"

namespace lacuna {

class SequenceDecoder : public Decoder, public Measurements {
 public:
  int32_t num_sequences() const override { return 1; }
  int32_t num_cells() const override { return static_cast<int32_t>(tokens_.size()); }
  bool done() const override { return done_; }
  const StepPlan& plan() override {
    if (is_planned_) return plan_;
    is_planned_ = true;
    plan_.clear();
    build_plan();
    return plan_;
  }
  std::optional<BaselineRequest> baseline_request() const override {
    return BaselineRequest{prompt_length_, gen_length_, length_ - prompt_length_};
  }
  const Measurements& measurements() const override { return *this; }
  std::span<const TokenId> canvas() const override {
    return std::span(tokens_).first(static_cast<size_t>(length_));
  }
  int32_t prompt_length() const override { return prompt_length_; }
  StopReason stop_reason() const override { return stop_reason_; }

 protected:
  SequenceDecoder(std::vector<TokenId> prompt, int32_t gen_length)
      : gen_length_(gen_length),
        prompt_length_(static_cast<int32_t>(prompt.size())),
        length_(prompt_length_ + gen_length),
        tokens_(std::move(prompt)) {}

  /// Adds the next pass to plan_, which is empty.
  virtual void build_plan() = 0;

  bool is_masked(int32_t position) const { return is_masked_[static_cast<size_t>(position)]; }
  /// Appends masks to the prompt, up to `cells` positions in all.
  void add_masks(int32_t cells, TokenId mask_id) {
    tokens_.resize(static_cast<size_t>(cells), mask_id);
    is_masked_.assign(static_cast<size_t>(prompt_length_), false);
    is_masked_.resize(tokens_.size(), true);
  }
  void set(const Commit& commit) {
    tokens_[static_cast<size_t>(commit.position)] = commit.token;
    is_masked_[static_cast<size_t>(commit.position)] = false;
  }
  /// Ends the answer with the end token at `position`.
  void end_at(int32_t position) {
    length_ = position + 1;
    stop_reason_ = StopReason::kEndToken;
    done_ = true;
  }

  /// Begins apply(): the report of the pass over plan_.
  StepReport begin_report(const PassResult& result) {
    expects(is_planned_ && result.samples.size() == plan_.logits.size(),
            "apply: one draw for each that was planned");
    is_planned_ = false;
    StepReport report;
    report.step = num_passes_++;
    return report;
  }

  int32_t gen_length_;
  int32_t prompt_length_;
  int32_t length_;               // length of the canvas, without the rest of its last block
  std::vector<TokenId> tokens_;  // canvas and the rest of its last block
  std::vector<bool> is_masked_;  // [tokens_] after add_masks()
  int32_t num_kept_ = 0;         // blocks or positions whose K/V are in their cells
  StepPlan plan_;
  bool done_ = false;
  StopReason stop_reason_ = StopReason::kLength;

 private:
  int32_t num_passes_ = 0;
  bool is_planned_ = false;
};

}  // namespace lacuna
