#include "weights/packed_matrix.h"

#include <cstring>

#include "base/error.h"

namespace lacuna {
namespace {

template <typename Element>
void store_elements(std::byte* panel, int64_t lane, std::span<const float> row) {
  auto* elements = reinterpret_cast<Element*>(panel);
  for (size_t k = 0; k < row.size(); ++k) {
    elements[panel_offset<Element>(lane, static_cast<int64_t>(k))] = Element(row[k]);
  }
}

template <typename Element>
void read_elements(const std::byte* panel, int64_t lane, std::span<float> row) {
  const auto* elements = reinterpret_cast<const Element*>(panel);
  for (size_t k = 0; k < row.size(); ++k) {
    row[k] = static_cast<float>(elements[panel_offset<Element>(lane, static_cast<int64_t>(k))]);
  }
}

void store_scale(const Quantisation& quantisation, std::byte* to, float value) {
  if (quantisation.two_levels) {
    *to = static_cast<std::byte>(value);
  } else if (quantisation.wide_scales) {
    std::memcpy(to, &value, sizeof value);
  } else {
    const f16 narrow = to_f16(value);
    std::memcpy(to, &narrow, sizeof narrow);
  }
}

PanelView view_of(const WeightFormat& format, int64_t outputs, int64_t inputs, const std::byte* panels) {
  expects(format.is_quantised() || format.dtype != DType::kF16,
          "PackedMatrix: dense weights are f32 or bf16");
  const int64_t stride = format.is_quantised() ? QuantisedLayout(format.quantisation, inputs).bytes()
                                               : padded_depth(format.dtype, inputs) * kPanelWidth;
  return {panels, format.dtype, outputs, inputs, stride, format.quantisation};
}

}  // namespace

PackedMatrix::PackedMatrix(const WeightFormat& format, int64_t outputs, int64_t inputs)
    : memory_(packed_bytes(format, outputs, inputs)),
      view_(view_of(format, outputs, inputs, memory_.data())) {}

PackedMatrix::PackedMatrix(std::shared_ptr<const void> owner, const WeightFormat& format, int64_t outputs,
                           int64_t inputs, std::span<const std::byte> panels)
    : owner_(std::move(owner)), view_(view_of(format, outputs, inputs, panels.data())) {
  expects(static_cast<int64_t>(panels.size()) == packed_bytes(format, outputs, inputs),
          "PackedMatrix: as many bytes as the format takes");
  expects(reinterpret_cast<uintptr_t>(panels.data()) % kCacheLine == 0,
          "PackedMatrix: panels begin at a cache line");
}

std::span<const std::byte> PackedMatrix::panels() const {
  return {static_cast<const std::byte*>(view_.data),
          static_cast<size_t>(packed_bytes(format(), view_.outputs, view_.inputs))};
}

const std::byte* PackedMatrix::panel_of(int64_t n) const {
  return static_cast<const std::byte*>(view_.panel(n / kPanelWidth));
}

void PackedMatrix::store_row(int64_t n, std::span<const float> row) {
  if (view_.is_quantised()) {
    thread_local QuantisedRow quantised;
    quantise(view_.quantisation, row, quantised);
    store_codes(n, quantised);
  } else if (view_.dtype == DType::kBF16) {
    store_elements<bf16>(own_panel_of(n), n % kPanelWidth, row);
  } else {
    store_elements<float>(own_panel_of(n), n % kPanelWidth, row);
  }
}

void PackedMatrix::store_codes(int64_t n, const QuantisedRow& row) {
  const Quantisation& quantisation = view_.quantisation;
  const QuantisedLayout layout(quantisation, view_.inputs);
  const int64_t lane = n % kPanelWidth;
  std::byte* panel = own_panel_of(n);
  for (size_t g = 0; g < row.scales.size(); ++g) {
    const auto group = static_cast<int64_t>(g);
    store_scale(quantisation, panel + layout.scale(lane, group), row.scales[g]);
    if (quantisation.has_minimum)
      store_scale(quantisation, panel + layout.minimum(lane, group), row.minimums[g]);
  }
  if (quantisation.two_levels) {
    const OutputScale& of_output = row.of_output;
    std::memcpy(panel + QuantisedLayout::output_scale(lane), &of_output.scale, sizeof of_output.scale);
    std::memcpy(panel + QuantisedLayout::output_minimum(lane), &of_output.minimum, sizeof of_output.minimum);
  }
  const int64_t per_word = layout.codes_per_word();
  for (int64_t k = 0; k < view_.inputs; k += per_word) {
    uint32_t word = 0;
    for (int64_t i = 0; i < std::min(per_word, view_.inputs - k); ++i) {
      word |= static_cast<uint32_t>(row.codes[static_cast<size_t>(k + i)])
              << code_shift(quantisation.bits, static_cast<int>(i));
    }
    std::memcpy(panel + layout.word(lane, k), &word, sizeof word);
  }
}

void PackedMatrix::read_row(int64_t n, float* out) const {
  const std::span<float> row(out, static_cast<size_t>(view_.inputs));
  const std::byte* panel = panel_of(n);
  const int64_t lane = n % kPanelWidth;
  if (!view_.is_quantised()) {
    if (view_.dtype == DType::kBF16) return read_elements<bf16>(panel, lane, row);
    return read_elements<float>(panel, lane, row);
  }
  thread_local QuantisedRow codes;
  read_codes(n, codes);
  dequantise(view_.quantisation, codes, row);
}

void PackedMatrix::read_codes(int64_t n, QuantisedRow& out) const {
  expects(view_.is_quantised(), "PackedMatrix: codes are read of quantised weights");
  const Quantisation& quantisation = view_.quantisation;
  const QuantisedLayout layout(quantisation, view_.inputs);
  const std::byte* panel = panel_of(n);
  const int64_t lane = n % kPanelWidth;
  out.resize(quantisation, view_.inputs);
  for (size_t g = 0; g < out.scales.size(); ++g) {
    const auto group = static_cast<int64_t>(g);
    out.scales[g] = read_scale(quantisation, panel + layout.scale(lane, group));
    if (quantisation.has_minimum)
      out.minimums[g] = read_scale(quantisation, panel + layout.minimum(lane, group));
  }
  if (quantisation.two_levels) {
    OutputScale& of_output = out.of_output;
    std::memcpy(&of_output.scale, panel + QuantisedLayout::output_scale(lane), sizeof of_output.scale);
    std::memcpy(&of_output.minimum, panel + QuantisedLayout::output_minimum(lane), sizeof of_output.minimum);
  }
  const int64_t per_word = layout.codes_per_word();
  for (int64_t k = 0; k < view_.inputs; ++k) {
    uint32_t word = 0;
    std::memcpy(&word, panel + layout.word(lane, k), sizeof word);
    const int shift = code_shift(quantisation.bits, static_cast<int>(k % per_word));
    const uint32_t code = word >> shift & ((1U << quantisation.bits) - 1);
    out.codes[static_cast<size_t>(k)] = static_cast<uint8_t>(code);
  }
}

}  // namespace lacuna
