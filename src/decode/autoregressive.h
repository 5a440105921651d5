// Left-to-right decoding with exact K/V, for the Qwen families.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "decode/left_to_right.h"

namespace lacuna {

class AutoregressiveDecoder final : public LeftToRightDecoder<LeftToRight>, public Constrainable {
 public:
  /// The prompt holds at least one token.
  AutoregressiveDecoder(LeftToRight options, std::vector<TokenId> prompt);

  const StepPlan& plan() override;
  StepReport apply(const PassResult& result) override;
  PassWork uncached_work() const override;
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

 private:
  /// One past the last token that the next pass reads.
  int32_t pass_end() const { return std::min(length(), num_kept_ + options_.most_rows); }
  /// Rows for the tokens of [begin, end); those before are read from their cells.
  void build_plan(int32_t begin, int32_t end, StepPlan& plan) const;
};

}  // namespace lacuna
