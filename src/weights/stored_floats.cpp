#include "weights/stored_floats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/dtype.h"
#include "base/error.h"
#include "base/json.h"
#include "weights/quantize.h"
#include "weights/tensor_files.h"

namespace lacuna {
namespace {

struct NamedFloatType {
  std::string_view name;
  FloatType type;
};

constexpr std::array kFloatTypes = {
    NamedFloatType{"F32", FloatType::kF32},      NamedFloatType{"F16", FloatType::kF16},
    NamedFloatType{"BF16", FloatType::kBF16},    NamedFloatType{"F8_E4M3", FloatType::kE4M3},
    NamedFloatType{"F8_E5M2", FloatType::kE5M2}, NamedFloatType{"F8_E8M0", FloatType::kE8M0},
};

template <typename Convert>
std::array<float, 256> value_table(Convert&& convert) {
  std::array<float, 256> values{};
  for (size_t code = 0; code < values.size(); ++code) values[code] = convert(static_cast<uint8_t>(code));
  return values;
}

float from_e8m0(uint8_t code) {
  return code == 0xff ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0F, code - 127);
}

float from_e5m2(uint8_t code) {
  return static_cast<float>(std::bit_cast<f16>(static_cast<uint16_t>(code << 8U)));
}

template <typename Stored>
float load_float(const std::byte* bytes, int64_t i) {
  Stored value;
  std::memcpy(&value, bytes + static_cast<size_t>(i) * sizeof value, sizeof value);
  return static_cast<float>(value);
}

}  // namespace

std::optional<FloatType> float_type(std::string_view name) {
  const auto* const found = std::ranges::find(kFloatTypes, name, &NamedFloatType::name);
  if (found == kFloatTypes.end()) return {};
  return found->type;
}

const std::array<float, 256>& values_of(FloatType type) {
  static const std::array<float, 256> e4m3 = value_table(from_e4m3);
  static const std::array<float, 256> e5m2 = value_table(from_e5m2);
  static const std::array<float, 256> e8m0 = value_table(from_e8m0);
  switch (type) {
    case FloatType::kE4M3:
      return e4m3;
    case FloatType::kE5M2:
      return e5m2;
    default:
      expects(type == FloatType::kE8M0, "values_of: a type of 8 bits");
      return e8m0;
  }
}

StoredFloats::StoredFloats(const TensorFiles& files, const std::string& name) {
  const RawTensor raw = files.raw(name);
  place_ = fmt::format("{}: tensor {}", raw.file, in_quotes(name));
  const std::optional<FloatType> type = float_type(raw.type);
  if (!type) {
    throw InputError("{} has type {}; expected floats: F32, F16, BF16, F8_E4M3, F8_E5M2 or F8_E8M0", place_,
                     raw.type);
  }
  bytes_ = raw.bytes.data();
  type_ = *type;
  shape_ = raw.shape;
  for (const int64_t dim : shape_) size_ *= dim;
}

float StoredFloats::operator[](int64_t i) const {
  switch (type_) {
    case FloatType::kF32:
      return load_float<float>(bytes_, i);
    case FloatType::kF16:
      return load_float<f16>(bytes_, i);
    case FloatType::kBF16:
      return load_float<bf16>(bytes_, i);
    default:
      return values_of(type_)[std::to_integer<uint8_t>(bytes_[i])];
  }
}

void StoredFloats::expect_shape(std::initializer_list<std::vector<int64_t>> accepted) const {
  if (std::find(accepted.begin(), accepted.end(), shape_) != accepted.end()) return;
  std::vector<std::string> names;
  for (const std::vector<int64_t>& shape : accepted) names.push_back(shown(shape));
  throw InputError("{} has shape {}; expected {}", place_, shown(shape_), fmt::join(names, " or "));
}

}  // namespace lacuna
