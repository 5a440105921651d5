// Safetensors files written byte by byte, so that tests can write broken ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lacuna {

/// The file of a header that claims to be `length` bytes long, and data.
inline std::string safetensors_bytes(uint64_t length, std::string_view header, std::string_view data) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>((length >> (8 * i)) & 0xff);
  file += header;
  file += data;
  return file;
}

inline std::string safetensors_bytes(std::string_view header, std::string_view data) {
  return safetensors_bytes(header.size(), header, data);
}

inline std::span<const std::byte> as_bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

}  // namespace lacuna
