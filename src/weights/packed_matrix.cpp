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
  if (quantisation.wide_scales) {
    std::memcpy(to, &value, sizeof value);
  } else {
    const f16 narrow = to_f16(value);
    std::memcpy(to, &narrow, sizeof narrow);
  }
}

float read_scale(const Quantisation& quantisation, const std::byte* from) {
  if (quantisation.wide_scales) {
    float value = 0;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  f16 narrow;
  std::memcpy(&narrow, from, sizeof narrow);
  return static_cast<float>(narrow);
}

}  // namespace

PackedMatrix::PackedMatrix(const WeightFormat& format, int64_t outputs, int64_t inputs) {
  expects(format.is_quantised() || format.dtype != DType::kF16,
          "PackedMatrix: dense weights are f32 or bf16");
  memory_.reserve(packed_bytes(format, outputs, inputs));
  view_ = {memory_.data(), format.dtype, outputs, inputs, 0, format.quantisation};
  view_.panel_stride = format.is_quantised() ? QuantisedLayout(format.quantisation, inputs).bytes()
                                             : padded_depth(format.dtype, inputs) * kPanelWidth;
}

std::byte* PackedMatrix::panel_of(int64_t n) const {
  return memory_.data() + n / kPanelWidth * (memory_.size() / num_panels(view_.outputs));
}

void PackedMatrix::store_row(int64_t n, std::span<const float> row) {
  if (view_.is_quantised()) {
    thread_local QuantisedRow quantised;
    quantise(view_.quantisation, row, quantised);
    store_codes(n, quantised);
  } else if (view_.dtype == DType::kBF16) {
    store_elements<bf16>(panel_of(n), n % kPanelWidth, row);
  } else {
    store_elements<float>(panel_of(n), n % kPanelWidth, row);
  }
}

void PackedMatrix::store_codes(int64_t n, const QuantisedRow& row) {
  const Quantisation& quantisation = view_.quantisation;
  const QuantisedLayout layout(quantisation, view_.inputs);
  const int64_t lane = n % kPanelWidth;
  std::byte* panel = panel_of(n);
  for (size_t g = 0; g < row.scales.size(); ++g) {
    const auto group = static_cast<int64_t>(g);
    store_scale(quantisation, panel + layout.scale(lane, group), row.scales[g]);
    if (quantisation.has_minimum)
      store_scale(quantisation, panel + layout.minimum(lane, group), row.minimums[g]);
  }
  const int64_t per_word = layout.codes_per_word();
  for (int64_t k = 0; k < view_.inputs; k += per_word) {
    uint32_t word = 0;
    for (int64_t i = 0; i < std::min(per_word, view_.inputs - k); ++i) {
      word |= static_cast<uint32_t>(row.codes[static_cast<size_t>(k + i)]) << (i * quantisation.bits);
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
  const Quantisation& quantisation = view_.quantisation;
  const QuantisedLayout layout(quantisation, view_.inputs);
  thread_local QuantisedRow codes;
  codes.resize(quantisation, view_.inputs);
  for (size_t g = 0; g < codes.scales.size(); ++g) {
    const auto group = static_cast<int64_t>(g);
    codes.scales[g] = read_scale(quantisation, panel + layout.scale(lane, group));
    if (quantisation.has_minimum)
      codes.minimums[g] = read_scale(quantisation, panel + layout.minimum(lane, group));
  }
  const int64_t per_word = layout.codes_per_word();
  for (int64_t k = 0; k < view_.inputs; ++k) {
    uint32_t word = 0;
    std::memcpy(&word, panel + layout.word(lane, k), sizeof word);
    const uint32_t code = word >> (k % per_word * quantisation.bits) & ((1U << quantisation.bits) - 1);
    codes.codes[static_cast<size_t>(k)] = static_cast<uint8_t>(code);
  }
  dequantise(quantisation, codes, row);
}

}  // namespace lacuna
