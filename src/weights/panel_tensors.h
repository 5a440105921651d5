// Matrices in safetensors files as products read them, so that loading is mapping.
//
// For the weights of MODULE [N, K], in place of the tensor MODULE.weight:
//   MODULE.weight_panels  U8 [N / 16 rounded up, bytes of a panel], as kernels/panels.h describes; it begins
//                         at a multiple of 64 bytes of the file
//   MODULE.weight_format  I64 [6]: N, K, bits of a weight (32: f32, 16: bf16, 8 or 4: codes), inputs that
//                         share a scale (32 or 16; 0: all, or the weights are dense), 1 where there are
//                         minimums, 1 where scales are f32 and 2 where there are two levels of them
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

class Checkpoint;

/// Of how panels hold what they hold; others are refused.
inline constexpr int kPanelVersion = 2;

inline constexpr std::string_view kPanelsSuffix = ".weight_panels";
inline constexpr std::string_view kFormatSuffix = ".weight_format";

/// The tensors of one matrix.
HeldTensors panel_tensors(const std::string& module, PackedMatrix matrix);

/// The matrix that a checkpoint holds in this form. Its panels stay mapped as long as a PackedMatrix views
/// them, even where the checkpoint is gone. Throws InputError naming file, tensor, what was found and what
/// was expected.
std::unique_ptr<StoredMatrix> open_panels(const Checkpoint& checkpoint, std::string_view module,
                                          int64_t outputs, int64_t inputs);

/// What a packed checkpoint's matrices are kept as, and the bytes of their panels. Throws InputError.
std::vector<std::pair<WeightFormat, int64_t>> panel_formats(const Checkpoint& checkpoint);

}  // namespace lacuna
