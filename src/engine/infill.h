// Infill: a canvas of texts, tokens and holes, and every way to lay it out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/token.h"
#include "decode/make_decoder.h"
#include "engine/engine.h"
#include "tokenizer/tokenizer.h"

namespace lacuna {

/// A place in a text that is to be filled with `least` to `most` tokens.
struct Hole {
  int32_t least = 1;
  int32_t most = 1;

  bool operator==(const Hole&) const = default;
};

/// Parts of a canvas in their order: texts, single tokens, holes.
using CanvasPart = std::variant<std::string, TokenId, Hole>;

inline constexpr int32_t kMostHoleTokens = 4096;
inline constexpr size_t kMostCandidates = 64;  ///< combinations of lengths that are tried

/// Parses a text with holes: [[4]] has 4 tokens, [[1-3]] 1 to 3. \[[ is the text [[; backslashes before [[
/// come in pairs, all others are literal. Throws InputError for a malformed hole.
std::vector<CanvasPart> parse_marked_text(std::string_view text);

/// Every combination of the holes' lengths, the first hole's changing slowest. InputError where there are
/// more than kMostCandidates.
std::vector<std::vector<int32_t>> hole_lengths(const std::vector<CanvasPart>& parts);

/// A canvas that is cut at its first hole, as make_decoder() takes it.
struct InfillCanvas {
  std::vector<TokenId> prompt;
  std::vector<TokenId> answer;  ///< for DecoderContext::answer: with mask tokens where the holes are
  int32_t num_masked = 0;
};

/// Lays out the canvas with holes of these lengths. InputError where the model has no mask token, a part
/// holds it, or the model has fewer positions.
///   tokenizer  null: there are no texts; InputError where there are
InfillCanvas lay_out(const std::vector<CanvasPart>& parts, const std::vector<int32_t>& lengths,
                     const ModelConfig& config, const Tokenizer* tokenizer);

/// How confident a model was of what it filled in, to compare candidates of several lengths.
class CandidateScore {
 public:
  void note(const StepEvent& event);
  /// The mean over committed tokens of ln confidence (of the confidence itself, where that is negative).
  double mean() const;

 private:
  std::map<int32_t, double> confidences_;  // by position
};

}  // namespace lacuna
