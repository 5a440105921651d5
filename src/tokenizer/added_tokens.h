// Added tokens, special or not, which are matched verbatim in the text before any merging.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/token.h"
#include "tokenizer/unicode.h"

namespace lacuna {

/// Treatment of special tokens in the input. Other added tokens are always atoms (matched as one token).
enum class SpecialTokens { kAsText, kAsAtoms };

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;
  bool normalized = false;   ///< matched in normalized text; false: in the given text
  bool lstrip = false;       ///< consumes white space to its left
  bool rstrip = false;       ///< consumes white space to its right
  bool single_word = false;  ///< matches only without a word character next to it
};

/// A part of a text: an added token, or text between them (`token` is null).
struct AddedTokenSpan {
  TextRange range;
  const AddedToken* token = nullptr;
};

/// Finds added tokens: leftmost first, then longest. Splitting takes linear time for any patterns.
class AddedTokenFinder {
 public:
  struct Pattern {
    std::string text;  ///< the token's content, normalized if token.normalized
    AddedToken token;
  };

  /// Patterns are not empty and have at most kTotalBytesMax bytes together, which bounds memory.
  explicit AddedTokenFinder(std::vector<Pattern> patterns);
  static constexpr size_t kTotalBytesMax = size_t{1} << 22;

  /// The spans of well-formed `text`, in order, none empty.
  std::vector<AddedTokenSpan> split(std::string_view text, SpecialTokens special) const;
  /// split(text, kAsAtoms), except in literal parts of the text.
  ///   literal  ascending, not touching. A special token is an atom only if its first and last byte are not
  ///            in literal parts, and its literal bytes are letters, digits, "_" and "-"
  std::vector<AddedTokenSpan> split(std::string_view text, std::span<const TextRange> literal) const;

 private:
  // Aho-Corasick automaton of the reversed patterns. A node stands for a suffix of a pattern.
  struct Node {
    uint32_t first_child = 0;  // children are contiguous, bytes ascending
    uint32_t end_child = 0;
    uint32_t shorter = 0;  // node of this suffix's longest proper prefix that has one
    int32_t longest = -1;  // index of the longest pattern that is a prefix of this suffix; -1: none
    unsigned char byte = 0;
  };
  struct Match {
    size_t begin;
    const Pattern* pattern;
  };

  enum class Verdict { kAtom, kText, kNoMatch };

  template <typename Judge>
  std::vector<AddedTokenSpan> split_by(std::string_view text, Judge&& judge) const;
  void build();
  uint32_t child(uint32_t node, unsigned char byte) const;
  uint32_t next(uint32_t node, unsigned char byte) const;
  /// The longest pattern at each position where a pattern begins, last position first.
  std::vector<Match> find_all(std::string_view text) const;

  std::vector<Pattern> patterns_;  // sorted by reversed text
  std::vector<Node> nodes_;        // parents before children; the first is the root
};

}  // namespace lacuna
