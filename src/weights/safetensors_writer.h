// Writes the safetensors format: eight bytes with the length of a JSON header (little-endian), the header,
// then the tensors' bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace lacuna {

/// A tensor to write. `bytes` are its elements in row-major order, little-endian; they must stay alive until
/// the file is written, and their count is the product of `shape` times the size of `dtype`.
struct TensorToWrite {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  std::string_view type = {};  ///< stored type such as "U8" or "I64", instead of `dtype`; empty: `dtype`
};

/// Alignment of a file's data in bytes: a page.
inline constexpr int64_t kDataAlignment = 4096;

/// Writes the tensors, in the order given, and the metadata (other readers expect an entry "format": "pt").
/// The data begins at a multiple of kDataAlignment. `path` is created atomically. Throws InputError if the
/// folder cannot be written, and std::logic_error if a name is repeated or a byte count is wrong.
void write_safetensors(const std::filesystem::path& path, std::span<const TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata);

/// Rounds to bf16, to nearest even.
std::vector<bf16> to_bf16(std::span<const float> values);

}  // namespace lacuna
