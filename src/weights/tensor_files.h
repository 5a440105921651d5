// The tensors of safetensors files, as stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/mapped_file.h"
#include "weights/safetensors.h"

namespace lacuna {

/// A tensor in a mapped file. The TensorFiles that returned it must outlive it.
struct TensorView {
  std::string_view name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;        ///< outermost first
  std::span<const std::byte> bytes;  ///< row-major, product of shape times size_of(dtype); at any alignment
  std::string file;                  ///< file name for messages

  int64_t num_elements() const { return static_cast<int64_t>(bytes.size() / size_of(dtype)); }
  std::string place() const;  ///< "model.safetensors: tensor \"a.weight\""
};

/// A tensor of any type, as stored.
struct RawTensor {
  std::string type;  ///< as the file spells it: "U8"
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  std::string file;
  std::shared_ptr<const MappedFile> mapping;  ///< keeps the bytes alive after the TensorFiles are gone
};

/// Formats a shape: "[4096, 12288]".
std::string shown(std::span<const int64_t> shape);

/// Reads out[i] = tensor element first + i in row-major order, without loss. The range must be inside the
/// tensor.
void widen(const TensorView& tensor, int64_t first, std::span<float> out);
/// Same for elements in memory, of any alignment.
void widen(DType dtype, const std::byte* first, std::span<float> out);

/// The files of a checkpoint's folder: model.safetensors, or the shards that model.safetensors.index.json
/// names (any tensor may be in any shard), or the folder's only *.safetensors file. Several files without an
/// index are refused.
class TensorFiles {
 public:
  /// Maps and checks every file; reads no weights. Throws InputError.
  static TensorFiles open(const std::filesystem::path& folder);
  /// Opens one file, ignoring others in its folder.
  static TensorFiles open_file(const std::filesystem::path& file);

  /// Whether a file has a tensor of this name.
  bool holds(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }

  /// Returns a tensor that must have exactly this shape and be f32, f16 or bf16. Throws InputError naming
  /// file, tensor, found and expected.
  TensorView tensor(std::string_view name, std::span<const int64_t> shape) const;
  TensorView tensor(std::string_view name, std::initializer_list<int64_t> shape) const;

  /// Returns a tensor of any type and shape. Throws InputError if it is missing.
  RawTensor raw(std::string_view name) const;
  /// Same as raw(), but empty if the tensor is missing.
  std::optional<RawTensor> find(std::string_view name) const;

  /// Names of the tensors in ascending order; with an index, only those that it lists.
  std::vector<std::string_view> names() const;
  /// Bytes of all tensors, as stored.
  int64_t total_bytes() const;
  int64_t num_files() const { return static_cast<int64_t>(files_.size()); }

  void release_pages() const;

 private:
  struct Place {
    SafetensorsEntry entry;
    std::string file;
    std::shared_ptr<const MappedFile> mapping;
  };

  void add_file(const std::filesystem::path& path);
  void add_shards(const std::filesystem::path& index_path);

  std::filesystem::path folder_;
  std::vector<std::shared_ptr<const MappedFile>> files_;
  std::map<std::string, Place, std::less<>> tensors_;
};

}  // namespace lacuna
