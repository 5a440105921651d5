#include "constraint/utf8_text.h"

#include "base/error.h"

namespace lacuna {

std::vector<std::pair<uint32_t, size_t>> decode_utf8(std::string_view text, std::string_view what) {
  std::vector<std::pair<uint32_t, size_t>> code_points;  // with their byte offsets
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<uint8_t>(text[i]);
    const size_t length = lead < 0x80   ? 1
                          : lead < 0xC2 ? 0
                          : lead < 0xE0 ? 2
                          : lead < 0xF0 ? 3
                          : lead < 0xF5 ? 4
                                        : 0;
    uint32_t code_point = length < 2 ? lead : lead & (0x7FU >> length);
    bool is_valid = length > 0 && i + length <= text.size();
    for (size_t k = 1; is_valid && k < length; ++k) {
      const auto byte = static_cast<uint8_t>(text[i + k]);
      is_valid = (byte & 0xC0) == 0x80;
      code_point = code_point << 6 | (byte & 0x3FU);
    }
    constexpr uint32_t kMin[] = {0, 0, 0x80, 0x800, 0x10000};
    if (!is_valid || code_point < kMin[length] || code_point > 0x10FFFF || (code_point >> 11) == 0x1B)
      throw InputError("{}: is not valid UTF-8 at byte {}", what, i);
    code_points.emplace_back(code_point, i);
    i += length;
  }
  code_points.emplace_back(kEndOfCodePoints, text.size());
  return code_points;
}

}  // namespace lacuna
