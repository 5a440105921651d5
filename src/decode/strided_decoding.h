// Left-to-right decoding with exact K/V: autoregressive, or with drafts of the model's own (I-DLM,
// thuEcstasy/I-DLM). A pass reads the text, drafts of the tokens after it, and masks after those, all
// causally. The rows of the text and of the drafts judge the drafts, and the rows of the masks draft what
// follows if all of them are accepted. docs/methods/strided_decoding.md has the rules and their sources.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "decode/left_to_right.h"

namespace lacuna {

struct StridedDecoding : LeftToRight {
  TokenId mask_id = 0;
  int32_t num_drafts = 3;  ///< masks in a pass; 0: autoregressive
};

class StridedDecoder final : public LeftToRightDecoder<StridedDecoding>, public Constrainable {
 public:
  /// The prompt holds at least one token.
  StridedDecoder(StridedDecoding options, std::vector<TokenId> prompt);

  StepReport apply(const PassResult& result) override;
  std::vector<int32_t> sampled_positions() const override;
  std::vector<TokenId> judged_drafts() const override;
  bool accepts(const RowStatistics& judge, TokenId draft) const override { return judge.token == draft; }
  bool write_given(std::span<const Commit> tokens) override;
  Constrainable* constrainable() override { return this; }

 private:
  int32_t num_drafted() const { return static_cast<int32_t>(drafts_.size()); }
  /// One past the last token of the text that the next pass reads.
  int32_t pass_end() const { return std::min(length(), num_kept_ + options_.most_rows); }
  bool has_logits() const override { return pass_end() == length(); }
  void build_plan(int32_t begin, StepPlan& plan) const override;

  std::vector<TokenId> drafts_;  // drafts of the positions after the canvas
};

}  // namespace lacuna
