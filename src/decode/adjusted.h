// Settings that change how likely single tokens are: penalties of tokens that were written before, biases,
// and a least probability. They hold for every method: a wrapper puts them into the rules of each plan.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "decode/decoder_wrapper.h"

namespace lacuna {

/// The settings of docs/methods/sampling.md. An answer's tokens count from the pass on that follows their
/// commit, wherever they stand on the canvas; tokens that are written in one pass do not see each other. End
/// tokens and masks are never penalized.
struct LogitAdjustments {
  double min_p = 0;              ///< keep tokens at least this times as likely as the likeliest; [0, 1)
  double presence_penalty = 0;   ///< taken from the logits of tokens that the answer has
  double frequency_penalty = 0;  ///< the same, for each time that it has them
  double repeat_penalty = 1;     ///< LogitAdjustment::factor of tokens that the prompt or the answer has
  struct Bias {
    TokenId token = 0;
    double bias = 0;
    bool operator==(const Bias&) const = default;
  };
  std::vector<Bias> biases = {};  ///< added to the logits of tokens; of two for a token the last

  bool empty() const { return *this == LogitAdjustments{}; }
  bool operator==(const LogitAdjustments&) const = default;
};

inline constexpr double kMaxPenalty = 100, kMaxBias = 1e4;
inline constexpr double kMinRepeatPenalty = 0.01, kMaxRepeatPenalty = 100;

class AdjustedDecoder final : public DecoderWrapper {
 public:
  ///   exempt  end tokens and the mask token: never penalized
  AdjustedDecoder(std::unique_ptr<Decoder> inner, LogitAdjustments adjustments, std::vector<TokenId> exempt);

  const StepPlan& plan() override;
  std::optional<StepPlan> uncached_plan() const override;
  StepReport apply(const PassResult& result) override;

 private:
  /// The adjustments by the tokens that are written now, by ascending tokens.
  std::vector<LogitAdjustment> current() const;
  void adjust(StepPlan& plan) const;

  const LogitAdjustments adjustments_;
  const std::vector<TokenId> exempt_;
  std::vector<TokenId> of_prompt_;  // if they are penalized
  std::optional<StepPlan> plan_;    // until apply()
};

}  // namespace lacuna
