// AMX multiplies tiles of 16 rows by 16 outputs over 32 bf16 inputs. A panel's 32 inputs are 16 rows of 64
// bytes, which is a tile as it lies; so are 16 packed rows.
#include <immintrin.h>

#include <algorithm>

#include "kernels/avx512/widen.h"
#include "kernels/panels.h"
#include "kernels/tables.h"

namespace lacuna {
namespace {

constexpr int kTileRows = 16;
constexpr int64_t kTileInputs = kBf16DepthStep;
constexpr int64_t kPanelRowBytes = 2 * kPanelWidth * static_cast<int64_t>(sizeof(bf16));

// 512 inputs of two panels are 32 KiB: they stay in the first-level cache while all rows pass over them.
constexpr int64_t kDepthBlock = 512;
// Those rows' 512 inputs, 512 KiB, stay in the second-level cache for all panels.
constexpr int64_t kRowBlock = 512;

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

/// Tiles 0-3 hold sums (two row tiles by two panels), 4-5 packed rows, 6-7 panels.
void configure(int upper_rows, int lower_rows) {
  TileConfig config;
  const auto set = [&](int tile, int rows) {
    config.rows[tile] = static_cast<uint8_t>(rows);
    config.row_bytes[tile] = 64;
  };
  set(0, upper_rows);
  set(1, upper_rows);
  set(2, std::max(lower_rows, 1));  // unused when there is no lower half, but a tile has at least one row
  set(3, std::max(lower_rows, 1));
  set(4, upper_rows);
  set(5, std::max(lower_rows, 1));
  set(6, kTileRows);
  set(7, kTileRows);
  // Not _tile_loadconfig: g++ 12 declares that it reads 8 bytes, so the stores to the others are left out.
  // Nor does it know what tile loads read; "memory" makes it finish all stores before this point.
  asm volatile("ldtilecfg %0" : : "m"(config) : "memory");
}

struct Block {
  const bf16* a;
  int64_t a_bytes;  // from one packed row to the next
  const bf16* b;
  const bf16* next_b;  // the panel beside it, or null
  float* out;
  int64_t out_bytes;
  int64_t depth;
  bool accumulate;
};

/// Up to 32 rows by up to 2 panels. Every sum runs over the inputs in the same order, whichever tile holds
/// it.
template <bool kTwoRowTiles, bool kTwoPanels>
void multiply_block(const Block& block) {
  float* lower_out = block.out + kTileRows * (block.out_bytes / static_cast<int64_t>(sizeof(float)));
  const auto load_or_zero = [&] {
    if (block.accumulate) {
      _tile_loadd(0, block.out, block.out_bytes);
      if constexpr (kTwoPanels) _tile_loadd(1, block.out + kPanelWidth, block.out_bytes);
      if constexpr (kTwoRowTiles) _tile_loadd(2, lower_out, block.out_bytes);
      if constexpr (kTwoRowTiles && kTwoPanels) _tile_loadd(3, lower_out + kPanelWidth, block.out_bytes);
    } else {
      _tile_zero(0);
      if constexpr (kTwoPanels) _tile_zero(1);
      if constexpr (kTwoRowTiles) _tile_zero(2);
      if constexpr (kTwoRowTiles && kTwoPanels) _tile_zero(3);
    }
  };
  load_or_zero();
  const bf16* lower_a = block.a + kTileRows * (block.a_bytes / static_cast<int64_t>(sizeof(bf16)));
  for (int64_t k = 0; k < block.depth; k += kTileInputs) {
    _tile_loadd(6, block.b + k * kPanelWidth, kPanelRowBytes);
    _tile_loadd(4, block.a + k, block.a_bytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kTwoPanels) {
      _tile_loadd(7, block.next_b + k * kPanelWidth, kPanelRowBytes);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kTwoRowTiles) {
      _tile_loadd(5, lower_a + k, block.a_bytes);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (kTwoPanels) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, block.out, block.out_bytes);
  if constexpr (kTwoPanels) _tile_stored(1, block.out + kPanelWidth, block.out_bytes);
  if constexpr (kTwoRowTiles) _tile_stored(2, lower_out, block.out_bytes);
  if constexpr (kTwoRowTiles && kTwoPanels) _tile_stored(3, lower_out + kPanelWidth, block.out_bytes);
}

/// Inputs [k, k + kDepthBlock) of one panel, or of two neighbours.
struct PanelSlices {
  int64_t panel;
  int64_t k;
  const bf16* b;
  const bf16* next_b;  // null where there is one
};

/// A panel or two over rows [row, row + upper + lower), whose tile shapes are configured.
template <bool kTwoRowTiles>
void multiply_rows(const PanelProduct& p, int64_t row, const PanelSlices& slices) {
  Block block;
  block.a = static_cast<const bf16*>(p.a) + row * p.a_stride + slices.k;
  block.a_bytes = p.a_stride * static_cast<int64_t>(sizeof(bf16));
  block.b = slices.b;
  block.next_b = slices.next_b;
  block.out = p.out + row * p.out_stride + slices.panel * kPanelWidth;
  block.out_bytes = p.out_stride * static_cast<int64_t>(sizeof(float));
  block.depth = std::min(kDepthBlock, p.depth - slices.k);
  block.accumulate = p.accumulate || slices.k > 0;
  if (slices.next_b != nullptr) {
    multiply_block<kTwoRowTiles, true>(block);
  } else {
    multiply_block<kTwoRowTiles, false>(block);
  }
}

/// Rows of a call: first those that fill pairs of row tiles, then the rest.
struct RowSplit {
  int64_t full;
  int rest;

  explicit RowSplit(int64_t rows)
      : full(rows / (2 * kTileRows) * (2 * kTileRows)), rest(static_cast<int>(rows - full)) {}
  void configure_full() const { configure(kTileRows, kTileRows); }
  void configure_rest() const { configure(std::min(rest, kTileRows), rest - kTileRows); }
};

void multiply_full(const PanelProduct& p, const RowSplit& rows, const PanelSlices& slices) {
  for (int64_t row = 0; row < rows.full; row += 2 * kTileRows) multiply_rows<true>(p, row, slices);
}

void multiply_rest(const PanelProduct& p, const RowSplit& rows, const PanelSlices& slices) {
  if (rows.rest > kTileRows) {
    multiply_rows<true>(p, rows.full, slices);
  } else {
    multiply_rows<false>(p, rows.full, slices);
  }
}

PanelSlices bf16_slices(const PanelProduct& p, int64_t panel, int64_t k) {
  const auto* b = static_cast<const bf16*>(p.panels) + panel * p.panel_stride + k * kPanelWidth;
  return {panel, k, b, panel + 1 < p.num_panels ? b + p.panel_stride : nullptr};
}

void multiply_row_block(const PanelProduct& p) {
  const RowSplit rows(p.num_rows);
  for (int64_t k = 0; k < p.depth; k += kDepthBlock) {
    if (rows.full > 0) {
      rows.configure_full();
      for (int64_t panel = 0; panel < p.num_panels; panel += 2)
        multiply_full(p, rows, bf16_slices(p, panel, k));
    }
    if (rows.rest > 0) {
      rows.configure_rest();
      for (int64_t panel = 0; panel < p.num_panels; panel += 2)
        multiply_rest(p, rows, bf16_slices(p, panel, k));
    }
  }
}

/// The same sums, but each pair of panels is widened once for all rows: that costs more than to configure
/// the tiles once more.
void multiply_quantised_row_block(const PanelProduct& p) {
  constexpr int64_t kWidenedDepth = 256;
  static_assert(kDepthBlock % kWidenedDepth == 0);
  alignas(64) bf16 space[2][kDepthBlock * kPanelWidth];
  const RowSplit rows(p.num_rows);
  if (rows.full > 0) rows.configure_full();
  if (rows.full == 0) rows.configure_rest();
  for (int64_t k = 0; k < p.depth; k += kDepthBlock) {
    const int64_t end = std::min(k + kDepthBlock, p.depth);
    for (int64_t panel = 0; panel < p.num_panels; panel += 2) {
      const int64_t count = std::min<int64_t>(2, p.num_panels - panel);
      for (int64_t i = 0; i < count; ++i) {
        for (int64_t begin = k; begin < end; begin += kWidenedDepth) {
          widen_to_bf16(p, panel + i, begin, std::min(kWidenedDepth, end - begin),
                        space[i] + (begin - k) * kPanelWidth);
        }
      }
      const PanelSlices slices{panel, k, space[0], count > 1 ? space[1] : nullptr};
      const bool both = rows.full > 0 && rows.rest > 0;
      multiply_full(p, rows, slices);
      if (both) rows.configure_rest();
      if (rows.rest > 0) multiply_rest(p, rows, slices);
      if (both) rows.configure_full();
    }
  }
}

template <void (*multiply_block_of_rows)(const PanelProduct&)>
void in_row_blocks(const PanelProduct& p) {
  for (int64_t row = 0; row < p.num_rows; row += kRowBlock) {
    PanelProduct block = p;
    block.a = static_cast<const bf16*>(p.a) + row * p.a_stride;
    block.out = p.out + row * p.out_stride;
    block.num_rows = std::min(kRowBlock, p.num_rows - row);
    multiply_block_of_rows(block);
  }
  _tile_release();
}

}  // namespace

const KernelTable& amx_table() {
  static const KernelTable table = [] {
    KernelTable wider = avx512_table();  // AMX machines run AVX-512 for everything else
    wider.name = "amx";
    wider.panel_product_bf16 = in_row_blocks<multiply_row_block>;
    wider.panel_product_bf16_quantised = in_row_blocks<multiply_quantised_row_block>;
    return wider;
  }();
  return table;
}

}  // namespace lacuna
