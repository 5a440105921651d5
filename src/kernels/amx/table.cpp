// AMX multiplies tiles of 16 rows by 16 outputs over 32 bf16 inputs. A panel's 32 inputs are 16 rows of 64
// bytes, which is a tile as it lies; so are 16 packed rows.
#include <immintrin.h>

#include <algorithm>

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

/// All panels over rows [row, row + upper + lower), whose tile shapes are configured.
template <bool kTwoRowTiles>
void multiply_rows(const PanelProduct& p, int64_t row, int64_t k, int64_t panel) {
  const auto* b = static_cast<const bf16*>(p.panels) + panel * p.panel_stride + k * kPanelWidth;
  Block block;
  block.a = static_cast<const bf16*>(p.a) + row * p.a_stride + k;
  block.a_bytes = p.a_stride * static_cast<int64_t>(sizeof(bf16));
  block.b = b;
  block.out = p.out + row * p.out_stride + panel * kPanelWidth;
  block.out_bytes = p.out_stride * static_cast<int64_t>(sizeof(float));
  block.depth = std::min(kDepthBlock, p.depth - k);
  block.accumulate = p.accumulate || k > 0;
  if (panel + 1 < p.num_panels) {
    block.next_b = b + p.panel_stride;
    multiply_block<kTwoRowTiles, true>(block);
  } else {
    block.next_b = nullptr;
    multiply_block<kTwoRowTiles, false>(block);
  }
}

void multiply_row_block(const PanelProduct& p) {
  const int64_t full_rows = p.num_rows / (2 * kTileRows) * (2 * kTileRows);
  const auto rest = static_cast<int>(p.num_rows - full_rows);
  for (int64_t k = 0; k < p.depth; k += kDepthBlock) {
    if (full_rows > 0) {
      configure(kTileRows, kTileRows);
      for (int64_t panel = 0; panel < p.num_panels; panel += 2) {
        for (int64_t row = 0; row < full_rows; row += 2 * kTileRows) multiply_rows<true>(p, row, k, panel);
      }
    }
    if (rest > 0) {
      configure(std::min(rest, kTileRows), rest - kTileRows);
      for (int64_t panel = 0; panel < p.num_panels; panel += 2) {
        if (rest > kTileRows) {
          multiply_rows<true>(p, full_rows, k, panel);
        } else {
          multiply_rows<false>(p, full_rows, k, panel);
        }
      }
    }
  }
}

void panel_product_bf16(const PanelProduct& p) {
  for (int64_t row = 0; row < p.num_rows; row += kRowBlock) {
    PanelProduct block = p;
    block.a = static_cast<const bf16*>(p.a) + row * p.a_stride;
    block.out = p.out + row * p.out_stride;
    block.num_rows = std::min(kRowBlock, p.num_rows - row);
    multiply_row_block(block);
  }
  _tile_release();
}

}  // namespace

const KernelTable& amx_table() {
  static const KernelTable table = [] {
    KernelTable wider = avx512_table();  // AMX machines run AVX-512 for everything else
    wider.name = "amx";
    wider.panel_product_bf16 = panel_product_bf16;
    return wider;
  }();
  return table;
}

}  // namespace lacuna
