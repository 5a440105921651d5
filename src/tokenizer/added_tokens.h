// Tokens that are found in the text as written, before any merging: special tokens and other added ones.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/token.h"
#include "tokenizer/unicode.h"

namespace lacuna {

/// What to do with the text of a special token that is found in the input. Added tokens that are not special
/// are always atoms.
enum class SpecialTokens { kAsText, kAsAtoms };

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;
  bool normalized = false;   ///< look for it in normalised text, else in the text as given
  bool lstrip = false;       ///< takes in the white space to its left
  bool rstrip = false;       ///< and to its right
  bool single_word = false;  ///< only where no word character is next to it
};

/// A part of a text: an added token, or (where `token` is null) text between them.
struct AddedTokenSpan {
  TextRange range;
  const AddedToken* token = nullptr;
};

/// Finds added tokens: leftmost first, longest of those.
class AddedTokenFinder {
 public:
  struct Pattern {
    std::string text;  ///< what to look for: the token's content, normalised where it asks for that
    AddedToken token;
  };

  /// Patterns are not empty and at most kPatternBytesMax long, which bounds the time of split().
  explicit AddedTokenFinder(std::vector<Pattern> patterns);
  static constexpr size_t kPatternBytesMax = 1024;

  /// The spans of well-formed `text`, in order, none empty.
  std::vector<AddedTokenSpan> split(std::string_view text, SpecialTokens special) const;

 private:
  const Pattern* longest_at(std::string_view text) const;

  std::vector<Pattern> patterns_;  // sorted by text, so that a prefix selects a range
  std::array<bool, 256> begins_pattern_{};
};

}  // namespace lacuna
