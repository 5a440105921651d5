// Infill: a canvas of texts, tokens and holes, and its layouts for all lengths of the holes.
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

/// A place in a text to fill with `least` to `most` tokens. Every length is tried; on a canvas that changes
/// its length, the hole begins with `least` masks and grows to at most `most` positions.
struct Hole {
  int32_t least = 1;
  int32_t most = 1;
  bool is_open = false;  ///< the strategy chooses the lengths, up to `most`

  bool operator==(const Hole&) const = default;
};

/// Parts of a canvas in their order: texts, single tokens, holes.
using CanvasPart = Variant<std::string, TokenId, Hole>;

inline constexpr int32_t kMaxHoleTokens = 4096;
inline constexpr size_t kMaxCandidates = 64;  ///< combinations of lengths that are tried
// Lengths of an open hole:
inline constexpr int32_t kOpenHoleTried = 16;  ///< longest length tried
inline constexpr int32_t kOpenHoleStart = 4;   ///< initial masks, on a canvas that grows
inline constexpr int32_t kOpenHoleMost = 64;   ///< positions at most, on a canvas that grows

/// Parses a text with holes: [[4]] has 4 tokens, [[1-3]] 1 to 3, [[*]] is open. \[[ is the text [[;
/// backslashes before [[ come in pairs, all others are literal. Throws InputError for a malformed hole.
std::vector<CanvasPart> parse_marked_text(std::string_view text);

/// Every combination of the holes' lengths; the first hole varies slowest. Throws InputError beyond
/// kMaxCandidates.
std::vector<std::vector<int32_t>> hole_lengths(const std::vector<CanvasPart>& parts);

/// A canvas split at its first hole, as make_decoder() expects it.
struct InfillCanvas {
  std::vector<TokenId> prompt;
  std::vector<TokenId> answer;  ///< for DecoderContext::answer: mask tokens in the holes
  int32_t num_masked = 0;
  std::vector<GrowingHole> holes;  ///< positions of the answer
  int32_t constrained_prefix = 0;  ///< for DecoderContext: prompt tokens without a leading bos token
};

/// Lays out the canvas with holes of these lengths. For models whose tokens change the canvas (DreamOn), the
/// text begins with bos and ends with the end token, as in training. Throws InputError if the model has no
/// mask token, a part contains it, or the canvas exceeds the model's positions.
///   tokenizer  null: throws InputError if a part is text
InfillCanvas lay_out(const std::vector<CanvasPart>& parts, const std::vector<int32_t>& lengths,
                     const ModelConfig& config, const Tokenizer* tokenizer);

/// All layouts of a canvas, in the order of hole_lengths(); one if the strategy changes lengths by itself.
/// Throws InputError.
///   constraint  constraint on the filled text; null: none. Lengths without a possible text are left out; on
///   a canvas that changes its length, holes begin at their shortest possible length. Throws SettingError if
///   no length is possible.
std::vector<InfillCanvas> infill_canvases(const std::vector<CanvasPart>& parts, const Strategy& strategy,
                                          const ModelConfig& config, const Tokenizer* tokenizer,
                                          const TokenAutomaton* constraint = nullptr);

/// Confidence in the filled tokens, to compare candidates of different lengths.
class CandidateScore {
 public:
  void note(const StepEvent& event);
  /// Mean of ln(confidence) over committed tokens; a negative confidence (negative entropy) counts as it is.
  double mean() const;

 private:
  std::vector<std::optional<double>> confidences_;  // by position
};

}  // namespace lacuna
