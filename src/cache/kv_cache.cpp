#include "cache/kv_cache.h"

#include <type_traits>

#include "base/error.h"
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
