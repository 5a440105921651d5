#include "cache/kv_cache.h"

#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "cache/sparse_cells.h"
#include "kernels/panels.h"

namespace lacuna {
namespace {

int64_t whole_tiles(const KvShape& shape, int64_t num_cells) {
  return round_up(num_cells + (shape.has_sink ? 1 : 0), kCellTile);
}

int64_t key_bytes(const KvShape& shape, int64_t cells) {
  return cells * padded_depth(shape.dtype, shape.head_dim) * static_cast<int64_t>(size_of(shape.dtype));
}

int64_t value_bytes(const KvShape& shape, int64_t cells) {
  return cells * round_up(shape.head_dim, kPanelWidth) * static_cast<int64_t>(size_of(shape.dtype));
}

/// Calls visit(key_element, value_element) for each dimension of one head's cell.
template <typename Element, typename KvBytes, typename Visit>
void for_each_element(KvBytes* keys, KvBytes* values, const KvShape& shape, int64_t cells, int64_t cell,
                      Visit&& visit) {
  using Pointer = std::conditional_t<std::is_const_v<KvBytes>, const Element*, Element*>;
  const int64_t depth = padded_depth(shape.dtype, shape.head_dim);
  auto* key_panel = reinterpret_cast<Pointer>(keys) + cell / kPanelWidth * depth * kPanelWidth;
  auto* value_panels = reinterpret_cast<Pointer>(values);
  for (int64_t d = 0; d < shape.head_dim; ++d) {
    visit(d, key_panel[panel_offset<Element>(cell % kPanelWidth, d)],
          value_panels[d / kPanelWidth * cells * kPanelWidth + panel_offset<Element>(d % kPanelWidth, cell)]);
  }
}

}  // namespace

int64_t KvCache::bytes_for(const KvShape& shape, int64_t num_cells) {
  const int64_t cells = whole_tiles(shape, num_cells);
  return shape.num_layers * shape.num_kv_heads * (key_bytes(shape, cells) + value_bytes(shape, cells));
}

KvCache::KvCache(const KvShape& shape, int64_t num_cells)
    : shape_(shape),
      num_cells_(whole_tiles(shape, num_cells)),
      sink_cell_(shape.has_sink ? static_cast<int32_t>(num_cells) : -1),
      key_head_bytes_(key_bytes(shape, num_cells_)),
      value_head_bytes_(value_bytes(shape, num_cells_)),
      memory_(bytes_for(shape, num_cells)) {
  expects(shape.dtype != DType::kF16, "KvCache: cells are f32 or bf16");
}

KvCache::KvCache(KvCache&& other) noexcept = default;
KvCache& KvCache::operator=(KvCache&& other) noexcept = default;
KvCache::~KvCache() = default;

SparseCells& KvCache::sparse() {
  if (!sparse_) sparse_ = std::make_unique<SparseCells>(shape_);
  return *sparse_;
}

KvLayerView KvCache::layer(int64_t layer) const {
  KvLayerView view;
  const int64_t heads = shape_.num_kv_heads;
  view.keys = memory_.data() + layer * heads * (key_head_bytes_ + value_head_bytes_);
  view.values = view.keys + heads * key_head_bytes_;
  view.dtype = shape_.dtype;
  view.head_dim = shape_.head_dim;
  view.capacity = num_cells_;
  view.key_head_bytes = key_head_bytes_;
  view.value_head_bytes = value_head_bytes_;
  return view;
}

void KvCache::write(int64_t layer, int64_t cell, const float* key, const float* value) {
  expects(cell >= 0 && cell < num_cells_, "KvCache::write: the cell exists");
  std::byte* keys = memory_.data() + layer * shape_.num_kv_heads * (key_head_bytes_ + value_head_bytes_);
  std::byte* values = keys + shape_.num_kv_heads * key_head_bytes_;
  for (int64_t head = 0; head < shape_.num_kv_heads; ++head) {
    const auto store = [&](int64_t d, auto& key_element, auto& value_element) {
      using Element = std::remove_reference_t<decltype(key_element)>;
      key_element = Element(key[d]);
      value_element = Element(value[d]);
    };
    if (shape_.dtype == DType::kBF16) {
      for_each_element<bf16>(keys, values, shape_, num_cells_, cell, store);
    } else {
      for_each_element<float>(keys, values, shape_, num_cells_, cell, store);
    }
    keys += key_head_bytes_;
    values += value_head_bytes_;
    key += shape_.head_dim;
    value += shape_.head_dim;
  }
}

void KvCache::copy_cell(int64_t layer, int64_t kv_head, const KvCache& from, int64_t from_cell,
                        int64_t to_cell) {
  expects(to_cell >= 0 && to_cell < num_cells_ && from_cell >= 0 && from_cell < from.num_cells_,
          "KvCache::copy_cell: the cells exist");
  const KvLayerView source = from.layer(layer);
  std::byte* keys = memory_.data() + layer * shape_.num_kv_heads * (key_head_bytes_ + value_head_bytes_);
  std::byte* values = keys + shape_.num_kv_heads * key_head_bytes_;
  const auto copy = [&]<typename Element>(Element) {
    const int64_t depth = padded_depth(shape_.dtype, shape_.head_dim);
    const auto panel = [&](auto* head_keys, int64_t cell) {
      return head_keys + cell / kPanelWidth * depth * kPanelWidth;
    };
    const Element* from_key =
        panel(reinterpret_cast<const Element*>(source.keys + kv_head * source.key_head_bytes), from_cell);
    const auto* from_values =
        reinterpret_cast<const Element*>(source.values + kv_head * source.value_head_bytes);
    Element* to_key = panel(reinterpret_cast<Element*>(keys + kv_head * key_head_bytes_), to_cell);
    auto* to_values = reinterpret_cast<Element*>(values + kv_head * value_head_bytes_);
    for (int64_t d = 0; d < shape_.head_dim; ++d) {
      to_key[panel_offset<Element>(to_cell % kPanelWidth, d)] =
          from_key[panel_offset<Element>(from_cell % kPanelWidth, d)];
      to_values[d / kPanelWidth * num_cells_ * kPanelWidth +
                panel_offset<Element>(d % kPanelWidth, to_cell)] =
          from_values[d / kPanelWidth * from.num_cells_ * kPanelWidth +
                      panel_offset<Element>(d % kPanelWidth, from_cell)];
    }
  };
  if (shape_.dtype == DType::kBF16) {
    copy(bf16());
  } else {
    copy(0.0F);
  }
}

void KvCache::copy_first_cells(const KvCache& from, int64_t count) {
  expects(count % kCellTile == 0 && count <= num_cells_ && count <= from.num_cells_,
          "KvCache::copy_first_cells: whole tiles that both caches have");
  const int64_t cell_bytes = kPanelWidth * static_cast<int64_t>(size_of(shape_.dtype));  // of a value panel
  for (int64_t layer = 0; layer < shape_.num_layers; ++layer) {
    const KvLayerView source = from.layer(layer);
    std::byte* keys = memory_.data() + layer * shape_.num_kv_heads * (key_head_bytes_ + value_head_bytes_);
    std::byte* values = keys + shape_.num_kv_heads * key_head_bytes_;
    for (int64_t head = 0; head < shape_.num_kv_heads; ++head) {
      std::memcpy(keys + head * key_head_bytes_, source.keys + head * source.key_head_bytes,
                  static_cast<size_t>(key_bytes(shape_, count)));
    }
    const int64_t num_panels = value_head_bytes_ / (num_cells_ * cell_bytes) * shape_.num_kv_heads;
    for (int64_t panel = 0; panel < num_panels; ++panel) {
      std::memcpy(values + panel * num_cells_ * cell_bytes,
                  source.values + panel * from.num_cells_ * cell_bytes,
                  static_cast<size_t>(count * cell_bytes));
    }
  }
}

void KvCache::read(int64_t layer, int64_t cell, int64_t kv_head, float* key, float* value) const {
  const KvLayerView view = this->layer(layer);
  const std::byte* keys = view.keys + kv_head * key_head_bytes_;
  const std::byte* values = view.values + kv_head * value_head_bytes_;
  const auto load = [&](int64_t d, const auto& key_element, const auto& value_element) {
    key[d] = static_cast<float>(key_element);
    value[d] = static_cast<float>(value_element);
  };
  if (shape_.dtype == DType::kBF16) {
    for_each_element<bf16>(keys, values, shape_, num_cells_, cell, load);
  } else {
    for_each_element<float>(keys, values, shape_, num_cells_, cell, load);
  }
}

}  // namespace lacuna
