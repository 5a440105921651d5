#include "weights/packed_matrix.h"

#include <cstring>

#include "base/error.h"

namespace lacuna {
namespace {

/// Stores rows of `inputs` floats in the lanes of a panel. A panel is a transposed array of 32-bit words,
/// each of one f32 or two bf16. Blocks stay in the L1 cache, so that each line of the panel is written once.
template <typename Element>
void store_elements(std::byte* panel, int64_t inputs, std::span<const float> rows) {
  constexpr int64_t kPerWord = 4 / sizeof(Element);
  constexpr int64_t kWords = 64;
  constexpr int64_t kBlock = kWords * kPerWord;
  const int64_t num_rows = inputs == 0 ? 0 : std::ssize(rows) / inputs;
  uint32_t words[kPanelWidth][kWords];
  for (int64_t begin = 0; begin < inputs; begin += kBlock) {
    const int64_t count = std::min(kBlock, inputs - begin);
    const int64_t num_words = (count + kPerWord - 1) / kPerWord;
    for (int64_t lane = 0; lane < num_rows; ++lane) {
      Element elements[kBlock];
      elements[count - 1 - (count - 1) % kPerWord + kPerWord - 1] =
          Element(0.0F);  // zero padding of a half-filled last word
      const float* const row = rows.data() + lane * inputs + begin;
      for (int64_t i = 0; i < count; ++i) elements[i] = Element(row[i]);
      std::memcpy(words[lane], elements, static_cast<size_t>(num_words) * sizeof(uint32_t));
    }
    auto* const to = reinterpret_cast<uint32_t*>(panel) + begin / kPerWord * kPanelWidth;
    for (int64_t word = 0; word < num_words; ++word) {
      for (int64_t lane = 0; lane < num_rows; ++lane) to[word * kPanelWidth + lane] = words[lane][word];
    }
  }
}

template <typename Element>
void read_elements(const std::byte* panel, int64_t lane, std::span<float> row) {
  const auto* elements = reinterpret_cast<const Element*>(panel);
  for (size_t k = 0; k < row.size(); ++k) {
    row[k] = static_cast<float>(elements[panel_offset<Element>(lane, static_cast<int64_t>(k))]);
  }
}

void store_scale(const Quantization& quantization, std::byte* to, float value) {
  if (quantization.two_levels) {
    *to = static_cast<std::byte>(value);
  } else if (quantization.wide_scales) {
    std::memcpy(to, &value, sizeof value);
  } else {
    const f16 narrow = to_f16(value);
    std::memcpy(to, &narrow, sizeof narrow);
  }
}

PanelView view_of(const WeightFormat& format, int64_t outputs, int64_t inputs, const std::byte* panels) {
  expects(format.is_quantized() || format.dtype != DType::kF16,
          "PackedMatrix: dense weights are f32 or bf16");
  const int64_t stride = format.is_quantized() ? QuantizedLayout(format.quantization, inputs).bytes()
                                               : padded_depth(format.dtype, inputs) * kPanelWidth;
  return {panels, format.dtype, outputs, inputs, stride, format.quantization};
}

}  // namespace

PackedMatrix::PackedMatrix(const WeightFormat& format, int64_t outputs, int64_t inputs)
    : memory_(Buffer<std::byte>::uninitialized(packed_bytes(format, outputs, inputs))),
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

void PackedMatrix::store_rows(int64_t first, std::span<const float> rows) {
  const int64_t inputs = view_.inputs;
  if (view_.is_quantized()) {
    thread_local QuantizedRow quantized;
    for (int64_t begin = 0; begin < std::ssize(rows); begin += inputs) {
      quantize(view_.quantization, rows.subspan(static_cast<size_t>(begin), static_cast<size_t>(inputs)),
               quantized);
      store_codes(first++, quantized);
    }
  } else if (view_.dtype == DType::kBF16) {
    store_elements<bf16>(own_panel_of(first), inputs, rows);
  } else {
    store_elements<float>(own_panel_of(first), inputs, rows);
  }
}

void PackedMatrix::store_codes(int64_t n, const QuantizedRow& row) {
  const Quantization& quantization = view_.quantization;
  const QuantizedLayout layout(quantization, view_.inputs);
  const int64_t lane = n % kPanelWidth;
  std::byte* panel = own_panel_of(n);
  for (size_t g = 0; g < row.scales.size(); ++g) {
    const auto group = static_cast<int64_t>(g);
    store_scale(quantization, panel + layout.scale(lane, group), row.scales[g]);
    if (quantization.has_minimum)
      store_scale(quantization, panel + layout.minimum(lane, group), row.minimums[g]);
  }
  if (quantization.two_levels) {
    const OutputScale& of_output = row.of_output;
    std::memcpy(panel + QuantizedLayout::output_scale(lane), &of_output.scale, sizeof of_output.scale);
    std::memcpy(panel + QuantizedLayout::output_minimum(lane), &of_output.minimum, sizeof of_output.minimum);
  }
  const int64_t per_word = layout.codes_per_word();
  for (int64_t k = 0; k < view_.inputs; k += per_word) {
    uint32_t word = 0;
    for (int64_t i = 0; i < std::min(per_word, view_.inputs - k); ++i) {
      word |= static_cast<uint32_t>(row.codes[static_cast<size_t>(k + i)])
              << code_shift(quantization.bits, static_cast<int>(i));
    }
    std::memcpy(panel + layout.word(lane, k), &word, sizeof word);
  }
}

void PackedMatrix::read_row(int64_t n, float* out) const {
  const std::span<float> row(out, static_cast<size_t>(view_.inputs));
  const std::byte* panel = panel_of(n);
  const int64_t lane = n % kPanelWidth;
  if (!view_.is_quantized()) {
    if (view_.dtype == DType::kBF16) return read_elements<bf16>(panel, lane, row);
    return read_elements<float>(panel, lane, row);
  }
  thread_local QuantizedRow codes;
  read_codes(n, codes);
  dequantize(view_.quantization, codes, row);
}

void PackedMatrix::read_codes(int64_t n, QuantizedRow& out) const {
  expects(view_.is_quantized(), "PackedMatrix: codes are read of quantized weights");
  const Quantization& quantization = view_.quantization;
  const QuantizedLayout layout(quantization, view_.inputs);
  const std::byte* panel = panel_of(n);
  const int64_t lane = n % kPanelWidth;
  out.resize(quantization, view_.inputs);
  for (size_t g = 0; g < out.scales.size(); ++g) {
    const auto group = static_cast<int64_t>(g);
    out.scales[g] = read_scale(quantization, panel + layout.scale(lane, group));
    if (quantization.has_minimum)
      out.minimums[g] = read_scale(quantization, panel + layout.minimum(lane, group));
  }
  if (quantization.two_levels) {
    OutputScale& of_output = out.of_output;
    std::memcpy(&of_output.scale, panel + QuantizedLayout::output_scale(lane), sizeof of_output.scale);
    std::memcpy(&of_output.minimum, panel + QuantizedLayout::output_minimum(lane), sizeof of_output.minimum);
  }
  const int64_t per_word = layout.codes_per_word();
  for (int64_t k = 0; k < view_.inputs; ++k) {
    uint32_t word = 0;
    std::memcpy(&word, panel + layout.word(lane, k), sizeof word);
    const int shift = code_shift(quantization.bits, static_cast<int>(k % per_word));
    const uint32_t code = word >> shift & ((1U << quantization.bits) - 1);
    out.codes[static_cast<size_t>(k)] = static_cast<uint8_t>(code);
  }
}

}  // namespace lacuna
