// Generic GEMM for all vector instruction sets. `Kernel` supplies element types, loads and multiply-add for
// one input or a pair of inputs, or its own tile function. `Isa` supplies the vector operations listed in
// scalar/table.cpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "kernels/panels.h"
#include "kernels/table.h"

namespace lacuna::generic {

// Rows per block: their K slice stays in L2 for all panels.
inline constexpr int64_t kRowBlock = 224;

/// A GEMM of one or two rows is memory-bound. It reads Kernel::kPanelsOfFewRows panels together and
/// prefetches each of them Kernel::kBytesAhead ahead, or the next slice if kBytesAhead is 0.
inline constexpr int64_t kFewRows = 2;

/// Maximum number of panels per tile.
template <typename Kernel>
inline constexpr int kMaxPanels = std::max<int>(Kernel::Vectors::kTilePanels, Kernel::kPanelsOfFewRows);

/// One K slice of adjacent panels.
template <typename Kernel>
struct Slices {
  int64_t panel;  ///< the first panel
  int64_t k;
  int64_t depth;
  const typename Kernel::TileElement* begin[kMaxPanels<Kernel>];
  const std::byte* next[kMaxPanels<Kernel>];                ///< prefetched while `begin` is multiplied
  typename Kernel::TileElement* space[kMaxPanels<Kernel>];  ///< for Kernel::slice(), or for its first tile
};

/// The slices that a first tile has unpacked to `space`. Its prefetch of the next ones is enough.
template <typename Bytes, typename Kernel>
Slices<Bytes> unpacked(const Slices<Kernel>& slices) {
  Slices<Bytes> found{slices.panel, slices.k, slices.depth, {}, {}, {}};
  for (int i = 0; i < std::min(kMaxPanels<Bytes>, kMaxPanels<Kernel>); ++i) {
    found.begin[i] = slices.space[i];
    found.next[i] = reinterpret_cast<const std::byte*>(slices.space[i]);
  }
  return found;
}

/// Constants of kernels that accumulate in f32.
template <typename Isa>
struct F32Accumulation {
  using Vectors = Isa;
  using Vec = typename Isa::Vec;
  static constexpr int kTileRows = Isa::kTileRows;
  // While a block of rows is multiplied, the slice of a panel (kDepthBlock inputs of 16 outputs, 24 KiB in
  // f32) stays in L1, or streams from L2 if a tile has two panels. Shorter slices would spill accumulators
  // more often, which costs more. Spilling and reloading an accumulator does not change its bits.
  static constexpr int64_t kDepthBlock = 384;
  static constexpr int kPanelsOfFewRows = Isa::kPanelsOfFewRows;
  static constexpr int64_t kBytesAhead = Isa::kBytesAhead;
};

/// Multiplies f32 rows with f32 weights, one input at a time.
template <typename Isa>
struct FloatKernel : F32Accumulation<Isa> {
  using Vec = typename Isa::Vec;
  using Weights = typename Isa::Vec;
  using RowElement = float;
  using TileElement = float;
  static constexpr int64_t kInputs = 1;
  static constexpr int kParts = 1;

  /// One input of a row: broadcast to all lanes, or a scalar if instructions multiply a vector by a scalar.
  static auto broadcast(const float* a) {
    if constexpr (requires { typename Isa::Input; }) {
      return typename Isa::Input{*a};
    } else {
      return Isa::broadcast(*a);
    }
  }
  static Weights load(const float* b, int /*part*/) { return Isa::load(b); }
  static Vec multiply_add(auto x, Weights weights, Vec sum) { return Isa::multiply_add(x, weights, sum); }
};

/// Dense panels of `Element`.
template <typename Element>
struct DensePanels {
  static constexpr int64_t kBytesPerInput = kPanelWidth * static_cast<int64_t>(sizeof(Element));

  static const Element* place(const PanelProduct& p, int64_t panel, int64_t k) {
    return static_cast<const Element*>(p.panels) + panel * p.panel_stride + k * kPanelWidth;
  }
  /// Called when the accumulators of rows [first_row, end_row) by `count` panels are complete.
  static void finish(const PanelProduct& /*p*/, int64_t /*panel*/, int64_t /*count*/, int64_t /*first_row*/,
                     int64_t /*end_row*/) {}
};

/// Dense panels, multiplied as stored by `Multiply`.
template <typename Multiply, typename Element>
struct DenseKernel : Multiply, DensePanels<Element> {
  /// Returns a slice of a panel as a tile reads it: in place, or unpacked into `space`.
  static const Element* slice(const PanelProduct& p, int64_t panel, int64_t k, int64_t /*depth*/,
                              Element* /*space*/) {
    return DenseKernel::place(p, panel, k);
  }
};

template <typename Isa>
using F32Kernel = DenseKernel<FloatKernel<Isa>, float>;

/// Multiplies f32 rows with bf16 values by bf16 panels. A bf16 is the upper half of a float, so a shift or a
/// mask extracts it from a pair.
template <typename Isa>
struct Bf16AsF32Kernel : FloatKernel<Isa>, DensePanels<bf16> {
  using TileElement = bf16;
  static constexpr int kTileRows = Isa::kTileRowsOfPairs;
  static constexpr int64_t kDepthBlock = 768;  // the bytes of F32Accumulation::kDepthBlock in f32
  static constexpr int64_t kInputs = 2;
  static constexpr int kParts = 2;

  static const bf16* slice(const PanelProduct& p, int64_t panel, int64_t k, int64_t /*depth*/,
                           bf16* /*space*/) {
    return Bf16AsF32Kernel::place(p, panel, k);
  }
  static typename Isa::Vec load(const bf16* pairs, int part) {
    return part == 0 ? Isa::load_even_bf16(pairs) : Isa::load_odd_bf16(pairs);
  }
};

/// Bf16AsF32Kernel for many rows, bitwise identical: unpacks a slice to f32 once, so that the loop over rows
/// only multiplies.
template <typename Isa>
struct UnpackedBf16Kernel : FloatKernel<Isa>, DensePanels<bf16> {
  static const float* slice(const PanelProduct& p, int64_t panel, int64_t k, int64_t depth, float* space) {
    const bf16* from = UnpackedBf16Kernel::place(p, panel, k);
    for (int64_t i = 0; i < depth * kPanelWidth; i += 2 * kPanelWidth) {
      for (int64_t lane = 0; lane < kPanelWidth; lane += Isa::kLanes) {
        Isa::store(space + i + lane, Isa::load_even_bf16(from + i + 2 * lane));
        Isa::store(space + i + kPanelWidth + lane, Isa::load_odd_bf16(from + i + 2 * lane));
      }
    }
    return space;
  }
};

/// Multiplies kRows rows from `first_row` on by one slice of kPanels panels. The loops over accumulators must
/// be fully unrolled to keep these in registers.
template <typename Kernel, int kPanels, int kRows>
void product_tile(const PanelProduct& p, int64_t first_row, const Slices<Kernel>& slices) {
  using Isa = typename Kernel::Vectors;
  constexpr int kPerPanel = kPanelWidth / Isa::kLanes;
  constexpr int kVectors = kPanels * kPerPanel;
  const int64_t a_stride = p.a_strides.row;
  const auto* a = static_cast<const typename Kernel::RowElement*>(p.a) + first_row * a_stride + slices.k;
  const int64_t out_stride = p.out_stride;  // a copy, because vector stores may alias *p
  float* const out = p.out + first_row * out_stride + slices.panel * kPanelWidth;
  const bool accumulate = p.accumulate || slices.k > 0;
  typename Isa::Vec sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      sums[r][v] = accumulate ? Isa::load(out + r * out_stride + v * Isa::kLanes) : Isa::zero();
    }
  }
  // One base address per three rows suffices, because addressing modes add 1 or 2 strides; a base per row
  // would not fit the registers.
  constexpr int kThirdRows = (kRows + 2) / 3;
  std::array<const typename Kernel::RowElement*, kThirdRows> third_rows;
  for (int i = 0; i < kThirdRows; ++i) third_rows[static_cast<size_t>(i)] = a + 3 * i * a_stride;
  for (int64_t k = 0; k < slices.depth; k += Kernel::kInputs) {
    for (int i = 0; i < kPanels; ++i) {
      __builtin_prefetch(slices.next[i] + k * Kernel::kBytesPerInput, 0, 2);
    }
#pragma GCC unroll 2
    for (int part = 0; part < Kernel::kParts; ++part) {
      typename Kernel::Weights weights[kVectors];
      for (int v = 0; v < kVectors; ++v) {
        weights[v] = Kernel::load(
            slices.begin[v / kPerPanel] + k * kPanelWidth + v % kPerPanel * Isa::kLanes * Kernel::kInputs,
            part);
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const auto x = Kernel::broadcast(third_rows[static_cast<size_t>(r / 3)] + r % 3 * a_stride + part);
        for (int v = 0; v < kVectors; ++v) sums[r][v] = Kernel::multiply_add(x, weights[v], sums[r][v]);
      }
    }
    for (auto& row : third_rows) row += Kernel::kInputs;
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) Isa::store(out + r * out_stride + v * Isa::kLanes, sums[r][v]);
  }
}

template <typename Kernel, int kPanels, int kRows>
constexpr auto tile_of() {
  constexpr bool kFitsRegisters = kPanels <= Kernel::Vectors::kTilePanels || kRows <= kFewRows;
  if constexpr (!kFitsRegisters) {
    return decltype(&product_tile<Kernel, 1, 1>){nullptr};  // never called
  } else if constexpr (requires { Kernel::template tile<kPanels, kRows>; }) {
    return Kernel::template tile<kPanels, kRows>;
  } else {
    return product_tile<Kernel, kPanels, kRows>;
  }
}

/// Tile functions for 1, 2, ..., Kernel::kTileRows rows, at index rows - 1.
template <typename Kernel, int kPanels, int... kIndex>
constexpr auto product_tiles(std::integer_sequence<int, kIndex...>) {
  return std::array{tile_of<Kernel, kPanels, kIndex + 1>()...};
}

/// product_tiles() for 1, 2, ..., kMaxPanels panels, at index panels - 1.
template <typename Kernel, int... kIndex>
constexpr auto product_tiles_by_panels(std::integer_sequence<int, kIndex...>) {
  constexpr std::make_integer_sequence<int, Kernel::kTileRows> kRows;
  using ByRows = decltype(product_tiles<Kernel, 1>(kRows));
  return std::array<ByRows, sizeof...(kIndex)>{product_tiles<Kernel, kIndex + 1>(kRows)...};
}

template <typename Kernel>
void panel_product(const PanelProduct& p) {
  static constexpr auto kTiles =
      product_tiles_by_panels<Kernel>(std::make_integer_sequence<int, kMaxPanels<Kernel>>());
  constexpr int64_t kDepthBlock = Kernel::kDepthBlock;
  alignas(64) typename Kernel::TileElement space[kMaxPanels<Kernel>][kDepthBlock * kPanelWidth];
  // With few rows, several slices of a panel are processed in sequence, to read weights in long runs.
  const bool has_few_rows = p.num_rows <= kFewRows;
  const int64_t tile_panels = has_few_rows ? Kernel::kPanelsOfFewRows : Kernel::Vectors::kTilePanels;
  const int64_t bytes_ahead = has_few_rows ? Kernel::kBytesAhead : 0;
  const int64_t pass_depth = kDepthBlock * std::max<int64_t>(1, kRowBlock / std::max<int64_t>(1, p.num_rows));
  for (int64_t pass = 0; pass < p.depth; pass += pass_depth) {
    const int64_t pass_end = std::min(pass + pass_depth, p.depth);
    for (int64_t block = 0; block < p.num_rows; block += kRowBlock) {
      const int64_t block_end = std::min(block + kRowBlock, p.num_rows);
      for (int64_t panel = 0, panels = 0; panel < p.num_panels; panel += panels) {
        panels = std::min(tile_panels, p.num_panels - panel);
        const auto& tiles = kTiles[static_cast<size_t>(panels - 1)];
        for (int64_t k = pass; k < pass_end; k += kDepthBlock) {
          Slices<Kernel> slices;
          slices.panel = panel;
          slices.k = k;
          slices.depth = std::min(kDepthBlock, pass_end - k);
          const bool is_last = k + slices.depth == pass_end;
          for (int64_t i = 0; i < panels; ++i) {
            slices.space[i] = space[i];
            slices.begin[i] = Kernel::slice(p, panel + i, k, slices.depth, space[i]);
            const int64_t next_panel = std::min(panel + panels + i, p.num_panels - 1);
            const auto* const next = bytes_ahead > 0 ? Kernel::place(p, panel + i, k)
                                     : is_last       ? Kernel::place(p, next_panel, pass)
                                                     : Kernel::place(p, panel + i, k + slices.depth);
            slices.next[i] = reinterpret_cast<const std::byte*>(next) + bytes_ahead;
          }
          // Tiles of nearly equal height: 8 rows are 4 + 4, since a tile of 2 would wait for its own
          // accumulators.
          for (int64_t row = block, rows = 0; row < block_end; row += rows) {
            const int64_t rows_left = block_end - row;
            const int64_t tiles_left = (rows_left + Kernel::kTileRows - 1) / Kernel::kTileRows;
            rows = (rows_left + tiles_left - 1) / tiles_left;
            tiles[static_cast<size_t>(rows - 1)](p, row, slices);
          }
        }
        if (pass_end == p.depth) Kernel::finish(p, panel, panels, block, block_end);
      }
    }
  }
}

}  // namespace lacuna::generic
