#include "weights/weight_format.h"

#include <fmt/format.h>

#include <algorithm>

namespace lacuna {
namespace {

/// Names of the formats that `is_wanted` returns true for.
template <typename Predicate>
std::vector<std::string> names_of(Predicate&& is_wanted) {
  std::vector<std::string> names;
  for (const NamedWeightFormat& known : kWeightFormats) {
    if (is_wanted(known.format)) names.emplace_back(known.name);
  }
  return names;
}

}  // namespace

std::optional<WeightFormat> weight_format(std::string_view name) {
  const auto* found = std::ranges::find(kWeightFormats, name, &NamedWeightFormat::name);
  if (found == kWeightFormats.end()) return {};
  return found->format;
}

std::vector<std::string> weight_format_names() {
  return names_of([](const WeightFormat&) { return true; });
}

std::vector<std::string> cpu_format_names() {
  return names_of([](const WeightFormat& format) { return format.is_for_cpu(); });
}

std::vector<std::string> quantized_format_names() {
  return names_of([](const WeightFormat& format) { return format.is_for_cpu() && format.is_quantized(); });
}

std::string describe(const WeightFormat& format) {
  for (const NamedWeightFormat& known : kWeightFormats) {
    if (known.format == format) return std::string(known.name);
  }
  const Quantization& quantization = format.quantization;
  if (!format.is_quantized()) return std::string(name_of(format.dtype));
  const std::string scales = quantization.group == 0 ? "with a scale for each output"
                                                     : fmt::format("in groups of {}", quantization.group);
  return fmt::format("{}-bit codes {}{}{}", quantization.bits, scales,
                     quantization.has_minimum ? ", minimums" : "",
                     quantization.wide_scales ? ", f32 scales" : "");
}

int64_t packed_bytes(const WeightFormat& format, int64_t outputs, int64_t inputs) {
  if (format.is_quantized())
    return num_panels(outputs) * QuantizedLayout(format.quantization, inputs).bytes();
  return num_panels(outputs) * kPanelWidth * padded_depth(format.dtype, inputs) *
         static_cast<int64_t>(size_of(format.dtype));
}

}  // namespace lacuna
