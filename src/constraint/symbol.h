// The alphabet of languages: bytes and special tokens.
#pragma once

#include <cstdint>

namespace lacuna {

/// A symbol of the alphabet: 0 to 255 is a byte of UTF-8; kFirstSpecial + k is the special token k of a
/// TokenTable, such as <tool_call>.
using Symbol = uint16_t;
inline constexpr Symbol kFirstSpecial = 256;
inline constexpr int kMaxSpecials = 16;
inline constexpr int kNumSymbols = kFirstSpecial + kMaxSpecials;

}  // namespace lacuna
