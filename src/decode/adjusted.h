// Logit adjustments: penalties for tokens already written, per-token biases and min-p. They work with every
// method: a wrapper adds them to the sampling rules of each plan.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "decode/decoder_wrapper.h"

namespace lacuna {

/// The settings of docs/methods/sampling.md. A committed token counts from the next pass on, wherever it is
/// on the canvas; tokens committed in the same pass do not affect each other. End tokens and masks are never
/// penalized.
struct LogitAdjustments {
  double min_p = 0;              ///< minimum probability relative to the most probable token, [0, 1)
  double presence_penalty = 0;   ///< subtracted from the logit of each token in the answer
  double frequency_penalty = 0;  ///< subtracted once per occurrence in the answer
  double repeat_penalty = 1;     ///< LogitAdjustment::factor of tokens in the prompt or answer
  struct Bias {
    TokenId token = 0;
    double bias = 0;
    bool operator==(const Bias&) const = default;
  };
  std::vector<Bias> biases = {};  ///< added to logits; a token's last bias counts

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
  /// Adjustments for the tokens written so far, in ascending order of token id.
  std::vector<LogitAdjustment> current() const;
  void adjust(StepPlan& plan) const;

  const LogitAdjustments adjustments_;
  const std::vector<TokenId> exempt_;
  std::vector<TokenId> of_prompt_;  // empty without a repeat penalty
  std::optional<StepPlan> plan_;    // until apply()
};

}  // namespace lacuna
