// Output of one decoder, as clients see it: text and tokens that are final, with how each was committed.
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
  /// ln of the confidence that the token was committed with; of a prompt's token, of its likelihood. Not of
  /// tokens that were given, nor of a confidence of 0 or below.
  std::optional<double> logprob;
  int32_t step = -1;   ///< pass that committed it, of its request; -1: given
  int32_t order = -1;  ///< among all commits of the answer; -1: given
  /// The likeliest tokens there, with their logprobs: of a prompt, the first alone; of an answer, as many as
  /// were asked for, at the pass that committed it.
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

  /// Remembers what a pass committed.
  void note(const StepEvent& event);
  /// Returns what became final since the last call.
  ///   is_all  no further pass comes
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
