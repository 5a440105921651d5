#include "weights/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "weights/tensor_files.h"

namespace lacuna {
namespace {

int64_t row_bytes(uint32_t type, int64_t inputs) {
  return inputs / ggml_type(type)->block * ggml_type(type)->block_bytes;
}

std::string place_of(const GgufTensor& tensor) {
  return fmt::format("{}: tensor {}", tensor.file, in_quotes(tensor.name));
}

/// Row of the file that holds row n of a module with permuted heads of `head_rows` rows.
int64_t permuted_row(int64_t n, int64_t head_rows) {
  const int64_t r = n % head_rows;
  const int64_t half = head_rows / 2;
  return n - r + 2 * (r % half) + r / half;
}

class GgufMatrix : public StoredMatrix {
 public:
  /// head_rows: rows of a head if rows are interleaved; 0 if they are in order.
  GgufMatrix(const GgufTensor& tensor, int64_t inputs, int64_t head_rows)
      : tensor_(tensor), inputs_(inputs), head_rows_(head_rows) {}

  void read(int64_t n, float* out) const override {
    widen_blocks(tensor_.type, row(n), {out, static_cast<size_t>(inputs_)});
  }
  std::optional<Quantization> quantization() const override { return block_quantization(tensor_.type); }
  void read_codes(int64_t n, QuantizedRow& out) const override { read_blocks(tensor_.type, row(n), out); }
  std::string place() const override { return place_of(tensor_); }

 private:
  const std::byte* row(int64_t n) const {
    const int64_t stored = head_rows_ > 0 ? permuted_row(n, head_rows_) : n;
    return tensor_.bytes.data() + stored * row_bytes(tensor_.type, inputs_);
  }

  const GgufTensor& tensor_;
  int64_t inputs_;
  int64_t head_rows_;
};

}  // namespace

const GgufTensor& GgufWeights::tensor(std::string_view name, std::span<const int64_t> shape) const {
  const GgufTensor* found = file_.find(name);
  if (found == nullptr) {
    throw InputError("{}: tensor {} is missing; expected shape {}", file_.name(), in_quotes(name),
                     shown(shape));
  }
  if (ggml_type(found->type) == nullptr) {
    throw InputError("{}: tensor {} has type {}; expected one of {}", found->file, in_quotes(name),
                     describe_ggml_type(found->type), ggml_type_names());
  }
  // Matrices may be stacked: all dimensions but the innermost count as rows.
  std::vector<int64_t> folded = found->shape;
  while (shape.size() == 2 && folded.size() > 2) {
    folded[1] *= folded[0];
    folded.erase(folded.begin());
  }
  if (!std::equal(shape.begin(), shape.end(), folded.begin(), folded.end())) {
    throw InputError("{}: tensor {} has shape {}; expected {}", found->file, in_quotes(name),
                     shown(found->shape), shown(shape));
  }
  return *found;
}

std::vector<float> GgufWeights::values(std::string_view name, std::span<const int64_t> shape) const {
  const GgufTensor& stored = tensor(name, shape);
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  std::vector<float> values(static_cast<size_t>(count));
  widen_blocks(stored.type, stored.bytes.data(), values);
  expect_finite(values, place_of(stored));
  constexpr std::string_view kBias = ".bias";
  if (!name.ends_with(kBias)) return values;
  const int64_t rows = head_rows(name.substr(0, name.size() - kBias.size()), count);
  if (rows == 0) return values;
  std::vector<float> in_order(values.size());
  for (int64_t n = 0; n < count; ++n)
    in_order[static_cast<size_t>(n)] = values[static_cast<size_t>(permuted_row(n, rows))];
  return in_order;
}

int64_t GgufWeights::head_rows(std::string_view module, int64_t outputs) const {
  const auto heads = interleaved_.find(module);
  if (heads == interleaved_.end()) return 0;
  const int64_t rows = outputs / heads->second;
  expects(outputs % heads->second == 0 && rows % 2 == 0, "GgufWeights: heads have even widths");
  return rows;
}

std::unique_ptr<StoredMatrix> GgufWeights::matrix(std::string_view module, int64_t outputs,
                                                  int64_t inputs) const {
  const std::string name = std::string(module) + ".weight";
  const GgufTensor& stored = tensor(name, std::array{outputs, inputs});
  return std::make_unique<GgufMatrix>(stored, inputs, head_rows(module, outputs));
}

}  // namespace lacuna
