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
/// Inputs of a product, padded as it wants them.
constexpr int64_t padded_depth(int64_t inputs) {
  return padded_to(inputs, kDepthStep);
}

/// A matrix [outputs, depth], whose inputs are padded with zeros.
struct DeviceMatrix {
  enum class Kind : uint8_t {
    kBf16,
    kF32,
    kInt8,      ///< quantized values of 8 bits, with a scale per output
    kFp8,       ///< the same in e4m3
    kInGroups,  ///< quantized values with a scale per group of kCodeGroup inputs
  };

  Kind kind = Kind::kBf16;
  DeviceBuffer values;
  DeviceBuffer scales;                            ///< f32; empty where values are not quantized
  DeviceBuffer minimums;                          ///< f32, of groups; empty where there are none
  DeviceBuffer bias;                              ///< [outputs] f32, or empty
  GroupFormat group_format = GroupFormat::kInt4;  ///< of kInGroups
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

/// Bytes of a DeviceMatrix of a format, a bias aside.
int64_t matrix_bytes(const WeightFormat& format, int64_t outputs, int64_t inputs);

struct DeviceFeedForward {
  DeviceMatrix up;  ///< gate and up interleaved, unless there is no gate
  DeviceMatrix down;
};

struct DeviceLayer {
  DeviceBuffer attn_norm, q_norm, k_norm, ffn_norm;  ///< f32; q_norm and k_norm may be empty
  DeviceBuffer post_attn_norm, post_ffn_norm;        ///< f32; empty where outputs are added without a norm
  float layer_scalar = 1, encoder_scalar = 1;        ///< as LayerParameters has them
  DeviceMatrix qkv, o;
  DeviceFeedForward ffn;  ///< of layers without experts, and of those with experts next to it
  // Layers of experts:
  DeviceMatrix router;      ///< of 0 outputs where the router is computed in f32
  DeviceBuffer router_f32;  ///< [experts, hidden]; empty where it is not
  DeviceBuffer expert_bias;
  DeviceBuffer router_norm, expert_norm, post_dense_norm, post_expert_norm;  ///< f32; of experts next to a
  DeviceBuffer expert_scale;                                                 ///< dense layer
  DeviceFeedForward experts;  ///< [experts] matrices, the outputs of one behind those of another; no bias
  DeviceFeedForward shared;   ///< of 0 outputs where the family has none
};

/// The layer between soft embeddings and rows of canvases, as Conditioning has it.
struct DeviceConditioning {
  DeviceBuffer norm;
  DeviceFeedForward ffn;
};

struct DeviceWeights {
  DeviceMatrix head;           ///< [vocab, hidden]
  DeviceBuffer own_embedding;  ///< [vocab, hidden] bf16 or f32; empty where the head's memory serves for
                               ///< both, as it does where they are one matrix that is not quantized
  DeviceBuffer final_norm;
  std::vector<DeviceLayer> layers;
  // In models with canvases:
  DeviceMatrix mean_embedding;  ///< the embedding transposed, [hidden, vocab], for soft embeddings
  DeviceConditioning conditioning;

  int64_t layer_bytes = 0;  ///< of the matrices of all layers

  const DeviceBuffer& embedding() const { return own_embedding.bytes() > 0 ? own_embedding : head.values; }
  /// Bytes of all matrices.
  int64_t bytes() const {
    return layer_bytes + head.bytes() + static_cast<int64_t>(own_embedding.bytes()) + mean_embedding.bytes() +
           conditioning.ffn.up.bytes() + conditioning.ffn.down.bytes();
  }
};

/// Brings one layer to the device, in pieces of a few MiB of pinned memory. InputError where a matrix has a
/// format without a kernel, with its name, or where the device has too little memory.
///   dtype  of rows and of weights that are not quantized: kF32 or kBF16
DeviceLayer upload_layer(Stream& stream, ThreadPool& threads, const ModelConfig& config, DType dtype,
                         int64_t index, const LayerParameters& layer);

/// Brings what is left to the device, embedding, head and final norm, in the same way.
///   parameters  without layers
///   layers      which are there already
DeviceWeights upload_weights(Stream& stream, ThreadPool& threads, const ModelConfig& config, DType dtype,
                             const Parameters& parameters, std::vector<DeviceLayer> layers);

}  // namespace lacuna::cuda
