// SentencePiece's Unigram: the segmentation of a text into entries with the largest sum of scores (Viterbi).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/token.h"
#include "tokenizer/unicode.h"

namespace lacuna {

class BestPath {
 public:
  struct Entry {
    std::string text;
    TokenId id;
    double score;
  };
  static constexpr TokenId kUnknown = -1;
  struct Part {
    TextRange range;
    TokenId id;  ///< kUnknown: a run of characters without an entry
  };

  /// Requires distinct, nonempty texts. A character without an entry has the score `unknown_score`.
  BestPath(std::vector<Entry> entries, double unknown_score);

  /// The parts of `text` in order. Ties prefer the longest last part. Spends steps of the thread's Budget for
  /// each visited byte.
  std::vector<Part> cut(std::string_view text) const;

 private:
  std::vector<Entry> entries_;  // by text
  double unknown_score_;
};

}  // namespace lacuna
