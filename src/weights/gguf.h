// Weights of GGUF files.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/gguf.h"
#include "weights/ggml_blocks.h"
#include "weights/stored_matrix.h"

namespace lacuna {

/// The tensors of a GGUF file as a checkpoint.
class GgufWeights : public WeightSource {
 public:
  ///   interleaved  modules whose rows the converter permuted (llama.cpp rotates neighboring pairs), with
  ///                their number of heads: row 2j + s of a head of width w in the file is row s * w / 2 + j
  ///                of the model
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
  /// Rows of a head if the module's rows are permuted, else 0.
  int64_t head_rows(std::string_view module, int64_t outputs) const;

  const GgufFile& file_;
  std::map<std::string, int64_t, std::less<>> interleaved_;
};

}  // namespace lacuna
