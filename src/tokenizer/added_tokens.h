// Tokens that are found in the text as written, before any merging: special tokens and other added ones.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/token.h"
#include "tokenizer/unicode.h"

namespace lacuna {

/// How special tokens in the input are treated. Other added tokens are always atoms.
enum class SpecialTokens { kAsText, kAsAtoms };

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;
  bool normalized = false;   ///< searched in normalized text, else in the text as given
  bool lstrip = false;       ///< consumes white space to its left
  bool rstrip = false;       ///< consumes white space to its right
  bool single_word = false;  ///< matches only without a word character next to it
};

/// A part of a text: an added token, or text between them (`token` is null).
struct AddedTokenSpan {
  TextRange range;
  const AddedToken* token = nullptr;
};

/// Finds added tokens: leftmost first, then longest. Splitting takes time in proportion to the text, for any
/// patterns.
class AddedTokenFinder {
 public:
  struct Pattern {
    std::string text;  ///< the token's content, normalized if it asks for that
    AddedToken token;
  };

  /// Patterns are not empty and have at most kTotalBytesMax bytes together, which bounds memory.
  explicit AddedTokenFinder(std::vector<Pattern> patterns);
  static constexpr size_t kTotalBytesMax = size_t{1} << 22;

  /// The spans of well-formed `text`, in order, none empty.
  std::vector<AddedTokenSpan> split(std::string_view text, SpecialTokens special) const;
  /// The same for a text parts of which may not make special tokens.
  ///   literal  those parts, ascending and apart. A special token is an atom if none of them holds its first
  ///   or
  ///            last byte, and if what it has of them is letters, digits, "_" and "-"
  std::vector<AddedTokenSpan> split(std::string_view text, std::span<const TextRange> literal) const;

 private:
  // Aho-Corasick automaton of the reversed patterns. A node stands for a suffix of a pattern.
  struct Node {
    uint32_t first_child = 0;  // children are contiguous, bytes ascending
    uint32_t end_child = 0;
    uint32_t shorter = 0;  // the longest proper prefix of what this node stands for that is a node too
    int32_t longest = -1;  // index of the longest pattern that is a prefix of it; -1: none is
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
  /// The longest pattern at each position where any begins, last position first.
  std::vector<Match> find_all(std::string_view text) const;

  std::vector<Pattern> patterns_;  // sorted by text read backwards
  std::vector<Node> nodes_;        // parents before children; the first is the root
};

}  // namespace lacuna
