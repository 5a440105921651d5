// Thoughts of a model before its answer (Gemma 4): tokens that are not part of the answer's text.
#pragma once

#include <span>
#include <vector>

#include "base/token.h"
#include "tokenizer/tokenizer.h"

namespace lacuna {

class ThoughtFilter {
 public:
  /// Thoughts begin with the special token <|channel> and end with <channel|>. Removes nothing if `tokenizer`
  /// is null or lacks one of these tokens.
  explicit ThoughtFilter(const Tokenizer* tokenizer);

  /// The tokens that are not in a thought.
  ///   tokens  the next tokens of the answer, after those of the last call
  std::vector<TokenId> remove(std::span<const TokenId> tokens);
  /// Whether a thought has begun and not yet ended.
  bool is_in_thought() const { return is_in_thought_; }

 private:
  TokenId begin_ = -1;
  TokenId end_ = -1;
  bool is_in_thought_ = false;
};

}  // namespace lacuna
