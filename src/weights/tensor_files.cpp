#include "weights/tensor_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/json.h"

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

}  // namespace

std::string TensorView::place() const {
  return fmt::format("{}: tensor {}", file, in_quotes(name));
}

std::string shown(std::span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

void widen(const TensorView& tensor, int64_t first, std::span<float> out) {
  const int64_t count = tensor.num_elements();
  expects(first >= 0 && first <= count && out.size() <= static_cast<size_t>(count - first),
          "widen() stays inside its tensor");
  widen(tensor.dtype, tensor.bytes.data() + static_cast<size_t>(first) * size_of(tensor.dtype), out);
}

void widen(DType dtype, const std::byte* first, std::span<float> out) {
  if (dtype == DType::kF32) return widen_from<float>(first, out);
  if (dtype == DType::kF16) return widen_from<f16>(first, out);
  widen_from<bf16>(first, out);
}

TensorFiles TensorFiles::open(const fs::path& folder) {
  TensorFiles opened;
  opened.folder_ = folder;
  const fs::path whole = folder / "model.safetensors";
  const fs::path index = folder / "model.safetensors.index.json";
  if (is_file(whole)) {
    opened.add_file(whole);
  } else if (is_file(index)) {
    opened.add_shards(index);
  } else {
    const std::vector<fs::path> files = safetensors_files(folder);
    if (files.size() != 1) {
      throw InputError(
          "{}: holds {} *.safetensors files and no model.safetensors.index.json; expected one file or an "
          "index",
          folder.string(), files.size());
    }
    opened.add_file(files.front());
  }
  return opened;
}

TensorFiles TensorFiles::open_file(const fs::path& file) {
  TensorFiles opened;
  opened.folder_ = file.parent_path();
  opened.add_file(file);
  return opened;
}

void TensorFiles::add_file(const fs::path& path) {
  const auto file = std::make_shared<const MappedFile>(MappedFile::open(path));
  files_.push_back(file);
  for (SafetensorsEntry& entry : parse_safetensors(file->bytes(), path.string())) {
    std::string name = entry.name;
    tensors_.emplace(std::move(name), Place{std::move(entry), path.string(), file});
  }
}

void TensorFiles::add_shards(const fs::path& index_path) {
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
    TensorFiles held;
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

TensorView TensorFiles::tensor(std::string_view name, std::span<const int64_t> shape) const {
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

TensorView TensorFiles::tensor(std::string_view name, std::initializer_list<int64_t> shape) const {
  return tensor(name, std::span(shape.begin(), shape.size()));
}

RawTensor TensorFiles::raw(std::string_view name) const {
  std::optional<RawTensor> found = find(name);
  if (!found) throw InputError("{}: tensor {} is missing", folder_.string(), in_quotes(name));
  return std::move(*found);
}

std::optional<RawTensor> TensorFiles::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return std::nullopt;
  const auto& [entry, file, mapping] = found->second;
  return RawTensor{entry.dtype_name, entry.shape, entry.bytes, file, mapping};
}

void TensorFiles::release_pages() const {
  for (const auto& file : files_) file->release_pages();
}

std::vector<std::string_view> TensorFiles::names() const {
  std::vector<std::string_view> result;
  for (const auto& [name, place] : tensors_) result.push_back(name);
  return result;
}

int64_t TensorFiles::total_bytes() const {
  int64_t total = 0;
  for (const auto& [name, place] : tensors_) total += static_cast<int64_t>(place.entry.bytes.size());
  return total;
}

}  // namespace lacuna
