#include "weights/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "weights/panel_tensors.h"
#include "weights/published_tensors.h"
#include "weights/quantized_tensors.h"

namespace lacuna {
namespace {

/// One expert of a layer whose experts MLX stacks in one tensor.
struct StackedExpert {
  std::string module;  ///< the stack of all experts
  int64_t index = 0;
};

/// Empty if the name is not an expert's: PREFIX.experts.INDEX.PROJECTION.
std::optional<StackedExpert> stacked_expert(std::string_view module) {
  constexpr std::string_view kExperts = ".experts.";
  const size_t begin = module.find(kExperts);
  if (begin == std::string_view::npos) return {};
  const std::string_view rest = module.substr(begin + kExperts.size());
  StackedExpert expert;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), expert.index);
  const std::string_view projection = rest.substr(static_cast<size_t>(end - rest.data()));
  if (error != std::errc() || !projection.starts_with('.') || expert.index < 0) return {};
  expert.module = fmt::format("{}.switch_mlp{}", module.substr(0, begin), projection);
  return expert;
}

/// View of a matrix's rows from a first row on.
class MatrixRows : public StoredMatrix {
 public:
  MatrixRows(std::unique_ptr<StoredMatrix> whole, int64_t first) : whole_(std::move(whole)), first_(first) {}

  void read(int64_t n, float* out) const override { whole_->read(first_ + n, out); }
  std::string place() const override { return whole_->place(); }
  std::optional<Quantization> quantization() const override { return whole_->quantization(); }
  void read_codes(int64_t n, QuantizedRow& out) const override { whole_->read_codes(first_ + n, out); }

 private:
  std::unique_ptr<StoredMatrix> whole_;
  int64_t first_;
};

/// Rows of a dense tensor.
class DenseMatrix : public StoredMatrix {
 public:
  DenseMatrix(TensorView tensor, int64_t inputs) : tensor_(std::move(tensor)), inputs_(inputs) {}

  void read(int64_t n, float* out) const override {
    widen(tensor_, n * inputs_, {out, static_cast<size_t>(inputs_)});
  }
  std::string place() const override { return tensor_.place(); }

 private:
  TensorView tensor_;
  int64_t inputs_;
};

}  // namespace

Checkpoint Checkpoint::open(const std::filesystem::path& folder) {
  Checkpoint checkpoint(TensorFiles::open(folder));
  const std::vector<std::string_view> names = checkpoint.names();
  checkpoint.is_packed_ = std::any_of(names.begin(), names.end(),
                                      [](std::string_view name) { return name.ends_with(kPanelsSuffix); });
  checkpoint.quantization_ = published_quantization(folder);
  return checkpoint;
}

std::vector<float> Checkpoint::values(std::string_view name, std::span<const int64_t> shape) const {
  const TensorView stored = tensor(name, shape);
  std::vector<float> values(static_cast<size_t>(stored.num_elements()));
  widen(stored, 0, values);
  expect_finite(values, stored.place());
  return values;
}

bool Checkpoint::holds_matrix(std::string_view module) const {
  const std::string name(module);
  for (const std::string_view suffix : {std::string_view(".weight"), kCodesSuffix, kPanelsSuffix}) {
    if (holds(name + std::string(suffix))) return true;
  }
  return quantization_ && is_published_module(*this, *quantization_, module);
}

/// Whether a tensor is a bias of zeros, which old versions of GPTQ's tools add to every module.
bool Checkpoint::is_empty_bias(std::string_view name) const {
  constexpr std::string_view kBias = ".bias";
  if (!quantization_ || quantization_->method != QuantMethod::kGptq || !name.ends_with(kBias)) return false;
  if (!is_published_module(*this, *quantization_, name.substr(0, name.size() - kBias.size()))) return false;
  const std::span<const std::byte> bytes = raw(name).bytes;
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

bool Checkpoint::contains(std::string_view name) const {
  constexpr std::string_view kWeight = ".weight";
  if (holds(name)) return !is_empty_bias(name);
  if (!name.ends_with(kWeight)) return false;
  const std::string_view module = name.substr(0, name.size() - kWeight.size());
  if (holds_matrix(module)) return true;
  const std::optional<StackedExpert> expert = stacked_expert(module);
  return expert && holds_matrix(expert->module);
}

std::unique_ptr<StoredMatrix> Checkpoint::matrix(std::string_view module, int64_t outputs,
                                                 int64_t inputs) const {
  if (is_packed()) return open_panels(*this, module, outputs, inputs);
  const std::string name(module);
  if (holds(name + std::string(kCodesSuffix))) return open_quantized(*this, module, outputs, inputs);
  if (quantization_ && is_published_module(*this, *quantization_, module))
    return open_published(*this, *quantization_, module, outputs, inputs);
  if (const std::optional<StackedExpert> expert = stacked_expert(module); expert && !holds_matrix(module)) {
    const std::string stack_name = expert->module + ".weight";
    const std::optional<RawTensor> stack = find(stack_name);
    if (stack && stack->shape.size() == 3) {
      const int64_t experts = stack->shape[0];
      if (experts <= expert->index || experts > INT64_MAX / outputs) {
        throw InputError("{}: tensor {} holds {} experts; expected one with the number {}", stack->file,
                         in_quotes(stack_name), experts, expert->index);
      }
      return std::make_unique<MatrixRows>(matrix(expert->module, experts * outputs, inputs),
                                          expert->index * outputs);
    }
  }
  // Stacked experts have no suffix: [experts, outputs of each, inputs].
  if (const std::optional<RawTensor> found = find(name)) {
    const std::vector<int64_t>& shape = found->shape;
    const int64_t parts = shape.size() == 3 ? std::max<int64_t>(shape[0], 1) : 1;
    const std::array<int64_t, 3> expected{parts, outputs / parts, inputs};
    if (outputs % parts == 0) return std::make_unique<DenseMatrix>(tensor(name, expected), inputs);
  }
  if (!quantization_) expect_dense(name);
  // MLX keeps stacks that it does not quantize under the same names.
  const std::string weight = name + ".weight";
  if (const std::optional<RawTensor> found = find(weight)) {
    const std::vector<int64_t>& shape = found->shape;
    if (shape.size() == 3 && shape[0] > 0 && outputs % shape[0] == 0) {
      const std::array<int64_t, 3> expected{shape[0], outputs / shape[0], inputs};
      return std::make_unique<DenseMatrix>(tensor(weight, expected), inputs);
    }
  }
  return std::make_unique<DenseMatrix>(tensor(weight, {outputs, inputs}), inputs);
}

void Checkpoint::expect_dense(const std::string& module) const {
  for (const std::string_view suffix : {".qweight", ".weight_packed", ".scales", ".weight_scale",
                                        ".weight_scale_inv", ".SCB", ".weight.absmax"}) {
    const std::string name = module + std::string(suffix);
    const std::optional<RawTensor> found = find(name);
    if (!found) continue;
    throw InputError(
        "{}: tensor {} is of quantized weights, and config.json has no \"quantization_config\" that says "
        "how; expected both",
        found->file, in_quotes(name));
  }
}

DType Checkpoint::dtype() const {
  std::array<size_t, 3> bytes_of{};
  constexpr std::array kTypes = {DType::kBF16, DType::kF16, DType::kF32};
  constexpr std::array<std::string_view, 3> kNames = {"BF16", "F16", "F32"};
  const auto add = [&](bool counts_partners) {
    for (const std::string_view name : names()) {
      const RawTensor stored = raw(name);
      const auto* const type = std::find(kNames.begin(), kNames.end(), stored.type);
      if (type == kNames.end() ||
          (!counts_partners && quantization_ && is_partner_tensor(*this, *quantization_, name)))
        continue;
      bytes_of[static_cast<size_t>(type - kNames.begin())] += stored.bytes.size();
    }
  };
  add(false);
  if (bytes_of == std::array<size_t, 3>{}) add(true);
  return kTypes[static_cast<size_t>(std::max_element(bytes_of.begin(), bytes_of.end()) - bytes_of.begin())];
}

}  // namespace lacuna
