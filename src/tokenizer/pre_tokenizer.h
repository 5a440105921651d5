// Splits text into pre-tokens; merges never cross their boundaries.
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

/// Converts text to GPT-2's byte characters (byte_characters.h).
struct ByteLevelRule {
  bool add_prefix_space = false;  ///< put a space before each piece that does not start with one
  bool use_regex = true;          ///< also split by GPT-2's expression
};

/// SentencePiece's escape of spaces and its dummy prefix, in the form of newer files of Llama 2.
struct MetaspaceRule {
  enum class Prepend : uint8_t { kAlways, kFirst, kNever };
  Prepend prepend = Prepend::kAlways;  ///< before every piece, or the first of the text; never doubled
  bool splits = true;                  ///< pieces begin at spaces
};

using PreTokenizerRule = std::variant<SplitRule, ByteLevelRule, MetaspaceRule>;

/// GPT-2's expression.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Qwen2's expression, for checkpoints that do not carry their own.
inline constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// A text and the ranges of its pieces: ascending, disjoint, none empty.
struct Pieces {
  std::string text;
  std::vector<TextRange> ranges;
  int64_t work_left = 0;     ///< remaining work of regular expressions, for all rules together
  bool begins_text = false;  ///< the first piece begins the whole encoded text
};

class PreTokenizer {
 public:
  /// For kBytes, `rules` must have exactly one ByteLevelRule; for kCharacters none, but possibly a
  /// MetaspaceRule. `name` begins every error.
  PreTokenizer(const std::vector<PreTokenizerRule>& rules, BpeSymbols symbols, const std::string& name);

  /// The pieces of well-formed `text`, as bytes. Throws InputError as Regex::find_all does.
  ///   begins_text  whether `text` begins the whole encoded text
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
