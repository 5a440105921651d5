// Matrices stored as panels in safetensors files, which are loaded by mapping.
//
// For the weights of MODULE [N, K], in place of the tensor MODULE.weight:
//   MODULE.weight_panels  U8 [N / 16 rounded up, bytes of a panel], as kernels/panels.h describes; it begins
//                         at a multiple of 64 bytes of the file
//   MODULE.weight_format  I64 [6]: N, K, bits of a weight (32: f32, 16: bf16, 8 or 4: quantized), inputs
//                         per scale (32 or 16; 0: all, or the weights are dense), 1 if there are
//                         minimums, 1 if scales are f32 and 2 if there are two levels of scales
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weights/packed_matrix.h"
#include "weights/shard_writer.h"
#include "weights/stored_matrix.h"

namespace lacuna {

class TensorFiles;

/// Version of the panel layout; others are refused.
inline constexpr int kPanelVersion = 2;

inline constexpr std::string_view kPanelsSuffix = ".weight_panels";
inline constexpr std::string_view kFormatSuffix = ".weight_format";

/// Tensors of one matrix, ready to be written.
HeldTensors panel_tensors(const std::string& module, PackedMatrix matrix);

/// Reads a matrix that is stored as panels. Panels stay mapped while a PackedMatrix views them, even after
/// the TensorFiles are destroyed. Throws InputError naming file, tensor, what was found and what was
/// expected.
std::unique_ptr<StoredMatrix> open_panels(const TensorFiles& files, std::string_view module, int64_t outputs,
                                          int64_t inputs);

/// Formats of a packed checkpoint's matrices, each with the total bytes of its panels. Throws InputError.
std::vector<std::pair<WeightFormat, int64_t>> panel_formats(const TensorFiles& files);

}  // namespace lacuna
