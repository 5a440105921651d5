#include "backend/cuda/device_model.h"

#include <algorithm>
#include <string_view>

#include "backend/cuda/kernels/attention.h"
#include "backend/cuda/kernels/experts.h"
#include "backend/cuda/kernels/f32_product.h"
#include "backend/cuda/kernels/wide_product.h"
#include "base/error.h"
#include "base/memory.h"

namespace lacuna::cuda {

namespace {

/// Bytes of the partial sums of a product, if its inputs are split.
int64_t partial_bytes(const ProductArguments& product) {
  const int64_t split = num_split(product);
  return split == 1 ? 0
                    : split * product.num_rows * product.num_outputs * static_cast<int64_t>(sizeof(float));
}

}  // namespace

void reserve_partials(DeviceModel& model, const DeviceMatrix& matrix, int64_t rows) {
  const bool splits = matrix.kind != DeviceMatrix::Kind::kF32 && matrix.kind != DeviceMatrix::Kind::kInGroups;
  if (!splits || matrix.outputs == 0) return;
  grow(model.stream(), model.scratch.partials,
       partial_bytes({.num_rows = std::min(rows, kMaxProductRows),
                      .num_outputs = matrix.outputs,
                      .depth = matrix.depth}));
}

void multiply(DeviceModel& model, const DeviceMatrix& matrix, ProductArguments whole, int64_t rows) {
  Stream& stream = model.stream();
  whole.bias = floats_or_null(matrix.bias);
  whole.num_rows = rows;
  whole.num_outputs = matrix.outputs;
  whole.depth = matrix.depth;
  const bool is_wide = rows > kMaxProductRows;
  const bool has_partials = partial_bytes(whole) <= static_cast<int64_t>(model.scratch.partials.bytes());
  if (!is_wide && has_partials) whole.partials = model.scratch.partials.as<float>();
  const auto send = [&] { is_wide ? wide_product(stream, whole) : product(stream, whole); };
  switch (matrix.kind) {
    case DeviceMatrix::Kind::kF32:
      whole.weights_f32 = matrix.values.as<float>();
      return f32_product(stream, whole);
    case DeviceMatrix::Kind::kBf16:
      whole.weights = matrix.values.as<uint16_t>();
      return send();
    case DeviceMatrix::Kind::kInt8:
    case DeviceMatrix::Kind::kFp8:
      whole.codes = matrix.values.as<uint8_t>();
      whole.code_format = matrix.code_format();
      whole.scales = matrix.scales.as<float>();
      return send();
    case DeviceMatrix::Kind::kInGroups:
      const QuantizedProductArguments codes{whole, matrix.codes()};
      return is_wide ? wide_quantized_product(stream, codes) : quantized_product(stream, codes);
  }
}

void check_supported(const ModelConfig& config, bool in_f32, bool kv_int8, int64_t shared_bytes) {
  const auto refuse_if = [&](bool needed, std::string_view feature) {
    if (!needed) return;
    throw InputError(
        "models of family {} need {}, for which there is no CUDA kernel yet; --device cpu runs "
        "them",
        config.family, feature);
  };
  refuse_if(config.product_scale != ProductScale::kOne, "products scaled by their width");
  refuse_if(config.layer_norm, "layer norms with means and biases");
  refuse_if(config.convolution.has_value(), "short convolutions");
  refuse_if(config.has_experts() &&
                (config.moe.num_experts > kMaxExperts || config.moe.experts_per_token > kMaxChoices ||
                 config.moe.num_groups > kMaxExpertGroups),
            "more experts than a block chooses among");
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    const int64_t head_dim = config.head_dim_of(layer);
    if (!has_attention(head_dim)) {
      throw InputError(
          "heads of this model have {} dimensions; CUDA kernels are built for 16, 32, 64, 128, 256 and 512, "
          "and --device cpu runs it",
          head_dim);
    }
    if (in_f32) continue;
    const CellFormat format = kv_int8 ? CellFormat::kInt8 : CellFormat::kBf16;
    const int64_t needed = attend_shared_bytes(head_dim, format);
    if (needed <= shared_bytes) continue;
    throw InputError(
        "heads of this model have {} dimensions, for which a block needs {} of shared memory and the device "
        "has {}; --device cpu runs it",
        head_dim, human_bytes(needed), human_bytes(shared_bytes));
  }
}

}  // namespace lacuna::cuda
