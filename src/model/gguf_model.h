// Models in GGUF files: which family, with what sizes, and under which names.
#pragma once

#include <string>
#include <string_view>

#include "base/gguf.h"
#include "model/config.h"
#include "model/family.h"
#include "weights/gguf.h"

namespace lacuna {

/// The JSON text of a config.json for the same model. Throws InputError.
std::string gguf_config_text(const GgufFile& file);

/// The config of a GGUF file of a family with a GgufDialect. Its keys are put as the config.json of the same
/// model would have them, and read and checked as that is. Throws InputError.
ModelConfig read_gguf_config(const GgufFile& file, const ConfigChoices& choices = {});

/// Names as llama.cpp's converters give them.
TensorNames gguf_tensor_names(std::string_view family);

/// Throws InputError, which names the tensor, if the file holds one that the model does not read: what it
/// would add would be missing without a word.
void expect_no_unread_tensors(const GgufFile& file, const ModelConfig& config);

/// The file's tensors in the model's order of rows: those of `llada` and `llama` are stored for rotation of
/// neighbouring pairs. `file` must outlive them.
GgufWeights gguf_weights(const GgufFile& file, const ModelConfig& config);

}  // namespace lacuna
