// Left-to-right decoding by windows of masks (SDLM, OpenGVLab/SDLM): a pass reads the text causally, and a
// window of its last token and masks behind it, whose rows see each other and the text before them. Each row
// of the window predicts the position after its own, and the confident first ones of these predictions are
// written. docs/methods/window_decoding.md has the rules and where they come from.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "decode/decoder.h"
#include "decode/stop_text.h"
#include "model/sampling.h"

namespace lacuna {

struct WindowDecoding {
  TokenId mask_id = 0;
  std::vector<TokenId> end_ids;
  int32_t gen_length = 128;  ///< most tokens to generate
  int32_t max_positions = 0;
  int32_t num_masks = 3;    ///< in a window, at least 1
  double threshold = 0.9;   ///< predictions are written as long as all of them are more probable than this
  bool ignore_end = false;  ///< continue after an end token
  SamplingRule sampling;
  uint64_t seed = 0;
  StopFinder find_stop;      ///< may be empty
  int32_t most_rows = 1024;  ///< most rows of the text in one pass, as Autoregressive::most_rows
};

class WindowDecoder final : public Decoder, public Measurements {
 public:
  /// The prompt holds at least one token, and with the answer at most max_positions.
  WindowDecoder(WindowDecoding options, std::vector<TokenId> prompt);

  int32_t num_sequences() const override { return 1; }
  int32_t num_cells() const override {
    return std::min(prompt_length_ + options_.gen_length + options_.num_masks - 1, options_.max_positions);
  }
  bool done() const override { return done_; }
  ExactPrefix exact_prefix() const override { return {1, prompt_length_ - 1, prompt_length_ - 1, num_kept_}; }
  void skip_prefix(int32_t count) override { num_kept_ = count; }
  const StepPlan& plan() override;
  PassWork uncached_work() const override;
  std::optional<BaselineRequest> baseline_request() const override {
    return BaselineRequest{prompt_length_, options_.gen_length, length() - prompt_length_};
  }
  StepReport apply(const PassResult& result) override;
  const Measurements& measurements() const override { return *this; }
  std::span<const TokenId> canvas() const override { return canvas_; }
  int32_t prompt_length() const override { return prompt_length_; }
  int32_t num_final() const override { return length() - prompt_length_; }
  IndexRange block() const override { return {length() - 1, length()}; }
  StopReason stop_reason() const override { return stop_reason_; }

 private:
  int32_t length() const { return static_cast<int32_t>(canvas_.size()); }
  /// One past the last token before the window that the next pass reads.
  int32_t pass_end() const { return std::min(length() - 1, num_kept_ + options_.most_rows); }
  /// Whether the next pass has a window.
  bool has_window() const { return pass_end() == length() - 1; }
  /// Rows for the text from `begin` on and the window; the text before is read from its cells.
  void build_plan(int32_t begin, StepPlan& plan) const;
  void add_window(StepPlan& plan) const;
  /// Appends a token and finds out whether the answer ends with it.
  void write(const RowStatistics& sample, StepReport& report);

  WindowDecoding options_;
  std::vector<TokenId> canvas_;
  int32_t prompt_length_;
  StepPlan plan_;
  int32_t num_kept_ = 0;  // tokens whose K/V of a causal row are in their cells
  int32_t num_passes_ = 0;
  bool done_ = false;
  StopReason stop_reason_ = StopReason::kLength;
};

}  // namespace lacuna
