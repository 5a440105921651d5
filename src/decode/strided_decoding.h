// Left-to-right decoding with drafts of the model's own (I-DLM, thuEcstasy/I-DLM): a pass reads the text,
// drafts of the tokens after it, and masks after those, all causally. The rows of the text and of the
// drafts judge the drafts, and the rows of the masks draft what follows if all of them are accepted.
// docs/methods/strided_decoding.md has the rules and where they come from.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "decode/decoder.h"
#include "decode/stop_text.h"
#include "model/sampling.h"

namespace lacuna {

struct StridedDecoding {
  TokenId mask_id = 0;
  std::vector<TokenId> end_ids;
  int32_t gen_length = 128;  ///< most tokens to generate
  int32_t num_drafts = 3;    ///< masks in a pass, at least 1
  bool ignore_end = false;   ///< continue after an end token
  SamplingRule sampling;
  uint64_t seed = 0;
  StopFinder find_stop;      ///< may be empty
  int32_t most_rows = 1024;  ///< most rows of the text in one pass, as Autoregressive::most_rows
};

class StridedDecoder final : public Decoder, public Constrainable, public Measurements {
 public:
  /// The prompt holds at least one token.
  StridedDecoder(StridedDecoding options, std::vector<TokenId> prompt);

  int32_t num_sequences() const override { return 1; }
  int32_t num_cells() const override { return prompt_length_ + options_.gen_length; }
  bool done() const override { return done_; }
  ExactPrefix exact_prefix() const override { return {1, prompt_length_ - 1, prompt_length_, num_kept_}; }
  void skip_prefix(int32_t count) override { num_kept_ = count; }
  const StepPlan& plan() override;
  PassWork uncached_work() const override;
  std::optional<BaselineRequest> baseline_request() const override {
    return BaselineRequest{prompt_length_, options_.gen_length, length() - prompt_length_};
  }
  StepReport apply(const PassResult& result) override;
  std::vector<int32_t> sampled_positions() const override;
  std::vector<TokenId> judged_drafts() const override;
  bool accepts(const RowStatistics& judge, TokenId draft) const override { return judge.token == draft; }
  bool write_given(std::span<const Commit> tokens) override;
  Constrainable* constrainable() override { return this; }
  const Measurements& measurements() const override { return *this; }
  std::span<const TokenId> canvas() const override { return canvas_; }
  int32_t prompt_length() const override { return prompt_length_; }
  int32_t num_final() const override { return length() - prompt_length_; }
  IndexRange block() const override { return {length() - 1, length()}; }
  StopReason stop_reason() const override { return stop_reason_; }

 private:
  int32_t length() const { return static_cast<int32_t>(canvas_.size()); }
  int32_t num_drafted() const { return static_cast<int32_t>(drafts_.size()); }
  /// One past the last token of the text that the next pass reads.
  int32_t pass_end() const { return std::min(length(), num_kept_ + options_.most_rows); }
  /// Rows for the text from `begin` on and what is after it; the text before is read from its cells.
  void build_plan(int32_t begin, StepPlan& plan) const;
  /// Appends a token and finds out whether the answer ends with it.
  void write(const RowStatistics& sample, StepReport& report);

  StridedDecoding options_;
  std::vector<TokenId> canvas_;
  int32_t prompt_length_;
  std::vector<TokenId> drafts_;  // drafts of the positions after the canvas
  StepPlan plan_;
  int32_t num_kept_ = 0;  // tokens whose K/V are in their cells
  int32_t num_passes_ = 0;
  bool done_ = false;
  StopReason stop_reason_ = StopReason::kLength;
};

}  // namespace lacuna
