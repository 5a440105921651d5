// Published formats whose codes are floats or indices into a table of floats: FP8, NVFP4 and bitsandbytes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.h"
#include "weights/grouped_matrix.h"
#include "weights/published_tensors.h"
#include "weights/stored_floats.h"
#include "weights/tensor_files.h"

namespace lacuna {
namespace {

/// 8-bit floats with one scale per block of outputs and inputs. A weight is value * scale, rounded once to
/// f32.
class ScaledFloats : public StoredMatrix {
 public:
  ScaledFloats(const StoredFloats& codes, const std::byte* bytes, const StoredFloats& scales, int64_t inputs,
               std::array<int64_t, 2> block)
      : values_(values_of(codes.type())),
        place_(codes.place()),
        bytes_(bytes),
        scales_(scales),
        inputs_(inputs),
        block_(block),
        scales_of_row_(divided_up(inputs, block[1])) {}

  std::string place() const override { return place_; }

  void read(int64_t n, float* out) const override {
    const std::byte* const row = bytes_ + n * inputs_;
    const int64_t first_scale = n / block_[0] * scales_of_row_;
    for (int64_t b = 0; b < scales_of_row_; ++b) {
      const float scale = scales_[first_scale + b];
      const int64_t end = std::min((b + 1) * block_[1], inputs_);
      for (int64_t k = b * block_[1]; k < end; ++k)
        out[k] = values_[std::to_integer<uint8_t>(row[k])] * scale;
    }
  }

 private:
  const std::array<float, 256>& values_;
  std::string place_;
  const std::byte* bytes_;
  StoredFloats scales_;
  int64_t inputs_;
  std::array<int64_t, 2> block_;
  int64_t scales_of_row_;
};

/// e2m1: a sign, two bits of exponent and one of mantissa. Doubled values are integers.
constexpr std::array<int32_t, 8> kTwiceE2m1 = {0, 1, 2, 3, 4, 6, 8, 12};

/// Reads NVFP4 as int8: the doubled value of a code, with half its scale.
///   suffix        of the tensor of codes, two inputs per byte, low nibble first
///   global_scale  converts the 8-bit float scale of 16 inputs to f32
std::unique_ptr<StoredMatrix> open_float4(const PublishedModule& module, std::string_view suffix,
                                          const std::function<float(float)>& global_scale) {
  constexpr int64_t kNvFp4Group = 16;
  constexpr std::string_view kScales = ".weight_scale";
  const RawTensor codes = module.raw(suffix);
  if (module.columns_of(codes) * 2 != module.inputs || module.inputs % kNvFp4Group != 0)
    module.refuse(suffix, fmt::format("U8 of shape [{}, {}]", module.outputs, module.inputs / 2));
  const StoredFloats scales(module.files, module.tensor(kScales));
  std::vector<int64_t> expected = codes.shape;
  expected.back() = module.inputs / kNvFp4Group;
  scales.expect_shape({expected});
  if (scales.type() != FloatType::kE4M3)
    module.refuse(kScales, fmt::format("F8_E4M3 of shape {}", shown(expected)));
  module.expect_sizes(suffix, 4, kNvFp4Group);
  GroupedIntegers integers;
  integers.place = scales.place();
  integers.inputs = module.inputs;
  integers.bits = 8;
  integers.group = kNvFp4Group;
  integers.num_groups = expected.back();
  integers.zero_code = 128;
  integers.read_codes = [bytes = codes.bytes](int64_t n, std::span<uint8_t> out) {
    const std::byte* const row = bytes.data() + static_cast<size_t>(n) * (out.size() / 2);
    for (size_t k = 0; k < out.size(); ++k) {
      const uint32_t code = std::to_integer<uint32_t>(row[k / 2]) >> (4 * (k % 2)) & 15U;
      const int32_t twice = kTwiceE2m1[code & 7U];
      out[k] = static_cast<uint8_t>(128 + ((code & 8U) != 0 ? -twice : twice));
    }
  };
  integers.read_groups = [scales, global_scale](int64_t n, std::span<float> out, std::span<float> /*of*/) {
    const auto count = static_cast<int64_t>(out.size());
    for (int64_t g = 0; g < count; ++g) out[static_cast<size_t>(g)] = global_scale(scales[n * count + g]) / 2;
  };
  return grouped_matrix(std::move(integers));
}

float one_value(const PublishedModule& module, std::string_view suffix) {
  const StoredFloats values(module.files, module.tensor(suffix));
  values.expect_shape({{}, {1}});
  return values[0];
}

/// Quantization state of bitsandbytes for a 4-bit matrix: JSON in a tensor of bytes.
struct TableState {
  int64_t block = 0;         ///< weights per scale, in row-major order
  int64_t nested_block = 0;  ///< quantized scales per scale of scales; 0: scales are floats
  float nested_offset = 0;   ///< added to quantized scales
};

TableState read_state(const PublishedModule& module, std::string_view suffix) {
  const RawTensor raw = module.raw(suffix);
  const std::string place = fmt::format("{}: tensor {}", raw.file, in_quotes(module.tensor(suffix)));
  if (raw.type != "U8") module.refuse(suffix, "U8: the bytes of a JSON object");
  const std::string_view text(reinterpret_cast<const char*>(raw.bytes.data()), raw.bytes.size());
  const nlohmann::json parsed = parse_json(text, place, 64);
  const JsonObject json(parsed, place);
  constexpr Range<int64_t> kBlock{1, 1 << 20};
  const std::vector<int64_t> shape = json.integers("shape", {0, INT64_MAX});
  if (shape != std::vector<int64_t>{module.outputs, module.inputs})
    json.refuse("shape", shown(std::array{module.outputs, module.inputs}));
  TableState state;
  state.block = json.integer("blocksize", kBlock);
  state.nested_block = json.integer("nested_blocksize", kBlock, 0);
  state.nested_offset = json.number("nested_offset", {-1e30, 1e30}, 0.0F);
  return state;
}

/// 4-bit codes, high nibble first, which index a table of floats.
class TableMatrix : public StoredMatrix {
 public:
  TableMatrix(const PublishedModule& module, std::span<const std::byte> codes, const TableState& state)
      : place_(fmt::format("{}: tensor {}", module.raw(".weight").file, in_quotes(module.tensor(".weight")))),
        codes_(codes.data()),
        inputs_(module.inputs),
        state_(state) {
    const StoredFloats table(module.files, module.tensor(".weight.quant_map"));
    table.expect_shape({{16}});
    for (size_t code = 0; code < table_.size(); ++code) table_[code] = table[static_cast<int64_t>(code)];
    read_scales(module);
  }

  std::string place() const override { return place_; }

  void read(int64_t n, float* out) const override {
    for (int64_t k = 0; k < inputs_; ++k) {
      const int64_t i = n * inputs_ + k;
      const uint32_t pair = std::to_integer<uint32_t>(codes_[i / 2]);
      out[k] = table_[i % 2 == 0 ? pair >> 4U : pair & 15U] * scale(i / state_.block);
    }
  }

 private:
  void read_scales(const PublishedModule& module) {
    const int64_t blocks = divided_up(module.outputs * module.inputs, state_.block);
    constexpr std::string_view kScales = ".weight.absmax";
    if (state_.nested_block == 0) {
      scales_.emplace(module.files, module.tensor(kScales));
      scales_->expect_shape({{blocks}});
      return;
    }
    const RawTensor codes = module.raw(kScales);
    if (codes.type != "U8" || codes.shape != std::vector<int64_t>{blocks})
      module.refuse(kScales, fmt::format("U8 of shape [{}]", blocks));
    nested_codes_ = codes.bytes.data();
    scales_.emplace(module.files, module.tensor(".weight.nested_absmax"));
    scales_->expect_shape({{divided_up(blocks, state_.nested_block)}});
    const StoredFloats table(module.files, module.tensor(".weight.nested_quant_map"));
    table.expect_shape({{256}});
    for (int64_t code = 0; code < 256; ++code) nested_table_.push_back(table[code]);
  }

  float scale(int64_t block) const {
    if (nested_codes_ == nullptr) return (*scales_)[block];
    const float value = nested_table_[std::to_integer<uint8_t>(nested_codes_[block])];
    return value * (*scales_)[block / state_.nested_block] + state_.nested_offset;
  }

  std::string place_;
  const std::byte* codes_;
  int64_t inputs_;
  TableState state_;
  std::array<float, 16> table_{};
  std::optional<StoredFloats> scales_;
  const std::byte* nested_codes_ = nullptr;  // null: scales are floats
  std::vector<float> nested_table_;
};

}  // namespace

std::unique_ptr<StoredMatrix> open_float8(const PublishedModule& module) {
  const std::string name = module.tensor(".weight");
  const StoredFloats codes(module.files, name);
  if (codes.shape() != std::vector<int64_t>{module.outputs, module.inputs})
    module.refuse(".weight", fmt::format("F8_E4M3 of shape [{}, {}]", module.outputs, module.inputs));
  const bool is_named_inverse =
      module.quantization.method == QuantMethod::kFp8 && !module.holds(".weight_scale");
  const std::string_view suffix = is_named_inverse ? ".weight_scale_inv" : ".weight_scale";
  const StoredFloats scales(module.files, module.tensor(suffix));
  const auto [rows, columns] = module.quantization.block;
  const std::vector<int64_t> blocks = {divided_up(module.outputs, rows), divided_up(module.inputs, columns)};
  std::array<int64_t, 2> block = module.quantization.block;
  if (scales.size() == 1) {
    block = {module.outputs, module.inputs};
  } else if (scales.size() == module.outputs && scales.shape().front() == module.outputs) {
    block = {1, module.inputs};
  } else {
    scales.expect_shape({{}, {module.outputs, 1}, blocks});
  }
  const std::byte* const bytes = module.raw(".weight").bytes.data();
  return std::make_unique<ScaledFloats>(codes, bytes, scales, module.inputs, block);
}

std::unique_ptr<StoredMatrix> open_compressed_float4(const PublishedModule& module) {
  const float divisor = one_value(module, ".weight_global_scale");
  return open_float4(module, ".weight_packed", [divisor](float scale) { return scale / divisor; });
}

std::unique_ptr<StoredMatrix> open_modelopt_float4(const PublishedModule& module) {
  const float factor = one_value(module, ".weight_scale_2");
  return open_float4(module, ".weight", [factor](float scale) { return scale * factor; });
}

std::unique_ptr<StoredMatrix> open_bnb_table(const PublishedModule& module) {
  const bool is_nf4 = module.holds(".weight.quant_state.bitsandbytes__nf4");
  const TableState state = read_state(
      module, is_nf4 ? ".weight.quant_state.bitsandbytes__nf4" : ".weight.quant_state.bitsandbytes__fp4");
  // The tensor's type does not matter: U8, or a float type that only holds the bytes.
  const RawTensor codes = module.raw(".weight");
  if (std::ssize(codes.bytes) != divided_up(module.outputs * module.inputs, 2)) {
    module.refuse(".weight", fmt::format("{} bytes of codes", divided_up(module.outputs * module.inputs, 2)));
  }
  return std::make_unique<TableMatrix>(module, codes.bytes, state);
}

}  // namespace lacuna
