// The matrix product, once, for every instruction set with vectors. A Step says how rows meet a panel. `Isa`
// supplies the vectors (see scalar/vec.h for the list).
#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/panels.h"
#include "kernels/table.h"

namespace lacuna::generic {

// A slice of one panel (kDepthBlock inputs of 16 outputs, 16 KiB in f32) stays in the first-level cache while
// kRowBlock rows pass over it; those rows' slice stays in the second-level cache for all panels.
inline constexpr int64_t kDepthBlock = 256;
inline constexpr int64_t kRowBlock = 96;

/// Multiplies f32 rows with f32 panels, one input at a time.
template <typename Isa>
struct F32Step {
  using RowElement = float;
  using PanelElement = float;
  static constexpr int64_t kInputs = 1;

  template <int kRows, int kVectors>
  static void multiply(const float* a, int64_t a_stride, const float* b,
                       typename Isa::Vec (&sums)[kRows][kVectors]) {
    typename Isa::Vec weights[kVectors];
    for (int v = 0; v < kVectors; ++v) weights[v] = Isa::load(b + v * Isa::kLanes);
    for (int r = 0; r < kRows; ++r) {
      const auto x = Isa::broadcast(a[r * a_stride]);
      for (int v = 0; v < kVectors; ++v) sums[r][v] = Isa::multiply_add(x, weights[v], sums[r][v]);
    }
  }
};

/// Multiplies rows of floats (that hold bf16 values) with bf16 panels, two inputs at a time: a bf16 is the
/// upper half of a float, so a shift and a mask widen a pair.
template <typename Isa>
struct Bf16Step {
  using RowElement = float;
  using PanelElement = bf16;
  static constexpr int64_t kInputs = 2;

  template <int kRows, int kVectors>
  static void multiply(const float* a, int64_t a_stride, const bf16* b,
                       typename Isa::Vec (&sums)[kRows][kVectors]) {
    typename Isa::Vec even[kVectors];
    typename Isa::Vec odd[kVectors];
    for (int v = 0; v < kVectors; ++v) Isa::load_bf16_pairs(b + 2 * v * Isa::kLanes, even[v], odd[v]);
    for (int r = 0; r < kRows; ++r) {
      const auto x0 = Isa::broadcast(a[r * a_stride]);
      const auto x1 = Isa::broadcast(a[r * a_stride + 1]);
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = Isa::multiply_add(x0, even[v], sums[r][v]);
        sums[r][v] = Isa::multiply_add(x1, odd[v], sums[r][v]);
      }
    }
  }
};

/// kRows rows by one panel, sums held in registers.
template <typename Isa, typename Step, int kRows>
void product_tile(const typename Step::RowElement* a, int64_t a_stride, const typename Step::PanelElement* b,
                  int64_t depth, float* out, int64_t out_stride, bool accumulate) {
  constexpr int kVectors = kPanelWidth / Isa::kLanes;
  typename Isa::Vec sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      sums[r][v] = accumulate ? Isa::load(out + r * out_stride + v * Isa::kLanes) : Isa::zero();
    }
  }
  for (int64_t k = 0; k < depth; k += Step::kInputs) {
    Step::template multiply<kRows, kVectors>(a + k, a_stride, b + k * kPanelWidth, sums);
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) Isa::store(out + r * out_stride + v * Isa::kLanes, sums[r][v]);
  }
}

/// product_tile for 1, 2, ..., Isa::kTileRows rows, at index rows - 1.
template <typename Isa, typename Step, int... kIndex>
constexpr auto product_tiles(std::integer_sequence<int, kIndex...>) {
  return std::array{product_tile<Isa, Step, kIndex + 1>...};
}

template <typename Isa, typename Step>
void panel_product(const PanelProduct& p) {
  static constexpr auto kTiles = product_tiles<Isa, Step>(std::make_integer_sequence<int, Isa::kTileRows>());
  const auto* a = static_cast<const typename Step::RowElement*>(p.a);
  const auto* panels = static_cast<const typename Step::PanelElement*>(p.panels);
  for (int64_t k = 0; k < p.depth; k += kDepthBlock) {
    const int64_t depth = std::min(kDepthBlock, p.depth - k);
    const bool accumulate = p.accumulate || k > 0;
    for (int64_t block = 0; block < p.num_rows; block += kRowBlock) {
      const int64_t block_end = std::min(block + kRowBlock, p.num_rows);
      for (int64_t panel = 0; panel < p.num_panels; ++panel) {
        const auto* b = panels + panel * p.panel_stride + k * kPanelWidth;
        for (int64_t row = block; row < block_end; row += Isa::kTileRows) {
          const int64_t rows = std::min<int64_t>(Isa::kTileRows, block_end - row);
          kTiles[rows - 1](a + row * p.a_stride + k, p.a_stride, b, depth,
                           p.out + row * p.out_stride + panel * kPanelWidth, p.out_stride, accumulate);
        }
      }
    }
  }
}

}  // namespace lacuna::generic
