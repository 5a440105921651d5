// All tensors of a checkpoint folder, wherever its files put them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/mapped_file.h"
#include "weights/safetensors.h"
#include "weights/stored_matrix.h"

namespace lacuna {

/// A tensor in a mapped file; the Checkpoint that gave it must outlive it.
struct TensorView {
  std::string_view name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;        ///< outermost first
  std::span<const std::byte> bytes;  ///< row-major, product of shape times size_of(dtype); at any alignment
  std::string file;                  ///< where it is, for messages

  int64_t num_elements() const { return static_cast<int64_t>(bytes.size() / size_of(dtype)); }
};

/// A tensor of any type, as it lies in its file.
struct RawTensor {
  std::string type;  ///< as the file spells it: "U8"
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  std::string file;
  std::shared_ptr<const MappedFile> mapping;  ///< keeps the bytes alive, should the Checkpoint go
};

/// "[4096, 12288]"
std::string shown(std::span<const int64_t> shape);

/// out[i] = tensor element first + i, counted row-major. The range must lie inside the tensor. Exact.
void widen(const TensorView& tensor, int64_t first, std::span<float> out);

/// Opens model.safetensors; or the shards that model.safetensors.index.json names, where any tensor may lie
/// in any shard; or else the folder's only *.safetensors file. Several files without an index are refused, as
/// nothing says that they belong together.
class Checkpoint : public WeightSource {
 public:
  /// Maps and checks every file; reads no weights. Throws InputError.
  static Checkpoint open(const std::filesystem::path& folder);

  bool contains(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }

  /// The tensor, which must have exactly this shape and be f32, f16 or bf16. Throws InputError naming file,
  /// tensor, what was found and what was expected.
  TensorView tensor(std::string_view name, std::span<const int64_t> shape) const;
  TensorView tensor(std::string_view name, std::initializer_list<int64_t> shape) const;

  /// The tensor, whatever its type and shape. Throws InputError where it is missing.
  RawTensor raw(std::string_view name) const;

  std::vector<float> values(std::string_view name, std::span<const int64_t> shape) const override;
  /// Dense, quantised as quantised_tensors.h describes, or in panels (panel_tensors.h).
  std::unique_ptr<StoredMatrix> matrix(std::string_view module, int64_t outputs,
                                       int64_t inputs) const override;

  void release_pages() const override;

  /// Ascending. With an index, those that it lists.
  std::vector<std::string_view> names() const;
  /// Of all tensors, as stored.
  int64_t total_bytes() const;
  /// The type that most of those bytes have, of the three that can be computed with.
  DType dtype() const;
  /// Whether its matrices lie in panels.
  bool is_packed() const { return is_packed_; }
  int64_t num_files() const { return static_cast<int64_t>(files_.size()); }

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
  bool is_packed_ = false;
};

}  // namespace lacuna
