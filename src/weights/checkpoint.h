// The tensors of a checkpoint folder, in whichever files they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
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
#include "weights/published_quantization.h"
#include "weights/safetensors.h"
#include "weights/stored_matrix.h"

namespace lacuna {

/// A tensor in a mapped file. The Checkpoint that returned it must outlive it.
struct TensorView {
  std::string_view name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;        ///< outermost first
  std::span<const std::byte> bytes;  ///< row-major, product of shape times size_of(dtype); at any alignment
  std::string file;                  ///< name of the file, for messages

  int64_t num_elements() const { return static_cast<int64_t>(bytes.size() / size_of(dtype)); }
};

/// A tensor of any type, as stored.
struct RawTensor {
  std::string type;  ///< as the file spells it: "U8"
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  std::string file;
  std::shared_ptr<const MappedFile> mapping;  ///< keeps the bytes alive after the Checkpoint is gone
};

/// Formats a shape: "[4096, 12288]".
std::string shown(std::span<const int64_t> shape);

/// Reads out[i] = tensor element first + i, counted row-major, without loss. The range must be inside the
/// tensor.
void widen(const TensorView& tensor, int64_t first, std::span<float> out);

/// A checkpoint folder: model.safetensors, or the shards that model.safetensors.index.json names (any tensor
/// may be in any shard), or the folder's only *.safetensors file. Several files without an index are refused,
/// because nothing says that they belong together.
class Checkpoint : public WeightSource {
 public:
  /// Maps and checks every file; reads no weights. What config.json says about quantized weights counts, if
  /// the folder has one. Throws InputError.
  static Checkpoint open(const std::filesystem::path& folder);
  /// The same of one file, whatever else its folder holds.
  static Checkpoint open_file(const std::filesystem::path& file);

  /// Whether matrix() or values() can read the tensor, under whichever names its file keeps it. A bias of
  /// zeros next to GPTQ's weights counts as absent.
  bool contains(std::string_view name) const override;
  /// Whether a file has a tensor of this name.
  bool holds(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }

  /// Returns a tensor that must have exactly this shape and be f32, f16 or bf16. Throws InputError naming
  /// file, tensor, what was found and what was expected.
  TensorView tensor(std::string_view name, std::span<const int64_t> shape) const;
  TensorView tensor(std::string_view name, std::initializer_list<int64_t> shape) const;

  /// Returns a tensor of any type and shape. Throws InputError if it is missing.
  RawTensor raw(std::string_view name) const;

  std::vector<float> values(std::string_view name, std::span<const int64_t> shape) const override;
  /// Returns a matrix that is dense, quantized (quantized_tensors.h, published_tensors.h) or in panels
  /// (panel_tensors.h). A dense one may be stored as the tensor `module` itself, of three dimensions of which
  /// the first two are outputs. One expert's may be part of the tensor of all experts that MLX writes.
  std::unique_ptr<StoredMatrix> matrix(std::string_view module, int64_t outputs,
                                       int64_t inputs) const override;

  void release_pages() const override;

  /// Names of the tensors, ascending; with an index, those that it lists.
  std::vector<std::string_view> names() const;
  /// Bytes of all tensors, as stored.
  int64_t total_bytes() const;
  /// The type of most of those bytes, among f32, f16 and bf16; scales do not count where others do.
  DType dtype() const;
  /// Whether its matrices are stored as panels.
  bool is_packed() const { return is_packed_; }
  /// How another program quantized its matrices; empty if none did.
  const std::optional<PublishedQuantization>& quantization() const { return quantization_; }
  int64_t num_files() const { return static_cast<int64_t>(files_.size()); }

 private:
  struct Place {
    SafetensorsEntry entry;
    std::string file;
    std::shared_ptr<const MappedFile> mapping;
  };

  void add_file(const std::filesystem::path& path);
  void add_shards(const std::filesystem::path& index_path);
  /// Whether a file has the weights of a module, under a name of their own.
  bool holds_matrix(std::string_view module) const;
  bool is_empty_bias(std::string_view name) const;
  /// Throws InputError if the module has a tensor that quantized weights have.
  void expect_dense(const std::string& module) const;

  std::filesystem::path folder_;
  std::vector<std::shared_ptr<const MappedFile>> files_;
  std::map<std::string, Place, std::less<>> tensors_;
  bool is_packed_ = false;
  std::optional<PublishedQuantization> quantization_;
};

}  // namespace lacuna
