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

/// For each token of a vocabulary, the tokens of another that spell it.
struct WordRows {
  int64_t vocabulary = 0;  ///< rows of the other's embedding
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
/// `folder`, which must exist, as the library PEFT has them. `base` is the name of the checkpoint that they
/// are for.
void export_adapter(const std::filesystem::path& folder, const Transformer& model, const std::string& base);

/// The rank and alpha of the adapter in a folder, which must have one rank and plain scaling (alpha / rank).
LoraShape adapter_shape(const std::filesystem::path& folder);
/// Reads the low-rank updates of a model, to which they were added with the same shape, from what
/// export_adapter() wrote. Throws InputError if one is missing or has another shape.
void import_adapter(const std::filesystem::path& folder, Transformer& model);

/// Reads the weights of a checkpoint folder, or of a GGUF file of a dense model, with the tensor names and
/// the sizes of `model`: Dream's are those of Qwen2, ReFusion's those of Qwen3. Throws InputError if one is
/// missing or has another shape. A Qwen3 model, or one of its layout, also starts a LLaDA model, a Qwen2
/// model or one of Qwen2's layout: its norms of q and k are folded into the matrices, as if every token's q
/// and k had the length expected of independent inputs. That is nearly the same model, and training corrects
/// the rest. A Qwen3 model, or one of its layout, starts an LLaDA2 model, too ("sparse upcycling":
/// Komatsuzaki et al. 2023, here in slices). In each head the pairs whose frequencies the model has keep
/// rotating, the others do not rotate. The feed-forward part is cut into slices of an expert's width: the
/// first is shared, the others are distributed over the experts, and the router is random. Training has more
/// to correct here. Biases that the checkpoint lacks are 0. With `words` the checkpoint may have another
/// vocabulary: a token's rows of the embedding and the head become the mean of those that spell it there.
void import_weights(const std::filesystem::path& folder, Transformer& model, const WordRows* words = nullptr);

/// Gives the weights the values that export_weights() writes.
void round_weights(Transformer& model);

}  // namespace lacuna::train
