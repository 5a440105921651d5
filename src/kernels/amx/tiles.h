// AMX tiles: their shapes, their configuration, and the accumulators that they hold.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#include "kernels/generic/int8_activations.h"
#include "kernels/panels.h"
#include "kernels/table.h"

namespace lacuna::amx {
namespace {  // NOLINT: as in avx512/vectors.h

constexpr int kTileRows = static_cast<int>(kRowTile);
constexpr int64_t kBlockRows = 2 * kTileRows;  // rows of two accumulator tiles
constexpr int64_t kTileRowBytes = 64;
constexpr int64_t kTileBytes = kTileRows * kTileRowBytes;

// Eight K steps of two panels are 16 KiB, which stay in L1 while all rows are multiplied.
constexpr int64_t kSliceKSteps = 8;
// Eight K steps of 512 rows, 256 KiB, stay in L2 for all panels.
constexpr int64_t kRowBlock = 512;

/// bf16 tiles; multiply() adds tile 4 or 5 (rows) times tile 6 or 7 (panels) to accumulator kAccumulator.
struct Bf16Tiles {
  static constexpr int64_t kKStep = 32;

  template <int kAccumulator>
  static void multiply() {
    if constexpr (kAccumulator == 0) _tile_dpbf16ps(0, 4, 6);
    if constexpr (kAccumulator == 1) _tile_dpbf16ps(1, 4, 7);
    if constexpr (kAccumulator == 2) _tile_dpbf16ps(2, 5, 6);
    if constexpr (kAccumulator == 3) _tile_dpbf16ps(3, 5, 7);
  }
};

/// int8 tiles: signed rows, unsigned weights.
struct Int8Tiles {
  static constexpr int64_t kKStep = 64;
  static constexpr int64_t kRunKSteps = generic::kInt8Group / kKStep;
  static_assert(kSliceKSteps % kRunKSteps == 0);  // a slice begins where a row scale begins

  template <int kAccumulator>
  static void multiply() {
    if constexpr (kAccumulator == 0) _tile_dpbsud(0, 4, 6);
    if constexpr (kAccumulator == 1) _tile_dpbsud(1, 4, 7);
    if constexpr (kAccumulator == 2) _tile_dpbsud(2, 5, 6);
    if constexpr (kAccumulator == 3) _tile_dpbsud(3, 5, 7);
  }
};

template <typename Tiles>
int64_t num_k_steps(const PanelProduct& p) {
  return (p.depth + Tiles::kKStep - 1) / Tiles::kKStep;
}

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

/// Tiles 0-3 are accumulators (two row tiles by two panels), 4-5 packed rows, 6-7 panels.
void configure(int upper_rows, int lower_rows) {
  TileConfig config;
  const auto set = [&](int tile, int rows) {
    config.rows[tile] = static_cast<uint8_t>(rows);
    config.row_bytes[tile] = kTileRowBytes;
  };
  set(0, upper_rows);
  set(1, upper_rows);
  set(2, std::max(lower_rows, 1));  // unused when there is no lower half, but a tile has at least one row
  set(3, std::max(lower_rows, 1));
  set(4, upper_rows);
  set(5, std::max(lower_rows, 1));
  set(6, kTileRows);
  set(7, kTileRows);
  // Not _tile_loadconfig: g++ 12 declares that it reads only 8 bytes, and removes the other stores to
  // `config`. "memory" also completes earlier stores that tile loads read, which g++ 12 does not know;
  // PanelDequantizer does the same for later stores.
  asm volatile("ldtilecfg %0" : : "m"(config) : "memory");
}

/// Accumulator tile of a block: 0 and 1 are its upper rows by either panel, 2 and 3 its lower rows.
template <int kIndex>
struct AccumulatorTile {
  static_assert(0 <= kIndex && kIndex < 4);

  static void clear() {
    if constexpr (kIndex == 0) _tile_zero(0);
    if constexpr (kIndex == 1) _tile_zero(1);
    if constexpr (kIndex == 2) _tile_zero(2);
    if constexpr (kIndex == 3) _tile_zero(3);
  }
  static void load(const float* from, int64_t row_bytes) {
    if constexpr (kIndex == 0) _tile_loadd(0, from, row_bytes);
    if constexpr (kIndex == 1) _tile_loadd(1, from, row_bytes);
    if constexpr (kIndex == 2) _tile_loadd(2, from, row_bytes);
    if constexpr (kIndex == 3) _tile_loadd(3, from, row_bytes);
  }
  static void store(float* to, int64_t row_bytes) {
    if constexpr (kIndex == 0) _tile_stored(0, to, row_bytes);
    if constexpr (kIndex == 1) _tile_stored(1, to, row_bytes);
    if constexpr (kIndex == 2) _tile_stored(2, to, row_bytes);
    if constexpr (kIndex == 3) _tile_stored(3, to, row_bytes);
  }
};

/// Memory for spilled accumulators of one or two panels, one block of rows after another.
class Accumulators {
 public:
  static Accumulators zeros() { return {nullptr, 0}; }
  Accumulators(float* data, int64_t stride) : data_(data), stride_(stride) {}

  template <typename Tile>
  void load(Tile tile, int64_t block) const {
    is_zero() ? tile.clear() : tile.load(place(tile, block), row_bytes());
  }
  template <typename Tile>
  void store(Tile tile, int64_t block) const {
    tile.store(place(tile, block), row_bytes());
  }

  bool is_zero() const { return data_ == nullptr; }
  float* row(int64_t block, int64_t index) const { return data_ + (block * kBlockRows + index) * stride_; }

 private:
  template <int kIndex>
  float* place(AccumulatorTile<kIndex>, int64_t block) const {
    return row(block, kIndex / 2 * kTileRows) + kIndex % 2 * kPanelWidth;
  }
  int64_t row_bytes() const { return stride_ * static_cast<int64_t>(sizeof(float)); }

  float* data_;
  int64_t stride_;  // from one row to the next
};

}  // namespace
}  // namespace lacuna::amx
