// A published checkpoint that training continues: its sizes, its words and its chat template stay.
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
  /// Reads the texts of a folder or the metadata of a GGUF file, no weights. Throws InputError, which names
  /// `flag`, for what training does not compute: experts, sliding windows, scales and soft caps, and for
  /// weights that a folder's config says are quantized. (Quantized tensors of GGUF files are read as the
  /// numbers that they stand for.)
  static Start open(const std::filesystem::path& folder, std::string_view flag = "--init");

  /// Sets the sizes of a shape whose family is chosen, one row more than the checkpoint's for a new mask
  /// included. Throws InputError for a family that lacks a part of the checkpoint: biases, or norms of q and
  /// k. (A family that has biases and a checkpoint without: they begin as zeros.)
  void set_sizes(ModelShape& shape);

  /// Writes config.json and the tokenizer's files into `folder`, which must exist. A mask that the tokenizer
  /// lacks becomes one of its special tokens. Throws InputError where the family's published config cannot
  /// state the checkpoint's sizes or rotation. After set_sizes().
  void export_texts(const std::filesystem::path& folder, const ModelShape& shape) const;

  const SpecialIds& ids() const { return ids_; }
  /// For each row of the embedding, the rows of the checkpoint whose mean it begins as. After set_sizes().
  WordRows words(const ModelShape& shape) const;
  /// "<|mask|> is token 49152, a new row" or where it was found; empty for families without a mask.
  const std::string& mask_note() const { return mask_note_; }

 private:
  std::filesystem::path folder_;  // or a .gguf file
  ModelConfig config_;
  nlohmann::ordered_json published_;  // config.json
  SpecialIds ids_;
  std::string new_mask_;  // its text, where the tokenizer lacks it
  std::string mask_note_;
};

}  // namespace lacuna::train
