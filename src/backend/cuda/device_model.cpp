#include "backend/cuda/device_model.h"

#include <algorithm>
#include <string_view>

#include "backend/cuda/kernels/experts.h"
#include "backend/cuda/kernels/quantised_product.h"
#include "base/error.h"

namespace lacuna::cuda {

void multiply(Stream& stream, const DeviceMatrix& matrix, ProductArguments whole, int64_t rows) {
  const bool is_int4 = matrix.kind == DeviceMatrix::Kind::kInt4;
  if (matrix.kind == DeviceMatrix::Kind::kBf16) whole.weights = matrix.values.as<uint16_t>();
  if (matrix.kind == DeviceMatrix::Kind::kInt8) {
    whole.codes = matrix.values.as<int8_t>();
    whole.scales = matrix.scales.as<float>();
  }
  whole.bias = floats_or_null(matrix.bias);
  whole.num_outputs = matrix.outputs;
  whole.depth = matrix.depth;
  for (int64_t first = 0; first < rows; first += kMostProductRows) {
    ProductArguments part = whole;
    if (whole.rows != nullptr) {
      part.rows = whole.rows + first;
    } else {
      part.x = whole.x + first * whole.depth;
    }
    if (whole.out_rows != nullptr) {
      part.out_rows = whole.out_rows + first;
    } else {
      if (whole.out_f32 != nullptr) part.out_f32 = whole.out_f32 + first * whole.out_stride;
      if (whole.out_bf16 != nullptr) part.out_bf16 = whole.out_bf16 + first * whole.out_stride;
    }
    part.num_rows = std::min(kMostProductRows, rows - first);
    if (is_int4) {
      quantised_product(stream, {part, matrix.values.as<uint8_t>(), matrix.scales.as<float>()});
    } else {
      product(stream, part);
    }
  }
}

void check_supported(const ModelConfig& config) {
  const auto refuse_if = [&](bool needed, std::string_view feature) {
    if (!needed) return;
    throw InputError(
        "models of family {} need {}, for which there is no CUDA kernel yet; --device cpu runs "
        "them",
        config.family, feature);
  };
  refuse_if(config.canvas.has_value(), "soft embeddings");
  refuse_if(config.sliding.has_value(), "layers with a sliding window");
  refuse_if(config.shares_keys || config.v_norm, "values that are made of keys");
  refuse_if(config.norms_outputs || config.layer_scalars, "norms and scales of layers' outputs");
  refuse_if(config.logit_soft_cap > 0, "a soft cap of logits");
  refuse_if(config.activation == Activation::kGeluTanh, "GELU");
  refuse_if(config.rope.query_growth != 0, "queries that grow with their position");
  refuse_if(config.moe.parallel_dense, "experts next to a dense layer");
  refuse_if(config.moe.window > 0, "experts that windows of positions share");
  refuse_if(config.has_experts() &&
                (config.moe.num_experts > kMostExperts || config.moe.experts_per_token > kMostChoices ||
                 config.moe.num_groups > kMostExpertGroups),
            "more experts than a block chooses among");
  if (config.head_dim != 32 && config.head_dim != 64 && config.head_dim != 128) {
    throw InputError(
        "heads of this model have {} dimensions; CUDA kernels are built for 32, 64 and 128, and "
        "--device cpu runs it",
        config.head_dim);
  }
}

}  // namespace lacuna::cuda
