// Quantized matrices in safetensors files, row by row, independent of the machine.
//
// For the weights of MODULE [N, K], in place of the tensor MODULE.weight:
//   MODULE.weight_codes           U8 [N, K] for 8 bits; [N, ceil(K / 2)] for 4: the low nibble comes
//                                 first
//   MODULE.weight_scales          F16 or F32 [N, groups]; one group of all inputs, or groups of 32 or 16;
//                                 U8 with two levels, groups of 32
//   MODULE.weight_minimums        like the scales; absent where weight = scale * (code - 2^(bits - 1))
//   MODULE.weight_output_scales   F32 [N, 2], with two levels: scale and minimum
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/threads.h"
#include "weights/safetensors_writer.h"
#include "weights/stored_matrix.h"
#include "weights/weight_format.h"

namespace lacuna {

class TensorFiles;

inline constexpr std::string_view kCodesSuffix = ".weight_codes";
inline constexpr std::string_view kScalesSuffix = ".weight_scales";
inline constexpr std::string_view kMinimumsSuffix = ".weight_minimums";
inline constexpr std::string_view kOutputScalesSuffix = ".weight_output_scales";

/// Tensors of one quantized matrix to write.
struct QuantizedTensors {
  std::vector<std::byte> codes, scales, minimums, output_scales;
  std::vector<TensorToWrite> tensors;  ///< views of the members above
  double squared_error = 0;            ///< sum over all weights
  double squared_weights = 0;
};

/// Quantizes a matrix. Squared errors are summed in row order, so the sum is the same for any thread count.
QuantizedTensors quantize_tensors(ThreadPool& threads, const Quantization& quantization,
                                  const std::string& module, const StoredMatrix& matrix, int64_t outputs,
                                  int64_t inputs);

/// Reads a quantized matrix of a checkpoint. Throws InputError as TensorFiles::tensor() does.
std::unique_ptr<StoredMatrix> open_quantized(const TensorFiles& files, std::string_view module,
                                             int64_t outputs, int64_t inputs);

}  // namespace lacuna
