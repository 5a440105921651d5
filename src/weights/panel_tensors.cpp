#include "weights/panel_tensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "weights/tensor_files.h"

namespace lacuna {
namespace {

/// Contents of MODULE.weight_format.
using FormatNumbers = std::array<int64_t, 6>;

FormatNumbers numbers_of(const WeightFormat& format, int64_t outputs, int64_t inputs) {
  if (!format.is_quantized())
    return {outputs, inputs, static_cast<int64_t>(8 * size_of(format.dtype)), 0, 0, 0};
  const Quantization& quantization = format.quantization;
  return {outputs,
          inputs,
          quantization.bits,
          quantization.group,
          quantization.has_minimum ? 1 : 0,
          quantization.two_levels    ? 2
          : quantization.wide_scales ? 1
                                     : 0};
}

/// All formats that kernels read.
std::vector<WeightFormat> all_formats() {
  constexpr Quantization kTwoLevels{.bits = 4, .group = 32, .has_minimum = true, .two_levels = true};
  std::vector<WeightFormat> formats = {DType::kF32, DType::kBF16, kTwoLevels};
  for (const int32_t bits : {8, 4}) {
    for (const int32_t group : {32, 16, 0}) {
      for (const bool has_minimum : {false, true}) {
        for (const bool wide_scales : {false, true})
          formats.emplace_back(Quantization{bits, group, has_minimum, wide_scales});
      }
    }
  }
  return formats;
}

struct StoredFormat {
  WeightFormat format;
  int64_t outputs = 0;
  int64_t inputs = 0;
};

StoredFormat read_format(const TensorFiles& files, const std::string& module) {
  const std::string name = module + std::string(kFormatSuffix);
  const RawTensor raw = files.raw(name);
  FormatNumbers numbers{};
  if (raw.type != "I64" || raw.shape != std::vector<int64_t>{std::ssize(numbers)}) {
    throw InputError("{}: tensor {} is {} of shape {}; expected I64 of shape [{}]", raw.file, in_quotes(name),
                     raw.type, shown(raw.shape), numbers.size());
  }
  std::memcpy(numbers.data(), raw.bytes.data(), sizeof numbers);
  for (const WeightFormat& format : all_formats()) {
    if (numbers == numbers_of(format, numbers[0], numbers[1])) return {format, numbers[0], numbers[1]};
  }
  throw InputError(
      "{}: tensor {} holds {}; expected outputs, inputs, the bits of a weight (32, 16, 8 or 4), the inputs "
      "that share a scale (32, 16 or 0), 0 or 1 for minimums, and 0, 1 or 2 for scales in f16, f32 or two "
      "levels",
      raw.file, in_quotes(name), shown(numbers));
}

class PanelMatrix : public StoredMatrix {
 public:
  PanelMatrix(std::shared_ptr<const void> owner, PackedMatrix whole)
      : owner_(std::move(owner)), whole_(std::move(whole)) {}

  void read(int64_t n, float* out) const override { whole_.read_row(n, out); }

  std::optional<Quantization> quantization() const override {
    if (!whole_.format().is_quantized()) return {};
    return whole_.format().quantization;
  }
  void read_codes(int64_t n, QuantizedRow& out) const override { whole_.read_codes(n, out); }

  /// A panel that straddles two parts belongs to neither.
  std::optional<PackedMatrix> panels(const WeightFormat& format, int64_t first,
                                     int64_t count) const override {
    const PanelView view = whole_.view();
    const int64_t end = first + count;
    if (format != whole_.format() || first % kPanelWidth != 0) return {};
    if (end % kPanelWidth != 0 && end != view.outputs) return {};
    const std::span<const std::byte> all = whole_.panels();
    const size_t panel_bytes = all.size() / static_cast<size_t>(num_panels(view.outputs));
    const auto begin = static_cast<size_t>(first / kPanelWidth) * panel_bytes;
    return PackedMatrix(owner_, format, count, view.inputs,
                        all.subspan(begin, static_cast<size_t>(num_panels(count)) * panel_bytes));
  }

 private:
  std::shared_ptr<const void> owner_;
  PackedMatrix whole_;
};

}  // namespace

HeldTensors panel_tensors(const std::string& module, PackedMatrix matrix) {
  expects(matrix.format().is_for_cpu(), "panel_tensors: files hold formats of the CPU");
  struct Memory {
    PackedMatrix matrix;
    FormatNumbers format;
  };
  const PanelView view = matrix.view();
  const FormatNumbers numbers = numbers_of(matrix.format(), view.outputs, view.inputs);
  const auto memory = std::make_shared<const Memory>(Memory{std::move(matrix), numbers});
  const std::span<const std::byte> panels = memory->matrix.panels();
  const int64_t count = num_panels(view.outputs);
  return {{{.name = module + std::string(kPanelsSuffix),
            .shape = {count, std::ssize(panels) / count},
            .bytes = panels,
            .type = "U8"},
           {.name = module + std::string(kFormatSuffix),
            .shape = {std::ssize(numbers)},
            .bytes = std::as_bytes(std::span(memory->format)),
            .type = "I64"}},
          memory};
}

std::unique_ptr<StoredMatrix> open_panels(const TensorFiles& files, std::string_view module, int64_t outputs,
                                          int64_t inputs) {
  const std::string path(module);
  const std::string name = path + std::string(kPanelsSuffix);
  const RawTensor panels = files.raw(name);
  const StoredFormat stored = read_format(files, path);
  if (stored.outputs != outputs || stored.inputs != inputs) {
    throw InputError("{}: tensor {} packs weights of shape [{}, {}]; expected [{}, {}]", panels.file,
                     in_quotes(name), stored.outputs, stored.inputs, outputs, inputs);
  }
  const int64_t count = num_panels(outputs);
  const std::vector<int64_t> shape = {count, packed_bytes(stored.format, outputs, inputs) / count};
  if (panels.type != "U8" || panels.shape != shape) {
    throw InputError("{}: tensor {} is {} of shape {}; expected U8 of shape {} for {} of shape [{}, {}]",
                     panels.file, in_quotes(name), panels.type, shown(panels.shape), shown(shape),
                     describe(stored.format), outputs, inputs);
  }
  const auto excess = reinterpret_cast<uintptr_t>(panels.bytes.data()) % kCacheLine;
  if (excess != 0) {
    throw InputError("{}: tensor {} begins {} bytes after a multiple of {}; expected such a multiple",
                     panels.file, in_quotes(name), excess, kCacheLine);
  }
  return std::make_unique<PanelMatrix>(
      panels.mapping, PackedMatrix(panels.mapping, stored.format, outputs, inputs, panels.bytes));
}

std::vector<std::pair<WeightFormat, int64_t>> panel_formats(const TensorFiles& files) {
  std::vector<std::pair<WeightFormat, int64_t>> formats;
  for (const std::string_view name : files.names()) {
    if (!name.ends_with(kPanelsSuffix)) continue;
    const std::string module(name.substr(0, name.size() - kPanelsSuffix.size()));
    const WeightFormat format = read_format(files, module).format;
    auto found = std::ranges::find_if(formats, [&](const auto& known) { return known.first == format; });
    if (found == formats.end()) found = formats.emplace(formats.end(), format, 0);
    found->second += std::ssize(files.raw(name).bytes);
  }
  return formats;
}

}  // namespace lacuna
