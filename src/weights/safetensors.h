// The safetensors format: u64 header length (little-endian), a JSON header, then the bytes of all tensors,
// contiguous. Files are fully validated before use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace lacuna {

/// One tensor of a safetensors file.
struct SafetensorsEntry {
  std::string name;
  std::string dtype_name;            ///< as the file spells it: "BF16"
  std::optional<DType> dtype;        ///< empty for types that kernels do not support
  std::vector<int64_t> shape;        ///< outermost first; empty for a scalar
  std::span<const std::byte> bytes;  ///< row-major, exactly as long as shape and type say; at any alignment
};

/// Parses a file whose content is `file`. Returns its tensors in the order of their bytes, as spans into
/// `file`. Throws InputError naming `file_name`, the tensor, found and expected unless header and tensors
/// cover the file exactly, without overlaps or gaps. Time and memory are proportional to the header's size.
std::vector<SafetensorsEntry> parse_safetensors(std::span<const std::byte> file, std::string_view file_name);

}  // namespace lacuna
