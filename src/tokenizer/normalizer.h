// Normalization of text before it is split: Unicode's normal forms and lower case, through utf8proc, and
// SentencePiece's spelling of spaces.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lacuna {

enum class Normalization : uint8_t {
  kNfc,
  kNfd,
  kNfkc,
  kNfkd,
  kLowercase,
  kEscapeSpaces,
  kPrependSpace,  ///< SentencePiece's space before a text that is not empty, in its spelling
};

/// Applies `steps` in order. `text` is well-formed UTF-8. Takes O(n log n) time for any run of combining
/// marks.
std::string normalize(std::string_view text, std::span<const Normalization> steps);

}  // namespace lacuna
