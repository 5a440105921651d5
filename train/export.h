// Writes a trained model as a checkpoint folder in LLaDA's published layout.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "train/bpe.h"
#include "train/model.h"

namespace lacuna::train {

/// config.json, with the keys of the published LLaDA checkpoints.
nlohmann::ordered_json config_json(const ModelShape& shape, const Bpe& bpe);

/// Writes config.json and the tokenizer's files into `folder`, which must exist.
void export_texts(const std::filesystem::path& folder, const ModelShape& shape, const Bpe& bpe);

/// Writes model.safetensors (bf16, rounded to nearest even) into `folder`.
void export_weights(const std::filesystem::path& folder, const Llada& model);

/// Gives the weights the values that export_weights() writes.
void round_weights(Llada& model);

}  // namespace lacuna::train
