// Visible cells of a sequence as operands of GEMMs, page by page.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/attention.h"
#include "kernels/table.h"

namespace lacuna {

static_assert(kPageCells % kCellTile == 0, "a tile lies in one page");

/// Contiguous visible cells of one page.
struct Stretch {
  int64_t page;
  int64_t first;  ///< index of the first cell in the page
  int64_t count;
  int64_t column;  ///< index of the first cell among all visible cells
};

/// Calls use(stretch) for all visible cells, in order.
template <typename Use>
void for_each_stretch(std::span<const IndexRange> tile_runs, Use&& use) {
  int64_t column = 0;
  for (const IndexRange& run : tile_runs) {
    const int64_t end = run.end * kCellTile;
    for (int64_t cell = run.begin * kCellTile; cell < end;) {
      const int64_t first = cell % kPageCells;
      const int64_t count = std::min(kPageCells - first, end - cell);
      use(Stretch{cell / kPageCells, first, count, column});
      cell += count;
      column += count;
    }
  }
}

/// Panels of one kv head; converts quantized cells to the dtype of the GEMM.
class CellPanels {
 public:
  ///   space  memory for one converted page; unused if cells are not quantized
  CellPanels(const KernelTable& kernels, const KvLayerView& kv, int64_t kv_head, std::byte* space)
      : kernels_(kernels), kv_(kv), kv_head_(kv_head), space_(space) {}

  void point_to_keys(PanelProduct& product, const Stretch& stretch) const {
    const PanelView keys = kv_.key_panels(stretch.page, kv_head_);
    product.panel_stride = keys.panel_stride;
    product.num_panels = stretch.count / kPanelWidth;
    product.panels = keys.panel(stretch.first / kPanelWidth);
    if (!kv_.holds_codes()) return;
    widen(static_cast<const std::byte*>(keys.data) + stretch.first / kPanelWidth * keys.panel_stride,
          product.num_panels * keys.panel_stride, 0);
    product.panels = space_;
  }

  void point_to_values(PanelProduct& product, const Stretch& stretch) const {
    const PanelView values = kv_.value_panels(stretch.page, kv_head_);
    product.panel_stride = values.panel_stride;
    product.num_panels = num_panels(kv_.head_dim);
    const auto* cells =
        static_cast<const std::byte*>(values.data) + stretch.first * kPanelWidth * element_bytes();
    product.panels = cells;
    if (!kv_.holds_codes()) return;
    for (int64_t panel = 0; panel < product.num_panels; ++panel) {
      widen(cells + panel * values.panel_stride, stretch.count * kPanelWidth,
            panel * stretch.count * kPanelWidth);
    }
    product.panels = space_;
    product.panel_stride = stretch.count * kPanelWidth;
  }

 private:
  int64_t element_bytes() const { return kv_.holds_codes() ? 1 : static_cast<int64_t>(size_of(kv_.dtype)); }

  void widen(const std::byte* from, int64_t count, int64_t to) const {
    const auto* codes = reinterpret_cast<const int8_t*>(from);
    if (kv_.dtype == DType::kBF16) {
      kernels_.widen_codes_bf16(codes, count, reinterpret_cast<bf16*>(space_) + to);
    } else {
      kernels_.widen_codes_f32(codes, count, reinterpret_cast<float*>(space_) + to);
    }
  }

  const KernelTable& kernels_;
  const KvLayerView& kv_;
  int64_t kv_head_;
  std::byte* space_;
};

}  // namespace lacuna
