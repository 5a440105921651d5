// Final text and tokens of one decoder, with the step and confidence of each token.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "server/answer_text.h"

namespace lacuna {

struct TokenRecord {
  TokenId token = 0;
  /// ln of the confidence at which the token was committed, or of a prompt token's likelihood. None for given
  /// tokens and for confidences of 0 or below.
  std::optional<double> logprob;
  int32_t step = -1;   ///< pass of the request that committed the token; -1: given
  int32_t order = -1;  ///< among all commits of the answer; -1: given
  /// The most likely tokens at this position, with logprobs: for a prompt, only the first; for an answer, the
  /// requested number, in the pass that committed the token.
  Alternatives likeliest = {};
};

/// A part of an answer.
struct Piece {
  std::string text;
  std::vector<TokenRecord> tokens;
};

class Transcript {
 public:
  explicit Transcript(AnswerText text) : text_(std::move(text)) {}

  /// Records the commits of a pass.
  void note(const StepEvent& event);
  /// Returns the text and tokens that became final since the last call.
  ///   is_all  no further pass follows
  Piece advance(const Decoder& decoder, bool is_all);

  bool has_ended() const { return text_.has_ended(); }
  const std::string& stop_text() const { return text_.stop_text(); }
  int32_t num_tokens() const { return text_.num_tokens(); }

 private:
  struct CommitRecord {
    double confidence = 0;
    int32_t step = -1;
    int32_t order = -1;
    Alternatives likeliest = {};
  };

  AnswerText text_;
  std::vector<CommitRecord> commits_;  // by position within the answer
  int32_t num_commits_ = 0;
};

}  // namespace lacuna
