// GEMM with quantized weights. For many rows, a slice of a panel is dequantized once and multiplied as a
// dense panel. For few rows, weights are dequantized in registers, so that the loop is memory-bound.
// Dequantized weights are identical in both cases.
#pragma once

#include "kernels/generic/product.h"

namespace lacuna::generic {

/// Dequantizes the weights of one input to f32.
template <typename Isa>
struct F32Format : FloatKernel<Isa> {
  template <int kBits>
  static constexpr int kAdded = 0;

  struct Scales {
    typename Isa::Vec scale, minimum;
  };
  static Scales scales(typename Isa::Vec scale, typename Isa::Vec minimum) { return {scale, minimum}; }
  static typename Isa::Words load_words(const uint32_t* words) { return Isa::load_words(words); }
  template <int kBits, int kIndex>
  static typename Isa::Vec weights(const typename Isa::Words& words, const Scales& scales) {
    return Isa::multiply_add(Isa::template quantized_value<kBits, kIndex>(words), scales.scale,
                             scales.minimum);
  }
  static void store(float* to, typename Isa::Vec weights) { Isa::store(to, weights); }
};

/// First byte of a quantized panel. Always inlined, as QuantizedLayout.
[[gnu::always_inline]] inline const std::byte* begin_of(const PanelProduct& p, int64_t panel) {
  return static_cast<const std::byte*>(p.panels) + panel * p.panel_stride;
}

/// Applies the scales and minimums of output channels to the accumulators of rows [first_row, end_row) by
/// `count` panels, if the quantization has one scale per output channel.
///   kZeroPoint  subtracted from each value before it was multiplied
template <typename Isa, int kZeroPoint = 0>
void scale_sums(const PanelProduct& p, int64_t first_panel, int64_t count, int64_t first_row,
                int64_t end_row) {
  if (!p.quantization.scales_sums()) return;
  const QuantizedLayout layout(p.quantization, p.depth);
  for (int64_t panel = first_panel; panel < first_panel + count; ++panel) {
    alignas(64) float scales[kPanelWidth];
    alignas(64) float minimums[kPanelWidth];
    read_output_scales(p.quantization, layout, begin_of(p, panel), scales, minimums);
    if constexpr (kZeroPoint != 0) {
      for (int64_t lane = 0; lane < kPanelWidth; ++lane) minimums[lane] += kZeroPoint * scales[lane];
    }
    for (int64_t row = first_row; row < end_row; ++row) {
      const auto row_sum = Isa::broadcast(p.row_sums[row]);
      float* sums = p.out + row * p.out_stride + panel * kPanelWidth;
      for (int64_t lane = 0; lane < kPanelWidth; lane += Isa::kLanes) {
        const auto minimum = Isa::multiply(Isa::load(minimums + lane), row_sum);
        Isa::store(sums + lane, Isa::multiply_add(Isa::load(sums + lane), Isa::load(scales + lane), minimum));
      }
    }
  }
}

/// Calls body(std::integral_constant) for each input, or the first input of each pair, that a word holds.
template <int kBits, typename Format, typename Body>
void for_each_input_of_word(Body&& body) {
  constexpr int kInputs = static_cast<int>(Format::kInputs);
  [&]<int... kIndex>(std::integer_sequence<int, kIndex...>) {
    (body(std::integral_constant<int, kIndex * kInputs>()), ...);
  }
  (std::make_integer_sequence<int, 32 / kBits / kInputs>());
}

/// Quantized panels of a GEMM, dequantized by `Format`.
template <typename Format, int kBits>
class QuantizedPanels {
 public:
  using Isa = typename Format::Vectors;

  QuantizedPanels(const PanelProduct& p, const QuantizedLayout& layout)
      : p_(p),
        layout_(layout),
        has_minimum_(p.quantization.has_minimum),
        is_wide_(p.quantization.wide_scales),
        has_two_levels_(p.quantization.two_levels),
        is_per_channel_(p.quantization.group == 0) {}

  int64_t run_length() const { return layout_.run_length(); }

  /// First of the words that hold input k.
  const uint32_t* words(int64_t panel, int64_t k) const {
    return reinterpret_cast<const uint32_t*>(begin_of(p_, panel) + layout_.word(0, k));
  }

  /// Scales and minimums of the outputs from `lane` on for the run with input k. They yield weights or, with
  /// one scale per output channel, 8-bit values. The minimum compensates for Format::kAdded.
  typename Format::Scales scales(int64_t panel, int64_t k, int64_t lane) const {
    constexpr int kAdded = Format::template kAdded<kBits>;
    constexpr int kMiddle = 1 << (kBits - 1);
    if (is_per_channel_)
      return Format::scales(Isa::broadcast(1), Isa::broadcast(static_cast<float>(-kAdded)));
    const int64_t group = layout_.group_of(k);
    const auto scale = load(begin_of(p_, panel) + layout_.scale(lane, group));
    const auto minimum = has_minimum_
                             ? Isa::multiply_add(Isa::broadcast(static_cast<float>(-kAdded)), scale,
                                                 load(begin_of(p_, panel) + layout_.minimum(lane, group)))
                             : Isa::multiply(Isa::broadcast(static_cast<float>(-kAdded - kMiddle)), scale);
    return Format::scales(scale, minimum);
  }

 private:
  typename Isa::Vec load(const std::byte* at) const {
    if (has_two_levels_) return Isa::load_u8(reinterpret_cast<const uint8_t*>(at));
    return is_wide_ ? Isa::load(reinterpret_cast<const float*>(at))
                    : Isa::load_f16(reinterpret_cast<const f16*>(at));
  }

  const PanelProduct& p_;
  const QuantizedLayout& layout_;
  bool has_minimum_;
  bool is_wide_;
  bool has_two_levels_;
  bool is_per_channel_;
};

/// Dequantizes inputs [begin, begin + depth) of a panel into `out` [depth rounded up to whole words][16].
template <typename Format, int kBits>
void dequantize_slice(const QuantizedPanels<Format, kBits>& panels, int64_t panel, int64_t begin,
                      int64_t depth, typename Format::TileElement* out) {
  constexpr int64_t kPerWord = 32 / kBits;
  const int64_t length = panels.run_length();
  const uint32_t* words = panels.words(panel, begin);
  for (int64_t first = 0; first < depth; first += length) {
    const int64_t end = std::min(first + length, depth);
    for (int64_t lane = 0; lane < kPanelWidth; lane += Format::Vectors::kLanes) {
      const auto scales = panels.scales(panel, begin + first, lane);
      for (int64_t k = first; k < end; k += kPerWord) {
        const auto word = Format::load_words(words + k / kPerWord * kPanelWidth + lane);
        for_each_input_of_word<kBits, Format>([&](auto index) {
          constexpr int kIndex = decltype(index)::value;
          Format::store(out + (k + kIndex) * kPanelWidth + lane * Format::kInputs,
                        Format::template weights<kBits, kIndex>(word, scales));
        });
      }
    }
  }
}

template <typename Format, int kBits>
struct QuantizedKernel : Format {
  static constexpr int64_t kBytesPerInput = kPanelWidth * kBits / 8;

  static const uint32_t* place(const PanelProduct& p, int64_t panel, int64_t k) {
    const QuantizedLayout layout(p.quantization, p.depth);
    return QuantizedPanels<Format, kBits>(p, layout).words(panel, k);
  }
  static const typename Format::TileElement* slice(const PanelProduct& p, int64_t panel, int64_t k,
                                                   int64_t depth, typename Format::TileElement* space) {
    const QuantizedLayout layout(p.quantization, p.depth);
    dequantize_slice(QuantizedPanels<Format, kBits>(p, layout), panel, k, depth, space);
    return space;
  }
  static void finish(const PanelProduct& p, int64_t panel, int64_t count, int64_t first_row,
                     int64_t end_row) {
    scale_sums<typename Format::Vectors>(p, panel, count, first_row, end_row);
  }
};

/// Multiplies kRows rows by kPanels panels over all of K, without storing dequantized weights.
template <typename Format, int kBits, int kRows, int kPanels>
void multiply_few(const PanelProduct& p, const QuantizedPanels<Format, kBits>& panels, int64_t first_panel) {
  using Isa = typename Format::Vectors;
  constexpr int kVectors = kPanelWidth / Isa::kLanes;
  constexpr int64_t kPerWord = 32 / kBits;
  constexpr int64_t kBytesAhead = 1024;
  const auto* a = static_cast<const typename Format::RowElement*>(p.a);
  float* out = p.out + first_panel * kPanelWidth;
  typename Isa::Vec sums[kRows][kPanels * kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kPanels * kVectors; ++v) {
      sums[r][v] = p.accumulate ? Isa::load(out + r * p.out_stride + v * Isa::kLanes) : Isa::zero();
    }
  }
  const uint32_t* words[kPanels];
  for (int i = 0; i < kPanels; ++i) words[i] = panels.words(first_panel + i, 0);
  const auto multiply = [&](int64_t k, int v, const auto& word, const auto& scales, auto index) {
    constexpr int kIndex = decltype(index)::value;
    const auto weights = Format::template weights<kBits, kIndex>(word, scales);
    for (int r = 0; r < kRows; ++r) {
      sums[r][v] =
          Format::multiply_add(Format::broadcast(a + r * p.a_strides.row + k + kIndex), weights, sums[r][v]);
    }
  };
  for (int64_t run = 0; run < p.depth; run += panels.run_length()) {
    typename Format::Scales scales[kPanels * kVectors];
    for (int v = 0; v < kPanels * kVectors; ++v) {
      scales[v] = panels.scales(first_panel + v / kVectors, run, v % kVectors * Isa::kLanes);
    }
    const auto word = [&](int64_t k, int v) {
      return Format::load_words(words[v / kVectors] + k / kPerWord * kPanelWidth +
                                v % kVectors * Isa::kLanes);
    };
    const int64_t end = std::min(run + panels.run_length(), p.depth);
    int64_t k = run;
    for (; k + kPerWord <= end; k += kPerWord) {
      for (int i = 0; i < kPanels; ++i) {
        __builtin_prefetch(reinterpret_cast<const std::byte*>(words[i] + k / kPerWord * kPanelWidth) +
                           kBytesAhead);
      }
      for (int v = 0; v < kPanels * kVectors; ++v) {
        const auto codes = word(k, v);
        for_each_input_of_word<kBits, Format>([&](auto index) { multiply(k, v, codes, scales[v], index); });
      }
    }
    for (int v = 0; k < end && v < kPanels * kVectors; ++v) {
      const auto codes = word(k, v);
      for_each_input_of_word<kBits, Format>([&](auto index) {
        if (k + decltype(index)::value < end) multiply(k, v, codes, scales[v], index);
      });
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kPanels * kVectors; ++v) {
      Isa::store(out + r * p.out_stride + v * Isa::kLanes, sums[r][v]);
    }
  }
  scale_sums<Isa>(p, first_panel, kPanels, 0, kRows);
}

template <typename Format, int kBits, int kRows>
void multiply_few_rows(const PanelProduct& p) {
  // Enough independent accumulators to hide the latency of FMAs, within the number of registers.
  constexpr int kVectors = kPanelWidth / Format::Vectors::kLanes;
  constexpr int kPanels = std::max(1, 4 / kVectors);
  const QuantizedLayout layout(p.quantization, p.depth);
  const QuantizedPanels<Format, kBits> panels(p, layout);
  int64_t panel = 0;
  for (; panel + kPanels <= p.num_panels; panel += kPanels)
    multiply_few<Format, kBits, kRows, kPanels>(p, panels, panel);
  for (; panel < p.num_panels; ++panel) multiply_few<Format, kBits, kRows, 1>(p, panels, panel);
}

template <typename Format, int kBits>
void quantized_product_of(const PanelProduct& p) {
  if (p.depth > 0) {
    if (p.num_rows == 1) return multiply_few_rows<Format, kBits, 1>(p);
    if (p.num_rows == 2) return multiply_few_rows<Format, kBits, 2>(p);
  }
  panel_product<QuantizedKernel<Format, kBits>>(p);
}

template <typename Format>
void quantized_product(const PanelProduct& p) {
  p.quantization.bits == 4 ? quantized_product_of<Format, 4>(p) : quantized_product_of<Format, 8>(p);
}

}  // namespace lacuna::generic
