// Weights of GGUF files. Every quantized block becomes quantized values and scales of panels without loss, so
// that matmuls use exactly the file's weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/gguf.h"
#include "weights/stored_matrix.h"

namespace lacuna {

/// Quantization that holds blocks of this type without loss; empty for F32, F16, BF16 and unsupported types.
///   Q4_0, Q4_1          int4-group and int4-min  Q8_0, Q5_0   int8-group
///   Q5_1                8-bit values with minimums
///   Q4_K, Q5_K          4- and 8-bit values with minimums, scales in f32
///   Q6_K                8-bit values in groups of 16, scales in f32
std::optional<Quantisation> block_quantisation(uint32_t type);

/// Unpacks one row of blocks. `out` has been sized; its length is a multiple of the type's block.
void read_blocks(uint32_t type, const std::byte* row, QuantisedRow& out);

/// Dequantizes one row of any type that ggml_type() knows. A weight of a quantized type is scale * q +
/// minimum, rounded once.
void widen_blocks(uint32_t type, const std::byte* row, std::span<float> out);

/// The tensors of a GGUF file as a checkpoint.
class GgufWeights : public WeightSource {
 public:
  ///   interleaved  modules whose rows the converter permuted, with their number of heads: within a head of
  ///                width w, row 2j + s of the file is row s * w / 2 + j of the model (llama.cpp rotates
  ///                neighbouring pairs)
  explicit GgufWeights(const GgufFile& file, std::map<std::string, int64_t, std::less<>> interleaved = {})
      : file_(file), interleaved_(std::move(interleaved)) {}

  bool contains(std::string_view name) const override { return file_.find(name) != nullptr; }
  std::vector<float> values(std::string_view name, std::span<const int64_t> shape) const override;
  /// Returns a matrix; leading dimensions of stacked matrices count as rows.
  std::unique_ptr<StoredMatrix> matrix(std::string_view module, int64_t outputs,
                                       int64_t inputs) const override;
  void release_pages() const override { file_.release_pages(); }

 private:
  const GgufTensor& tensor(std::string_view name, std::span<const int64_t> shape) const;

  const GgufFile& file_;
  std::map<std::string, int64_t, std::less<>> interleaved_;
};

}  // namespace lacuna
