// Matrices in safetensors files that other programs quantized. docs/reference/quantized.md lists the formats,
// their tensors and their representation in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "weights/published_quantization.h"
#include "weights/stored_matrix.h"

namespace lacuna {

class TensorFiles;
struct RawTensor;

/// Whether the module's weights are stored in this quantization.
bool is_published_module(const TensorFiles& files, const PublishedQuantization& quantization,
                         std::string_view module);

/// Whether a tensor accompanies a quantized matrix: scales, zero points, or tensors for activations.
bool is_partner_tensor(const TensorFiles& files, const PublishedQuantization& quantization,
                       std::string_view tensor);

/// Opens the weights of a module for which is_published_module() holds. Throws InputError naming file,
/// tensor, found and expected if a tensor is missing, has another shape or type, has group numbers out of
/// range, or contradicts config.json.
std::unique_ptr<StoredMatrix> open_published(const TensorFiles& files,
                                             const PublishedQuantization& quantization,
                                             std::string_view module, int64_t outputs, int64_t inputs);

/// A module for the functions below to open.
struct PublishedModule {
  const TensorFiles& files;
  const PublishedQuantization& quantization;
  std::string name;
  int64_t outputs = 0;
  int64_t inputs = 0;

  std::string tensor(std::string_view suffix) const { return name + std::string(suffix); }
  bool holds(std::string_view suffix) const;
  RawTensor raw(std::string_view suffix) const;
  /// Values per row if the tensor's leading dimensions have `outputs` elements in total, else -1.
  int64_t columns_of(const RawTensor& tensor) const;
  /// Throws InputError if config.json contradicts the tensors' code sizes.
  ///   group  -1 or the inputs: all inputs; 0: not known
  void expect_sizes(std::string_view suffix, int64_t bits, int64_t group) const;
  /// Throws InputError: the tensor's type or shape is not `expected`.
  [[noreturn]] void refuse(std::string_view suffix, std::string_view expected) const;
};

// Codes that are integers (published_integers.cpp).
std::unique_ptr<StoredMatrix> open_mlx(const PublishedModule& module);
std::unique_ptr<StoredMatrix> open_gptq(const PublishedModule& module);
std::unique_ptr<StoredMatrix> open_awq(const PublishedModule& module);
std::unique_ptr<StoredMatrix> open_compressed_int8(const PublishedModule& module);
std::unique_ptr<StoredMatrix> open_compressed_packed(const PublishedModule& module);
std::unique_ptr<StoredMatrix> open_bnb_int8(const PublishedModule& module);
// Codes that are floats or indices into a table of floats (published_floats.cpp).
std::unique_ptr<StoredMatrix> open_float8(const PublishedModule& module);
std::unique_ptr<StoredMatrix> open_compressed_float4(const PublishedModule& module);
std::unique_ptr<StoredMatrix> open_modelopt_float4(const PublishedModule& module);
std::unique_ptr<StoredMatrix> open_bnb_table(const PublishedModule& module);

}  // namespace lacuna
