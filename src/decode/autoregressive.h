// Left-to-right decoding with exact K/V, for the Qwen families.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "decode/decoder.h"
#include "decode/stop_text.h"
#include "model/sampling.h"

namespace lacuna {

struct Autoregressive {
  std::vector<TokenId> end_ids;
  int32_t gen_length = 128;  ///< most tokens to generate
  bool ignore_end = false;   ///< continue after an end token
  SamplingRule sampling;
  uint64_t seed = 0;
  StopFinder find_stop;  ///< may be empty
  /// Rows of a pass at most: a long prompt is read in several, so that requests that share passes need not
  /// wait for all of it. The bits do not depend on it.
  int32_t most_rows = 1024;
};

class AutoregressiveDecoder final : public Decoder, public Constrainable, public Measurements {
 public:
  /// The prompt holds at least one token.
  AutoregressiveDecoder(Autoregressive options, std::vector<TokenId> prompt);

  int32_t num_sequences() const override { return 1; }
  int32_t num_cells() const override { return prompt_length_ + options_.gen_length; }
  bool done() const override { return done_; }
  ExactPrefix exact_prefix() const override { return {1, prompt_length_ - 1, prompt_length_, num_kept_}; }
  void skip_prefix(int32_t count) override { num_kept_ = count; }
  const StepPlan& plan() override;
  StepReport apply(const PassResult& result) override;
  PassWork uncached_work() const override;
  std::optional<BaselineRequest> baseline_request() const override {
    return BaselineRequest{prompt_length_, options_.gen_length, length() - prompt_length_};
  }
  std::vector<int32_t> sampled_positions() const override {
    return plan_.logits.empty() ? std::vector<int32_t>() : std::vector{length()};
  }
  bool write_given(std::span<const Commit> tokens) override {
    for (const Commit& each : tokens) canvas_.push_back(each.token);
    return true;
  }
  std::vector<TokenId> judged_drafts() const override {
    return plan_.logits.empty() ? std::vector<TokenId>() : std::vector<TokenId>{-1};
  }
  Constrainable* constrainable() override { return this; }
  const Measurements& measurements() const override { return *this; }
  std::span<const TokenId> canvas() const override { return canvas_; }
  int32_t prompt_length() const override { return prompt_length_; }
  int32_t num_final() const override { return length() - prompt_length_; }
  IndexRange block() const override { return {length() - 1, length()}; }
  StopReason stop_reason() const override { return stop_reason_; }

 private:
  int32_t length() const { return static_cast<int32_t>(canvas_.size()); }
  /// One past the last token that the next pass reads.
  int32_t pass_end() const { return std::min(length(), num_kept_ + options_.most_rows); }
  /// Rows for the tokens of [begin, end); those before are read from their cells.
  void build_plan(int32_t begin, int32_t end, StepPlan& plan) const;

  Autoregressive options_;
  std::vector<TokenId> canvas_;
  int32_t prompt_length_;
  StepPlan plan_;
  int32_t num_kept_ = 0;  // tokens whose K/V are in their cells
  bool done_ = false;
  StopReason stop_reason_ = StopReason::kLength;
};

}  // namespace lacuna
