// Models in GGUF files: family, config and tensor names.
#pragma once

#include <string>
#include <string_view>

#include "base/gguf.h"
#include "model/config.h"
#include "model/family.h"
#include "weights/gguf.h"

namespace lacuna {

/// The JSON text of the equivalent config.json. Throws InputError.
std::string gguf_config_text(const GgufFile& file);

/// The config of a GGUF file of a family with a GgufDialect. The keys are translated to a config.json, which
/// is read and checked as usual. Throws InputError.
ModelConfig read_gguf_config(const GgufFile& file, const ConfigChoices& choices = {});

/// Tensor names as llama.cpp's converters write them.
TensorNames gguf_tensor_names(std::string_view family);

/// Throws InputError naming the tensor if the file holds one that the model does not read, since outputs
/// would be silently wrong.
void expect_no_unread_tensors(const GgufFile& file, const ModelConfig& config);

/// The file's tensors with rows in the model's order: `llada` and `llama` files permute rows for RoPE of
/// neighboring pairs. `file` must outlive the result.
GgufWeights gguf_weights(const GgufFile& file, const ModelConfig& config);

}  // namespace lacuna
