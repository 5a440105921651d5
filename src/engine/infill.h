// Infill: a canvas of texts, tokens and holes, and every way to lay it out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/token.h"
#include "base/variant.h"
#include "constraint/token_automaton.h"
#include "decode/make_decoder.h"
#include "engine/engine.h"
#include "tokenizer/tokenizer.h"

namespace lacuna {

/// A place in a text that is to be filled with `least` to `most` tokens: every length is tried, or on a
/// canvas that changes its length, the hole begins with `least` masks and has `most` positions at most.
struct Hole {
  int32_t least = 1;
  int32_t most = 1;
  bool is_open = false;  ///< the strategy says between which lengths, up to `most`

  bool operator==(const Hole&) const = default;
};

/// Parts of a canvas in their order: texts, single tokens, holes.
using CanvasPart = Variant<std::string, TokenId, Hole>;

inline constexpr int32_t kMaxHoleTokens = 4096;
inline constexpr size_t kMaxCandidates = 64;  ///< combinations of lengths that are tried
// Lengths of a hole that is open:
inline constexpr int32_t kOpenHoleTried = 16;  ///< the longest that is tried
inline constexpr int32_t kOpenHoleStart = 4;   ///< masks at first, on a canvas that grows
inline constexpr int32_t kOpenHoleMost = 64;   ///< positions at most, on a canvas that grows

/// Parses a text with holes: [[4]] has 4 tokens, [[1-3]] 1 to 3, [[*]] is open. \[[ is the text [[;
/// backslashes before [[ come in pairs, all others are literal. Throws InputError for a malformed hole.
std::vector<CanvasPart> parse_marked_text(std::string_view text);

/// Every combination of the holes' lengths, the first hole's changing slowest. Throws InputError if there are
/// more than kMaxCandidates.
std::vector<std::vector<int32_t>> hole_lengths(const std::vector<CanvasPart>& parts);

/// A canvas that is cut at its first hole, as make_decoder() takes it.
struct InfillCanvas {
  std::vector<TokenId> prompt;
  std::vector<TokenId> answer;  ///< for DecoderContext::answer: with mask tokens where the holes are
  int32_t num_masked = 0;
  std::vector<GrowingHole> holes;  ///< positions of the answer
  int32_t constrained_prefix = 0;  ///< for DecoderContext: the prompt without a token that frames it
};

/// Lays out the canvas with holes of these lengths; of a model whose tokens change the canvas (DreamOn), a
/// text begins with its bos token and ends with its end token, as it was trained. Throws InputError if the
/// model has no mask token, a part holds it, or the model has fewer positions.
///   tokenizer  null: there are no texts; throws InputError if there are
InfillCanvas lay_out(const std::vector<CanvasPart>& parts, const std::vector<int32_t>& lengths,
                     const ModelConfig& config, const Tokenizer* tokenizer);

/// Every way to lay out a canvas for a strategy, as hole_lengths() orders them: one where it changes lengths
/// by itself. Throws InputError.
///   constraint  what the filled text has to be; null: anything. Lengths of which no text is possible are
///   left out, and on a canvas that changes its length holes begin as long as they have to be. SettingError
///   where no lengths are possible.
std::vector<InfillCanvas> infill_canvases(const std::vector<CanvasPart>& parts, const Strategy& strategy,
                                          const ModelConfig& config, const Tokenizer* tokenizer,
                                          const TokenAutomaton* constraint = nullptr);

/// How confident a model was of what it filled in, to compare candidates of several lengths.
class CandidateScore {
 public:
  void note(const StepEvent& event);
  /// The mean over committed tokens of ln confidence (of the confidence itself, where that is negative).
  double mean() const;

 private:
  std::vector<std::optional<double>> confidences_;  // by position
};

}  // namespace lacuna
