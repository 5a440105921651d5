#include "cache/sparse_cells.h"

#include <algorithm>

#include "base/error.h"

namespace lacuna {

ChosenCells::ChosenCells(const KvShape& shape)
    : shape_(shape), copies_(shape, 0), cells_(static_cast<size_t>(shape.num_layers * shape.num_kv_heads)) {
  expects(!shape.has_sink, "ChosenCells: no family with a sink attends to a part of its cells");
}

void ChosenCells::reserve(int64_t count, const KvCache& from) {
  if (count <= copies_.num_cells()) return;
  copies_ = KvCache(shape_, std::max(count, copies_.num_cells() * 3 / 2));
  for (int64_t layer = 0; layer < shape_.num_layers; ++layer) {
    for (int64_t kv_head = 0; kv_head < shape_.num_kv_heads; ++kv_head) {
      const std::vector<int32_t> chosen = std::move(cells_[index(layer, kv_head)]);
      choose(layer, kv_head, chosen, from);
    }
  }
}

void ChosenCells::choose(int64_t layer, int64_t kv_head, std::span<const int32_t> cells,
                         const KvCache& from) {
  expects(static_cast<int64_t>(cells.size()) <= copies_.num_cells(), "ChosenCells::choose: there is room");
  cells_[index(layer, kv_head)].assign(cells.begin(), cells.end());
  for (size_t i = 0; i < cells.size(); ++i) {
    place(layer, kv_head, cells[i], static_cast<int64_t>(i), from);
  }
}

std::span<const int32_t> ChosenCells::cells(int64_t layer, int64_t kv_head) const {
  return cells_[index(layer, kv_head)];
}

void ChosenCells::place(int64_t layer, int64_t kv_head, int32_t cell, int64_t place, const KvCache& from) {
  copies_.copy_cell(layer, kv_head, from, cell, place);
}

PageBounds::PageBounds(const KvShape& shape, int32_t page_size)
    : shape_(shape),
      page_size_(page_size),
      bounds_(static_cast<size_t>(shape.num_layers * shape.num_kv_heads)) {
  expects(page_size > 0, "PageBounds: a page has cells");
}

void PageBounds::extend(int64_t layer, int64_t kv_head, int32_t num_cells, const KvCache& from) {
  extend(layer, kv_head, num_cells,
         [&](int32_t cell, float* key, float* value) { from.read(layer, cell, kv_head, key, value); });
}

void PageBounds::extend(int64_t layer, int64_t kv_head, int32_t num_cells, const CellReader& read) {
  Bounds& bounds = bounds_[static_cast<size_t>(layer * shape_.num_kv_heads + kv_head)];
  const auto dim = static_cast<size_t>(shape_.head_dim);
  thread_local std::vector<float> key, value;
  key.resize(dim);
  value.resize(dim);
  for (; bounds.num_cells < num_cells; ++bounds.num_cells) {
    read(bounds.num_cells, key.data(), value.data());
    if (bounds.num_cells % page_size_ == 0) {
      bounds.largest.insert(bounds.largest.end(), key.begin(), key.end());
      bounds.smallest.insert(bounds.smallest.end(), key.begin(), key.end());
      continue;
    }
    float* largest = bounds.largest.data() + bounds.largest.size() - dim;
    float* smallest = bounds.smallest.data() + bounds.smallest.size() - dim;
    for (size_t c = 0; c < dim; ++c) {
      largest[c] = std::max(largest[c], key[c]);
      smallest[c] = std::min(smallest[c], key[c]);
    }
  }
}

}  // namespace lacuna
