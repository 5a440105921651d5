// A model's weights on the device, in the layouts that the kernels read.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cuda/kernels/product.h"
#include "backend/cuda/kernels/quantized_product.h"
#include "backend/cuda/runtime.h"
#include "base/threads.h"
#include "model/parameters.h"

namespace lacuna::cuda {

constexpr int64_t padded_to(int64_t count, int64_t step) {
  return (count + step - 1) / step * step;
}
/// K dimension of a matmul, padded to a multiple of kDepthStep.
constexpr int64_t padded_depth(int64_t inputs) {
  return padded_to(inputs, kDepthStep);
}

/// A weight matrix [outputs, depth]; `depth` is the number of inputs padded with zeros.
struct DeviceMatrix {
  enum class Kind : uint8_t {
    kBf16,
    kF32,
    kInt8,      ///< quantized values of 8 bits, with a scale per output
    kFp8,       ///< e4m3 values with a scale per output
    kInGroups,  ///< quantized values with a scale per group of kCodeGroup inputs
  };

  Kind kind = Kind::kBf16;
  DeviceBuffer values;
  DeviceBuffer scales;                            ///< f32; empty if values are not quantized
  DeviceBuffer minimums;                          ///< f32, one per group; empty for formats without minimums
  DeviceBuffer bias;                              ///< [outputs] f32, or empty
  GroupFormat group_format = GroupFormat::kInt4;  ///< only for kInGroups
  int64_t outputs = 0;
  int64_t depth = 0;

  int64_t bytes() const { return static_cast<int64_t>(values.bytes() + scales.bytes() + minimums.bytes()); }
  bool is_quantized() const { return scales.bytes() > 0; }
  /// Format of 8-bit values; for kInt8 and kFp8 only.
  CodeFormat code_format() const { return kind == Kind::kFp8 ? CodeFormat::kE4m3 : CodeFormat::kInt8; }
  /// For kInGroups only.
  GroupedCodes codes() const {
    return {values.as<uint8_t>(), scales.as<float>(), minimums.bytes() > 0 ? minimums.as<float>() : nullptr,
            group_format};
  }
};

/// Bytes of a DeviceMatrix of a format, without bias.
int64_t matrix_bytes(const WeightFormat& format, int64_t outputs, int64_t inputs);

struct DeviceFeedForward {
  DeviceMatrix up;  ///< gate and up interleaved, unless there is no gate
  DeviceMatrix down;
};

struct DeviceLayer {
  DeviceBuffer attn_norm, q_norm, k_norm, ffn_norm;  ///< f32; q_norm and k_norm may be empty
  DeviceBuffer post_attn_norm, post_ffn_norm;        ///< f32; empty if outputs are added without a norm
  float layer_scalar = 1, encoder_scalar = 1;        ///< see LayerParameters
  DeviceMatrix qkv, o;
  DeviceFeedForward ffn;  ///< dense layer, alone or parallel to experts
  // Layers with experts:
  DeviceMatrix router;      ///< no outputs if the router is computed in f32
  DeviceBuffer router_f32;  ///< [experts, hidden]; empty otherwise
  DeviceBuffer expert_bias;
  DeviceBuffer router_norm, expert_norm, post_dense_norm, post_expert_norm;  ///< f32; only for experts
  DeviceBuffer expert_scale;                                                 ///< parallel to a dense layer
  DeviceFeedForward experts;  ///< matrices of all experts, concatenated along outputs; no bias
  DeviceFeedForward shared;   ///< shared expert; no outputs if the family has none
};

/// The layer between soft embeddings and canvas rows, see Conditioning.
struct DeviceConditioning {
  DeviceBuffer norm;
  DeviceFeedForward ffn;
};

struct DeviceWeights {
  DeviceMatrix head;           ///< [vocab, hidden]
  DeviceBuffer own_embedding;  ///< [vocab, hidden] bf16 or f32; empty if embedding and head are one matrix
                               ///< that is not quantized, kept in `head`
  DeviceBuffer final_norm;
  std::vector<DeviceLayer> layers;
  // In models with canvases:
  DeviceMatrix mean_embedding;  ///< transposed embedding [hidden, vocab], for soft embeddings
  DeviceConditioning conditioning;

  int64_t layer_bytes = 0;  ///< bytes of the matrices of all layers

  const DeviceBuffer& embedding() const { return own_embedding.bytes() > 0 ? own_embedding : head.values; }
  /// Bytes of all matrices.
  int64_t bytes() const {
    return layer_bytes + head.bytes() + static_cast<int64_t>(own_embedding.bytes()) + mean_embedding.bytes() +
           conditioning.ffn.up.bytes() + conditioning.ffn.down.bytes();
  }
};

/// Uploads one layer, through a few MiB of pinned memory. Throws InputError if the format of a matrix has no
/// kernel, or if device memory is too small.
///   dtype  type of activations and of weights that are not quantized: kF32 or kBF16
DeviceLayer upload_layer(Stream& stream, ThreadPool& threads, const ModelConfig& config, DType dtype,
                         int64_t index, const LayerParameters& layer);

/// Uploads embedding, head and final norm in the same way.
///   parameters  model parameters without layers
///   layers      layers that upload_layer() returned
DeviceWeights upload_weights(Stream& stream, ThreadPool& threads, const ModelConfig& config, DType dtype,
                             const Parameters& parameters, std::vector<DeviceLayer> layers);

}  // namespace lacuna::cuda
