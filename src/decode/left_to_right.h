// Base of left-to-right decoders: the answer grows at its end.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "decode/decoder.h"
#include "decode/stop_text.h"
#include "model/sampling.h"

namespace lacuna {

struct LeftToRight {
  std::vector<TokenId> end_ids;
  int32_t gen_length = 128;  ///< most tokens to generate
  bool ignore_end = false;   ///< continue after an end token
  SamplingRule sampling;
  uint64_t seed = 0;
  StopFinder find_stop;  ///< may be empty
  /// Maximum text rows of a pass: a long prompt takes several passes, so that other requests in the batch
  /// need not wait for all of it. Results are bitwise independent of it.
  int32_t most_rows = 1024;

  /// Why an answer ends with its last token; none: it continues.
  std::optional<StopReason> why_ended(std::span<const TokenId> answer) const {
    if (!ignore_end && std::find(end_ids.begin(), end_ids.end(), answer.back()) != end_ids.end())
      return StopReason::kEndToken;
    if (find_stop && find_stop(answer)) return StopReason::kStopText;
    if (static_cast<int32_t>(answer.size()) == gen_length) return StopReason::kLength;
    return std::nullopt;
  }
};

/// Options: LeftToRight, or derived from it.
template <typename Options>
class LeftToRightDecoder : public Decoder, public Measurements {
 public:
  const StepPlan& plan() final {
    build_plan(num_kept_, plan_);
    return plan_;
  }
  PassWork uncached_work() const final {
    if (!has_logits()) return {};  // without a cache this pass does not exist
    StepPlan everything;
    build_plan(0, everything);
    return work_of(everything);
  }
  int32_t num_sequences() const override { return 1; }
  int32_t num_cells() const override { return prompt_length_ + options_.gen_length; }
  bool done() const override { return done_; }
  ExactPrefix exact_prefix() const override { return {1, prompt_length_ - 1, prompt_length_, num_kept_}; }
  void skip_prefix(int32_t count) override { num_kept_ = count; }
  std::optional<BaselineRequest> baseline_request() const override {
    return BaselineRequest{prompt_length_, options_.gen_length, length() - prompt_length_};
  }
  const Measurements& measurements() const override { return *this; }
  std::span<const TokenId> canvas() const override { return canvas_; }
  int32_t prompt_length() const override { return prompt_length_; }
  int32_t num_final() const override { return length() - prompt_length_; }
  IndexRange block() const override { return {length() - 1, length()}; }
  StopReason stop_reason() const override { return stop_reason_; }

 protected:
  /// The prompt holds at least one token.
  LeftToRightDecoder(Options options, std::vector<TokenId> prompt)
      : options_(std::move(options)),
        canvas_(std::move(prompt)),
        prompt_length_(static_cast<int32_t>(canvas_.size())) {}

  /// Plans rows for the text from `begin` on and for drafts or masks after it; cells hold earlier K/V.
  virtual void build_plan(int32_t begin, StepPlan& plan) const = 0;
  /// Whether the next pass samples; otherwise it only computes K/V of the prompt.
  virtual bool has_logits() const = 0;

  int32_t length() const { return static_cast<int32_t>(canvas_.size()); }
  /// Appends a token and finds out whether the answer ends with it.
  void write(const RowStatistics& sample, StepReport& report) {
    report.committed.push_back({length(), sample.token, sample.confidence});
    canvas_.push_back(sample.token);
    const std::span answer = std::span(canvas_).subspan(static_cast<size_t>(prompt_length_));
    const std::optional<StopReason> reason = options_.why_ended(answer);
    done_ = reason.has_value();
    stop_reason_ = reason.value_or(stop_reason_);
  }

  Options options_;
  std::vector<TokenId> canvas_;
  int32_t prompt_length_;
  StepPlan plan_;
  int32_t num_kept_ = 0;  // tokens whose K/V are in their cells
  int32_t num_passes_ = 0;
  bool done_ = false;
  StopReason stop_reason_ = StopReason::kLength;
};

}  // namespace lacuna
