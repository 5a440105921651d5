// AMX multiplies tiles of 16 rows by 16 outputs over 32 bf16 inputs. A panel's 32 inputs are 16 rows of 64
// bytes, which is a tile as it lies; so are 16 packed rows.
#include <immintrin.h>

#include <algorithm>
#include <cstddef>

#include "base/buffer.h"
#include "kernels/avx512/for_amx.h"
#include "kernels/panels.h"
#include "kernels/tables.h"

namespace lacuna {
namespace {

constexpr int kTileRows = static_cast<int>(kRowTile);
constexpr int64_t kTileInputs = kBf16DepthStep;
constexpr int64_t kBlockRows = 2 * kTileRows;  // of the tiles that hold sums
constexpr int64_t kPanelRowBytes = 2 * kPanelWidth * static_cast<int64_t>(sizeof(bf16));

// 256 inputs of two panels are 16 KiB: they stay in the first-level cache while all rows pass over them.
constexpr int64_t kDepthBlock = 256;
// Those rows' 256 inputs, 256 KiB, stay in the second-level cache for all panels.
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

/// Where inputs [k, k + depth) of the panels from `panel` on are multiplied.
struct Place {
  int64_t panel;
  int64_t k;
  int64_t depth;
};

/// The slices of two panels that rows pass over, in order. Few rows take several of the same panels in a row,
/// so that weights are read in long runs.
class SliceWalk {
 public:
  explicit SliceWalk(const PanelProduct& p)
      : num_panels_(p.num_panels),
        depth_(p.depth),
        pass_depth_(kDepthBlock * std::max<int64_t>(1, kRowBlock / std::max<int64_t>(1, p.num_rows))) {}

  bool done() const { return pass_ >= depth_ || num_panels_ == 0; }
  Place place() const { return {panel_, k_, std::min(kDepthBlock, pass_end() - k_)}; }
  void advance() {
    k_ += kDepthBlock;
    if (k_ < pass_end()) return;
    panel_ += 2;
    if (panel_ >= num_panels_) {
      panel_ = 0;
      pass_ = pass_end();
    }
    k_ = pass_;
  }
  SliceWalk next() const {
    SliceWalk walk = *this;
    walk.advance();
    return walk;
  }

 private:
  int64_t pass_end() const { return std::min(pass_ + pass_depth_, depth_); }

  int64_t num_panels_;
  int64_t depth_;
  int64_t pass_depth_;
  int64_t pass_ = 0;
  int64_t panel_ = 0;
  int64_t k_ = 0;
};

/// Pieces of work done beside the steps that multiply a slice, as many with each step.
class WorkBeside {
 public:
  void begin(int64_t pieces, int64_t steps) {
    pieces_ = pieces;
    steps_ = steps;
    owed_ = done_ = 0;
  }
  /// Does what this step owes: calls `work` with the number of each piece.
  template <typename Work>
  void step(const Work& work) {
    for (owed_ += pieces_; owed_ >= steps_; owed_ -= steps_) work(done_++);
  }

 private:
  int64_t pieces_ = 0;
  int64_t steps_ = 1;
  int64_t owed_ = 0;  // steps times pieces
  int64_t done_ = 0;
};

/// A slice of two panels, the second of which may be missing.
class PanelSlices {
 public:
  bool has_two() const { return second_ != nullptr; }
  const bf16* first(int64_t k) const { return first_ + k * kPanelWidth; }
  const bf16* second(int64_t k) const { return second_ + k * kPanelWidth; }

 protected:
  const bf16* first_ = nullptr;
  const bf16* second_ = nullptr;
};

constexpr int64_t kLine = kCacheLine / int64_t{sizeof(bf16)};

const bf16* weights_at(const PanelProduct& p, int64_t panel, int64_t k) {
  return static_cast<const bf16*>(p.panels) + panel * p.panel_stride + k * kPanelWidth;
}

/// bf16 panels are multiplied as they lie, while what follows is fetched.
class DenseSlices : public PanelSlices {
 public:
  DenseSlices(const PanelProduct& p, const SliceWalk&) : p_(p) {}

  /// To the slice where `walk` is, which `num_blocks` blocks of rows pass over.
  void move_to(const SliceWalk& walk, int64_t num_blocks) {
    const Place place = walk.place();
    first_ = weights_at(p_, place.panel, place.k);
    second_ = place.panel + 1 < p_.num_panels ? weights_at(p_, place.panel + 1, place.k) : nullptr;
    if (walk.next().done()) return fetching_.begin(0, 1);
    const Place next = walk.next().place();
    next_ = weights_at(p_, next.panel, next.k);
    beside_next_ = weights_at(p_, std::min(next.panel + 1, p_.num_panels - 1), next.k);
    fetching_.begin(next.depth * kPanelWidth / kLine, num_blocks * place.depth / kTileInputs);
  }
  void prepare(int64_t /*k*/) {
    fetching_.step([this](int64_t line) {
      __builtin_prefetch(next_ + line * kLine, 0, 2);
      __builtin_prefetch(beside_next_ + line * kLine, 0, 2);
    });
  }

 private:
  const PanelProduct& p_;
  WorkBeside fetching_;
  const bf16* next_ = nullptr;
  const bf16* beside_next_ = nullptr;
};

/// One bf16 panel, or two neighbours, of the whole depth: a single block of rows multiplies faster than
/// memory brings weights, and asks for what is a little ahead.
class DenseOnTheWay : public PanelSlices {
 public:
  DenseOnTheWay(const PanelProduct& p, int64_t panel) {
    first_ = weights_at(p, panel, 0);
    second_ = panel + 1 < p.num_panels ? weights_at(p, panel + 1, 0) : nullptr;
  }
  void prepare(int64_t k) {
    // Lines come in pairs. Further ahead, bursts of questions overtake what the hardware fetches by itself.
    constexpr int64_t kInputsAhead = kTileInputs;
    for (int64_t i = 0; i < kPanelWidth * kTileInputs; i += 2 * kLine) {
      __builtin_prefetch(first(k + kInputsAhead) + i, 0, 2);
      if (has_two()) __builtin_prefetch(second(k + kInputsAhead) + i, 0, 2);
    }
  }
};

const std::byte* codes_at(const PanelProduct& p, const QuantisedLayout& layout, int64_t panel, int64_t k) {
  return static_cast<const std::byte*>(p.panels) + panel * p.panel_stride + layout.word(0, k);
}

/// Widens inputs [k, k + depth) of a panel, and fetches as many codes from `ahead` on.
void widen_and_fetch(const PanelProduct& p, const QuantisedLayout& layout, int64_t panel, int64_t k,
                     int64_t depth, const std::byte* ahead, bf16* out) {
  const int64_t bytes = layout.word(0, depth) - layout.word(0, 0);
  for (int64_t line = 0; line < bytes; line += kCacheLine) __builtin_prefetch(ahead + line);
  widen_to_bf16(p, layout, panel, k, depth, out);
}

/// Codes are widened once for all rows: the next slice while this one is multiplied, because widening leaves
/// the tiles idle unless the two overlap.
class CodedSlices : public PanelSlices {
 public:
  CodedSlices(const PanelProduct& p, const SliceWalk& walk)
      : p_(p), layout_(p.quantisation, p.depth), widened_(walk.place()), fetched_(widened_) {
    for (int64_t stretch = 0; stretch < num_stretches(); ++stretch) widen(stretch);
  }

  void move_to(const SliceWalk& walk, int64_t num_blocks) {
    const Place place = walk.place();
    first_ = spaces_[filled_].panels[0];
    second_ = place.panel + 1 < p_.num_panels ? spaces_[filled_].panels[1] : nullptr;
    filled_ = 1 - filled_;
    const SliceWalk next = walk.next(), after_next = next.next();
    if (next.done()) return widening_.begin(0, 1);
    widened_ = next.place();
    fetched_ = after_next.done() ? widened_ : after_next.place();
    widening_.begin(num_stretches(), num_blocks * place.depth / kTileInputs);
  }
  void prepare(int64_t /*k*/) {
    widening_.step([this](int64_t stretch) { widen(stretch); });
  }

 private:
  struct alignas(64) Space {
    bf16 panels[2][kDepthBlock * kPanelWidth];
  };

  /// Of 32 inputs of a panel; the first panel's come first.
  int64_t num_stretches() const {
    return widened_.depth / kTileInputs * std::min<int64_t>(2, p_.num_panels - widened_.panel);
  }
  void widen(int64_t stretch) {
    const int64_t of_panel = widened_.depth / kTileInputs;
    const int64_t panel = stretch >= of_panel ? 1 : 0;
    const int64_t k = (stretch - panel * of_panel) * kTileInputs;
    const std::byte* ahead =
        codes_at(p_, layout_, std::min(fetched_.panel + panel, p_.num_panels - 1), fetched_.k + k);
    widen_and_fetch(p_, layout_, widened_.panel + panel, widened_.k + k, kTileInputs, ahead,
                    spaces_[filled_].panels[panel] + k * kPanelWidth);
  }

  const PanelProduct& p_;
  QuantisedLayout layout_;
  Place widened_;  // the next slice
  Place fetched_;  // the one after it
  WorkBeside widening_;
  int filled_ = 0;  // which space is widened into
  Space spaces_[2];
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
  static constexpr int64_t kInputsAhead = 128;  // the best of 64 to 1,024 for 8 bits; 4 bits do not mind

  static int64_t place(int64_t k) { return k % (2 * kStretch) * kPanelWidth; }

  void widen(int64_t k) {
    const int64_t depth = std::min(kStretch, p_.depth - k);
    for (int64_t i = 0; i < (has_two_ ? 2 : 1); ++i) {
      const std::byte* ahead = codes_at(p_, layout_, panel_ + i, k + kInputsAhead);
      widen_and_fetch(p_, layout_, panel_ + i, k, depth, ahead, space_[i] + place(k));
    }
  }

  const PanelProduct& p_;
  int64_t panel_;
  bool has_two_;
  QuantisedLayout layout_;
  alignas(64) bf16 space_[2][2 * kStretch * kPanelWidth];
};

/// A block's tile of sums: 0 and 1 are its upper rows by either panel, 2 and 3 its lower ones.
template <int kIndex>
struct SumTile {
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

/// Where the sums of a panel, or of two neighbours, lie for one block of rows after the other.
class Sums {
 public:
  static Sums zeros() { return {nullptr, 0}; }
  Sums(float* data, int64_t stride) : data_(data), stride_(stride) {}

  template <typename Tile>
  void load(Tile tile, int64_t block) const {
    data_ == nullptr ? tile.clear() : tile.load(place(tile, block), row_bytes());
  }
  template <typename Tile>
  void store(Tile tile, int64_t block) const {
    tile.store(place(tile, block), row_bytes());
  }

 private:
  template <int kIndex>
  float* place(SumTile<kIndex>, int64_t block) const {
    return data_ + (block * kBlockRows + kIndex / 2 * kTileRows) * stride_ + kIndex % 2 * kPanelWidth;
  }
  int64_t row_bytes() const { return stride_ * static_cast<int64_t>(sizeof(float)); }

  float* data_;
  int64_t stride_;  // from one row to the next
};

/// Blocks of equal height that one slice of panels is multiplied with.
struct BlocksOfRows {
  const bf16* a;
  RowStrides strides;
  int64_t first;
  int64_t end;
  int64_t depth;
  Sums from;  // what the products are added to
  Sums to;
};

/// Calls use() with each tile of sums that a block has.
template <bool kTwoRowTiles, bool kTwoPanels, typename Use>
void for_each_sum(const Use& use) {
  use(SumTile<0>());
  if constexpr (kTwoPanels) use(SumTile<1>());
  if constexpr (kTwoRowTiles) use(SumTile<2>());
  if constexpr (kTwoRowTiles && kTwoPanels) use(SumTile<3>());
}

/// Up to 32 rows by up to 2 panels. Every sum runs over the inputs in the same order, whichever tile holds
/// it.
template <bool kTwoRowTiles, bool kTwoPanels, typename Panels>
void multiply_tiles(const bf16* a, const RowStrides& strides, int64_t depth, Panels& panels) {
  const int64_t row_bytes = strides.row * static_cast<int64_t>(sizeof(bf16));
  for (int64_t k = 0; k < depth; k += kTileInputs, a += strides.step) {
    panels.prepare(k);
    _tile_loadd(6, panels.first(k), kPanelRowBytes);
    _tile_loadd(4, a, row_bytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kTwoPanels) {
      _tile_loadd(7, panels.second(k), kPanelRowBytes);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kTwoRowTiles) {
      _tile_loadd(5, a + strides.tile, row_bytes);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (kTwoPanels) _tile_dpbf16ps(3, 5, 7);
    }
  }
}

template <bool kTwoRowTiles, bool kTwoPanels, typename Panels>
void multiply_blocks_of(const BlocksOfRows& rows, Panels& panels) {
  for_each_sum<kTwoRowTiles, kTwoPanels>([&](auto tile) { rows.from.load(tile, rows.first); });
  for (int64_t block = rows.first; block < rows.end; ++block) {
    multiply_tiles<kTwoRowTiles, kTwoPanels>(rows.a + rows.strides.offset(block * kBlockRows, 0),
                                             rows.strides, rows.depth, panels);
    // A tile's next sums are loaded right after its last ones are stored: all four stores first, and the
    // products would wait for all of them.
    for_each_sum<kTwoRowTiles, kTwoPanels>([&](auto tile) {
      rows.to.store(tile, block);
      if (block + 1 < rows.end) rows.from.load(tile, block + 1);
    });
  }
}

/// Multiplies blocks of `height` rows, for which the tiles are configured.
template <typename Panels>
void multiply_blocks(int64_t height, const BlocksOfRows& rows, Panels& panels) {
  if (height > kTileRows) {
    panels.has_two() ? multiply_blocks_of<true, true>(rows, panels)
                     : multiply_blocks_of<true, false>(rows, panels);
  } else {
    panels.has_two() ? multiply_blocks_of<false, true>(rows, panels)
                     : multiply_blocks_of<false, false>(rows, panels);
  }
}

void configure_for(int64_t num_rows) {
  const int upper = static_cast<int>(std::min<int64_t>(num_rows, kTileRows));
  configure(upper, static_cast<int>(num_rows) - upper);
}

/// Rows [first_row, end_row) in blocks of two tiles; only the last block may be lower. Between slices, sums
/// are put aside block by block: in `out` each of their rows would lie in a page of its own.
class RowBlocks {
 public:
  RowBlocks(const PanelProduct& p, int64_t first_row, int64_t end_row)
      : p_(p), first_(first_row), num_rows_(end_row - first_row) {
    if (p_.depth > kDepthBlock) space().reserve(round_up(p_.num_panels, 2) / 2 * sums_of_two_panels());
    configure_for(std::min(kBlockRows, num_rows_));
  }

  int64_t num_blocks() const { return (num_rows_ + kBlockRows - 1) / kBlockRows; }

  template <typename Slices>
  void multiply(const Place& place, Slices& slices) const {
    BlocksOfRows rows = {.a = static_cast<const bf16*>(p_.a) + p_.a_strides.offset(first_, place.k),
                         .strides = p_.a_strides,
                         .first = 0,
                         .end = num_rows_ / kBlockRows,
                         .depth = place.depth,
                         .from = place.k > 0     ? aside(place.panel)
                                 : p_.accumulate ? out(place.panel)
                                                 : Sums::zeros(),
                         .to = place.k + place.depth < p_.depth ? aside(place.panel) : out(place.panel)};
    if (rows.end > 0) multiply_blocks(kBlockRows, rows, slices);
    const int64_t rows_left = num_rows_ % kBlockRows;
    if (rows_left == 0) return;
    if (rows.end > 0) configure_for(rows_left);
    rows.first = rows.end++;
    multiply_blocks(rows_left, rows, slices);
    if (rows.first > 0) configure_for(kBlockRows);
  }

 private:
  static Buffer<float>& space() {
    thread_local Buffer<float> sums;
    return sums;
  }
  int64_t sums_of_two_panels() const { return num_blocks() * kBlockRows * 2 * kPanelWidth; }

  Sums aside(int64_t panel) const {
    return {space().data() + panel / 2 * sums_of_two_panels(), 2 * kPanelWidth};
  }
  Sums out(int64_t panel) const {
    return {p_.out + first_ * p_.out_stride + panel * kPanelWidth, p_.out_stride};
  }

  const PanelProduct& p_;
  int64_t first_;
  int64_t num_rows_;
};

template <typename Slices>
void panel_product(const PanelProduct& p) {
  for (int64_t first = 0; first < p.num_rows; first += kRowBlock) {
    const RowBlocks rows(p, first, std::min(first + kRowBlock, p.num_rows));
    SliceWalk walk(p);
    if (walk.done()) break;
    for (Slices slices(p, walk); !walk.done(); walk.advance()) {
      slices.move_to(walk, rows.num_blocks());
      rows.multiply(walk.place(), slices);
    }
  }
  _tile_release();
}

/// A single block of rows by the whole depth of two panels at a time.
template <typename Panels>
void panel_product_of_block(const PanelProduct& p) {
  if (p.num_rows == 0) return;  // a tile has at least one
  configure_for(p.num_rows);
  for (int64_t panel = 0; panel < p.num_panels; panel += 2) {
    Panels panels(p, panel);
    const Sums out(p.out + panel * kPanelWidth, p.out_stride);
    multiply_blocks(p.num_rows,
                    {.a = static_cast<const bf16*>(p.a),
                     .strides = p.a_strides,
                     .first = 0,
                     .end = 1,
                     .depth = p.depth,
                     .from = p.accumulate ? out : Sums::zeros(),
                     .to = out},
                    panels);
  }
  _tile_release();
}

void dense_panel_product(const PanelProduct& p) {
  p.num_rows <= kBlockRows ? panel_product_of_block<DenseOnTheWay>(p) : panel_product<DenseSlices>(p);
}

void coded_panel_product(const PanelProduct& p) {
  p.num_rows <= kBlockRows ? panel_product_of_block<WidenedOnTheWay>(p) : panel_product<CodedSlices>(p);
}

}  // namespace

const KernelTable& amx_table() {
  static const KernelTable table = [] {
    KernelTable wider = avx512_table();  // AMX machines run AVX-512 for everything else
    wider.name = "amx";
    wider.takes_bf16_rows_in_tiles = true;
    wider.panel_product_bf16 = dense_panel_product;
    wider.panel_product_bf16_quantised = coded_panel_product;
    return wider;
  }();
  return table;
}

}  // namespace lacuna
