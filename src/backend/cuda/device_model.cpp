#include "backend/cuda/device_model.h"

#include <string_view>

#include "backend/cuda/kernels/attention.h"
#include "backend/cuda/kernels/experts.h"
#include "backend/cuda/kernels/f32_product.h"
#include "backend/cuda/kernels/wide_product.h"
#include "base/error.h"

namespace lacuna::cuda {

void multiply(Stream& stream, const DeviceMatrix& matrix, ProductArguments whole, int64_t rows) {
  whole.bias = floats_or_null(matrix.bias);
  whole.num_rows = rows;
  whole.num_outputs = matrix.outputs;
  whole.depth = matrix.depth;
  const bool is_wide = rows > kMostProductRows;
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
      const QuantisedProductArguments codes{whole, matrix.codes()};
      return is_wide ? wide_quantised_product(stream, codes) : quantised_product(stream, codes);
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
  refuse_if(config.has_experts() &&
                (config.moe.num_experts > kMostExperts || config.moe.experts_per_token > kMostChoices ||
                 config.moe.num_groups > kMostExpertGroups),
            "more experts than a block chooses among");
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    if (has_attention(config.head_dim_of(layer))) continue;
    throw InputError(
        "heads of this model have {} dimensions; CUDA kernels are built for 16, 32, 64, 128, 256 and 512, "
        "and "
        "--device cpu runs it",
        config.head_dim_of(layer));
  }
}

}  // namespace lacuna::cuda
