// Likelihood of a given text: requests that write no tokens.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "decode/decoder.h"

namespace lacuna {

class LikelihoodDecoder : public Decoder, public Measurements {
 public:
  std::span<const TokenScore> scores() const override { return scores_; }

  int32_t num_sequences() const override { return 1; }
  int32_t num_cells() const override { return length(); }
  PassWork uncached_work() const override { return work_of(plan_); }
  const Measurements& measurements() const override { return *this; }
  std::span<const TokenId> canvas() const override { return tokens_; }
  int32_t prompt_length() const override { return length(); }
  int32_t num_final() const override { return 0; }
  StopReason stop_reason() const override { return StopReason::kLength; }

 protected:
  explicit LikelihoodDecoder(std::vector<TokenId> tokens)
      : tokens_(std::move(tokens)), scores_(tokens_.size()) {}

  int32_t length() const { return static_cast<int32_t>(tokens_.size()); }

  std::vector<TokenId> tokens_;
  std::vector<TokenScore> scores_;
  int32_t num_passes_ = 0;
  StepPlan plan_;
};

/// An autoregressive model's likelihood of each token given those before it.
class CausalLikelihood final : public LikelihoodDecoder {
 public:
  ///   tokens  at least one      most_rows  maximum rows of a pass
  explicit CausalLikelihood(std::vector<TokenId> tokens, int32_t most_rows = 1024);

  bool done() const override { return num_read_ + 1 >= length(); }
  const StepPlan& plan() override;
  StepReport apply(const PassResult& result) override;
  IndexRange block() const override { return {num_read_, pass_end()}; }

 private:
  int32_t pass_end() const { return std::min(length() - 1, num_read_ + most_rows_); }

  int32_t most_rows_;
  int32_t num_read_ = 0;
};

/// A masked model's likelihood of the tokens after the first `given` ones, on a canvas that ends with them.
///
/// Without draws, left to right: the log-probability of each token given the tokens before it, while it and
/// all later ones are masked. One pass per token. Sums over any part of the text are its log-likelihood in
/// this order.
///
/// With draws, the bound of LLaDA (Nie et al. 2025, section 2.4): each draw masks l random ones of n tokens,
/// with l from 1 to n spread evenly over the draws, and
///   log p >= E [ (n / l) sum over masked i of log p(x_i | what is not masked) ].
/// A token's score is its part of the mean over draws: only the sum of all scores is meaningful.
class MaskedLikelihood final : public LikelihoodDecoder {
 public:
  struct Options {
    TokenId mask_id = 0;
    bool shifted_logits = false;  ///< row i - 1 predicts position i
    int32_t given = 1;            ///< first tokens that are not scored, at least 1
    int32_t draws = 0;            ///< random maskings, one pass each; 0: left to right
    uint64_t seed = 0;
  };

  ///   tokens  more than `given`
  MaskedLikelihood(Options options, std::vector<TokenId> tokens);

  bool done() const override { return num_passes_ == most_passes(); }
  const StepPlan& plan() override;
  StepReport apply(const PassResult& result) override;
  IndexRange block() const override { return {options_.given, length()}; }

 private:
  int32_t num_scored() const { return length() - options_.given; }
  int32_t most_passes() const { return options_.draws > 0 ? options_.draws : num_scored(); }
  /// Positions that the next pass masks, ascending.
  std::vector<int32_t> masked() const;

  Options options_;
  std::vector<int32_t> masked_;  // of the planned pass
};

}  // namespace lacuna
