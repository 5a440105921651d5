#include "weights/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "weights/panel_tensors.h"
#include "weights/published_tensors.h"
#include "weights/quantized_tensors.h"

namespace lacuna {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".safetensors";

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

std::vector<fs::path> safetensors_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (entry->path().extension() == kSuffix) files.push_back(entry->path());
  }
  if (error) throw InputError("{}: cannot be listed: {}", folder.string(), error.message());
  std::sort(files.begin(), files.end());
  return files;
}

/// A file name that cannot leave the folder.
bool is_plain_shard_name(std::string_view name) {
  return name.size() > kSuffix.size() && name.ends_with(kSuffix) && name.find('/') == name.npos &&
         name.find('\0') == name.npos;
}

template <typename Stored>
void widen_from(const std::byte* first, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, first + i * sizeof(Stored), sizeof(Stored));
    out[i] = static_cast<float>(stored);
  }
}

std::string place_of(std::string_view file, std::string_view tensor) {
  return fmt::format("{}: tensor {}", file, in_quotes(tensor));
}

/// The experts of a layer in one tensor, as MLX writes them, and one of them.
struct StackedExpert {
  std::string module;  ///< of all experts
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

/// Rows of another matrix from one of them on.
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
  std::string place() const override { return place_of(tensor_.file, tensor_.name); }

 private:
  TensorView tensor_;
  int64_t inputs_;
};

}  // namespace

std::string shown(std::span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

void widen(const TensorView& tensor, int64_t first, std::span<float> out) {
  const int64_t count = tensor.num_elements();
  expects(first >= 0 && first <= count && out.size() <= static_cast<size_t>(count - first),
          "widen() stays inside its tensor");
  const std::byte* const begin = tensor.bytes.data() + static_cast<size_t>(first) * size_of(tensor.dtype);
  switch (tensor.dtype) {
    case DType::kF32:
      return widen_from<float>(begin, out);
    case DType::kF16:
      return widen_from<f16>(begin, out);
    case DType::kBF16:
      return widen_from<bf16>(begin, out);
  }
}

Checkpoint Checkpoint::open(const fs::path& folder) {
  Checkpoint checkpoint;
  checkpoint.folder_ = folder;
  const fs::path whole = folder / "model.safetensors";
  const fs::path index = folder / "model.safetensors.index.json";
  if (is_file(whole)) {
    checkpoint.add_file(whole);
  } else if (is_file(index)) {
    checkpoint.add_shards(index);
  } else {
    const std::vector<fs::path> files = safetensors_files(folder);
    if (files.size() != 1) {
      throw InputError(
          "{}: holds {} *.safetensors files and no model.safetensors.index.json; expected one file or an "
          "index",
          folder.string(), files.size());
    }
    checkpoint.add_file(files.front());
  }
  checkpoint.is_packed_ =
      std::any_of(checkpoint.tensors_.begin(), checkpoint.tensors_.end(),
                  [](const auto& tensor) { return tensor.first.ends_with(kPanelsSuffix); });
  checkpoint.quantization_ = published_quantization(folder);
  return checkpoint;
}

Checkpoint Checkpoint::open_file(const fs::path& file) {
  Checkpoint checkpoint;
  checkpoint.folder_ = file.parent_path();
  checkpoint.add_file(file);
  return checkpoint;
}

void Checkpoint::add_file(const fs::path& path) {
  const auto file = std::make_shared<const MappedFile>(MappedFile::open(path));
  files_.push_back(file);
  for (SafetensorsEntry& entry : parse_safetensors(file->bytes(), path.string())) {
    std::string name = entry.name;
    tensors_.emplace(std::move(name), Place{std::move(entry), path.string(), file});
  }
}

void Checkpoint::add_shards(const fs::path& index_path) {
  const MappedFile index = MappedFile::open(index_path);
  const nlohmann::json parsed = parse_json(index.text(), index_path.string());
  const JsonObject weight_map = JsonObject(parsed, index_path.string()).object("weight_map");

  std::map<std::string, std::vector<std::string>> names_by_shard;
  for (std::string& name : weight_map.keys()) {
    const std::string shard = weight_map.text(name);
    if (!is_plain_shard_name(shard))
      weight_map.refuse(name, "the name of a *.safetensors file in the same folder");
    names_by_shard[shard].push_back(std::move(name));
  }
  for (const auto& [shard, names] : names_by_shard) {
    const fs::path path = folder_ / shard;
    if (!is_file(path)) {
      throw InputError("{}: places tensor {} in {}, which the folder does not hold; expected all shards",
                       index_path.string(), in_quotes(names.front()), in_quotes(shard));
    }
    Checkpoint held;
    held.add_file(path);
    for (const std::string& name : names) {
      auto node = held.tensors_.extract(name);
      if (!node) {
        throw InputError("{}: places tensor {} in {}, which does not hold it", index_path.string(),
                         in_quotes(name), in_quotes(shard));
      }
      tensors_.insert(std::move(node));
    }
    files_.push_back(std::move(held.files_.front()));
  }
}

TensorView Checkpoint::tensor(std::string_view name, std::span<const int64_t> shape) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    throw InputError("{}: tensor {} is missing; expected shape {}", folder_.string(), in_quotes(name),
                     shown(shape));
  }
  const auto& [entry, file, mapping] = found->second;
  if (!std::equal(shape.begin(), shape.end(), entry.shape.begin(), entry.shape.end())) {
    throw InputError("{}: tensor {} has shape {}; expected {}", file, in_quotes(name), shown(entry.shape),
                     shown(shape));
  }
  if (!entry.dtype) {
    throw InputError("{}: tensor {} has type {}; expected F32, F16 or BF16", file, in_quotes(name),
                     entry.dtype_name);
  }
  return {found->first, *entry.dtype, entry.shape, entry.bytes, file};
}

TensorView Checkpoint::tensor(std::string_view name, std::initializer_list<int64_t> shape) const {
  return tensor(name, std::span(shape.begin(), shape.size()));
}

RawTensor Checkpoint::raw(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end())
    throw InputError("{}: tensor {} is missing", folder_.string(), in_quotes(name));
  const auto& [entry, file, mapping] = found->second;
  return {entry.dtype_name, entry.shape, entry.bytes, file, mapping};
}

std::vector<float> Checkpoint::values(std::string_view name, std::span<const int64_t> shape) const {
  const TensorView stored = tensor(name, shape);
  std::vector<float> values(static_cast<size_t>(stored.num_elements()));
  widen(stored, 0, values);
  expect_finite(values, place_of(stored.file, stored.name));
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
    const auto stack = tensors_.find(expert->module + ".weight");
    if (stack != tensors_.end() && stack->second.entry.shape.size() == 3) {
      const int64_t experts = stack->second.entry.shape[0];
      if (experts <= expert->index || experts > INT64_MAX / outputs) {
        throw InputError("{}: tensor {} holds {} experts; expected one with the number {}",
                         stack->second.file, in_quotes(stack->first), experts, expert->index);
      }
      return std::make_unique<MatrixRows>(matrix(expert->module, experts * outputs, inputs),
                                          expert->index * outputs);
    }
  }
  // Stacked experts have no suffix: [experts, outputs of each, inputs].
  if (const auto found = tensors_.find(name); found != tensors_.end()) {
    const std::vector<int64_t>& shape = found->second.entry.shape;
    const int64_t parts = shape.size() == 3 ? std::max<int64_t>(shape[0], 1) : 1;
    const std::array<int64_t, 3> expected{parts, outputs / parts, inputs};
    if (outputs % parts == 0) return std::make_unique<DenseMatrix>(tensor(name, expected), inputs);
  }
  if (!quantization_) expect_dense(name);
  // MLX keeps stacks that it does not quantize under the same names.
  if (const auto found = tensors_.find(name + ".weight"); found != tensors_.end()) {
    const std::vector<int64_t>& shape = found->second.entry.shape;
    if (shape.size() == 3 && shape[0] > 0 && outputs % shape[0] == 0) {
      const std::array<int64_t, 3> expected{shape[0], outputs / shape[0], inputs};
      return std::make_unique<DenseMatrix>(tensor(found->first, expected), inputs);
    }
  }
  return std::make_unique<DenseMatrix>(tensor(name + ".weight", {outputs, inputs}), inputs);
}

void Checkpoint::expect_dense(const std::string& module) const {
  for (const std::string_view suffix : {".qweight", ".weight_packed", ".scales", ".weight_scale",
                                        ".weight_scale_inv", ".SCB", ".weight.absmax"}) {
    const auto found = tensors_.find(module + std::string(suffix));
    if (found == tensors_.end()) continue;
    throw InputError(
        "{}: tensor {} is of quantized weights, and config.json has no \"quantization_config\" that says "
        "how; "
        "expected both",
        found->second.file, in_quotes(found->first));
  }
}

void Checkpoint::release_pages() const {
  for (const auto& file : files_) file->release_pages();
}

std::vector<std::string_view> Checkpoint::names() const {
  std::vector<std::string_view> result;
  for (const auto& [name, place] : tensors_) result.push_back(name);
  return result;
}

int64_t Checkpoint::total_bytes() const {
  int64_t total = 0;
  for (const auto& [name, place] : tensors_) total += static_cast<int64_t>(place.entry.bytes.size());
  return total;
}

DType Checkpoint::dtype() const {
  std::array<size_t, 3> bytes_of{};
  constexpr std::array kTypes = {DType::kBF16, DType::kF16, DType::kF32};
  const auto add = [&](bool counts_partners) {
    for (const auto& [name, place] : tensors_) {
      const auto type = std::find(kTypes.begin(), kTypes.end(), place.entry.dtype);
      if (type == kTypes.end() ||
          (!counts_partners && quantization_ && is_partner_tensor(*this, *quantization_, name)))
        continue;
      bytes_of[static_cast<size_t>(type - kTypes.begin())] += place.entry.bytes.size();
    }
  };
  add(false);
  if (bytes_of == std::array<size_t, 3>{}) add(true);
  return kTypes[static_cast<size_t>(std::max_element(bytes_of.begin(), bytes_of.end()) - bytes_of.begin())];
}

}  // namespace lacuna
