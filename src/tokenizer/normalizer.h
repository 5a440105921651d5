// Normalization of text before it is split: Unicode's normal forms and lower case, through utf8proc, and
// replacements, such as SentencePiece's spelling of spaces.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tokenizer/regex.h"

namespace lacuna {

enum class Normalization : uint8_t {
  kNfc,
  kNfd,
  kNfkc,
  kNfkd,
  kLowercase,
  kStripAccents,  ///< removes combining marks; precomposed characters stay as they are
  kNmt            ///< SentencePiece's: drops control characters; white space becomes a space
};

/// Replaces each match by `content`, taken literally.
struct ReplaceRule {
  std::string pattern;
  Regex::Syntax syntax = Regex::Syntax::kLiteral;
  std::string content;
};

/// Prepends `text` to a nonempty text.
struct PrependRule {
  std::string text;
};

/// Trims white space from the ends.
struct StripRule {
  bool left = true;
  bool right = true;
};

using NormalizerRule = std::variant<Normalization, ReplaceRule, PrependRule, StripRule>;

/// SentencePiece's escape of spaces (U+2581), and its dummy prefix: an escaped space before the text.
ReplaceRule escaped_spaces_rule();
PrependRule escaped_space_before_rule();

class Normalizer {
 public:
  /// `name` begins every error. Throws InputError for invalid rules.
  Normalizer(const std::vector<NormalizerRule>& rules, const std::string& name);

  /// Applies the rules in order. `text` is well-formed UTF-8. Takes O(n log n) time for any run of combining
  /// marks. Throws InputError if the text grows too much, and as Regex::find_all does.
  std::string apply(std::string_view text) const;

 private:
  struct Replace {
    std::optional<Regex> expression = {};
    std::string pattern = {};  // if it is a literal
    std::string content = {};
  };
  using Step = std::variant<Normalization, Replace, PrependRule, StripRule>;

  std::string name_;
  std::vector<Step> steps_;
};

}  // namespace lacuna
