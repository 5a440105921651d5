// Formats of weight matrices, and their names.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "kernels/panels.h"

namespace lacuna {

/// Dense in a dtype (kF32 or kBF16), or quantized.
struct WeightFormat {
  DType dtype = DType::kBF16;  ///< ignored if quantized
  Quantization quantization = {};

  WeightFormat() = default;
  constexpr WeightFormat(DType dense) : dtype(dense) {}                // NOLINT: a dtype is a format
  constexpr WeightFormat(Quantization codes) : quantization(codes) {}  // NOLINT: so is a quantization

  constexpr bool is_quantized() const { return quantization.bits > 0; }
  /// Whether the CPU has kernels for the format, and files can hold it.
  constexpr bool is_for_cpu() const { return !quantization.is_e4m3; }
  bool operator==(const WeightFormat& other) const {
    return quantization == other.quantization && (is_quantized() || dtype == other.dtype);
  }
};

struct NamedWeightFormat {
  std::string_view name;
  WeightFormat format;
};

/// Formats that flags can name.
inline constexpr std::array kWeightFormats = {
    NamedWeightFormat{"f32", DType::kF32},
    NamedWeightFormat{"bf16", DType::kBF16},
    NamedWeightFormat{"int8", Quantization{.bits = 8, .group = 0, .wide_scales = true}},
    NamedWeightFormat{"fp8", Quantization{.bits = 8, .group = 0, .wide_scales = true, .is_e4m3 = true}},
    NamedWeightFormat{"int8-group", Quantization{.bits = 8, .group = 32}},
    NamedWeightFormat{"int4", Quantization{.bits = 4, .group = 32, .has_minimum = true, .two_levels = true}},
    NamedWeightFormat{"int4-group", Quantization{.bits = 4, .group = 32}},
    NamedWeightFormat{"int4-min", Quantization{.bits = 4, .group = 32, .has_minimum = true}},
};

/// Returns the format of this name; nullopt for an unknown name.
std::optional<WeightFormat> weight_format(std::string_view name);

std::vector<std::string> weight_format_names();
/// Names of the formats that the CPU has kernels for.
std::vector<std::string> cpu_format_names();

/// Names of the quantized formats that the CPU has kernels for.
std::vector<std::string> quantized_format_names();

/// Returns the format's name or, without one, a description: "8-bit codes in groups of 16, f32 scales".
std::string describe(const WeightFormat& format);

/// Bytes of a packed matrix with padding.
int64_t packed_bytes(const WeightFormat& format, int64_t outputs, int64_t inputs);

}  // namespace lacuna
