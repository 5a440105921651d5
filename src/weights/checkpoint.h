// The weights of a checkpoint folder, in any supported format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "weights/published_quantization.h"
#include "weights/stored_matrix.h"
#include "weights/tensor_files.h"

namespace lacuna {

/// The weights in a checkpoint's files.
class Checkpoint : public WeightSource, public TensorFiles {
 public:
  /// Maps and checks every file; reads no weights. Follows config.json, if present, for quantized weights.
  /// Throws InputError.
  static Checkpoint open(const std::filesystem::path& folder);

  /// Whether matrix() or values() can read the tensor, under any of the names that formats give it. GPTQ's
  /// all-zero biases count as absent.
  bool contains(std::string_view name) const override;

  std::vector<float> values(std::string_view name, std::span<const int64_t> shape) const override;
  /// Returns a matrix that is dense, quantized (quantized_tensors.h, published_tensors.h) or in panels
  /// (panel_tensors.h). A dense one may also be a tensor named `module`, [experts, outputs / experts,
  /// inputs]. One expert's matrix may be a part of the tensor in which MLX stacks all experts.
  std::unique_ptr<StoredMatrix> matrix(std::string_view module, int64_t outputs,
                                       int64_t inputs) const override;

  void release_pages() const override { TensorFiles::release_pages(); }

  /// The most common dtype by bytes, of f32, f16 and bf16; scales of quantized weights count only if nothing
  /// else does.
  DType dtype() const;
  /// Whether its matrices are stored as panels.
  bool is_packed() const { return is_packed_; }
  /// Quantization by another program; empty if the matrices are not.
  const std::optional<PublishedQuantization>& quantization() const { return quantization_; }

 private:
  explicit Checkpoint(TensorFiles files) : TensorFiles(std::move(files)) {}

  /// Whether a file has the module's weights under the module's own name, not in a stack of experts.
  bool holds_matrix(std::string_view module) const;
  bool is_empty_bias(std::string_view name) const;
  /// Throws InputError if the module has tensors of quantized weights.
  void expect_dense(const std::string& module) const;

  bool is_packed_ = false;
  std::optional<PublishedQuantization> quantization_;
};

}  // namespace lacuna
