// SentencePiece's Unigram: of all ways to cut a text into entries, the one whose scores have the largest sum.
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
    TokenId id;  ///< kUnknown: characters without an entry, all that stand together
  };

  /// Texts differ and are not empty. A character that is no entry costs `unknown_score`.
  BestPath(std::vector<Entry> entries, double unknown_score);

  /// The parts of `text` in order. Of equal sums, the one with the longest last part wins. Spends steps of
  /// the thread's Budget for each byte that is looked at.
  std::vector<Part> cut(std::string_view text) const;

 private:
  std::vector<Entry> entries_;  // by text
  double unknown_score_;
};

}  // namespace lacuna
