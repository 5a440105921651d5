#include "weights/quantized_tensors.h"

#include <array>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "weights/tensor_files.h"

namespace lacuna {
namespace {

int64_t code_columns(int32_t bits, int64_t inputs) {
  return bits == 8 ? inputs : (inputs + 1) / 2;
}

int64_t scale_bytes(const Quantization& quantization) {
  return quantization.two_levels ? 1 : quantization.wide_scales ? 4 : 2;
}

/// Scales or minimums, as floats or 8-bit integers.
class StoredScales {
 public:
  explicit StoredScales(const TensorView& floats) : floats_(floats) {}
  explicit StoredScales(std::span<const std::byte> numbers) : numbers_(numbers) {}

  bool are_narrow() const { return floats_ && floats_->dtype == DType::kF16; }
  void read(int64_t first, std::span<float> out) const {
    if (floats_) return widen(*floats_, first, out);
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = std::to_integer<uint8_t>(numbers_[static_cast<size_t>(first) + i]);
  }

 private:
  std::optional<TensorView> floats_;
  std::span<const std::byte> numbers_;
};

struct ScalesOfMatrix {
  StoredScales of_groups;
  std::optional<StoredScales> minimums;
  std::optional<TensorView> of_outputs;  // with two levels
};

class QuantizedSafetensors : public StoredMatrix {
 public:
  QuantizedSafetensors(const Quantization& quantization, int64_t inputs, std::string_view name,
                       const RawTensor& codes, ScalesOfMatrix scales)
      : quantization_(quantization),
        inputs_(inputs),
        codes_(codes.bytes),
        scales_(std::move(scales)),
        place_(fmt::format("{}: tensor {}", codes.file, in_quotes(name))) {}

  std::optional<Quantization> quantization() const override { return quantization_; }

  void read_codes(int64_t n, QuantizedRow& out) const override {
    const auto columns = static_cast<size_t>(code_columns(quantization_.bits, inputs_));
    const std::byte* row = codes_.data() + static_cast<size_t>(n) * columns;
    for (size_t k = 0; k < out.codes.size(); ++k) {
      const auto byte = std::to_integer<uint8_t>(row[quantization_.bits == 8 ? k : k / 2]);
      out.codes[k] = quantization_.bits == 8 ? byte : k % 2 == 0 ? byte & 15U : byte >> 4U;
    }
    const int64_t groups = num_groups(quantization_, inputs_);
    scales_.of_groups.read(n * groups, out.scales);
    if (scales_.minimums) scales_.minimums->read(n * groups, out.minimums);
    if (!scales_.of_outputs) return;
    std::array<float, 2> of_output{};
    widen(*scales_.of_outputs, 2 * n, of_output);
    out.of_output = {of_output[0], of_output[1]};
  }

  void read(int64_t n, float* out) const override {
    thread_local QuantizedRow row;
    row.resize(quantization_, inputs_);
    read_codes(n, row);
    dequantize(quantization_, row, {out, static_cast<size_t>(inputs_)});
  }
  std::string place() const override { return place_; }

 private:
  Quantization quantization_;
  int64_t inputs_;
  std::span<const std::byte> codes_;
  ScalesOfMatrix scales_;
  std::string place_;
};

/// Reads the integer scales of two levels from U8 tensors. Throws InputError if values are out of range.
ScalesOfMatrix open_two_levels(const TensorFiles& files, const std::string& module, const RawTensor& scales,
                               int64_t outputs) {
  const std::string name = module + std::string(kMinimumsSuffix);
  const RawTensor minimums = files.raw(name);
  if (minimums.type != "U8" || minimums.shape != scales.shape) {
    throw InputError("{}: tensor {} is {} of shape {}; expected U8 of shape {}, as the scales", minimums.file,
                     in_quotes(name), minimums.type, shown(minimums.shape), shown(scales.shape));
  }
  for (size_t i = 0; i < scales.bytes.size(); ++i) {
    const auto scale = std::to_integer<int32_t>(scales.bytes[i]);
    const auto minimum = std::to_integer<int32_t>(minimums.bytes[i]);
    if (minimum + 15 * scale <= 255) continue;
    throw InputError(
        "{}: tensor {} holds {} with a scale of {}; expected a sum of at most 255 with 15 times the scale",
        minimums.file, in_quotes(name), minimum, scale);
  }
  return {StoredScales(scales.bytes), StoredScales(minimums.bytes),
          files.tensor(module + std::string(kOutputScalesSuffix), {outputs, 2})};
}

void write_codes(const Quantization& quantization, const QuantizedRow& row, std::byte* to) {
  for (size_t k = 0; k < row.codes.size(); ++k) {
    if (quantization.bits == 8) {
      to[k] = std::byte{row.codes[k]};
    } else {
      to[k / 2] |= std::byte(k % 2 == 0 ? row.codes[k] : row.codes[k] << 4U);
    }
  }
}

void write_scales(const Quantization& quantization, const std::vector<float>& scales, std::byte* to) {
  for (size_t g = 0; g < scales.size(); ++g) {
    if (quantization.two_levels) {
      to[g] = static_cast<std::byte>(scales[g]);
    } else if (quantization.wide_scales) {
      std::memcpy(to + 4 * g, &scales[g], 4);
    } else {
      const f16 narrow = to_f16(scales[g]);
      std::memcpy(to + 2 * g, &narrow, 2);
    }
  }
}

}  // namespace

QuantizedTensors quantize_tensors(ThreadPool& threads, const Quantization& quantization,
                                  const std::string& module, const StoredMatrix& matrix, int64_t outputs,
                                  int64_t inputs) {
  const int64_t columns = code_columns(quantization.bits, inputs);
  const int64_t groups = num_groups(quantization, inputs);
  const int64_t scales_of_row = groups * scale_bytes(quantization);
  constexpr int64_t kOutputBytes = 2 * sizeof(float);
  expects(WeightFormat(quantization).is_for_cpu(), "quantize_tensors: files hold formats of the CPU");
  QuantizedTensors result;
  result.codes.resize(static_cast<size_t>(outputs * columns));
  result.scales.resize(static_cast<size_t>(outputs * scales_of_row));
  if (quantization.has_minimum) result.minimums.resize(result.scales.size());
  if (quantization.two_levels) result.output_scales.resize(static_cast<size_t>(outputs * kOutputBytes));
  std::vector<std::array<double, 2>> squares(static_cast<size_t>(outputs));
  threads.parallel_for(outputs, [&](int64_t n, int) {
    thread_local std::vector<float> row, back;
    thread_local QuantizedRow codes;
    row.resize(static_cast<size_t>(inputs));
    back.resize(row.size());
    matrix.read(n, row.data());
    quantize(quantization, row, codes);
    dequantize(quantization, codes, back);
    write_codes(quantization, codes, result.codes.data() + n * columns);
    write_scales(quantization, codes.scales, result.scales.data() + n * scales_of_row);
    if (quantization.has_minimum)
      write_scales(quantization, codes.minimums, result.minimums.data() + n * scales_of_row);
    if (quantization.two_levels) {
      const std::array of_output = {codes.of_output.scale, codes.of_output.minimum};
      std::memcpy(result.output_scales.data() + n * kOutputBytes, of_output.data(), sizeof of_output);
    }
    for (size_t k = 0; k < row.size(); ++k) {
      const double error = double{row[k]} - back[k];
      squares[static_cast<size_t>(n)][0] += error * error;
      squares[static_cast<size_t>(n)][1] += double{row[k]} * row[k];
    }
  });
  for (const auto& [error, weights] : squares) {
    result.squared_error += error;
    result.squared_weights += weights;
  }
  const auto add = [&](std::string_view suffix, std::optional<DType> type, int64_t width,
                       const std::vector<std::byte>& bytes) {
    TensorToWrite tensor{module + std::string(suffix), type.value_or(DType::kF32), {outputs, width}, bytes};
    if (!type) tensor.type = "U8";
    result.tensors.push_back(std::move(tensor));
  };
  std::optional<DType> scale_type;
  if (!quantization.two_levels) scale_type = quantization.wide_scales ? DType::kF32 : DType::kF16;
  add(kCodesSuffix, {}, columns, result.codes);
  add(kScalesSuffix, scale_type, groups, result.scales);
  if (quantization.has_minimum) add(kMinimumsSuffix, scale_type, groups, result.minimums);
  if (quantization.two_levels) add(kOutputScalesSuffix, DType::kF32, 2, result.output_scales);
  return result;
}

std::unique_ptr<StoredMatrix> open_quantized(const TensorFiles& files, std::string_view module,
                                             int64_t outputs, int64_t inputs) {
  const std::string name(module);
  const RawTensor codes = files.raw(name + std::string(kCodesSuffix));
  const RawTensor scales = files.raw(name + std::string(kScalesSuffix));
  const auto has_shape = [&](const RawTensor& tensor, int64_t columns) {
    return tensor.shape == std::vector<int64_t>{outputs, columns};
  };
  for (const int32_t bits : {8, 4}) {
    if (codes.type != "U8" || !has_shape(codes, code_columns(bits, inputs))) continue;
    for (const int32_t group : {32, 16, 0}) {
      Quantization quantization{.bits = bits, .group = group};
      const int64_t groups = num_groups(quantization, inputs);
      if (!has_shape(scales, groups)) continue;
      // With few inputs, both group sizes give one group; only formats with one scale per output store F32.
      if (groups == 1 && group != 0 && scales.type == "F32") continue;
      if (scales.type == "U8" && bits == 4 && group == 32) {
        quantization.has_minimum = quantization.two_levels = true;
        return std::make_unique<QuantizedSafetensors>(quantization, inputs, name, codes,
                                                      open_two_levels(files, name, scales, outputs));
      }
      ScalesOfMatrix opened{
          StoredScales(files.tensor(name + std::string(kScalesSuffix), {outputs, groups})), {}, {}};
      const std::string minimums = name + std::string(kMinimumsSuffix);
      if (files.holds(minimums)) opened.minimums = StoredScales(files.tensor(minimums, {outputs, groups}));
      quantization.has_minimum = opened.minimums.has_value();
      quantization.wide_scales =
          !opened.of_groups.are_narrow() || (opened.minimums && !opened.minimums->are_narrow());
      return std::make_unique<QuantizedSafetensors>(quantization, inputs, name, codes, std::move(opened));
    }
  }
  throw InputError(
      "{}: the codes of {} are {} of shape {} with scales of shape {}; expected U8 for [{}, {}] weights, of "
      "8 or 4 bits, with a scale for all inputs, 32 or 16 of them",
      codes.file, in_quotes(module), codes.type, shown(codes.shape), shown(scales.shape), outputs, inputs);
}

}  // namespace lacuna
