// Left-to-right decoding by windows of masks (SDLM, OpenGVLab/SDLM): a pass reads the text causally, and a
// window of its last token and masks behind it, whose rows see each other and the text before them. Each row
// of the window predicts the position after its own, and the leading confident predictions are written.
// docs/methods/window_decoding.md has the rules and their sources.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "decode/left_to_right.h"

namespace lacuna {

struct WindowDecoding : LeftToRight {
  TokenId mask_id = 0;
  int32_t max_positions = 0;
  int32_t num_masks = 3;   ///< in a window, at least 1
  double threshold = 0.9;  ///< predictions are written up to the first that is not more probable
};

class WindowDecoder final : public LeftToRightDecoder<WindowDecoding> {
 public:
  /// The prompt holds at least one token, and with the answer at most max_positions.
  WindowDecoder(WindowDecoding options, std::vector<TokenId> prompt);

  int32_t num_cells() const override {
    return std::min(prompt_length_ + options_.gen_length + options_.num_masks - 1, options_.max_positions);
  }
  ExactPrefix exact_prefix() const override { return {1, prompt_length_ - 1, prompt_length_ - 1, num_kept_}; }
  StepReport apply(const PassResult& result) override;

 private:
  /// One past the last token before the window that the next pass reads.
  int32_t pass_end() const { return std::min(length() - 1, num_kept_ + options_.most_rows); }
  /// Whether the next pass has a window.
  bool has_logits() const override { return pass_end() == length() - 1; }
  void build_plan(int32_t begin, StepPlan& plan) const override;
  void add_window(StepPlan& plan) const;
};

}  // namespace lacuna
