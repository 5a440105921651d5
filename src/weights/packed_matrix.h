// Weights in panels for the kernels, packed at load or mapped from a packed file.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/budget.h"
#include "base/buffer.h"
#include "base/dtype.h"
#include "base/threads.h"
#include "kernels/panels.h"
#include "weights/quantize.h"
#include "weights/weight_format.h"

namespace lacuna {

/// A matrix of `outputs` rows by `inputs` columns in panels (kernels/panels.h).
class PackedMatrix {
 public:
  PackedMatrix() = default;

  /// Packs rows that read_row(n, float* row) supplies for n in [0, outputs). Several threads call it.
  template <typename ReadRow>
  PackedMatrix(ThreadPool& threads, const WeightFormat& format, int64_t outputs, int64_t inputs,
               ReadRow&& read_row)
      : PackedMatrix(format, outputs, inputs) {
    for_each_panel(threads, [&](int64_t begin, int64_t end) {
      thread_local std::vector<float> rows;
      rows.resize(static_cast<size_t>((end - begin) * inputs));
      for (int64_t n = begin; n < end; ++n) read_row(n, rows.data() + (n - begin) * inputs);
      store_rows(begin, rows);
    });
  }

  /// Packs quantized rows without loss. Several threads call read_codes(n, QuantizedRow& row), which fills a
  /// row sized for `quantization`.
  template <typename ReadCodes>
  static PackedMatrix from_codes(ThreadPool& threads, const Quantization& quantization, int64_t outputs,
                                 int64_t inputs, ReadCodes&& read_codes) {
    PackedMatrix matrix(quantization, outputs, inputs);
    matrix.for_each_panel(threads, [&](int64_t begin, int64_t end) {
      thread_local QuantizedRow row;
      for (int64_t n = begin; n < end; ++n) {
        row.resize(quantization, inputs);
        read_codes(n, row);
        matrix.store_codes(n, row);
      }
    });
    return matrix;
  }

  /// Views panels in existing memory, such as a mapped file, without a copy.
  ///   panels  packed_bytes(format, outputs, inputs) bytes, aligned to cache lines
  ///   owner   keeps them alive
  PackedMatrix(std::shared_ptr<const void> owner, const WeightFormat& format, int64_t outputs, int64_t inputs,
               std::span<const std::byte> panels);

  /// Dequantizes the weights of one output.
  ///   out  [inputs]
  void read_row(int64_t n, float* out) const;
  /// Returns the quantized values and scales of one output; quantized formats only.
  ///   out  resized as needed
  void read_codes(int64_t n, QuantizedRow& out) const;

  WeightFormat format() const {
    return view_.is_quantized() ? WeightFormat(view_.quantization) : WeightFormat(view_.dtype);
  }
  PanelView view() const { return view_; }
  /// All bytes of the panels, with padding: packed_bytes().
  std::span<const std::byte> panels() const;
  int64_t bytes() const { return static_cast<int64_t>(panels().size()); }
  /// Whether the matrix views memory that it does not own.
  bool is_mapped() const { return owner_ != nullptr; }

 private:
  /// Allocates panels; for_each_panel() zeroes them.
  PackedMatrix(const WeightFormat& format, int64_t outputs, int64_t inputs);

  /// Zeroes each panel and calls pack(begin, end) with the outputs that it holds. The thread that packs a
  /// panel also zeroes it, so first touch places its memory. Between slices of some milliseconds, the
  /// thread's Budget may cancel the work (WorkCancelled).
  template <typename Pack>
  void for_each_panel(ThreadPool& threads, Pack&& pack) const {
    constexpr int64_t kWeightsOfThread = 1 << 19;
    const int64_t weights_of_panel = kPanelWidth * std::max<int64_t>(view_.inputs, 1);
    const int64_t slice = threads.size() * std::max<int64_t>(1, kWeightsOfThread / weights_of_panel);
    const int64_t all = num_panels(view_.outputs);
    for (int64_t first = 0; first < all; first += slice) {
      const int64_t count = std::min(slice, all - first);
      spend_steps(static_cast<size_t>(count * weights_of_panel));
      threads.parallel_for(count, [&](int64_t i, int) {
        const int64_t begin = (first + i) * kPanelWidth;
        std::memset(own_panel_of(begin), 0, panels().size() / static_cast<size_t>(all));
        pack(begin, std::min(view_.outputs, begin + kPanelWidth));
      });
    }
  }

  ///   rows  weights of one panel's outputs, from `first` on
  void store_rows(int64_t first, std::span<const float> rows);
  void store_codes(int64_t n, const QuantizedRow& row);
  const std::byte* panel_of(int64_t n) const;
  std::byte* own_panel_of(int64_t n) const { return memory_.data() + (panel_of(n) - panels().data()); }

  Buffer<std::byte> memory_;           // empty if the panels are mapped
  std::shared_ptr<const void> owner_;  // keeps mapped panels alive
  PanelView view_;
};

}  // namespace lacuna
