// Element access to tensors of 8-, 16- and 32-bit floats: scales of quantized weights, and 8-bit weights.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

class TensorFiles;
struct RawTensor;

/// Types of floats that checkpoints store, by their names in safetensors files.
enum class FloatType : uint8_t { kF32, kF16, kBF16, kE4M3, kE5M2, kE8M0 };

/// Empty if the type is not a float.
std::optional<FloatType> float_type(std::string_view name);

/// Lookup table of an 8-bit type's 256 values. E5M2 is the upper half of an f16. E8M0 is a power of two,
/// 2^(code - 127), without a sign. The type's NaN codes give NaN.
const std::array<float, 256>& values_of(FloatType type);

/// A tensor of floats; the TensorFiles must outlive it.
class StoredFloats {
 public:
  /// Opens a tensor of floats of any shape. Throws InputError if it is missing or has another type.
  StoredFloats(const TensorFiles& files, const std::string& name);

  FloatType type() const { return type_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t size() const { return size_; }
  /// Element i in row-major order.
  float operator[](int64_t i) const;
  /// Whether a value times an integer of 9 bits is exact in f32.
  bool is_short() const { return type_ != FloatType::kF32; }
  /// file: tensor "name", for messages.
  const std::string& place() const { return place_; }

  /// Throws InputError unless it has one of these shapes.
  void expect_shape(std::initializer_list<std::vector<int64_t>> accepted) const;

 private:
  const std::byte* bytes_;
  FloatType type_ = FloatType::kF32;
  std::vector<int64_t> shape_;
  int64_t size_ = 1;
  std::string place_;
};

}  // namespace lacuna
