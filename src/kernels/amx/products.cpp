// AMX multiplies tiles of 16 rows by 16 outputs over 32 bf16 inputs. A panel's 32 inputs are 16 rows of 64
// bytes, which is a tile as it lies; so are 16 packed rows.
#include "kernels/amx/products.h"

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <optional>

#include "kernels/amx/widen.h"
#include "kernels/avx512/vectors.h"
#include "kernels/generic/quantised.h"
#include "kernels/panels.h"

namespace lacuna::amx {
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
  // Nor does it know what tile loads read; "memory" makes it finish all stores before this point (and those
  // made later where they are made, see Widener).
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
    fetching_.begin(next.depth * kPanelWidth / kLine, 2 * num_blocks * place.depth / kTileInputs);
  }
  void prepare(int64_t /*k*/, int64_t /*half*/) {
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
  void prepare(int64_t k, int64_t half) {
    // Lines come in pairs. Further ahead, bursts of questions overtake what the hardware fetches by itself.
    constexpr int64_t kInputsAhead = kTileInputs;
    if (half == 1 && !has_two()) return;
    const bf16* ahead = half == 0 ? first(k + kInputsAhead) : second(k + kInputsAhead);
    for (int64_t i = 0; i < kPanelWidth * kTileInputs; i += 2 * kLine) __builtin_prefetch(ahead + i, 0, 2);
  }
};

/// Makes steps of 32 inputs of coded panels what the tiles multiply.
template <typename Codes>
class Widener {
 public:
  explicit Widener(const PanelProduct& p) : p_(p), layout_(p.quantisation, p.depth) {}

  void widen(int64_t panel, int64_t k, bf16* out) const {
    // g++ 12 does not know that tile loads read: no store may pass those before or after.
    asm volatile("" : : : "memory");
    Codes::widen(p_, layout_, panel, k, out);
    asm volatile("" : : : "memory");
  }

  /// Of codes.
  int64_t step_bytes() const { return layout_.word(0, kTileInputs) - layout_.word(0, 0); }
  const std::byte* codes_at(int64_t panel, int64_t k) const {
    return begin_of(p_, panel) + layout_.word(0, k);
  }

 private:
  const PanelProduct& p_;
  QuantisedLayout layout_;
};

/// Widened steps of two panels, of which the last few are kept.
template <int64_t kSteps>
class WidenedSteps {
 public:
  bf16* operator()(int64_t half, int64_t step) { return space_[half] + place(step); }
  const bf16* operator()(int64_t half, int64_t step) const { return space_[half] + place(step); }

 private:
  static int64_t place(int64_t step) { return step % kSteps * kTileInputs * kPanelWidth; }

  alignas(64) bf16 space_[2][kSteps * kTileInputs * kPanelWidth];
};

// Steps are widened so far ahead of the products with them that these need not wait for the stores.
constexpr int64_t kStepsAhead = 2;

/// Codes are widened once for all rows, beside the products of the first block. Few at a time, because
/// vectors and tiles then work at once.
template <typename Codes>
class CodedSlices {
 public:
  CodedSlices(const PanelProduct& p, const SliceWalk& walk)
      : num_panels_(p.num_panels), widener_(p), next_(walk.place()) {
    for (const int64_t half : {0, 1}) widen(next_, next_begin_, half, kStepsAhead);
  }

  void move_to(const SliceWalk& walk, int64_t num_blocks) {
    current_ = walk.place();
    begin_ = next_begin_;
    next_begin_ += steps(current_);
    blocks_left_ = num_blocks;
    is_first_block_ = true;
    has_next_ = !walk.next().done();
    if (!has_next_) return fetching_.begin(0, 1);
    next_ = walk.next().place();
    for (const int64_t half : {0, 1})
      fetched_[half] = widener_.codes_at(std::min(next_.panel + half, num_panels_ - 1), next_.k);
    fetching_.begin(steps(next_) * widener_.step_bytes() / kCacheLine, 2 * num_blocks * steps(current_));
  }

  bool has_two() const { return has_two(current_); }
  const bf16* first(int64_t k) const { return widened_(0, begin_ + k / kTileInputs); }
  const bf16* second(int64_t k) const { return widened_(1, begin_ + k / kTileInputs); }
  void prepare(int64_t k, int64_t half) {
    const int64_t step = k / kTileInputs;
    const bool is_last_step = step + 1 == steps(current_);
    if (is_first_block_) widen(current_, begin_, half, step + 1 + kStepsAhead);
    if (blocks_left_ == 1 && has_next_)
      widen(next_, next_begin_, half, step + 1 + kStepsAhead - steps(current_));
    if (is_last_step && half == 1) {
      is_first_block_ = false;
      --blocks_left_;
    }
    fetching_.step([this](int64_t line) {
      __builtin_prefetch(fetched_[0] + line * kCacheLine, 0, 2);
      __builtin_prefetch(fetched_[1] + line * kCacheLine, 0, 2);
    });
  }

 private:
  static int64_t steps(const Place& slice) { return slice.depth / kTileInputs; }
  bool has_two(const Place& slice) const { return slice.panel + 1 < num_panels_; }

  /// Goes on until `end` steps of the slice are widened.
  void widen(const Place& slice, int64_t begin, int64_t half, int64_t end) {
    if (half == 1 && !has_two(slice)) return;
    int64_t& step = num_widened_[half];
    if (step < begin) step = begin;
    for (; step < begin + std::min(end, steps(slice)); ++step) {
      widener_.widen(slice.panel + half, slice.k + (step - begin) * kTileInputs, widened_(half, step));
    }
  }

  int64_t num_panels_;
  Widener<Codes> widener_;
  Place current_ = {};
  Place next_;
  bool has_next_ = false;
  int64_t begin_ = 0;                // of the slice, in steps of all slices
  int64_t next_begin_ = 0;           // of the next one
  int64_t num_widened_[2] = {0, 0};  // steps of all slices, of either panel
  int64_t blocks_left_ = 0;
  bool is_first_block_ = true;
  WorkBeside fetching_;
  const std::byte* fetched_[2] = {nullptr, nullptr};  // codes of the next slice
  WidenedSteps<kDepthBlock / kTileInputs + kStepsAhead> widened_;
};

/// One panel of codes, or two neighbours, widened just ahead of the products: few rows leave the tiles idle
/// while codes are widened, unless the two take turns within each step.
template <typename Codes>
class WidenedOnTheWay {
 public:
  WidenedOnTheWay(const PanelProduct& p, int64_t panel)
      : depth_(p.depth), panel_(panel), num_panels_(p.num_panels), widener_(p) {
    for (int64_t step = -kStepsAhead; step < 0; ++step) {
      for (const int64_t half : {0, 1}) prepare(step * kTileInputs, half);
    }
  }

  bool has_two() const { return panel_ + 1 < num_panels_; }
  const bf16* first(int64_t k) const { return widened_(0, k / kTileInputs); }
  const bf16* second(int64_t k) const { return widened_(1, k / kTileInputs); }
  /// Each half of a step widens for one panel.
  void prepare(int64_t k, int64_t half) {
    const int64_t widened = k + kStepsAhead * kTileInputs;
    if (widened >= depth_ || (half == 1 && !has_two())) return;
    const std::byte* ahead = codes_ahead(panel_ + half, widened + kInputsAhead);
    for (int64_t i = 0; i < widener_.step_bytes(); i += kCacheLine) __builtin_prefetch(ahead + i);
    widener_.widen(panel_ + half, widened, widened_(half, widened / kTileInputs));
  }

 private:
  static constexpr int64_t kInputsAhead = 128;

  /// What is beyond a panel belongs to the one after the next.
  const std::byte* codes_ahead(int64_t panel, int64_t k) const {
    return k < depth_ ? widener_.codes_at(panel, k)
                      : widener_.codes_at(std::min(panel + 2, num_panels_ - 1), k - depth_);
  }

  int64_t depth_;
  int64_t panel_;
  int64_t num_panels_;
  Widener<Codes> widener_;
  WidenedSteps<2 * kStepsAhead> widened_;
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

/// Scales complete sums, where that is due.
class Finish {
 public:
  Finish(const PanelProduct& p, int64_t panel, int64_t first_row)
      : p_(p), panel_(panel), num_panels_(std::min<int64_t>(2, p.num_panels - panel)), first_(first_row) {}

  /// Of a block of rows.
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

/// Blocks of equal height that one slice of panels is multiplied with.
struct BlocksOfRows {
  const bf16* a;
  RowStrides strides;
  int64_t first;
  int64_t end;
  int64_t height;
  int64_t depth;
  Sums from;  // what the products are added to
  Sums to;
  std::optional<Finish> finish;  // where sums are complete then
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
    _tile_loadd(6, panels.first(k), kPanelRowBytes);
    _tile_loadd(4, a, row_bytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kTwoPanels) {
      _tile_loadd(7, panels.second(k), kPanelRowBytes);
      _tile_dpbf16ps(1, 4, 7);
    }
    panels.prepare(k, 0);
    if constexpr (kTwoRowTiles) {
      _tile_loadd(5, a + strides.tile, row_bytes);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (kTwoPanels) _tile_dpbf16ps(3, 5, 7);
    }
    panels.prepare(k, 1);
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
    if (rows.finish) (*rows.finish)(block, rows.height);
  }
}

/// Multiplies blocks for whose height the tiles are configured.
template <typename Panels>
void multiply_blocks(const BlocksOfRows& rows, Panels& panels) {
  if (rows.height > kTileRows) {
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
    if (p_.depth > kDepthBlock)
      aside_ = space_of_thread(round_up(p_.num_panels, 2) / 2 * sums_of_two_panels());
    configure_for(std::min(kBlockRows, num_rows_));
  }

  int64_t num_blocks() const { return (num_rows_ + kBlockRows - 1) / kBlockRows; }

  template <typename Slices>
  void multiply(const Place& place, Slices& slices) const {
    BlocksOfRows rows = {.a = static_cast<const bf16*>(p_.a) + p_.a_strides.offset(first_, place.k),
                         .strides = p_.a_strides,
                         .first = 0,
                         .end = num_rows_ / kBlockRows,
                         .height = kBlockRows,
                         .depth = place.depth,
                         .from = place.k > 0     ? aside(place.panel)
                                 : p_.accumulate ? out(place.panel)
                                                 : Sums::zeros(),
                         .to = out(place.panel),
                         .finish = {}};
    if (place.k + place.depth < p_.depth) {
      rows.to = aside(place.panel);
    } else if (p_.quantisation.scales_sums()) {
      rows.finish.emplace(p_, place.panel, first_);
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
  int64_t sums_of_two_panels() const { return num_blocks() * kBlockRows * 2 * kPanelWidth; }

  Sums aside(int64_t panel) const { return {aside_ + panel / 2 * sums_of_two_panels(), 2 * kPanelWidth}; }
  Sums out(int64_t panel) const {
    return {p_.out + first_ * p_.out_stride + panel * kPanelWidth, p_.out_stride};
  }

  const PanelProduct& p_;
  int64_t first_;
  int64_t num_rows_;
  float* aside_ = nullptr;
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
    BlocksOfRows rows = {.a = static_cast<const bf16*>(p.a),
                         .strides = p.a_strides,
                         .first = 0,
                         .end = 1,
                         .height = p.num_rows,
                         .depth = p.depth,
                         .from = p.accumulate ? out : Sums::zeros(),
                         .to = out,
                         .finish = {}};
    if (p.quantisation.scales_sums()) rows.finish.emplace(p, panel, 0);
    multiply_blocks(rows, panels);
  }
  _tile_release();
}

template <typename Codes>
void coded_panel_product_of(const PanelProduct& p) {
  p.num_rows <= kBlockRows ? panel_product_of_block<WidenedOnTheWay<Codes>>(p)
                           : panel_product<CodedSlices<Codes>>(p);
}

}  // namespace

void dense_panel_product(const PanelProduct& p) {
  p.num_rows <= kBlockRows ? panel_product_of_block<DenseOnTheWay>(p) : panel_product<DenseSlices>(p);
}

void coded_panel_product(const PanelProduct& p) {
  const Quantisation& quantisation = p.quantisation;
  if (quantisation.two_levels) return coded_panel_product_of<TwoLevels>(p);
  if (quantisation.bits == 4) return coded_panel_product_of<Weights<4>>(p);
  if (quantisation.group == 0) return coded_panel_product_of<CodesOf8Bits>(p);
  coded_panel_product_of<Weights<8>>(p);
}

}  // namespace lacuna::amx
