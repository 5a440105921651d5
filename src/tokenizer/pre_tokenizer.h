// Cuts text into pre-tokens, the pieces inside which merges happen.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tokenizer/bpe.h"
#include "tokenizer/regex.h"
#include "tokenizer/unicode.h"

namespace lacuna {

/// Treatment of a match: a piece of its own, dropped, joined to a neighbour, or joined to adjacent matches.
enum class SplitBehavior : uint8_t { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

struct SplitRule {
  std::string pattern;
  Regex::Syntax syntax = Regex::Syntax::kExpression;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  ///< text between the matches is treated as the match
};

/// The step after which text is made of byte characters.
struct ByteLevelRule {
  bool add_prefix_space = false;  ///< put a space before each piece that does not start with one
  bool use_regex = true;          ///< also split by GPT-2's expression
};

/// SentencePiece's spelling of spaces, and its space before a text, as newer files of Llama 2 state them.
struct MetaspaceRule {
  enum class Prepend : uint8_t { kAlways, kFirst, kNever };
  Prepend prepend = Prepend::kAlways;  ///< before every piece, or the one that begins the text; not twice
  bool splits = true;                  ///< pieces begin at spaces
};

using PreTokenizerRule = std::variant<SplitRule, ByteLevelRule, MetaspaceRule>;

/// Qwen2's expression, for checkpoints that do not carry their own.
inline constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// Some text and the parts of it that are pieces: in order, without overlaps, none empty.
struct Pieces {
  std::string text;
  std::vector<TextRange> ranges;
  int64_t work_left = 0;     ///< budget of regular expressions that is left, over all rules
  bool begins_text = false;  ///< the first piece is the beginning of what is encoded
};

class PreTokenizer {
 public:
  /// `rules` hold exactly one ByteLevelRule for symbols that are bytes, and none for characters, which may
  /// have a MetaspaceRule; `name` begins every error.
  PreTokenizer(const std::vector<PreTokenizerRule>& rules, BpeSymbols symbols, const std::string& name);

  /// The pieces of well-formed `text`, as bytes. Throws InputError as Regex::find_all does.
  ///   begins_text  whether it is the beginning of what is encoded
  Pieces split(std::string_view text, bool begins_text = true) const;

 private:
  struct Split {
    Regex regex;
    SplitBehavior behavior;
    bool invert;
  };
  struct PrefixSpace {};
  struct ToByteCharacters {};
  struct ToBytes {};
  struct EscapedSpaces {
    MetaspaceRule::Prepend prepend;
  };
  using Step = std::variant<Split, PrefixSpace, ToByteCharacters, ToBytes, EscapedSpaces>;

  static Pieces apply(const Split& step, Pieces pieces);
  static Pieces apply(PrefixSpace step, const Pieces& pieces);
  static Pieces apply(ToByteCharacters step, const Pieces& pieces);
  static Pieces apply(ToBytes step, const Pieces& pieces);
  static Pieces apply(EscapedSpaces step, const Pieces& pieces);

  std::vector<Step> steps_;
};

}  // namespace lacuna
