// Products with quantised weights. Many rows: a slice of a panel is widened once and then multiplied like any
// other. Few rows: weights are widened in registers and used at once, so that the pass over memory is all
// that is left to wait for. A weight is the same number either way.
#pragma once

#include "kernels/generic/product.h"

namespace lacuna::generic {

inline constexpr int64_t kMostRuns = kDepthBlock / 16;

/// Inputs of a run: a stretch that shares scales and minimums.
inline int64_t run_length(const Quantisation& quantisation) {
  return quantisation.group == 0 ? kQuantisedDepthStep : quantisation.group;
}

/// The scales and minimums of a slice of one panel, in f32.
template <typename Isa>
struct SliceScales {
  alignas(64) float scales[kMostRuns][kPanelWidth];
  alignas(64) float minimums[kMostRuns][kPanelWidth];

  /// Takes those of inputs [begin, begin + depth), depth at most kDepthBlock.
  void widen(const PanelProduct& p, const std::byte* panel, int64_t begin, int64_t depth) {
    const Quantisation& quantisation = p.quantisation;
    const QuantisedLayout layout(quantisation, p.depth);
    const auto centre = Isa::broadcast(static_cast<float>(-(1 << (quantisation.bits - 1))));
    const auto load = [&](int64_t offset) {
      return quantisation.wide_scales ? Isa::load(reinterpret_cast<const float*>(panel + offset))
                                      : Isa::load_f16(reinterpret_cast<const f16*>(panel + offset));
    };
    for (int64_t i = 0; i * run_length(quantisation) < depth; ++i) {
      const int64_t group = quantisation.group == 0 ? 0 : begin / quantisation.group + i;
      for (int64_t lane = 0; lane < kPanelWidth; lane += Isa::kLanes) {
        const auto scale = load(layout.scale(lane, group));
        Isa::store(scales[i] + lane, scale);
        Isa::store(minimums[i] + lane, quantisation.has_minimum ? load(layout.minimum(lane, group))
                                                                : Isa::multiply(centre, scale));
      }
    }
  }
};

/// Weights of one input as floats, from the word of codes that holds it.
template <typename Isa>
struct FloatCodes : FloatStep<Isa> {
  template <int kBits, int kIndex>
  static typename Isa::Vec weights(typename Isa::Words words, typename Isa::Vec scale,
                                   typename Isa::Vec minimum) {
    return Isa::multiply_add(Isa::template code<kBits, kIndex>(words), scale, minimum);
  }
  static void store(float* to, typename Isa::Vec weights) { Isa::store(to, weights); }
};

/// Calls body(std::integral_constant) for the first input of each step that a word of codes holds.
template <int kBits, typename Codes, typename Body>
void for_each_step(Body&& body) {
  constexpr int kInputs = static_cast<int>(Codes::kInputs);
  [&]<int... kIndex>(std::integer_sequence<int, kIndex...>) {
    (body(std::integral_constant<int, kIndex * kInputs>()), ...);
  }
  (std::make_integer_sequence<int, 32 / kBits / kInputs>());
}

template <int kBits>
const uint32_t* codes_at(const PanelProduct& p, int64_t panel, int64_t k) {
  const QuantisedLayout layout(p.quantisation, p.depth);
  return reinterpret_cast<const uint32_t*>(static_cast<const std::byte*>(p.panels) + panel * p.panel_stride +
                                           layout.word(0, k));
}

/// Widens inputs [begin, begin + depth) of a panel into `out` [depth rounded up to whole words][16].
template <typename Codes, int kBits>
void widen_slice(const PanelProduct& p, int64_t panel, int64_t begin, int64_t depth,
                 typename Codes::TileElement* out) {
  using Isa = typename Codes::Vectors;
  constexpr int64_t kPerWord = 32 / kBits;
  SliceScales<Isa> slice;
  slice.widen(p, static_cast<const std::byte*>(p.panels) + panel * p.panel_stride, begin, depth);
  const int64_t length = run_length(p.quantisation);
  const uint32_t* words = codes_at<kBits>(p, panel, begin);
  for (int64_t first = 0, run = 0; first < depth; first += length, ++run) {
    const int64_t end = std::min(first + length, depth);
    for (int64_t lane = 0; lane < kPanelWidth; lane += Isa::kLanes) {
      const auto scale = Isa::load(slice.scales[run] + lane);
      const auto minimum = Isa::load(slice.minimums[run] + lane);
      for (int64_t k = first; k < end; k += kPerWord) {
        const auto word = Isa::load_words(words + k / kPerWord * kPanelWidth + lane);
        for_each_step<kBits, Codes>([&](auto index) {
          constexpr int kIndex = decltype(index)::value;
          Codes::store(out + (k + kIndex) * kPanelWidth + lane * Codes::kInputs,
                       Codes::template weights<kBits, kIndex>(word, scale, minimum));
        });
      }
    }
  }
}

template <typename Codes, int kBits>
struct QuantisedStep : Codes {
  static constexpr int64_t kBytesPerInput = kPanelWidth * kBits / 8;

  static const uint32_t* place(const PanelProduct& p, int64_t panel, int64_t k) {
    return codes_at<kBits>(p, panel, k);
  }
  static const typename Codes::TileElement* slice(const PanelProduct& p, int64_t panel, int64_t k,
                                                  int64_t depth, typename Codes::TileElement* space) {
    widen_slice<Codes, kBits>(p, panel, k, depth, space);
    return space;
  }
};

/// kRows rows by kPanels panels of the whole depth. Nothing but sums is kept.
template <typename Codes, int kBits, int kRows, int kPanels>
void multiply_few(const PanelProduct& p, int64_t first_panel) {
  using Isa = typename Codes::Vectors;
  constexpr int kVectors = kPanelWidth / Isa::kLanes;
  constexpr int64_t kPerWord = 32 / kBits;
  const auto* a = static_cast<const typename Codes::RowElement*>(p.a);
  float* out = p.out + first_panel * kPanelWidth;
  typename Isa::Vec sums[kRows][kPanels * kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kPanels * kVectors; ++v) {
      sums[r][v] = p.accumulate ? Isa::load(out + r * p.out_stride + v * Isa::kLanes) : Isa::zero();
    }
  }
  const auto* panels = static_cast<const std::byte*>(p.panels) + first_panel * p.panel_stride;
  const int64_t whole_words = p.depth / kPerWord * kPerWord;
  const int64_t length = run_length(p.quantisation);
  SliceScales<Isa> slices[kPanels];
  const auto multiply = [&](int64_t k, int v, auto word, auto scale, auto minimum, auto index) {
    constexpr int kIndex = decltype(index)::value;
    const auto weights = Codes::template weights<kBits, kIndex>(word, scale, minimum);
    for (int r = 0; r < kRows; ++r) {
      sums[r][v] =
          Codes::multiply_add(Codes::broadcast(a + r * p.a_stride + k + kIndex), weights, sums[r][v]);
    }
  };
  for (int64_t begin = 0; begin < p.depth; begin += kDepthBlock) {
    const int64_t depth = std::min(kDepthBlock, p.depth - begin);
    const uint32_t* words[kPanels];
    for (int i = 0; i < kPanels; ++i) {
      slices[i].widen(p, panels + i * p.panel_stride, begin, depth);
      words[i] = codes_at<kBits>(p, first_panel + i, begin);
    }
    const auto each_vector = [&](int64_t k, auto&& use) {
      const int64_t run = k / length;
      for (int v = 0; v < kPanels * kVectors; ++v) {
        const int panel = v / kVectors;
        const int64_t lane = v % kVectors * Isa::kLanes;
        use(v, Isa::load_words(words[panel] + k / kPerWord * kPanelWidth + lane),
            Isa::load(slices[panel].scales[run] + lane), Isa::load(slices[panel].minimums[run] + lane));
      }
    };
    int64_t k = 0;
    for (; begin + k < whole_words && k < depth; k += kPerWord) {
      for (int i = 0; i < kPanels; ++i) {
        __builtin_prefetch(reinterpret_cast<const std::byte*>(words[i]) + k * kPanelWidth * kBits / 8 + 1024);
      }
      each_vector(k, [&](int v, auto word, auto scale, auto minimum) {
        for_each_step<kBits, Codes>([&](auto index) { multiply(begin + k, v, word, scale, minimum, index); });
      });
    }
    if (k >= depth) continue;
    each_vector(k, [&](int v, auto word, auto scale, auto minimum) {
      for_each_step<kBits, Codes>([&](auto index) {
        if (k + decltype(index)::value < depth) multiply(begin + k, v, word, scale, minimum, index);
      });
    });
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kPanels * kVectors; ++v) {
      Isa::store(out + r * p.out_stride + v * Isa::kLanes, sums[r][v]);
    }
  }
}

template <typename Codes, int kBits, int kRows>
void multiply_few_rows(const PanelProduct& p) {
  // Enough sums that none waits for itself, and no more than registers hold.
  constexpr int kVectors = kPanelWidth / Codes::Vectors::kLanes;
  constexpr int kPanels = std::max(1, 4 / kVectors);
  int64_t panel = 0;
  for (; panel + kPanels <= p.num_panels; panel += kPanels)
    multiply_few<Codes, kBits, kRows, kPanels>(p, panel);
  for (; panel < p.num_panels; ++panel) multiply_few<Codes, kBits, kRows, 1>(p, panel);
}

template <typename Codes, int kBits>
void quantised_product_of(const PanelProduct& p) {
  if (p.depth > 0) {
    if (p.num_rows == 1) return multiply_few_rows<Codes, kBits, 1>(p);
    if (p.num_rows == 2) return multiply_few_rows<Codes, kBits, 2>(p);
  }
  panel_product<QuantisedStep<Codes, kBits>>(p);
}

template <typename Codes>
void quantised_product(const PanelProduct& p) {
  p.quantisation.bits == 4 ? quantised_product_of<Codes, 4>(p) : quantised_product_of<Codes, 8>(p);
}

}  // namespace lacuna::generic
