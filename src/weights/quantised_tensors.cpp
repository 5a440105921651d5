#include "weights/quantised_tensors.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "base/json.h"
#include "weights/checkpoint.h"

namespace lacuna {
namespace {

int64_t code_columns(int32_t bits, int64_t inputs) {
  return bits == 8 ? inputs : (inputs + 1) / 2;
}

class QuantisedSafetensors : public StoredMatrix {
 public:
  QuantisedSafetensors(const Quantisation& quantisation, int64_t inputs, const RawTensor& codes,
                       const TensorView& scales, const std::optional<TensorView>& minimums)
      : quantisation_(quantisation),
        inputs_(inputs),
        codes_(codes.bytes),
        scales_(scales),
        minimums_(minimums) {}

  std::optional<Quantisation> quantisation() const override { return quantisation_; }

  void read_codes(int64_t n, QuantisedRow& out) const override {
    const auto columns = static_cast<size_t>(code_columns(quantisation_.bits, inputs_));
    const std::byte* row = codes_.data() + static_cast<size_t>(n) * columns;
    for (size_t k = 0; k < out.codes.size(); ++k) {
      const auto byte = std::to_integer<uint8_t>(row[quantisation_.bits == 8 ? k : k / 2]);
      out.codes[k] = quantisation_.bits == 8 ? byte : k % 2 == 0 ? byte & 15U : byte >> 4U;
    }
    const int64_t groups = num_groups(quantisation_, inputs_);
    widen(scales_, n * groups, out.scales);
    if (minimums_) widen(*minimums_, n * groups, out.minimums);
  }

  void read(int64_t n, float* out) const override {
    thread_local QuantisedRow row;
    row.resize(quantisation_, inputs_);
    read_codes(n, row);
    dequantise(quantisation_, row, {out, static_cast<size_t>(inputs_)});
  }

 private:
  Quantisation quantisation_;
  int64_t inputs_;
  std::span<const std::byte> codes_;
  TensorView scales_;
  std::optional<TensorView> minimums_;
};

void write_codes(const Quantisation& quantisation, const QuantisedRow& row, std::byte* to) {
  for (size_t k = 0; k < row.codes.size(); ++k) {
    if (quantisation.bits == 8) {
      to[k] = std::byte{row.codes[k]};
    } else {
      to[k / 2] |= std::byte(k % 2 == 0 ? row.codes[k] : row.codes[k] << 4U);
    }
  }
}

void write_scales(const Quantisation& quantisation, const std::vector<float>& scales, std::byte* to) {
  for (size_t g = 0; g < scales.size(); ++g) {
    if (quantisation.wide_scales) {
      std::memcpy(to + 4 * g, &scales[g], 4);
    } else {
      const f16 narrow = to_f16(scales[g]);
      std::memcpy(to + 2 * g, &narrow, 2);
    }
  }
}

}  // namespace

QuantisedTensors quantise_tensors(ThreadPool& threads, const Quantisation& quantisation,
                                  const std::string& module, const StoredMatrix& matrix, int64_t outputs,
                                  int64_t inputs) {
  const int64_t columns = code_columns(quantisation.bits, inputs);
  const int64_t groups = num_groups(quantisation, inputs);
  const DType scale_type = quantisation.wide_scales ? DType::kF32 : DType::kF16;
  const auto scale_bytes = groups * static_cast<int64_t>(size_of(scale_type));
  QuantisedTensors result;
  result.codes.resize(static_cast<size_t>(outputs * columns));
  result.scales.resize(static_cast<size_t>(outputs * scale_bytes));
  if (quantisation.has_minimum) result.minimums.resize(result.scales.size());
  std::vector<std::array<double, 2>> squares(static_cast<size_t>(outputs));
  threads.parallel_for(outputs, [&](int64_t n, int) {
    thread_local std::vector<float> row, back;
    thread_local QuantisedRow codes;
    row.resize(static_cast<size_t>(inputs));
    back.resize(row.size());
    matrix.read(n, row.data());
    quantise(quantisation, row, codes);
    dequantise(quantisation, codes, back);
    write_codes(quantisation, codes, result.codes.data() + n * columns);
    write_scales(quantisation, codes.scales, result.scales.data() + n * scale_bytes);
    if (quantisation.has_minimum)
      write_scales(quantisation, codes.minimums, result.minimums.data() + n * scale_bytes);
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
  add(kCodesSuffix, {}, columns, result.codes);
  add(kScalesSuffix, scale_type, groups, result.scales);
  if (quantisation.has_minimum) add(kMinimumsSuffix, scale_type, groups, result.minimums);
  return result;
}

std::unique_ptr<StoredMatrix> open_quantised(const Checkpoint& checkpoint, std::string_view module,
                                             int64_t outputs, int64_t inputs) {
  const std::string name(module);
  const RawTensor codes = checkpoint.raw(name + std::string(kCodesSuffix));
  const RawTensor scales = checkpoint.raw(name + std::string(kScalesSuffix));
  const auto has_shape = [&](const RawTensor& tensor, int64_t columns) {
    return tensor.shape == std::vector<int64_t>{outputs, columns};
  };
  for (const int32_t bits : {8, 4}) {
    if (codes.type != "U8" || !has_shape(codes, code_columns(bits, inputs))) continue;
    for (const int32_t group : {32, 16, 0}) {
      Quantisation quantisation{.bits = bits, .group = group};
      const int64_t groups = num_groups(quantisation, inputs);
      if (!has_shape(scales, groups)) continue;
      const TensorView scale_view = checkpoint.tensor(name + std::string(kScalesSuffix), {outputs, groups});
      std::optional<TensorView> minimum_view;
      const std::string minimums = name + std::string(kMinimumsSuffix);
      if (checkpoint.contains(minimums)) minimum_view = checkpoint.tensor(minimums, {outputs, groups});
      quantisation.has_minimum = minimum_view.has_value();
      const auto is_narrow = [](const TensorView& view) { return view.dtype == DType::kF16; };
      quantisation.wide_scales =
          !is_narrow(scale_view) || (minimum_view.has_value() && !is_narrow(*minimum_view));
      return std::make_unique<QuantisedSafetensors>(quantisation, inputs, codes, scale_view, minimum_view);
    }
  }
  throw InputError(
      "{}: the codes of {} are {} of shape {} with scales of shape {}; expected U8 for [{}, {}] weights, of "
      "8 "
      "or 4 bits, with a scale for all inputs, 32 or 16 of them",
      codes.file, in_quotes(module), codes.type, shown(codes.shape), shown(scales.shape), outputs, inputs);
}

}  // namespace lacuna
