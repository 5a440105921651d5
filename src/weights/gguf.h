// Weights of GGUF files. Every quantised block becomes codes and scales of ours without loss, so that
// products read what the file says and nothing else.
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

/// The quantisation that holds exactly what blocks of this type hold; empty for F32, F16, BF16 and types that
/// are not computed with.
///   Q4_0, Q4_1          int4-group and int4-min  Q8_0, Q5_0   int8-group
///   Q5_1                8-bit codes with minimums
///   Q4_K, Q5_K          4- and 8-bit codes with minimums, scales in f32
///   Q6_K                8-bit codes in groups of 16, scales in f32
std::optional<Quantisation> block_quantisation(uint32_t type);

/// Codes, scales and minimums of one row of blocks. `out` has been sized; its length is a multiple of the
/// type's block.
void read_blocks(uint32_t type, const std::byte* row, QuantisedRow& out);

/// One row of any type that ggml_type() knows, as f32. A weight of a quantised type is
/// scale * code + minimum, rounded once.
void widen_blocks(uint32_t type, const std::byte* row, std::span<float> out);

/// The tensors of a GGUF file as a checkpoint.
class GgufWeights : public WeightSource {
 public:
  /// interleaved  modules whose rows were put in another order, and how many heads they hold: within a head
  /// of
  ///              width w, row 2j + s of the file is row s * w / 2 + j of the model (llama.cpp's rotation of
  ///              neighbouring pairs)
  explicit GgufWeights(const GgufFile& file, std::map<std::string, int64_t, std::less<>> interleaved = {})
      : file_(file), interleaved_(std::move(interleaved)) {}

  std::vector<float> values(std::string_view name, std::span<const int64_t> shape) const override;
  /// Leading dimensions may be more than one: stacked matrices are one with all their rows.
  std::unique_ptr<StoredMatrix> matrix(std::string_view module, int64_t outputs,
                                       int64_t inputs) const override;
  void release_pages() const override { file_.release_pages(); }

 private:
  const GgufTensor& tensor(std::string_view name, std::span<const int64_t> shape) const;

  const GgufFile& file_;
  std::map<std::string, int64_t, std::less<>> interleaved_;
};

}  // namespace lacuna
