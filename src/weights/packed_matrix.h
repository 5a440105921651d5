// Weights laid out for the machine, made once at load.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "base/dtype.h"
#include "base/threads.h"
#include "kernels/panels.h"

namespace lacuna {

/// A matrix of `outputs` rows by `inputs` columns in panels (see kernels/panels.h).
class PackedMatrix {
 public:
  PackedMatrix() = default;

  /// Packs rows that read_row(n, float* row) supplies, n in [0, outputs); it is called from several threads.
  /// dtype  kF32 or kBF16 (rounded to nearest even)
  template <typename ReadRow>
  PackedMatrix(ThreadPool& threads, DType dtype, int64_t outputs, int64_t inputs, ReadRow&& read_row)
      : PackedMatrix(dtype, outputs, inputs) {
    threads.parallel_for(num_panels(outputs), [&](int64_t panel, int) {
      thread_local std::vector<float> row;
      row.resize(static_cast<size_t>(inputs));
      for (int64_t lane = 0; lane < kPanelWidth && panel * kPanelWidth + lane < outputs; ++lane) {
        read_row(panel * kPanelWidth + lane, row.data());
        store_row(panel, lane, row.data());
      }
    });
  }

  PanelView view() const { return view_; }
  int64_t bytes() const { return memory_.size(); }

 private:
  PackedMatrix(DType dtype, int64_t outputs, int64_t inputs);
  void store_row(int64_t panel, int64_t lane, const float* row);

  Buffer<std::byte> memory_;
  PanelView view_;
};

}  // namespace lacuna
