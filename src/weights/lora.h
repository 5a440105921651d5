// Low-rank adapters as PEFT saves them: adapter_config.json and adapter_model.safetensors. LoRA (arXiv
// 2106.09685) adds scaling B A to the matrix W of a module, with scaling = lora_alpha / r, or lora_alpha /
// sqrt(r) with "use_rslora" (arXiv 2312.03732). DoRA (arXiv 2402.09353) then scales each row of W + scaling B
// A to a learned length (magnitude).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weights/tensor_files.h"

namespace lacuna {

/// An adapter's update of one module's matrix.
struct LoraUpdate {
  std::string module;  ///< path in the model that was trained: "model.layers.0.self_attn.q_proj"
  int64_t outputs = 0, inputs = 0, rank = 0;
  float scaling = 1;
  bool is_embedding = false;            ///< the tensors are A [rank, outputs] and B [inputs, rank]
  TensorView a;                         ///< [rank, inputs]
  TensorView b;                         ///< [outputs, rank]
  std::optional<TensorView> magnitude;  ///< [outputs], DoRA's row lengths
  std::optional<TensorView> bias;  ///< [outputs], bias of B; scaling * bias is added to the module's bias
};

/// A tensor that replaces one of the model.
struct LoraReplacement {
  std::string name;  ///< as in the model that was trained: "lm_head.weight"
  TensorView tensor;
};

/// An adapter's mapped files. Every tensor of the file is in one of the lists.
class LoraAdapter {
 public:
  /// Opens a folder. Throws InputError naming file and tensor or key for anything unsupported that would
  /// change the adapter's result.
  ///   scale  factor of all low-rank updates
  static LoraAdapter open(const std::filesystem::path& folder, float scale);

  const std::filesystem::path& folder() const { return folder_; }
  float scale() const { return scale_; }
  const std::vector<LoraUpdate>& updates() const { return updates_; }
  const std::vector<LoraReplacement>& replacements() const { return replacements_; }
  /// Whether an update of a tied embedding also applies to the head.
  bool keeps_tied() const { return keeps_tied_; }
  void release_pages() const { file_->release_pages(); }

 private:
  LoraAdapter() = default;

  std::filesystem::path folder_;
  float scale_ = 1;
  std::shared_ptr<const TensorFiles> file_;
  std::vector<LoraUpdate> updates_;
  std::vector<LoraReplacement> replacements_;
  bool keeps_tied_ = false;
};

/// The matrices of an update, read from its file.
class LoraFactors {
 public:
  explicit LoraFactors(const LoraUpdate& update);

  /// Applies the update to row n of the module's matrix.
  ///   row  [inputs] f32
  void apply(int64_t n, float* row) const;

 private:
  int64_t inputs_, rank_;
  float scaling_;
  std::vector<float> left_;   // [outputs, rank]
  std::vector<float> right_;  // [rank, inputs]
  std::vector<float> magnitude_;
};

}  // namespace lacuna
