// The matrix product, once, for every instruction set with vectors. A Step says what one input, or a pair of
// inputs, of rows and panels is and how they are multiplied. `Isa` supplies the vectors (see
// scalar/table.cpp for the list).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "kernels/panels.h"
#include "kernels/table.h"

namespace lacuna::generic {

// A slice of one panel (kDepthBlock inputs of 16 outputs, 16 KiB in f32) stays in the first-level cache while
// kRowBlock rows pass over it; those rows' slice stays in the second-level cache for all panels. None of it
// touches the bits: a sum that is put aside and taken up again is the same chain of additions.
inline constexpr int64_t kDepthBlock = 256;
inline constexpr int64_t kRowBlock = 96;

/// Multiplies rows of floats with weights of floats, one input at a time.
template <typename Isa>
struct FloatStep {
  using Vectors = Isa;
  using Vec = typename Isa::Vec;
  using Weights = typename Isa::Vec;
  using RowElement = float;
  using TileElement = float;
  static constexpr int64_t kInputs = 1;

  static Vec broadcast(const float* a) { return Isa::broadcast(*a); }
  static Weights load(const float* b) { return Isa::load(b); }
  static Vec multiply_add(Vec x, Weights weights, Vec sum) { return Isa::multiply_add(x, weights, sum); }
};

/// Where panels of `Element` lie.
template <typename Element>
struct DensePanels {
  static constexpr int64_t kBytesPerInput = kPanelWidth * static_cast<int64_t>(sizeof(Element));

  static const Element* place(const PanelProduct& p, int64_t panel, int64_t k) {
    return static_cast<const Element*>(p.panels) + panel * p.panel_stride + k * kPanelWidth;
  }
};

/// Panels of floats, multiplied as they lie.
template <typename Isa>
struct F32Step : FloatStep<Isa>, DensePanels<float> {
  /// A slice of a panel as a tile wants it: in place, or laid out in `space`.
  static const float* slice(const PanelProduct& p, int64_t panel, int64_t k, int64_t /*depth*/,
                            float* /*space*/) {
    return F32Step::place(p, panel, k);
  }
};

/// Multiplies rows of floats (that hold bf16 values) with bf16 panels: each slice of a panel is widened once,
/// then all rows pass over it. A bf16 is the upper half of a float, so a shift and a mask split a pair.
template <typename Isa>
struct WidenedBf16Step : FloatStep<Isa>, DensePanels<bf16> {
  static const float* slice(const PanelProduct& p, int64_t panel, int64_t begin, int64_t depth,
                            float* space) {
    const bf16* from = WidenedBf16Step::place(p, panel, begin);
    for (int64_t k = 0; k < depth; k += 2) {
      for (int64_t lane = 0; lane < kPanelWidth; lane += Isa::kLanes) {
        typename Isa::Vec even;
        typename Isa::Vec odd;
        Isa::load_bf16_pairs(from + k * kPanelWidth + 2 * lane, even, odd);
        Isa::store(space + k * kPanelWidth + lane, even);
        Isa::store(space + (k + 1) * kPanelWidth + lane, odd);
      }
    }
    return space;
  }
};

/// kRows rows by one slice of a panel, sums held in registers. `next` is what is multiplied after it.
template <typename Step, int kRows>
void product_tile(const typename Step::RowElement* a, int64_t a_stride, const typename Step::TileElement* b,
                  int64_t depth, float* out, int64_t out_stride, bool accumulate, const std::byte* next) {
  using Isa = typename Step::Vectors;
  constexpr int kVectors = kPanelWidth / Isa::kLanes;
  typename Isa::Vec sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      sums[r][v] = accumulate ? Isa::load(out + r * out_stride + v * Isa::kLanes) : Isa::zero();
    }
  }
  for (int64_t k = 0; k < depth; k += Step::kInputs) {
    __builtin_prefetch(next + k * Step::kBytesPerInput, 0, 2);
    typename Step::Weights weights[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      weights[v] = Step::load(b + k * kPanelWidth + v * Isa::kLanes * Step::kInputs);
    }
    for (int r = 0; r < kRows; ++r) {
      const auto x = Step::broadcast(a + r * a_stride + k);
      for (int v = 0; v < kVectors; ++v) sums[r][v] = Step::multiply_add(x, weights[v], sums[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) Isa::store(out + r * out_stride + v * Isa::kLanes, sums[r][v]);
  }
}

/// product_tile for 1, 2, ..., Isa::kTileRows rows, at index rows - 1.
template <typename Step, int... kIndex>
constexpr auto product_tiles(std::integer_sequence<int, kIndex...>) {
  return std::array{product_tile<Step, kIndex + 1>...};
}

template <typename Step>
void panel_product(const PanelProduct& p) {
  using Isa = typename Step::Vectors;
  static constexpr auto kTiles = product_tiles<Step>(std::make_integer_sequence<int, Isa::kTileRows>());
  const auto* a = static_cast<const typename Step::RowElement*>(p.a);
  alignas(64) typename Step::TileElement space[kDepthBlock * kPanelWidth];
  // Few rows take several slices of a panel in a row, so that weights are read in long runs.
  const int64_t pass_depth = kDepthBlock * std::max<int64_t>(1, kRowBlock / std::max<int64_t>(1, p.num_rows));
  for (int64_t pass = 0; pass < p.depth; pass += pass_depth) {
    const int64_t pass_end = std::min(pass + pass_depth, p.depth);
    for (int64_t block = 0; block < p.num_rows; block += kRowBlock) {
      const int64_t block_end = std::min(block + kRowBlock, p.num_rows);
      for (int64_t panel = 0; panel < p.num_panels; ++panel) {
        for (int64_t k = pass; k < pass_end; k += kDepthBlock) {
          const int64_t depth = std::min(kDepthBlock, pass_end - k);
          const auto* next = k + depth < pass_end       ? Step::place(p, panel, k + depth)
                             : panel + 1 < p.num_panels ? Step::place(p, panel + 1, pass)
                                                        : Step::place(p, panel, k);
          const auto* b = Step::slice(p, panel, k, depth, space);
          // Tiles of nearly equal height: 8 rows are 4 + 4, since a tile of 2 would wait for its own sums.
          for (int64_t row = block, rows = 0; row < block_end; row += rows) {
            const int64_t rows_left = block_end - row;
            const int64_t tiles_left = (rows_left + Isa::kTileRows - 1) / Isa::kTileRows;
            rows = (rows_left + tiles_left - 1) / tiles_left;
            kTiles[static_cast<size_t>(rows - 1)](a + row * p.a_stride + k, p.a_stride, b, depth,
                                                  p.out + row * p.out_stride + panel * kPanelWidth,
                                                  p.out_stride, p.accumulate || k > 0,
                                                  reinterpret_cast<const std::byte*>(next));
          }
        }
      }
    }
  }
}

}  // namespace lacuna::generic
