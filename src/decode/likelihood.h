// How likely an autoregressive model finds a text: a request that writes nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "decode/decoder.h"

namespace lacuna {

class LikelihoodDecoder final : public Decoder {
 public:
  struct Score {
    double probability = 0;  ///< of the token given those before it, by the model's raw logits
    TokenId best = 0;        ///< the likeliest token there
    double best_probability = 0;
  };

  ///   tokens  at least one      most_rows  of a pass
  explicit LikelihoodDecoder(std::vector<TokenId> tokens, int32_t most_rows = 1024);

  /// [tokens.size() - 1], from the second token on, as far as they are known.
  std::span<const Score> scores() const { return scores_; }

  int32_t num_sequences() const override { return 1; }
  int32_t num_cells() const override { return length(); }
  bool done() const override { return num_read_ + 1 >= length(); }
  const StepPlan& plan() override;
  PassWork uncached_work() const override { return work_of(plan_); }
  StepReport apply(std::span<const RowStatistics> drawn) override;
  std::span<const TokenId> canvas() const override { return tokens_; }
  int32_t prompt_length() const override { return length(); }
  int32_t num_final() const override { return 0; }
  IndexRange block() const override { return {num_read_, pass_end()}; }
  StopReason stop_reason() const override { return StopReason::kLength; }

 private:
  int32_t length() const { return static_cast<int32_t>(tokens_.size()); }
  int32_t pass_end() const { return std::min(length() - 1, num_read_ + most_rows_); }

  std::vector<TokenId> tokens_;
  int32_t most_rows_;
  int32_t num_read_ = 0;
  int32_t num_passes_ = 0;
  std::vector<Score> scores_;
  StepPlan plan_;
};

}  // namespace lacuna
