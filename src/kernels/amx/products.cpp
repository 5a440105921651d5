// AMX multiplies tiles of 16 rows by 16 outputs over 32 inputs of bf16, or 64 of bytes: a step. A panel's
// inputs of a step are 16 rows of 64 bytes, which is a tile as it lies; so are 16 packed rows.
#include "kernels/amx/products.h"

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <type_traits>

#include "kernels/amx/widen.h"
#include "kernels/avx512/round_row.h"
#include "kernels/avx512/vectors.h"
#include "kernels/generic/byte_rows.h"
#include "kernels/generic/quantised.h"
#include "kernels/panels.h"

namespace lacuna::amx {
namespace {

constexpr int kTileRows = static_cast<int>(kRowTile);
constexpr int64_t kBlockRows = 2 * kTileRows;  // of the tiles that hold sums
constexpr int64_t kTileRowBytes = 64;
constexpr int64_t kTileBytes = kTileRows * kTileRowBytes;

// Eight steps of two panels are 16 KiB: they stay in the first-level cache while all rows pass over them.
constexpr int64_t kStepsOfSlice = 8;
// Those rows' eight steps, 256 KiB, stay in the second-level cache for all panels.
constexpr int64_t kRowBlock = 512;

/// What tiles hold, and the product that adds to sum kSum: rows 4 or 5 by panel 6 or 7.
struct Bf16Tiles {
  static constexpr int64_t kInputsOfStep = 32;

  template <int kSum>
  static void multiply() {
    if constexpr (kSum == 0) _tile_dpbf16ps(0, 4, 6);
    if constexpr (kSum == 1) _tile_dpbf16ps(1, 4, 7);
    if constexpr (kSum == 2) _tile_dpbf16ps(2, 5, 6);
    if constexpr (kSum == 3) _tile_dpbf16ps(3, 5, 7);
  }
};

/// Whole numbers: rows with a sign, values of panels without.
struct ByteTiles {
  static constexpr int64_t kInputsOfStep = 64;
  static constexpr int64_t kStepsOfRun = generic::kInputsOfByteStep / kInputsOfStep;
  static_assert(kStepsOfSlice % kStepsOfRun == 0);  // or slices would begin within what shares a step

  template <int kSum>
  static void multiply() {
    if constexpr (kSum == 0) _tile_dpbsud(0, 4, 6);
    if constexpr (kSum == 1) _tile_dpbsud(1, 4, 7);
    if constexpr (kSum == 2) _tile_dpbsud(2, 5, 6);
    if constexpr (kSum == 3) _tile_dpbsud(3, 5, 7);
  }
};

template <typename Tiles>
int64_t num_steps(const PanelProduct& p) {
  return (p.depth + Tiles::kInputsOfStep - 1) / Tiles::kInputsOfStep;
}

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
  // Not _tile_loadconfig: g++ 12 declares that it reads 8 bytes, so the stores to the others are left out.
  // Nor does it know what tile loads read; "memory" makes it finish all stores before this point (and those
  // made later where they are made, see Widener).
  asm volatile("ldtilecfg %0" : : "m"(config) : "memory");
}

/// Where steps [step, step + count) of the panels from `panel` on are multiplied.
struct Place {
  int64_t panel;
  int64_t step;
  int64_t count;
};

/// The slices of two panels that rows pass over, in order. Few rows take several of the same panels in a row,
/// so that weights are read in long runs.
class SliceWalk {
 public:
  SliceWalk(const PanelProduct& p, int64_t num_steps)
      : num_panels_(p.num_panels),
        num_steps_(num_steps),
        steps_of_pass_(kStepsOfSlice * std::max<int64_t>(1, kRowBlock / std::max<int64_t>(1, p.num_rows))) {}

  bool done() const { return pass_ >= num_steps_ || num_panels_ == 0; }
  Place place() const { return {panel_, step_, std::min(kStepsOfSlice, pass_end() - step_)}; }
  void advance() {
    step_ += kStepsOfSlice;
    if (step_ < pass_end()) return;
    panel_ += 2;
    if (panel_ >= num_panels_) {
      panel_ = 0;
      pass_ = pass_end();
    }
    step_ = pass_;
  }
  SliceWalk next() const {
    SliceWalk walk = *this;
    walk.advance();
    return walk;
  }

 private:
  int64_t pass_end() const { return std::min(pass_ + steps_of_pass_, num_steps_); }

  int64_t num_panels_;
  int64_t num_steps_;
  int64_t steps_of_pass_;
  int64_t pass_ = 0;
  int64_t panel_ = 0;
  int64_t step_ = 0;
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
  const std::byte* first(int64_t step) const { return first_ + step * kTileBytes; }
  const std::byte* second(int64_t step) const { return second_ + step * kTileBytes; }

 protected:
  const std::byte* first_ = nullptr;
  const std::byte* second_ = nullptr;
};

/// Where a panel's tiles begin that are multiplied as they lie.
struct DensePanels {
  using Tiles = Bf16Tiles;
  static const std::byte* begin(const PanelProduct& p, int64_t panel) {
    return static_cast<const std::byte*>(p.panels) + panel * p.panel_stride * int64_t{sizeof(bf16)};
  }
};
struct PanelsOfBytes {
  using Tiles = ByteTiles;
  static const std::byte* begin(const PanelProduct& p, int64_t panel) {
    return generic::begin_of(p, panel) + QuantisedLayout(p.quantisation, p.depth).word(0, 0);
  }
};

/// Panels are multiplied as they lie, while what follows is fetched.
template <typename Panels>
class SlicesInPlace : public PanelSlices {
 public:
  using Tiles = typename Panels::Tiles;

  SlicesInPlace(const PanelProduct& p, const SliceWalk&) : p_(p) {}

  /// To the slice where `walk` is, which `num_blocks` blocks of rows pass over.
  void move_to(const SliceWalk& walk, int64_t num_blocks) {
    const Place place = walk.place();
    first_ = at(place.panel, place.step);
    second_ = place.panel + 1 < p_.num_panels ? at(place.panel + 1, place.step) : nullptr;
    if (walk.next().done()) return fetching_.begin(0, 1);
    const Place next = walk.next().place();
    next_ = at(next.panel, next.step);
    beside_next_ = at(std::min(next.panel + 1, p_.num_panels - 1), next.step);
    fetching_.begin(next.count * kTileBytes / kCacheLine, 2 * num_blocks * place.count);
  }
  void prepare(int64_t /*step*/, int64_t /*half*/) {
    fetching_.step([this](int64_t line) {
      __builtin_prefetch(next_ + line * kCacheLine, 0, 2);
      __builtin_prefetch(beside_next_ + line * kCacheLine, 0, 2);
    });
  }

 private:
  const std::byte* at(int64_t panel, int64_t step) const {
    return Panels::begin(p_, panel) + step * kTileBytes;
  }

  const PanelProduct& p_;
  WorkBeside fetching_;
  const std::byte* next_ = nullptr;
  const std::byte* beside_next_ = nullptr;
};

/// One panel, or two neighbours, of the whole depth: a single block of rows multiplies faster than memory
/// brings weights, and asks for what is a little ahead.
template <typename Panels>
class InPlaceOnTheWay : public PanelSlices {
 public:
  using Tiles = typename Panels::Tiles;

  InPlaceOnTheWay(const PanelProduct& p, int64_t panel) {
    first_ = Panels::begin(p, panel);
    second_ = panel + 1 < p.num_panels ? Panels::begin(p, panel + 1) : nullptr;
  }
  void prepare(int64_t step, int64_t half) {
    // Lines come in pairs. Further ahead, bursts of questions overtake what the hardware fetches by itself.
    constexpr int64_t kAhead = 1;
    if (half == 1 && !has_two()) return;
    const std::byte* ahead = half == 0 ? first(step + kAhead) : second(step + kAhead);
    for (int64_t i = 0; i < kTileBytes; i += 2 * kCacheLine) __builtin_prefetch(ahead + i, 0, 2);
  }
};

/// Makes steps of coded panels what the tiles multiply.
template <typename Codes>
class Widener {
 public:
  explicit Widener(const PanelProduct& p) : p_(p), layout_(p.quantisation, p.depth) {}

  void widen(int64_t panel, int64_t step, std::byte* out) const {
    // g++ 12 does not know that tile loads read: no store may pass those before or after.
    asm volatile("" : : : "memory");
    Codes::widen(p_, layout_, panel, step * kInputs, out);
    asm volatile("" : : : "memory");
  }

  /// Of codes.
  int64_t step_bytes() const { return layout_.word(0, kInputs) - layout_.word(0, 0); }
  const std::byte* codes_at(int64_t panel, int64_t step) const {
    return begin_of(p_, panel) + layout_.word(0, step * kInputs);
  }

 private:
  static constexpr int64_t kInputs = Codes::kInputs;
  const PanelProduct& p_;
  QuantisedLayout layout_;
};

/// Widened steps of two panels, of which the last few are kept.
template <int64_t kSteps>
class WidenedSteps {
 public:
  std::byte* operator()(int64_t half, int64_t step) { return space_[half] + place(step); }
  const std::byte* operator()(int64_t half, int64_t step) const { return space_[half] + place(step); }

 private:
  static int64_t place(int64_t step) { return step % kSteps * kTileBytes; }

  alignas(64) std::byte space_[2][kSteps * kTileBytes];
};

// Steps are widened so far ahead of the products with them that these need not wait for the stores.
constexpr int64_t kStepsAhead = 2;

/// Codes are widened once for all rows, beside the products of the first block. Few at a time, because
/// vectors and tiles then work at once.
template <typename TilesOfCodes, typename Codes>
class CodedSlices {
 public:
  using Tiles = TilesOfCodes;
  static_assert(Codes::kInputs == Tiles::kInputsOfStep);

  CodedSlices(const PanelProduct& p, const SliceWalk& walk)
      : num_panels_(p.num_panels), widener_(p), next_(walk.place()) {
    for (const int64_t half : {0, 1}) widen(next_, next_begin_, half, kStepsAhead);
  }

  void move_to(const SliceWalk& walk, int64_t num_blocks) {
    current_ = walk.place();
    begin_ = next_begin_;
    next_begin_ += current_.count;
    blocks_left_ = num_blocks;
    is_first_block_ = true;
    has_next_ = !walk.next().done();
    if (!has_next_) return fetching_.begin(0, 1);
    next_ = walk.next().place();
    for (const int64_t half : {0, 1})
      fetched_[half] = widener_.codes_at(std::min(next_.panel + half, num_panels_ - 1), next_.step);
    fetching_.begin(next_.count * widener_.step_bytes() / kCacheLine, 2 * num_blocks * current_.count);
  }

  bool has_two() const { return has_two(current_); }
  const std::byte* first(int64_t step) const { return widened_(0, begin_ + step); }
  const std::byte* second(int64_t step) const { return widened_(1, begin_ + step); }
  void prepare(int64_t step, int64_t half) {
    const bool is_last_step = step + 1 == current_.count;
    if (is_first_block_) widen(current_, begin_, half, step + 1 + kStepsAhead);
    if (blocks_left_ == 1 && has_next_)
      widen(next_, next_begin_, half, step + 1 + kStepsAhead - current_.count);
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
  bool has_two(const Place& slice) const { return slice.panel + 1 < num_panels_; }

  /// Goes on until `end` steps of the slice are widened.
  void widen(const Place& slice, int64_t begin, int64_t half, int64_t end) {
    if (half == 1 && !has_two(slice)) return;
    int64_t& step = num_widened_[half];
    if (step < begin) step = begin;
    for (; step < begin + std::min(end, slice.count); ++step)
      widener_.widen(slice.panel + half, slice.step + step - begin, widened_(half, step));
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
  WidenedSteps<kStepsOfSlice + kStepsAhead> widened_;
};

/// One panel of codes, or two neighbours, widened just ahead of the products: few rows leave the tiles idle
/// while codes are widened, unless the two take turns within each step.
template <typename TilesOfCodes, typename Codes>
class WidenedOnTheWay {
 public:
  using Tiles = TilesOfCodes;
  static_assert(Codes::kInputs == Tiles::kInputsOfStep);

  WidenedOnTheWay(const PanelProduct& p, int64_t panel)
      : num_steps_(num_steps<Tiles>(p)), panel_(panel), num_panels_(p.num_panels), widener_(p) {
    for (int64_t step = -kStepsAhead; step < 0; ++step) {
      for (const int64_t half : {0, 1}) prepare(step, half);
    }
  }

  bool has_two() const { return panel_ + 1 < num_panels_; }
  const std::byte* first(int64_t step) const { return widened_(0, step); }
  const std::byte* second(int64_t step) const { return widened_(1, step); }
  /// Each half of a step widens for one panel.
  void prepare(int64_t step, int64_t half) {
    const int64_t widened = step + kStepsAhead;
    if (widened >= num_steps_ || (half == 1 && !has_two())) return;
    const std::byte* ahead = codes_ahead(panel_ + half, widened + kCodesAhead);
    for (int64_t i = 0; i < widener_.step_bytes(); i += kCacheLine) __builtin_prefetch(ahead + i);
    widener_.widen(panel_ + half, widened, widened_(half, widened));
  }

 private:
  static constexpr int64_t kCodesAhead = 4;  // steps

  /// What is beyond a panel belongs to the one after the next.
  const std::byte* codes_ahead(int64_t panel, int64_t step) const {
    return step < num_steps_ ? widener_.codes_at(panel, step)
                             : widener_.codes_at(std::min(panel + 2, num_panels_ - 1), step - num_steps_);
  }

  int64_t num_steps_;
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
  float* place(SumTile<kIndex>, int64_t block) const {
    return row(block, kIndex / 2 * kTileRows) + kIndex % 2 * kPanelWidth;
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
  const std::byte* a;
  RowStrides strides;
  int64_t first;
  int64_t end;
  int64_t height;
  int64_t count;  // of steps
  Sums from;      // what the products are added to
  Sums to;
  std::optional<Finish> finish;  // where sums are complete then
  const float* row_steps;        // of rows of bytes, from the slice's first on
  int64_t steps_per_row;

  const std::byte* block(int64_t index) const {
    return a + strides.offset(index * kBlockRows, 0) * int64_t{sizeof(bf16)};
  }
};

/// Calls use() with each tile of sums that a block has.
template <bool kTwoRowTiles, bool kTwoPanels, typename Use>
void for_each_sum(const Use& use) {
  use(SumTile<0>());
  if constexpr (kTwoPanels) use(SumTile<1>());
  if constexpr (kTwoRowTiles) use(SumTile<2>());
  if constexpr (kTwoRowTiles && kTwoPanels) use(SumTile<3>());
}

/// Up to 32 rows by up to 2 panels, steps [first, end). Every sum runs over the inputs in the same order,
/// whichever tile holds it.
template <bool kTwoRowTiles, bool kTwoPanels, typename Panels>
void multiply_tiles(const std::byte* a, const RowStrides& strides, int64_t first, int64_t end,
                    Panels& panels) {
  using Tiles = typename Panels::Tiles;
  const int64_t row_bytes = strides.row * int64_t{sizeof(bf16)};
  const int64_t step_bytes = strides.step * int64_t{sizeof(bf16)};
  const int64_t tile_bytes = strides.tile * int64_t{sizeof(bf16)};
  a += first * step_bytes;
  for (int64_t step = first; step < end; ++step, a += step_bytes) {
    _tile_loadd(6, panels.first(step), kTileRowBytes);
    _tile_loadd(4, a, row_bytes);
    Tiles::template multiply<0>();
    if constexpr (kTwoPanels) {
      _tile_loadd(7, panels.second(step), kTileRowBytes);
      Tiles::template multiply<1>();
    }
    panels.prepare(step, 0);
    if constexpr (kTwoRowTiles) {
      _tile_loadd(5, a + tile_bytes, row_bytes);
      Tiles::template multiply<2>();
      if constexpr (kTwoPanels) Tiles::template multiply<3>();
    }
    panels.prepare(step, 1);
  }
}

template <bool kTwoRowTiles, bool kTwoPanels, typename Panels>
void multiply_blocks_of(const BlocksOfRows& rows, Panels& panels) {
  for_each_sum<kTwoRowTiles, kTwoPanels>([&](auto tile) { rows.from.load(tile, rows.first); });
  for (int64_t block = rows.first; block < rows.end; ++block) {
    multiply_tiles<kTwoRowTiles, kTwoPanels>(rows.block(block), rows.strides, 0, rows.count, panels);
    // A tile's next sums are loaded right after its last ones are stored: all four stores first, and the
    // products would wait for all of them.
    for_each_sum<kTwoRowTiles, kTwoPanels>([&](auto tile) {
      rows.to.store(tile, block);
      if (block + 1 < rows.end) rows.from.load(tile, block + 1);
    });
    if (rows.finish) (*rows.finish)(block, rows.height);
  }
}

/// The same with bytes: what a run of steps adds up to is whole numbers of the rows' steps.
template <bool kTwoRowTiles, bool kTwoPanels, typename Panels>
void multiply_blocks_of_bytes(const BlocksOfRows& rows, Panels& panels) {
  alignas(64) float whole[kBlockRows * 2 * kPanelWidth];  // the bits of whole numbers
  const Sums aside(whole, 2 * kPanelWidth);
  for (int64_t block = rows.first; block < rows.end; ++block) {
    const float* row_steps = rows.row_steps + block * kBlockRows * rows.steps_per_row;
    for (int64_t run = 0; run < rows.count; run += ByteTiles::kStepsOfRun, ++row_steps) {
      for_each_sum<kTwoRowTiles, kTwoPanels>([](auto tile) { tile.clear(); });
      multiply_tiles<kTwoRowTiles, kTwoPanels>(rows.block(block), rows.strides, run,
                                               std::min(run + ByteTiles::kStepsOfRun, rows.count), panels);
      for_each_sum<kTwoRowTiles, kTwoPanels>([&](auto tile) { aside.store(tile, 0); });
      const Sums& from = run == 0 ? rows.from : rows.to;
      for (int64_t row = 0; row < rows.height; ++row) {
        const __m512 step = _mm512_set1_ps(row_steps[row * rows.steps_per_row]);
        float* const to = rows.to.row(block, row);
        for (int64_t i = 0; i < (kTwoPanels ? 2 : 1) * kPanelWidth; i += kPanelWidth) {
          const __m512 before =
              from.is_zero() ? _mm512_setzero_ps() : _mm512_loadu_ps(from.row(block, row) + i);
          const __m512i sums = _mm512_load_si512(aside.row(0, row) + i);
          _mm512_storeu_ps(to + i, _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), step, before));
        }
      }
    }
    if (rows.finish) (*rows.finish)(block, rows.height);
  }
}

/// Multiplies blocks for whose height the tiles are configured.
template <typename Panels>
void multiply_blocks(const BlocksOfRows& rows, Panels& panels) {
  const auto multiply = [&]<bool kTwoRowTiles, bool kTwoPanels>() {
    if constexpr (std::is_same_v<typename Panels::Tiles, ByteTiles>) {
      multiply_blocks_of_bytes<kTwoRowTiles, kTwoPanels>(rows, panels);
    } else {
      multiply_blocks_of<kTwoRowTiles, kTwoPanels>(rows, panels);
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

/// Of rows of bytes; null of others.
const float* row_steps_of(const PanelProduct& p, int64_t row, int64_t input) {
  if (p.row_steps == nullptr) return nullptr;
  return p.row_steps + row * p.steps_per_row + input / generic::kInputsOfByteStep;
}

/// Rows [first_row, end_row) in blocks of two tiles; only the last block may be lower. Between slices, sums
/// are put aside block by block: in `out` each of their rows would lie in a page of its own.
class RowBlocks {
 public:
  ///   num_steps  of the whole depth
  RowBlocks(const PanelProduct& p, int64_t num_steps, int64_t first_row, int64_t end_row)
      : p_(p), num_steps_(num_steps), first_(first_row), num_rows_(end_row - first_row) {
    if (num_steps_ > kStepsOfSlice)
      aside_ = space_of_thread(round_up(p_.num_panels, 2) / 2 * sums_of_two_panels());
    configure_for(std::min(kBlockRows, num_rows_));
  }

  int64_t num_blocks() const { return (num_rows_ + kBlockRows - 1) / kBlockRows; }

  template <typename Slices>
  void multiply(const Place& place, Slices& slices) const {
    const int64_t first_input = place.step * Slices::Tiles::kInputsOfStep;
    BlocksOfRows rows = {
        .a = static_cast<const std::byte*>(p_.a) +
             (p_.a_strides.offset(first_, 0) + place.step * p_.a_strides.step) * int64_t{sizeof(bf16)},
        .strides = p_.a_strides,
        .first = 0,
        .end = num_rows_ / kBlockRows,
        .height = kBlockRows,
        .count = place.count,
        .from = place.step > 0  ? aside(place.panel)
                : p_.accumulate ? out(place.panel)
                                : Sums::zeros(),
        .to = out(place.panel),
        .finish = {},
        .row_steps = row_steps_of(p_, first_, first_input),
        .steps_per_row = p_.steps_per_row};
    if (place.step + place.count < num_steps_) {
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
  int64_t num_steps_;
  int64_t first_;
  int64_t num_rows_;
  float* aside_ = nullptr;
};

template <typename Slices>
void panel_product(const PanelProduct& p) {
  for (int64_t first = 0; first < p.num_rows; first += kRowBlock) {
    const int64_t steps = num_steps<typename Slices::Tiles>(p);
    const RowBlocks rows(p, steps, first, std::min(first + kRowBlock, p.num_rows));
    SliceWalk walk(p, steps);
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
    BlocksOfRows rows = {.a = static_cast<const std::byte*>(p.a),
                         .strides = p.a_strides,
                         .first = 0,
                         .end = 1,
                         .height = p.num_rows,
                         .count = num_steps<typename Panels::Tiles>(p),
                         .from = p.accumulate ? out : Sums::zeros(),
                         .to = out,
                         .finish = {},
                         .row_steps = p.row_steps,
                         .steps_per_row = p.steps_per_row};
    if (p.quantisation.scales_sums()) rows.finish.emplace(p, panel, 0);
    multiply_blocks(rows, panels);
  }
  _tile_release();
}

template <typename Panels>
void panel_product_in_place(const PanelProduct& p) {
  p.num_rows <= kBlockRows ? panel_product_of_block<InPlaceOnTheWay<Panels>>(p)
                           : panel_product<SlicesInPlace<Panels>>(p);
}

template <typename Tiles, typename Codes>
void coded_panel_product_of(const PanelProduct& p) {
  p.num_rows <= kBlockRows ? panel_product_of_block<WidenedOnTheWay<Tiles, Codes>>(p)
                           : panel_product<CodedSlices<Tiles, Codes>>(p);
}

}  // namespace

void dense_panel_product(const PanelProduct& p) {
  panel_product_in_place<DensePanels>(p);
}

void coded_panel_product(const PanelProduct& p) {
  const Quantisation& quantisation = p.quantisation;
  if (quantisation.two_levels) return coded_panel_product_of<Bf16Tiles, TwoLevels>(p);
  if (quantisation.bits == 4) return coded_panel_product_of<Bf16Tiles, Weights<4>>(p);
  if (quantisation.group == 0) return coded_panel_product_of<Bf16Tiles, CodesOf8Bits>(p);
  coded_panel_product_of<Bf16Tiles, Weights<8>>(p);
}

float round_row_to_bytes(const void* packed, const RowStrides& strides, int64_t padded_count, void* out,
                         float* steps) {
  return round_row<true>(packed, strides, padded_count, out, steps);
}

void byte_panel_product(const PanelProduct& p) {
  const bool has_whole_steps = p.depth % ByteTiles::kInputsOfStep == 0;
  if (p.quantisation.bits == 4) return coded_panel_product_of<ByteTiles, BytesOf4Bits>(p);
  has_whole_steps ? panel_product_in_place<PanelsOfBytes>(p)
                  : coded_panel_product_of<ByteTiles, BytesOf8Bits>(p);
}

}  // namespace lacuna::amx
