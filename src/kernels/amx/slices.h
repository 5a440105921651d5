// Order in which AMX kernels read panels, as stored or dequantized.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/amx/dequantize.h"
#include "kernels/amx/tiles.h"
#include "kernels/generic/quantized.h"
#include "kernels/panels.h"
#include "kernels/table.h"

namespace lacuna::amx {
namespace {  // NOLINT: as in avx512/vectors.h

/// K steps [k_step, k_step + count) of the two panels that begin at `panel`.
struct Place {
  int64_t panel;
  int64_t k_step;
  int64_t count;
};

/// Loop order over slices of two panels. With few rows, several slices of the same panels follow each other,
/// to read weights in long runs.
class SliceWalk {
 public:
  SliceWalk(const PanelProduct& p, int64_t num_k_steps)
      : num_panels_(p.num_panels),
        num_k_steps_(num_k_steps),
        pass_k_steps_(kSliceKSteps * std::max<int64_t>(1, kRowBlock / std::max<int64_t>(1, p.num_rows))) {}

  bool done() const { return pass_ >= num_k_steps_ || num_panels_ == 0; }
  Place place() const { return {panel_, k_step_, std::min(kSliceKSteps, pass_end() - k_step_)}; }
  void advance() {
    k_step_ += kSliceKSteps;
    if (k_step_ < pass_end()) return;
    panel_ += 2;
    if (panel_ >= num_panels_) {
      panel_ = 0;
      pass_ = pass_end();
    }
    k_step_ = pass_;
  }
  SliceWalk next() const {
    SliceWalk walk = *this;
    walk.advance();
    return walk;
  }

 private:
  int64_t pass_end() const { return std::min(pass_ + pass_k_steps_, num_k_steps_); }

  int64_t num_panels_;
  int64_t num_k_steps_;
  int64_t pass_k_steps_;
  int64_t pass_ = 0;
  int64_t panel_ = 0;
  int64_t k_step_ = 0;
};

/// Work that is interleaved with the K steps of a slice, spread evenly over them.
class InterleavedWork {
 public:
  void begin(int64_t pieces, int64_t k_steps) {
    pieces_ = pieces;
    k_steps_ = k_steps;
    credit_ = done_ = 0;
  }
  /// Calls work(index) for each piece that is due with this K step.
  template <typename Work>
  void k_step(const Work& work) {
    for (credit_ += pieces_; credit_ >= k_steps_; credit_ -= k_steps_) work(done_++);
  }

 private:
  int64_t pieces_ = 0;
  int64_t k_steps_ = 1;
  int64_t credit_ = 0;  // accumulates pieces_ per K step; a piece is due at k_steps_
  int64_t done_ = 0;
};

/// A slice of one or two panels.
class PanelSlices {
 public:
  bool has_two() const { return second_ != nullptr; }
  const std::byte* first(int64_t k_step) const { return first_ + k_step * kTileBytes; }
  const std::byte* second(int64_t k_step) const { return second_ + k_step * kTileBytes; }

 protected:
  const std::byte* first_ = nullptr;
  const std::byte* second_ = nullptr;
};

/// The first tile of panels that are multiplied as stored.
struct DensePanels {
  using Tiles = Bf16Tiles;
  static const std::byte* begin(const PanelProduct& p, int64_t panel) {
    return static_cast<const std::byte*>(p.panels) + panel * p.panel_stride * int64_t{sizeof(bf16)};
  }
};
struct Int8Panels {
  using Tiles = Int8Tiles;
  static const std::byte* begin(const PanelProduct& p, int64_t panel) {
    return generic::begin_of(p, panel) + QuantizedLayout(p.quantization, p.depth).word(0, 0);
  }
};

/// Panels that are multiplied as stored, while the next slice is prefetched.
template <typename Panels>
class PackedSlices : public PanelSlices {
 public:
  using Tiles = typename Panels::Tiles;

  PackedSlices(const PanelProduct& p, const SliceWalk&) : p_(p) {}

  /// Moves to the current slice of `walk`, to be multiplied with `num_blocks` blocks of rows.
  void move_to(const SliceWalk& walk, int64_t num_blocks) {
    const Place place = walk.place();
    first_ = at(place.panel, place.k_step);
    second_ = place.panel + 1 < p_.num_panels ? at(place.panel + 1, place.k_step) : nullptr;
    if (walk.next().done()) return fetching_.begin(0, 1);
    const Place next = walk.next().place();
    next_ = at(next.panel, next.k_step);
    second_next_ = at(std::min(next.panel + 1, p_.num_panels - 1), next.k_step);
    fetching_.begin(next.count * kTileBytes / kCacheLine, 2 * num_blocks * place.count);
  }
  void prepare(int64_t /*k_step*/, int64_t /*half*/) {
    fetching_.k_step([this](int64_t line) {
      __builtin_prefetch(next_ + line * kCacheLine, 0, 2);
      __builtin_prefetch(second_next_ + line * kCacheLine, 0, 2);
    });
  }

 private:
  const std::byte* at(int64_t panel, int64_t k_step) const {
    return Panels::begin(p_, panel) + k_step * kTileBytes;
  }

  const PanelProduct& p_;
  InterleavedWork fetching_;
  const std::byte* next_ = nullptr;
  const std::byte* second_next_ = nullptr;
};

/// One panel, or two adjacent ones, over all of K, for a single block of rows, which is memory-bound.
/// Prefetches a little ahead.
template <typename Panels>
class StreamedPackedPanels : public PanelSlices {
 public:
  using Tiles = typename Panels::Tiles;

  StreamedPackedPanels(const PanelProduct& p, int64_t panel) {
    first_ = Panels::begin(p, panel);
    second_ = panel + 1 < p.num_panels ? Panels::begin(p, panel + 1) : nullptr;
  }
  void prepare(int64_t k_step, int64_t half) {
    // The hardware fetches lines in pairs. A longer distance would compete with its own prefetcher.
    constexpr int64_t kAhead = 1;
    if (half == 1 && !has_two()) return;
    const std::byte* ahead = half == 0 ? first(k_step + kAhead) : second(k_step + kAhead);
    for (int64_t i = 0; i < kTileBytes; i += 2 * kCacheLine) __builtin_prefetch(ahead + i, 0, 2);
  }
};

/// Dequantizes K steps of quantized panels for the tiles.
template <typename Format>
class PanelDequantizer {
 public:
  explicit PanelDequantizer(const PanelProduct& p) : p_(p), layout_(p.quantization, p.depth) {}

  void dequantize(int64_t panel, int64_t k_step, std::byte* out) const {
    // Keeps stores from moving across tile loads: g++ 12 does not know that these read memory.
    asm volatile("" : : : "memory");
    Format::dequantize(p_, layout_, panel, k_step * kInputs, out);
    asm volatile("" : : : "memory");
  }

  /// Bytes of quantized values per K step.
  int64_t k_step_bytes() const { return layout_.word(0, kInputs) - layout_.word(0, 0); }
  const std::byte* values_at(int64_t panel, int64_t k_step) const {
    return begin_of(p_, panel) + layout_.word(0, k_step * kInputs);
  }

 private:
  static constexpr int64_t kInputs = Format::kInputs;
  const PanelProduct& p_;
  QuantizedLayout layout_;
};

/// Ring buffer of the last dequantized K steps of two panels.
template <int64_t kCount>
class DequantizedKSteps {
 public:
  std::byte* operator()(int64_t half, int64_t k_step) { return space_[half] + place(k_step); }
  const std::byte* operator()(int64_t half, int64_t k_step) const { return space_[half] + place(k_step); }

 private:
  static int64_t place(int64_t k_step) { return k_step % kCount * kTileBytes; }

  alignas(64) std::byte space_[2][kCount * kTileBytes];
};

// Dequantization runs this many K steps ahead of the tile loads, which would otherwise wait for the stores.
constexpr int64_t kKStepsAhead = 2;

/// Panels that are dequantized once for all rows, in small pieces interleaved with the tile operations of the
/// first block of rows, so that vector and tile instructions overlap.
template <typename TileType, typename Format>
class DequantizedSlices {
 public:
  using Tiles = TileType;
  static_assert(Format::kInputs == Tiles::kKStep);

  DequantizedSlices(const PanelProduct& p, const SliceWalk& walk)
      : num_panels_(p.num_panels), dequantizer_(p), next_(walk.place()) {
    for (const int64_t half : {0, 1}) dequantize(next_, next_begin_, half, kKStepsAhead);
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
      fetched_[half] = dequantizer_.values_at(std::min(next_.panel + half, num_panels_ - 1), next_.k_step);
    fetching_.begin(next_.count * dequantizer_.k_step_bytes() / kCacheLine, 2 * num_blocks * current_.count);
  }

  bool has_two() const { return has_two(current_); }
  const std::byte* first(int64_t k_step) const { return dequantized_(0, begin_ + k_step); }
  const std::byte* second(int64_t k_step) const { return dequantized_(1, begin_ + k_step); }
  void prepare(int64_t k_step, int64_t half) {
    const bool is_last_k_step = k_step + 1 == current_.count;
    if (is_first_block_) dequantize(current_, begin_, half, k_step + 1 + kKStepsAhead);
    if (blocks_left_ == 1 && has_next_)
      dequantize(next_, next_begin_, half, k_step + 1 + kKStepsAhead - current_.count);
    if (is_last_k_step && half == 1) {
      is_first_block_ = false;
      --blocks_left_;
    }
    fetching_.k_step([this](int64_t line) {
      __builtin_prefetch(fetched_[0] + line * kCacheLine, 0, 2);
      __builtin_prefetch(fetched_[1] + line * kCacheLine, 0, 2);
    });
  }

 private:
  bool has_two(const Place& slice) const { return slice.panel + 1 < num_panels_; }

  /// Continues until `end` K steps of the slice are dequantized.
  void dequantize(const Place& slice, int64_t begin, int64_t half, int64_t end) {
    if (half == 1 && !has_two(slice)) return;
    int64_t& k_step = num_dequantized_[half];
    if (k_step < begin) k_step = begin;
    for (; k_step < begin + std::min(end, slice.count); ++k_step)
      dequantizer_.dequantize(slice.panel + half, slice.k_step + k_step - begin, dequantized_(half, k_step));
  }

  int64_t num_panels_;
  PanelDequantizer<Format> dequantizer_;
  Place current_ = {};
  Place next_;
  bool has_next_ = false;
  int64_t begin_ = 0;                    // begin of the slice, in K steps of all slices
  int64_t next_begin_ = 0;               // begin of the next slice
  int64_t num_dequantized_[2] = {0, 0};  // K steps of all slices, per panel
  int64_t blocks_left_ = 0;
  bool is_first_block_ = true;
  InterleavedWork fetching_;
  const std::byte* fetched_[2] = {nullptr, nullptr};  // quantized values of the next slice
  DequantizedKSteps<kSliceKSteps + kKStepsAhead> dequantized_;
};

/// One quantized panel, or two adjacent ones, for few rows: dequantized just ahead of the tile loads and
/// interleaved with them, because the tiles would otherwise be idle during dequantization.
template <typename TileType, typename Format>
class StreamedDequantizedPanels {
 public:
  using Tiles = TileType;
  static_assert(Format::kInputs == Tiles::kKStep);

  StreamedDequantizedPanels(const PanelProduct& p, int64_t panel)
      : num_k_steps_(num_k_steps<Tiles>(p)), panel_(panel), num_panels_(p.num_panels), dequantizer_(p) {
    for (int64_t k_step = -kKStepsAhead; k_step < 0; ++k_step) {
      for (const int64_t half : {0, 1}) prepare(k_step, half);
    }
  }

  bool has_two() const { return panel_ + 1 < num_panels_; }
  const std::byte* first(int64_t k_step) const { return dequantized_(0, k_step); }
  const std::byte* second(int64_t k_step) const { return dequantized_(1, k_step); }
  /// Each half of a K step dequantizes for one panel.
  void prepare(int64_t k_step, int64_t half) {
    const int64_t dequantized = k_step + kKStepsAhead;
    if (dequantized >= num_k_steps_ || (half == 1 && !has_two())) return;
    const std::byte* ahead = values_ahead(panel_ + half, dequantized + kValuesAhead);
    for (int64_t i = 0; i < dequantizer_.k_step_bytes(); i += kCacheLine) __builtin_prefetch(ahead + i);
    dequantizer_.dequantize(panel_ + half, dequantized, dequantized_(half, dequantized));
  }

 private:
  static constexpr int64_t kValuesAhead = 4;  // K steps

  /// Quantized values of a K step to prefetch; past the end of the panel, those of panel + 2.
  const std::byte* values_ahead(int64_t panel, int64_t k_step) const {
    return k_step < num_k_steps_
               ? dequantizer_.values_at(panel, k_step)
               : dequantizer_.values_at(std::min(panel + 2, num_panels_ - 1), k_step - num_k_steps_);
  }

  int64_t num_k_steps_;
  int64_t panel_;
  int64_t num_panels_;
  PanelDequantizer<Format> dequantizer_;
  DequantizedKSteps<2 * kKStepsAhead> dequantized_;
};

}  // namespace
}  // namespace lacuna::amx
