// GEMM with AMX tiles: 16 rows by 16 outputs over one K step of 32 bf16 or 64 int8 inputs. One K step of a
// panel or of 16 packed rows is stored as 16 rows of 64 bytes, which is the layout of a tile.
#include "kernels/amx/products.h"

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <type_traits>

#include "kernels/amx/dequantize.h"
#include "kernels/amx/slices.h"
#include "kernels/amx/tiles.h"
#include "kernels/avx512/quantize_row.h"
#include "kernels/avx512/vectors.h"
#include "kernels/generic/int8_activations.h"
#include "kernels/generic/quantized.h"
#include "kernels/panels.h"

namespace lacuna::amx {
namespace {

/// Scales finished accumulators where the quantization has one scale per output channel.
class Epilogue {
 public:
  Epilogue(const PanelProduct& p, int64_t panel, int64_t first_row)
      : p_(p), panel_(panel), num_panels_(std::min<int64_t>(2, p.num_panels - panel)), first_(first_row) {}

  /// Scales one block of rows.
  void operator()(int64_t block, int64_t height) const {
    const int64_t row = first_ + block * kBlockRows;
    generic::scale_sums<Avx512>(p_, panel_, num_panels_, row, row + height);
  }

 private:
  const PanelProduct& p_;
  int64_t panel_;
  int64_t num_panels_;
  int64_t first_;
};

/// Blocks of rows of equal height, and the slice of panels to multiply them with.
struct BlocksOfRows {
  const std::byte* a;
  RowStrides strides;
  int64_t first;
  int64_t end;
  int64_t height;
  int64_t count;      // K steps
  Accumulators from;  // initial accumulators
  Accumulators to;
  std::optional<Epilogue> epilogue;  // only with the last slice
  const float* row_scales;           // for int8 rows, from the slice's first group on
  int64_t scales_per_row;

  const std::byte* block(int64_t index) const {
    return a + strides.offset(index * kBlockRows, 0) * int64_t{sizeof(bf16)};
  }
};

/// Calls use() with each accumulator tile that a block has.
template <bool kTwoRowTiles, bool kTwoPanels, typename Use>
void for_each_accumulator(const Use& use) {
  use(AccumulatorTile<0>());
  if constexpr (kTwoPanels) use(AccumulatorTile<1>());
  if constexpr (kTwoRowTiles) use(AccumulatorTile<2>());
  if constexpr (kTwoRowTiles && kTwoPanels) use(AccumulatorTile<3>());
}

/// Multiplies up to 32 rows by up to 2 panels, K steps [first, end). Every accumulator adds the inputs in the
/// same order, whichever tile holds it.
template <bool kTwoRowTiles, bool kTwoPanels, typename Panels>
void multiply_tiles(const std::byte* a, const RowStrides& strides, int64_t first, int64_t end,
                    Panels& panels) {
  using Tiles = typename Panels::Tiles;
  const int64_t row_bytes = strides.row * int64_t{sizeof(bf16)};
  const int64_t k_step_bytes = strides.k_step * int64_t{sizeof(bf16)};
  const int64_t tile_bytes = strides.tile * int64_t{sizeof(bf16)};
  a += first * k_step_bytes;
  for (int64_t k_step = first; k_step < end; ++k_step, a += k_step_bytes) {
    _tile_loadd(6, panels.first(k_step), kTileRowBytes);
    _tile_loadd(4, a, row_bytes);
    Tiles::template multiply<0>();
    if constexpr (kTwoPanels) {
      _tile_loadd(7, panels.second(k_step), kTileRowBytes);
      Tiles::template multiply<1>();
    }
    panels.prepare(k_step, 0);
    if constexpr (kTwoRowTiles) {
      _tile_loadd(5, a + tile_bytes, row_bytes);
      Tiles::template multiply<2>();
      if constexpr (kTwoPanels) Tiles::template multiply<3>();
    }
    panels.prepare(k_step, 1);
  }
}

template <bool kTwoRowTiles, bool kTwoPanels, typename Panels>
void multiply_bf16_blocks(const BlocksOfRows& rows, Panels& panels) {
  for_each_accumulator<kTwoRowTiles, kTwoPanels>([&](auto tile) { rows.from.load(tile, rows.first); });
  for (int64_t block = rows.first; block < rows.end; ++block) {
    multiply_tiles<kTwoRowTiles, kTwoPanels>(rows.block(block), rows.strides, 0, rows.count, panels);
    // Reloads each accumulator right after storing it: with all four stores first, the multiplications would
    // wait for all of them.
    for_each_accumulator<kTwoRowTiles, kTwoPanels>([&](auto tile) {
      rows.to.store(tile, block);
      if (block + 1 < rows.end) rows.from.load(tile, block + 1);
    });
    if (rows.epilogue) (*rows.epilogue)(block, rows.height);
  }
}

/// Multiplies blocks with int8 tiles: accumulators over the inputs of a row scale are converted to f32,
/// scaled and added.
template <bool kTwoRowTiles, bool kTwoPanels, typename Panels>
void multiply_int8_blocks(const BlocksOfRows& rows, Panels& panels) {
  alignas(64) float integers[kBlockRows * 2 * kPanelWidth];  // the bits of int32 accumulators
  const Accumulators spilled(integers, 2 * kPanelWidth);
  for (int64_t block = rows.first; block < rows.end; ++block) {
    const float* row_scales = rows.row_scales + block * kBlockRows * rows.scales_per_row;
    for (int64_t run = 0; run < rows.count; run += Int8Tiles::kRunKSteps, ++row_scales) {
      for_each_accumulator<kTwoRowTiles, kTwoPanels>([](auto tile) { tile.clear(); });
      multiply_tiles<kTwoRowTiles, kTwoPanels>(rows.block(block), rows.strides, run,
                                               std::min(run + Int8Tiles::kRunKSteps, rows.count), panels);
      for_each_accumulator<kTwoRowTiles, kTwoPanels>([&](auto tile) { spilled.store(tile, 0); });
      const Accumulators& from = run == 0 ? rows.from : rows.to;
      for (int64_t row = 0; row < rows.height; ++row) {
        const __m512 scale = _mm512_set1_ps(row_scales[row * rows.scales_per_row]);
        float* const to = rows.to.row(block, row);
        for (int64_t i = 0; i < (kTwoPanels ? 2 : 1) * kPanelWidth; i += kPanelWidth) {
          const __m512 before =
              from.is_zero() ? _mm512_setzero_ps() : _mm512_loadu_ps(from.row(block, row) + i);
          const __m512i sums = _mm512_load_si512(spilled.row(0, row) + i);
          _mm512_storeu_ps(to + i, _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), scale, before));
        }
      }
    }
    if (rows.epilogue) (*rows.epilogue)(block, rows.height);
  }
}

/// Multiplies blocks of the height for which tiles are configured.
template <typename Panels>
void multiply_blocks(const BlocksOfRows& rows, Panels& panels) {
  const auto multiply = [&]<bool kTwoRowTiles, bool kTwoPanels>() {
    if constexpr (std::is_same_v<typename Panels::Tiles, Int8Tiles>) {
      multiply_int8_blocks<kTwoRowTiles, kTwoPanels>(rows, panels);
    } else {
      multiply_bf16_blocks<kTwoRowTiles, kTwoPanels>(rows, panels);
    }
  };
  if (rows.height > kTileRows) {
    panels.has_two() ? multiply.template operator()<true, true>()
                     : multiply.template operator()<true, false>();
  } else {
    panels.has_two() ? multiply.template operator()<false, true>()
                     : multiply.template operator()<false, false>();
  }
}

void configure_for(int64_t num_rows) {
  const int upper = static_cast<int>(std::min<int64_t>(num_rows, kTileRows));
  configure(upper, static_cast<int>(num_rows) - upper);
}

/// Scales of int8 rows; null for bf16 rows.
const float* row_scales_of(const PanelProduct& p, int64_t row, int64_t input) {
  if (p.row_scales == nullptr) return nullptr;
  return p.row_scales + row * p.scales_per_row + input / generic::kInt8Group;
}

/// Rows [first_row, end_row) in blocks of two tiles; only the last block may have fewer rows. Between slices,
/// accumulators are spilled to a compact buffer: in `out`, each of their rows would be in another page.
class RowBlocks {
 public:
  ///   num_k_steps  of all of K
  RowBlocks(const PanelProduct& p, int64_t num_k_steps, int64_t first_row, int64_t end_row)
      : p_(p), num_k_steps_(num_k_steps), first_(first_row), num_rows_(end_row - first_row) {
    if (num_k_steps_ > kSliceKSteps)
      spilled_ = thread_scratch(round_up(p_.num_panels, 2) / 2 * two_panel_size());
    configure_for(std::min(kBlockRows, num_rows_));
  }

  int64_t num_blocks() const { return (num_rows_ + kBlockRows - 1) / kBlockRows; }

  template <typename Slices>
  void multiply(const Place& place, Slices& slices) const {
    const int64_t first_input = place.k_step * Slices::Tiles::kKStep;
    BlocksOfRows rows = {
        .a = static_cast<const std::byte*>(p_.a) +
             (p_.a_strides.offset(first_, 0) + place.k_step * p_.a_strides.k_step) * int64_t{sizeof(bf16)},
        .strides = p_.a_strides,
        .first = 0,
        .end = num_rows_ / kBlockRows,
        .height = kBlockRows,
        .count = place.count,
        .from = place.k_step > 0 ? spilled(place.panel)
                : p_.accumulate  ? out(place.panel)
                                 : Accumulators::zeros(),
        .to = out(place.panel),
        .epilogue = {},
        .row_scales = row_scales_of(p_, first_, first_input),
        .scales_per_row = p_.scales_per_row};
    if (place.k_step + place.count < num_k_steps_) {
      rows.to = spilled(place.panel);
    } else if (p_.quantization.scales_sums()) {
      rows.epilogue.emplace(p_, place.panel, first_);
    }
    if (rows.end > 0) multiply_blocks(rows, slices);
    const int64_t rows_left = num_rows_ % kBlockRows;
    if (rows_left == 0) return;
    if (rows.end > 0) configure_for(rows_left);
    rows.first = rows.end++;
    rows.height = rows_left;
    multiply_blocks(rows, slices);
    if (rows.first > 0) configure_for(kBlockRows);
  }

 private:
  int64_t two_panel_size() const { return num_blocks() * kBlockRows * 2 * kPanelWidth; }

  Accumulators spilled(int64_t panel) const {
    return {spilled_ + panel / 2 * two_panel_size(), 2 * kPanelWidth};
  }
  Accumulators out(int64_t panel) const {
    return {p_.out + first_ * p_.out_stride + panel * kPanelWidth, p_.out_stride};
  }

  const PanelProduct& p_;
  int64_t num_k_steps_;
  int64_t first_;
  int64_t num_rows_;
  float* spilled_ = nullptr;
};

template <typename Slices>
void panel_product(const PanelProduct& p) {
  for (int64_t first = 0; first < p.num_rows; first += kRowBlock) {
    const int64_t k_steps = num_k_steps<typename Slices::Tiles>(p);
    const RowBlocks rows(p, k_steps, first, std::min(first + kRowBlock, p.num_rows));
    SliceWalk walk(p, k_steps);
    if (walk.done()) break;
    for (Slices slices(p, walk); !walk.done(); walk.advance()) {
      slices.move_to(walk, rows.num_blocks());
      rows.multiply(walk.place(), slices);
    }
  }
  _tile_release();
}

/// Multiplies a single block of rows, over all of K, with two panels at a time.
template <typename Panels>
void panel_product_of_block(const PanelProduct& p) {
  if (p.num_rows == 0) return;  // a tile has at least one row
  configure_for(p.num_rows);
  for (int64_t panel = 0; panel < p.num_panels; panel += 2) {
    Panels panels(p, panel);
    const Accumulators out(p.out + panel * kPanelWidth, p.out_stride);
    BlocksOfRows rows = {.a = static_cast<const std::byte*>(p.a),
                         .strides = p.a_strides,
                         .first = 0,
                         .end = 1,
                         .height = p.num_rows,
                         .count = num_k_steps<typename Panels::Tiles>(p),
                         .from = p.accumulate ? out : Accumulators::zeros(),
                         .to = out,
                         .epilogue = {},
                         .row_scales = p.row_scales,
                         .scales_per_row = p.scales_per_row};
    if (p.quantization.scales_sums()) rows.epilogue.emplace(p, panel, 0);
    multiply_blocks(rows, panels);
  }
  _tile_release();
}

template <typename Panels>
void packed_panel_product(const PanelProduct& p) {
  p.num_rows <= kBlockRows ? panel_product_of_block<StreamedPackedPanels<Panels>>(p)
                           : panel_product<PackedSlices<Panels>>(p);
}

template <typename Tiles, typename Format>
void quantized_panel_product_of(const PanelProduct& p) {
  p.num_rows <= kBlockRows ? panel_product_of_block<StreamedDequantizedPanels<Tiles, Format>>(p)
                           : panel_product<DequantizedSlices<Tiles, Format>>(p);
}

}  // namespace

void dense_panel_product(const PanelProduct& p) {
  packed_panel_product<DensePanels>(p);
}

void quantized_panel_product(const PanelProduct& p) {
  const Quantization& quantization = p.quantization;
  if (quantization.two_levels) return quantized_panel_product_of<Bf16Tiles, TwoLevels>(p);
  if (quantization.bits == 4) return quantized_panel_product_of<Bf16Tiles, Weights<4>>(p);
  if (quantization.group == 0) return quantized_panel_product_of<Bf16Tiles, PerChannelInt8>(p);
  quantized_panel_product_of<Bf16Tiles, Weights<8>>(p);
}

float quantize_row_to_int8(const void* packed, const RowStrides& strides, int64_t padded_count, void* out,
                           float* scales) {
  return quantize_to_int8<bf16, true>(packed, strides, padded_count, out, scales);
}

void int8_panel_product(const PanelProduct& p) {
  const bool has_whole_steps = p.depth % Int8Tiles::kKStep == 0;
  if (p.quantization.bits == 4) return quantized_panel_product_of<Int8Tiles, Int4Bytes>(p);
  has_whole_steps ? packed_panel_product<Int8Panels>(p) : quantized_panel_product_of<Int8Tiles, Int8Bytes>(p);
}

}  // namespace lacuna::amx
