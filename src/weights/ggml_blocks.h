// Blocks of the quantized types of GGUF files. Each block is repacked into the quantized values and scales of
// panels without loss, so that matmuls use exactly the file's weights.
//
// Layouts as in ggml-org/ggml, src/ggml-common.h and src/ggml-quants.c.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/gguf.h"
#include "weights/quantize.h"

namespace lacuna {

/// Quantization that holds blocks of this type without loss; empty for F32, F16, BF16 and unsupported types.
/// docs/reference/gguf.md has the table.
std::optional<Quantization> block_quantization(uint32_t type);

/// Unpacks one row of blocks. `out` must have been sized, to a multiple of the type's block size.
void read_blocks(uint32_t type, const std::byte* row, QuantizedRow& out);

/// Dequantizes one row of any type that ggml_type() knows. A weight of a quantized type is scale * q +
/// minimum, rounded once.
void widen_blocks(uint32_t type, const std::byte* row, std::span<float> out);

}  // namespace lacuna
