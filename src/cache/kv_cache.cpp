#include "cache/kv_cache.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/error.h"
#include "cache/sparse_cells.h"
#include "kernels/panels.h"

namespace lacuna {
namespace {

int64_t whole_tiles(const KvShape& shape, int64_t num_cells) {
  return round_up(num_cells + (shape.has_sink ? 1 : 0), kCellTile);
}

int64_t element_bytes(const KvShape& shape) {
  return shape.in_codes ? 1 : static_cast<int64_t>(size_of(shape.dtype));
}

int64_t key_bytes(const KvShape& shape, int64_t cells) {
  return cells * padded_depth(shape.dtype, shape.head_dim) * element_bytes(shape);
}

int64_t value_bytes(const KvShape& shape, int64_t cells) {
  return cells * round_up(shape.head_dim, kPanelWidth) * element_bytes(shape);
}

int64_t layer_bytes(const KvShape& shape, int64_t cells) {
  const int64_t scale_bytes = shape.in_codes ? 2 * cells * int64_t{sizeof(float)} : 0;
  return shape.num_kv_heads * (key_bytes(shape, cells) + value_bytes(shape, cells) + scale_bytes);
}

/// Calls body.operator()<Element, Layout>(): what a cell's elements are, and those whose panels they lie in.
template <typename Body>
void with_elements(const KvShape& shape, Body&& body) {
  const bool is_bf16 = shape.dtype == DType::kBF16;
  if (shape.in_codes) {
    is_bf16 ? body.template operator()<int8_t, bf16>() : body.template operator()<int8_t, float>();
  } else {
    is_bf16 ? body.template operator()<bf16, bf16>() : body.template operator()<float, float>();
  }
}

/// Where dimension d of one head's cell lies, in elements.
template <typename Layout>
int64_t key_place(const KvShape& shape, int64_t cell, int64_t d) {
  return cell / kPanelWidth * padded_depth(shape.dtype, shape.head_dim) * kPanelWidth +
         panel_offset<Layout>(cell % kPanelWidth, d);
}
template <typename Layout>
int64_t value_place(int64_t num_cells, int64_t cell, int64_t d) {
  return d / kPanelWidth * num_cells * kPanelWidth + panel_offset<Layout>(d % kPanelWidth, cell);
}

float scale_for(const float* x, int64_t count) {
  float largest = 0;
  float zero = 0;  // NaN where x holds anything that is not finite
  for (int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::abs(x[i]));
    zero += 0 * x[i];
  }
  return largest / 127 + zero;
}

/// `x` is what a scale of `scale` stands for; 0 where everything is 0 or the scale is NaN.
int8_t code_of(float x, float scale) {
  return scale > 0 ? static_cast<int8_t>(std::clamp(std::nearbyint(x / scale), -127.0F, 127.0F)) : int8_t{0};
}

}  // namespace

int64_t KvCache::bytes_for(const KvShape& shape, int64_t num_cells) {
  return shape.num_layers * layer_bytes(shape, whole_tiles(shape, num_cells));
}

KvCache::KvCache(const KvShape& shape, int64_t num_cells)
    : shape_(shape),
      num_cells_(whole_tiles(shape, num_cells)),
      sink_cell_(shape.has_sink ? static_cast<int32_t>(num_cells) : -1),
      key_head_bytes_(key_bytes(shape, num_cells_)),
      value_head_bytes_(value_bytes(shape, num_cells_)),
      layer_bytes_(layer_bytes(shape, num_cells_)),
      memory_(bytes_for(shape, num_cells)) {
  expects(shape.dtype != DType::kF16, "KvCache: cells are f32, bf16 or codes for one of these");
}

KvCache::KvCache(KvCache&& other) noexcept = default;
KvCache& KvCache::operator=(KvCache&& other) noexcept = default;
KvCache::~KvCache() = default;

SparseCells& KvCache::sparse() {
  if (!sparse_) sparse_ = std::make_unique<SparseCells>(shape_);
  return *sparse_;
}

std::byte* KvCache::keys(int64_t layer, int64_t kv_head) const {
  return memory_.data() + layer * layer_bytes_ + kv_head * key_head_bytes_;
}

std::byte* KvCache::values(int64_t layer, int64_t kv_head) const {
  return keys(layer, shape_.num_kv_heads) + kv_head * value_head_bytes_;
}

float* KvCache::key_scales(int64_t layer, int64_t kv_head) const {
  return reinterpret_cast<float*>(values(layer, shape_.num_kv_heads)) + kv_head * num_cells_;
}

float* KvCache::value_scales(int64_t layer, int64_t kv_head) const {
  return key_scales(layer, shape_.num_kv_heads + kv_head);
}

KvLayerView KvCache::layer(int64_t layer) const {
  KvLayerView view;
  view.keys = keys(layer, 0);
  view.values = values(layer, 0);
  view.dtype = shape_.dtype;
  view.head_dim = shape_.head_dim;
  view.capacity = num_cells_;
  view.key_head_bytes = key_head_bytes_;
  view.value_head_bytes = value_head_bytes_;
  if (shape_.in_codes) {
    view.key_scales = key_scales(layer, 0);
    view.value_scales = value_scales(layer, 0);
  }
  return view;
}

void KvCache::write(int64_t layer, int64_t cell, const float* key, const float* value) {
  expects(cell >= 0 && cell < num_cells_, "KvCache::write: the cell exists");
  with_elements(shape_, [&]<typename Element, typename Layout>() {
    for (int64_t head = 0; head < shape_.num_kv_heads; ++head) {
      auto* to_key = reinterpret_cast<Element*>(keys(layer, head));
      auto* to_value = reinterpret_cast<Element*>(values(layer, head));
      const float* from_key = key + head * shape_.head_dim;
      const float* from_value = value + head * shape_.head_dim;
      const auto store = [&](auto&& convert_key, auto&& convert_value) {
        for (int64_t d = 0; d < shape_.head_dim; ++d) {
          to_key[key_place<Layout>(shape_, cell, d)] = convert_key(from_key[d]);
          to_value[value_place<Layout>(num_cells_, cell, d)] = convert_value(from_value[d]);
        }
      };
      if constexpr (std::is_same_v<Element, int8_t>) {
        const float key_scale = key_scales(layer, head)[cell] = scale_for(from_key, shape_.head_dim);
        const float value_scale = value_scales(layer, head)[cell] = scale_for(from_value, shape_.head_dim);
        store([&](float x) { return code_of(x, key_scale); },
              [&](float x) { return code_of(x, value_scale); });
      } else {
        const auto round = [](float x) { return Element(x); };
        store(round, round);
      }
    }
  });
}

void KvCache::copy_cell(int64_t layer, int64_t kv_head, const KvCache& from, int64_t from_cell,
                        int64_t to_cell) {
  expects(to_cell >= 0 && to_cell < num_cells_ && from_cell >= 0 && from_cell < from.num_cells_,
          "KvCache::copy_cell: the cells exist");
  with_elements(shape_, [&]<typename Element, typename Layout>() {
    const auto* from_keys = reinterpret_cast<const Element*>(from.keys(layer, kv_head));
    const auto* from_values = reinterpret_cast<const Element*>(from.values(layer, kv_head));
    auto* to_keys = reinterpret_cast<Element*>(keys(layer, kv_head));
    auto* to_values = reinterpret_cast<Element*>(values(layer, kv_head));
    for (int64_t d = 0; d < shape_.head_dim; ++d) {
      to_keys[key_place<Layout>(shape_, to_cell, d)] = from_keys[key_place<Layout>(shape_, from_cell, d)];
      to_values[value_place<Layout>(num_cells_, to_cell, d)] =
          from_values[value_place<Layout>(from.num_cells_, from_cell, d)];
    }
  });
  if (!shape_.in_codes) return;
  key_scales(layer, kv_head)[to_cell] = from.key_scales(layer, kv_head)[from_cell];
  value_scales(layer, kv_head)[to_cell] = from.value_scales(layer, kv_head)[from_cell];
}

void KvCache::copy_first_cells(const KvCache& from, int64_t count) {
  expects(count % kCellTile == 0 && count <= num_cells_ && count <= from.num_cells_,
          "KvCache::copy_first_cells: whole tiles that both caches have");
  const int64_t cell_bytes = kPanelWidth * element_bytes(shape_);  // of a value panel
  const int64_t panels = num_panels(shape_.head_dim);
  for (int64_t layer = 0; layer < shape_.num_layers; ++layer) {
    for (int64_t head = 0; head < shape_.num_kv_heads; ++head) {
      std::copy_n(from.keys(layer, head), key_bytes(shape_, count), keys(layer, head));
      for (int64_t panel = 0; panel < panels; ++panel) {
        std::copy_n(from.values(layer, head) + panel * from.num_cells_ * cell_bytes, count * cell_bytes,
                    values(layer, head) + panel * num_cells_ * cell_bytes);
      }
      if (!shape_.in_codes) continue;
      std::copy_n(from.key_scales(layer, head), count, key_scales(layer, head));
      std::copy_n(from.value_scales(layer, head), count, value_scales(layer, head));
    }
  }
}

void KvCache::read(int64_t layer, int64_t cell, int64_t kv_head, float* key, float* value) const {
  const float key_scale = shape_.in_codes ? key_scales(layer, kv_head)[cell] : 1;
  const float value_scale = shape_.in_codes ? value_scales(layer, kv_head)[cell] : 1;
  with_elements(shape_, [&]<typename Element, typename Layout>() {
    const auto* from_keys = reinterpret_cast<const Element*>(keys(layer, kv_head));
    const auto* from_values = reinterpret_cast<const Element*>(values(layer, kv_head));
    for (int64_t d = 0; d < shape_.head_dim; ++d) {
      key[d] = key_scale * static_cast<float>(from_keys[key_place<Layout>(shape_, cell, d)]);
      value[d] = value_scale * static_cast<float>(from_values[value_place<Layout>(num_cells_, cell, d)]);
    }
  });
}

}  // namespace lacuna
