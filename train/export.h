// Checkpoint folders in the families' published layouts: written from a trained model, read to start another.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"
#include "train/bpe.h"
#include "train/model.h"

namespace lacuna::train {

/// For each token of a new vocabulary, the tokens of an existing one that spell it.
struct WordRows {
  int64_t vocabulary = 0;  ///< rows of the existing vocabulary's embedding
  std::vector<std::vector<TokenId>> spelled;
};
WordRows match_words(const Tokenizer& from, const Tokenizer& to);

/// config.json, with the keys of the family's published checkpoints.
nlohmann::ordered_json config_json(const ModelShape& shape, const SpecialIds& ids);

/// Writes config.json, generation_config.json and the tokenizer's files into `folder`, which must exist.
void export_texts(const std::filesystem::path& folder, const ModelShape& shape, const Bpe& bpe);

/// Writes model.safetensors (bf16, rounded to nearest even) into `folder`, low-rank updates merged.
void export_weights(const std::filesystem::path& folder, const Transformer& model);

/// Writes adapter_config.json and adapter_model.safetensors (f32) of a model with low-rank updates into
/// `folder`, which must exist, in the format of the library PEFT. `base` names the base checkpoint.
void export_adapter(const std::filesystem::path& folder, const Transformer& model, const std::string& base);

/// The rank and alpha of the adapter in a folder, which must have one rank and plain scaling (alpha / rank).
LoraShape adapter_shape(const std::filesystem::path& folder);
/// Reads low-rank updates from a folder that export_adapter() wrote, into a model with updates of the same
/// shape. Throws InputError if one is missing or has another shape.
void import_adapter(const std::filesystem::path& folder, Transformer& model);

/// Initializes `model` from a checkpoint folder, or from a GGUF file of a dense model, with the tensor names
/// and sizes of `model`. Dream has Qwen2's layout, ReFusion Qwen3's. Throws InputError if a tensor is missing
/// or has another shape. Biases that the checkpoint lacks are 0. With `words` the checkpoint may have another
/// vocabulary: a token's rows of embedding and head become the mean of the rows that spell it there.
///
/// A checkpoint of Qwen3's layout can initialize two other kinds of models; training corrects the difference:
///   LLaDA, Qwen2's layout  The norms of q and k are folded into the matrices, as if every token's q and k
///                          had the length expected of independent inputs. The change is small.
///   LLaDA2                 Sparse upcycling (Komatsuzaki et al. 2023), here in slices. In each head the
///                          pairs with frequencies that the model has keep rotating, the others do not
///                          rotate. The feed-forward part is cut into slices of an expert's width: the first
///                          is shared, the others are distributed over the experts, and the router is random.
void import_weights(const std::filesystem::path& folder, Transformer& model, const WordRows* words = nullptr);

/// Rounds the weights to the values that export_weights() writes.
void round_weights(Transformer& model);

}  // namespace lacuna::train
