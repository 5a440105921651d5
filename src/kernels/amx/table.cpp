// AMX multiplies tiles of 16 rows by 16 outputs over 32 bf16 inputs. A panel's 32 inputs are 16 rows of 64
// bytes, which is a tile as it lies; so are 16 packed rows.
#include <immintrin.h>

#include <algorithm>
#include <cstddef>

#include "kernels/avx512/widen.h"
#include "kernels/panels.h"
#include "kernels/tables.h"

namespace lacuna {
namespace {

constexpr int kTileRows = 16;
constexpr int64_t kTileInputs = kBf16DepthStep;
constexpr int64_t kPanelRowBytes = 2 * kPanelWidth * static_cast<int64_t>(sizeof(bf16));

// 256 inputs of two panels are 16 KiB: they stay in the first-level cache while all rows pass over them.
constexpr int64_t kDepthBlock = 256;
// Those rows' 256 inputs, 256 KiB, stay in the second-level cache for all panels.
constexpr int64_t kRowBlock = 512;

// A block of rows multiplies a slice faster than memory brings the next one: it asks for what follows at
// once.
constexpr int64_t kNearInputs = 64;

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

/// What a block of rows fetches meanwhile: its share of the memory that is multiplied next.
struct Prefetch {
  const std::byte* panel;
  const std::byte* next_panel;
  bool is_near;        // multiplied at once: for the first-level cache, otherwise for the second
  int64_t step_bytes;  // of a panel's memory, for kTileInputs inputs
  int64_t begin;       // of the share, within each step
  int64_t end;

  void fetch(int64_t k) const {
    const int64_t step = k / kTileInputs * step_bytes;
    for (int64_t i = step + begin; i < step + end; i += kCacheLine) {
      if (is_near) {
        __builtin_prefetch(panel + i, 0, 3);
        __builtin_prefetch(next_panel + i, 0, 3);
      } else {
        __builtin_prefetch(panel + i, 0, 2);
        __builtin_prefetch(next_panel + i, 0, 2);
      }
    }
  }
};

/// A slice of one bf16 panel, or of two neighbours.
struct PanelSlices {
  const bf16* b;
  const bf16* next_b;  // the panel beside it, or null
  Prefetch prefetch = {};

  bool has_two() const { return next_b != nullptr; }
  const bf16* first(int64_t k) const { return b + k * kPanelWidth; }
  const bf16* second(int64_t k) const { return next_b + k * kPanelWidth; }
  void prepare(int64_t k) const { prefetch.fetch(k); }
};

/// Where inputs [k, k + depth) of the panels from `panel` on are multiplied.
struct Place {
  int64_t panel;
  int64_t k;
  int64_t depth;
};

/// bf16 panels, multiplied as they lie.
struct DenseWeights {
  struct Layout {
    explicit Layout(const PanelProduct&) {}
  };
  static int64_t bytes_per_input(const PanelProduct&) { return kPanelWidth * int64_t{sizeof(bf16)}; }
  static const bf16* at(const PanelProduct& p, const Layout&, int64_t panel, int64_t k) {
    return static_cast<const bf16*>(p.panels) + panel * p.panel_stride + k * kPanelWidth;
  }
  static const bf16* slice(const PanelProduct& p, const Layout& layout, const Place& place, int64_t panel,
                           bf16* /*space*/) {
    return at(p, layout, panel, place.k);
  }
};

/// Codes, of which a slice is widened once for all rows.
struct CodedWeights {
  struct Layout : QuantisedLayout {
    explicit Layout(const PanelProduct& p) : QuantisedLayout(p.quantisation, p.depth) {}
  };
  static int64_t bytes_per_input(const PanelProduct& p) { return kPanelWidth * p.quantisation.bits / 8; }
  static const std::byte* at(const PanelProduct& p, const QuantisedLayout& layout, int64_t panel, int64_t k) {
    return static_cast<const std::byte*>(p.panels) + panel * p.panel_stride + layout.word(0, k);
  }
  static const bf16* slice(const PanelProduct& p, const QuantisedLayout& layout, const Place& place,
                           int64_t panel, bf16* space) {
    widen_to_bf16(p, layout, panel, place.k, place.depth, space);
    return space;
  }
};

/// One panel of codes, or two neighbours, widened a stretch ahead of the products: few rows leave the tiles
/// idle while codes are widened, unless the two overlap.
class WidenedOnTheWay {
 public:
  WidenedOnTheWay(const PanelProduct& p, int64_t panel)
      : p_(p), panel_(panel), has_two_(panel + 1 < p.num_panels), layout_(p.quantisation, p.depth) {
    widen(0);
  }

  bool has_two() const { return has_two_; }
  const bf16* first(int64_t k) const { return space_[0] + place(k); }
  const bf16* second(int64_t k) const { return space_[1] + place(k); }
  void prepare(int64_t k) {
    if (k % kStretch == 0 && k + kStretch < p_.depth) widen(k + kStretch);
  }

 private:
  static constexpr int64_t kStretch = 2 * kTileInputs;
  static constexpr int64_t kInputsAhead = 512;  // which memory may take as long to bring

  static int64_t place(int64_t k) { return k % (2 * kStretch) * kPanelWidth; }

  void widen(int64_t k) {
    const int64_t depth = std::min(kStretch, p_.depth - k);
    const int64_t bytes = layout_.word(0, depth) - layout_.word(0, 0);
    for (int64_t i = 0; i < (has_two_ ? 2 : 1); ++i) {
      const std::byte* ahead = CodedWeights::at(p_, layout_, panel_ + i, k + kInputsAhead);
      for (int64_t line = 0; line < bytes; line += kCacheLine) __builtin_prefetch(ahead + line);
      widen_to_bf16(p_, layout_, panel_ + i, k, depth, space_[i] + place(k));
    }
  }

  const PanelProduct& p_;
  int64_t panel_;
  bool has_two_;
  QuantisedLayout layout_;
  alignas(64) bf16 space_[2][2 * kStretch * kPanelWidth];
};

struct RowsOfBlock {
  const bf16* a;
  int64_t a_bytes;  // from one packed row to the next
  float* out;
  int64_t out_bytes;
  int64_t depth;
  bool accumulate;
};

/// Up to 32 rows by up to 2 panels. Every sum runs over the inputs in the same order, whichever tile holds
/// it.
template <bool kTwoRowTiles, bool kTwoPanels, typename Panels>
void multiply_tiles(const RowsOfBlock& rows, Panels& panels) {
  float* lower_out = rows.out + kTileRows * (rows.out_bytes / static_cast<int64_t>(sizeof(float)));
  if (rows.accumulate) {
    _tile_loadd(0, rows.out, rows.out_bytes);
    if constexpr (kTwoPanels) _tile_loadd(1, rows.out + kPanelWidth, rows.out_bytes);
    if constexpr (kTwoRowTiles) _tile_loadd(2, lower_out, rows.out_bytes);
    if constexpr (kTwoRowTiles && kTwoPanels) _tile_loadd(3, lower_out + kPanelWidth, rows.out_bytes);
  } else {
    _tile_zero(0);
    if constexpr (kTwoPanels) _tile_zero(1);
    if constexpr (kTwoRowTiles) _tile_zero(2);
    if constexpr (kTwoRowTiles && kTwoPanels) _tile_zero(3);
  }
  const bf16* lower_a = rows.a + kTileRows * (rows.a_bytes / static_cast<int64_t>(sizeof(bf16)));
  for (int64_t k = 0; k < rows.depth; k += kTileInputs) {
    panels.prepare(k);
    _tile_loadd(6, panels.first(k), kPanelRowBytes);
    _tile_loadd(4, rows.a + k, rows.a_bytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kTwoPanels) {
      _tile_loadd(7, panels.second(k), kPanelRowBytes);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kTwoRowTiles) {
      _tile_loadd(5, lower_a + k, rows.a_bytes);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (kTwoPanels) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, rows.out, rows.out_bytes);
  if constexpr (kTwoPanels) _tile_stored(1, rows.out + kPanelWidth, rows.out_bytes);
  if constexpr (kTwoRowTiles) _tile_stored(2, lower_out, rows.out_bytes);
  if constexpr (kTwoRowTiles && kTwoPanels) _tile_stored(3, lower_out + kPanelWidth, rows.out_bytes);
}

template <typename Panels>
void multiply_block(int64_t num_rows, const RowsOfBlock& rows, Panels& panels) {
  if (num_rows > kTileRows) {
    panels.has_two() ? multiply_tiles<true, true>(rows, panels) : multiply_tiles<true, false>(rows, panels);
  } else {
    panels.has_two() ? multiply_tiles<false, true>(rows, panels) : multiply_tiles<false, false>(rows, panels);
  }
}

void configure_for(int64_t num_rows) {
  const int upper = static_cast<int>(std::min<int64_t>(num_rows, kTileRows));
  configure(upper, static_cast<int>(num_rows) - upper);
}

RowsOfBlock rows_of_block(const PanelProduct& p, int64_t row, const Place& place) {
  RowsOfBlock rows;
  rows.a = static_cast<const bf16*>(p.a) + row * p.a_stride + place.k;
  rows.a_bytes = p.a_stride * static_cast<int64_t>(sizeof(bf16));
  rows.out = p.out + row * p.out_stride + place.panel * kPanelWidth;
  rows.out_bytes = p.out_stride * static_cast<int64_t>(sizeof(float));
  rows.depth = place.depth;
  rows.accumulate = p.accumulate || place.k > 0;
  return rows;
}

/// Rows [first_row, end_row) in blocks of two tiles; only the last block may be lower.
class RowBlocks {
 public:
  static constexpr int64_t kHeight = 2 * kTileRows;

  RowBlocks(const PanelProduct& p, int64_t first_row, int64_t end_row)
      : p_(p), first_(first_row), end_(end_row) {
    configure_for(std::min(kHeight, end_ - first_));
  }

  void multiply(const Place& place, PanelSlices slices) const {
    const int64_t step_bytes = slices.prefetch.step_bytes;
    const int64_t num_blocks = (end_ - first_ + kHeight - 1) / kHeight;
    const int64_t share = round_up((step_bytes + num_blocks - 1) / num_blocks, kCacheLine);
    for (int64_t row = first_; row < end_; row += kHeight) {
      slices.prefetch.begin = (row - first_) / kHeight * share;
      slices.prefetch.end = std::min(slices.prefetch.begin + share, step_bytes);
      const int64_t height = std::min(kHeight, end_ - row);
      const bool is_lower = height < kHeight && row > first_;
      if (is_lower) configure_for(height);
      multiply_block(height, rows_of_block(p_, row, place), slices);
      if (is_lower) configure_for(kHeight);
    }
  }

 private:
  const PanelProduct& p_;
  int64_t first_;
  int64_t end_;
};

template <typename Weights>
void panel_product(const PanelProduct& p) {
  const typename Weights::Layout layout(p);
  alignas(64) bf16 space[2][kDepthBlock * kPanelWidth];
  // Few rows take several slices of two panels in a row, so that weights are read in long runs.
  const int64_t pass_depth = kDepthBlock * std::max<int64_t>(1, kRowBlock / std::max<int64_t>(1, p.num_rows));
  for (int64_t first = 0; first < p.num_rows; first += kRowBlock) {
    const RowBlocks rows(p, first, std::min(first + kRowBlock, p.num_rows));
    for (int64_t pass = 0; pass < p.depth; pass += pass_depth) {
      const int64_t pass_end = std::min(pass + pass_depth, p.depth);
      for (int64_t panel = 0; panel < p.num_panels; panel += 2) {
        for (int64_t k = pass; k < pass_end; k += kDepthBlock) {
          const Place place{panel, k, std::min(kDepthBlock, pass_end - k)};
          const auto address = [&](int64_t index, int64_t input) {
            return reinterpret_cast<const std::byte*>(
                Weights::at(p, layout, std::min(index, p.num_panels - 1), input));
          };
          PanelSlices slices;
          slices.b = Weights::slice(p, layout, place, panel, space[0]);
          slices.next_b =
              panel + 1 < p.num_panels ? Weights::slice(p, layout, place, panel + 1, space[1]) : nullptr;
          const bool goes_on = k + kDepthBlock < pass_end;
          const bool is_near = p.num_rows <= RowBlocks::kHeight;
          const int64_t next = is_near || goes_on ? panel : panel + 2 < p.num_panels ? panel + 2 : 0;
          const int64_t next_k = is_near    ? k + kNearInputs
                                 : goes_on  ? k + kDepthBlock
                                 : next > 0 ? pass
                                            : pass_end;
          slices.prefetch = {address(next, next_k),
                             address(next + 1, next_k),
                             is_near,
                             kTileInputs * Weights::bytes_per_input(p),
                             0,
                             0};
          rows.multiply(place, slices);
        }
      }
    }
  }
  _tile_release();
}

void coded_panel_product(const PanelProduct& p) {
  if (p.num_rows > RowBlocks::kHeight) return panel_product<CodedWeights>(p);
  if (p.num_rows == 0) return;  // a tile has at least one
  configure_for(p.num_rows);
  for (int64_t panel = 0; panel < p.num_panels; panel += 2) {
    WidenedOnTheWay panels(p, panel);
    multiply_block(p.num_rows, rows_of_block(p, 0, {panel, 0, p.depth}), panels);
  }
  _tile_release();
}

}  // namespace

const KernelTable& amx_table() {
  static const KernelTable table = [] {
    KernelTable wider = avx512_table();  // AMX machines run AVX-512 for everything else
    wider.name = "amx";
    wider.panel_product_bf16 = panel_product<DenseWeights>;
    wider.panel_product_bf16_quantised = coded_panel_product;
    return wider;
  }();
  return table;
}

}  // namespace lacuna
