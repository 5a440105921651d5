#include "weights/weight_format.h"

#include <fmt/format.h>

#include <algorithm>

namespace lacuna {

std::optional<WeightFormat> weight_format(std::string_view name) {
  const auto* found = std::find_if(kWeightFormats.begin(), kWeightFormats.end(),
                                   [&](const NamedWeightFormat& known) { return known.name == name; });
  if (found == kWeightFormats.end()) return {};
  return found->format;
}

std::vector<std::string> weight_format_names() {
  std::vector<std::string> names;
  names.reserve(kWeightFormats.size());
  for (const NamedWeightFormat& known : kWeightFormats) names.emplace_back(known.name);
  return names;
}

std::vector<std::string> quantised_format_names() {
  std::vector<std::string> names;
  for (const NamedWeightFormat& known : kWeightFormats) {
    if (known.format.is_quantised()) names.emplace_back(known.name);
  }
  return names;
}

std::string describe(const WeightFormat& format) {
  for (const NamedWeightFormat& known : kWeightFormats) {
    if (known.format == format) return std::string(known.name);
  }
  const Quantisation& quantisation = format.quantisation;
  if (!format.is_quantised()) return std::string(name_of(format.dtype));
  const std::string scales = quantisation.group == 0 ? "with a scale for each output"
                                                     : fmt::format("in groups of {}", quantisation.group);
  return fmt::format("{}-bit codes {}{}{}", quantisation.bits, scales,
                     quantisation.has_minimum ? ", minimums" : "",
                     quantisation.wide_scales ? ", f32 scales" : "");
}

int64_t packed_bytes(const WeightFormat& format, int64_t outputs, int64_t inputs) {
  if (format.is_quantised())
    return num_panels(outputs) * QuantisedLayout(format.quantisation, inputs).bytes();
  return num_panels(outputs) * kPanelWidth * padded_depth(format.dtype, inputs) *
         static_cast<int64_t>(size_of(format.dtype));
}

}  // namespace lacuna
