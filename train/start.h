// A published checkpoint that training continues, with its sizes, vocabulary and chat template.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "model/config.h"
#include "train/chat_form.h"
#include "train/export.h"
#include "train/model.h"

namespace lacuna::train {

class Start {
 public:
  /// Reads a folder's config and tokenizer files or a GGUF file's metadata, no weights. Throws InputError,
  /// which names `flag`, for features that training lacks: experts, sliding windows, scales and soft caps;
  /// and for a folder with quantized weights according to its config. (Quantized GGUF tensors are
  /// dequantized.)
  static Start open(const std::filesystem::path& folder, std::string_view flag = "--init");

  /// Sets the sizes of `shape`, including one embedding row more than the checkpoint's for a new mask. The
  /// family must be set. Throws InputError if the family lacks a part of the checkpoint: biases, or norms of
  /// q and k. (Biases that only the family has are initialized to zeros.)
  void set_sizes(ModelShape& shape);

  /// Writes config.json and the tokenizer's files into `folder`, which must exist. A mask that the tokenizer
  /// lacks becomes one of its special tokens. Throws InputError if the family's published config cannot
  /// express the checkpoint's sizes or RoPE. Call set_sizes() first.
  void export_texts(const std::filesystem::path& folder, const ModelShape& shape) const;

  const SpecialIds& ids() const { return ids_; }
  /// For each row of the embedding, the rows of the checkpoint whose mean initializes it. After set_sizes().
  WordRows words(const ModelShape& shape) const;
  /// "<|mask|> is token 49152, a new row", or where the mask was found; empty for families without a mask.
  const std::string& mask_note() const { return mask_note_; }

 private:
  std::filesystem::path folder_;  // or a .gguf file
  ModelConfig config_;
  nlohmann::ordered_json published_;  // config.json
  SpecialIds ids_;
  std::string new_mask_;  // the mask's text if the tokenizer lacks it
  std::string mask_note_;
};

}  // namespace lacuna::train
