// Text as code points.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lacuna {

inline constexpr uint32_t kEndOfCodePoints = 0xFFFFFFFF;

/// The code points of `text` with their byte offsets, and kEndOfCodePoints last. Throws InputError that
/// begins with `what` if the text is not UTF-8.
std::vector<std::pair<uint32_t, size_t>> decode_utf8(std::string_view text, std::string_view what);

}  // namespace lacuna
