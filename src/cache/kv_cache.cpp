#include "cache/kv_cache.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "cache/sparse_cells.h"
#include "kernels/panels.h"

namespace lacuna {
namespace {

int64_t whole_pages(const KvShape& shape, int64_t num_cells) {
  return (num_cells + (shape.has_sink ? 1 : 0) + kPageCells - 1) / kPageCells;
}

int64_t element_bytes(const KvShape& shape) {
  return shape.is_int8 ? 1 : static_cast<int64_t>(size_of(shape.dtype));
}

// Parts of a page, in bytes.

int64_t key_head_bytes(const KvShape& shape, int64_t dim) {
  return kPageCells * padded_depth(shape.dtype, dim) * element_bytes(shape);
}

int64_t value_head_bytes(const KvShape& shape, int64_t dim) {
  return kPageCells * round_up(dim, kPanelWidth) * element_bytes(shape);
}

int64_t layer_bytes(const KvShape& shape, int64_t layer) {
  const KvHeads heads = shape.heads_of(layer);
  const int64_t scale_bytes = shape.is_int8 ? 2 * kPageCells * int64_t{sizeof(float)} : 0;
  return heads.count * (key_head_bytes(shape, heads.dim) + value_head_bytes(shape, heads.dim) + scale_bytes);
}

int64_t soft_embedding_bytes(const KvShape& shape, int64_t num_cells) {
  return num_cells * shape.soft_embedding_dim * int64_t{sizeof(float)};
}

/// Calls body.operator()<Element, Layout>(): the stored element type, and the type that defines the panel
/// layout.
template <typename Body>
void with_elements(const KvShape& shape, Body&& body) {
  const bool is_bf16 = shape.dtype == DType::kBF16;
  if (shape.is_int8) {
    is_bf16 ? body.template operator()<int8_t, bf16>() : body.template operator()<int8_t, float>();
  } else {
    is_bf16 ? body.template operator()<bf16, bf16>() : body.template operator()<float, float>();
  }
}

/// Offset in elements of dimension d of a page's cell in one head's keys or values.
template <typename Layout>
int64_t key_place(DType dtype, int64_t head_dim, int64_t cell, int64_t d) {
  return cell / kPanelWidth * padded_depth(dtype, head_dim) * kPanelWidth +
         panel_offset<Layout>(cell % kPanelWidth, d);
}
template <typename Layout>
int64_t value_place(int64_t cell, int64_t d) {
  return d / kPanelWidth * kPageCells * kPanelWidth + panel_offset<Layout>(d % kPanelWidth, cell);
}

float scale_for(const float* x, int64_t count) {
  float largest = 0;
  float zero = 0;  // becomes NaN if x holds NaN or infinity
  for (int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::abs(x[i]));
    zero += 0 * x[i];
  }
  return largest / 127 + zero;
}

/// Quantizes `x`; 0 if the scale is 0 or NaN.
int8_t code_of(float x, float scale) {
  return scale > 0 ? static_cast<int8_t>(std::clamp(std::nearbyint(x / scale), -127.0F, 127.0F)) : int8_t{0};
}

/// Copies cells [begin, end) of all layers and heads.
void copy_cells(KvCache& to, const KvCache& from, int64_t begin, int64_t end) {
  for (int64_t layer = 0; layer < to.shape().num_layers; ++layer) {
    for (int64_t head = 0; head < to.shape().heads_of(layer).count; ++head) {
      for (int64_t cell = begin; cell < end; ++cell) to.copy_cell(layer, head, from, cell, cell);
    }
  }
}

}  // namespace

struct KvCache::Place {
  std::byte* keys;  ///< the head's keys in the page
  std::byte* values;
  int64_t cell;      ///< index in the page
  float* key_scale;  ///< scale of the cell's key; null if keys are not quantized
  float* value_scale;
};

KvPage::KvPage(int64_t bytes, std::shared_ptr<int64_t> count) : memory(bytes), count_(std::move(count)) {
  if (count_ != nullptr) *count_ += memory.size();
}

KvPage::~KvPage() {
  if (count_ != nullptr) *count_ -= memory.size();
}

int64_t KvCache::page_bytes(const KvShape& shape) {
  if (shape.heads_by_layer.empty()) return shape.num_layers * layer_bytes(shape, 0);
  int64_t bytes = 0;
  for (int64_t layer = 0; layer < shape.num_layers; ++layer) bytes += layer_bytes(shape, layer);
  return bytes;
}

int64_t KvCache::bytes_for(const KvShape& shape, int64_t num_cells) {
  return whole_pages(shape, num_cells) * page_bytes(shape) + soft_embedding_bytes(shape, num_cells);
}

KvCache::KvCache(const KvShape& shape, int64_t num_cells, std::shared_ptr<int64_t> count)
    : shape_(shape),
      sink_cell_(shape.has_sink ? static_cast<int32_t>(num_cells) : -1),
      count_(std::move(count)) {
  expects(shape.dtype != DType::kF16, "KvCache: cells are f32, bf16 or codes for one of these");
  begin(num_cells);
  add_pages(whole_pages(shape, num_cells));
}

KvCache::KvCache(const KvCache& from, int64_t shared, int64_t num_cells)
    : shape_(from.shape_),
      sink_cell_(shape_.has_sink ? static_cast<int32_t>(num_cells) : -1),
      count_(from.count_) {
  expects(shared <= num_cells && shared <= from.num_cells(), "KvCache: cells that both caches have");
  begin(num_cells);
  const int64_t whole = shared / kPageCells;
  pages_.assign(from.pages_.begin(), from.pages_.begin() + whole);
  page_starts_.assign(from.page_starts_.begin(), from.page_starts_.begin() + whole);
  add_pages(whole_pages(shape_, num_cells) - whole);
  copy_cells(*this, from, whole * kPageCells, shared);
  for (int64_t layer = 0; shape_.has_sink && layer < shape_.num_layers; ++layer) {
    for (int64_t head = 0; head < shape_.heads_of(layer).count; ++head) {
      copy_cell(layer, head, from, from.sink_cell_, sink_cell_);
    }
  }
}

KvCache::KvCache(KvCache&& other) noexcept = default;
KvCache& KvCache::operator=(KvCache&& other) noexcept = default;
KvCache::~KvCache() = default;

void KvCache::begin(int64_t num_cells) {
  int64_t start = 0;
  for (int64_t layer = 0; layer < shape_.num_layers; ++layer) {
    layer_starts_.push_back(start);
    start += layer_bytes(shape_, layer);
  }
  asked_cells_ = num_cells;
  const int64_t bytes = soft_embedding_bytes(shape_, num_cells);
  if (bytes > 0) own_ = std::make_unique<KvPage>(bytes, count_);
}

void KvCache::add_pages(int64_t count) {
  const int64_t bytes = page_bytes(shape_);
  for (int64_t i = 0; i < count; ++i) {
    pages_.push_back(std::make_shared<KvPage>(bytes, count_));
    page_starts_.push_back(pages_.back()->memory.data());
  }
}

Matrix<float> KvCache::soft_embeddings() const {
  expects(own_ != nullptr, "KvCache: the shape has soft embeddings");
  return {reinterpret_cast<float*>(own_->memory.data()), asked_cells_, shape_.soft_embedding_dim,
          shape_.soft_embedding_dim};
}

SparseCells& KvCache::sparse() {
  if (!sparse_) sparse_ = std::make_unique<SparseCells>(shape_);
  return *sparse_;
}

KvLayerView KvCache::layer(int64_t layer) const {
  const auto [heads, head_dim] = shape_.heads_of(layer);
  KvLayerView view;
  view.pages = page_starts_.data();
  view.dtype = shape_.dtype;
  view.head_dim = head_dim;
  view.keys = layer_starts_[static_cast<size_t>(layer)];
  view.key_head_bytes = key_head_bytes(shape_, head_dim);
  view.values = view.keys + heads * view.key_head_bytes;
  view.value_head_bytes = value_head_bytes(shape_, head_dim);
  if (shape_.is_int8) {
    view.key_scales = view.values + heads * view.value_head_bytes;
    view.value_scales = view.key_scales + heads * kPageCells * int64_t{sizeof(float)};
  }
  return view;
}

KvCache::Place KvCache::place(const KvLayerView& view, int64_t cell, int64_t kv_head) const {
  std::byte* page = page_starts_[static_cast<size_t>(cell / kPageCells)];
  const auto scale_of = [&](int64_t scales) {
    if (scales < 0) return static_cast<float*>(nullptr);
    return reinterpret_cast<float*>(page + scales) + kv_head * kPageCells + cell % kPageCells;
  };
  return {page + view.keys + kv_head * view.key_head_bytes,
          page + view.values + kv_head * view.value_head_bytes, cell % kPageCells, scale_of(view.key_scales),
          scale_of(view.value_scales)};
}

int64_t KvCache::kept_bytes(const KvShape& shape, IndexRange cells, int64_t hidden_dim) {
  return shape.num_layers * cells.size() * hidden_dim * static_cast<int64_t>(sizeof(float));
}

void KvCache::keep_layers(IndexRange cells, int64_t hidden_dim) {
  kept_cells_ = cells;
  kept_dim_ = hidden_dim;
  kept_ = std::make_unique<KvPage>(kept_bytes(shape_, cells, hidden_dim), count_);
}

std::span<float> KvCache::kept_layer(int64_t layer, int64_t cell) const {
  expects(kept_ != nullptr && cell >= kept_cells_.begin && cell < kept_cells_.end,
          "kept_layer: the cell's row keeps what layers add");
  auto* const all = reinterpret_cast<float*>(kept_->memory.data());
  return {all + (layer * kept_cells_.size() + cell - kept_cells_.begin) * kept_dim_,
          static_cast<size_t>(kept_dim_)};
}

void KvCache::write(int64_t layer, int64_t cell, const float* key, const float* value) {
  expects(cell >= 0 && cell < num_cells(), "KvCache::write: the cell exists");
  const KvLayerView view = this->layer(layer);
  const int64_t num_heads = shape_.heads_of(layer).count;
  const int64_t head_dim = view.head_dim;
  with_elements(shape_, [&]<typename Element, typename Layout>() {
    for (int64_t head = 0; head < num_heads; ++head) {
      const Place to = place(view, cell, head);
      const float* from_key = key != nullptr ? key + head * head_dim : nullptr;
      const float* from_value = value + head * head_dim;
      const auto store = [&](auto&& convert_key, auto&& convert_value) {
        auto* keys = reinterpret_cast<Element*>(to.keys);
        auto* values = reinterpret_cast<Element*>(to.values);
        for (int64_t d = 0; from_key != nullptr && d < head_dim; ++d)
          keys[key_place<Layout>(shape_.dtype, head_dim, to.cell, d)] = convert_key(from_key[d]);
        for (int64_t d = 0; d < head_dim; ++d)
          values[value_place<Layout>(to.cell, d)] = convert_value(from_value[d]);
      };
      if constexpr (std::is_same_v<Element, int8_t>) {
        if (from_key != nullptr) *to.key_scale = scale_for(from_key, head_dim);
        const float key_scale = *to.key_scale;
        const float value_scale = *to.value_scale = scale_for(from_value, head_dim);
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
  expects(to_cell >= 0 && to_cell < num_cells() && from_cell >= 0 && from_cell < from.num_cells(),
          "KvCache::copy_cell: the cells exist");
  const int64_t head_dim = shape_.heads_of(layer).dim;
  const Place source = from.place(from.layer(layer), from_cell, kv_head);
  const Place target = place(this->layer(layer), to_cell, kv_head);
  with_elements(shape_, [&]<typename Element, typename Layout>() {
    const auto* from_keys = reinterpret_cast<const Element*>(source.keys);
    const auto* from_values = reinterpret_cast<const Element*>(source.values);
    auto* to_keys = reinterpret_cast<Element*>(target.keys);
    auto* to_values = reinterpret_cast<Element*>(target.values);
    for (int64_t d = 0; d < head_dim; ++d) {
      to_keys[key_place<Layout>(shape_.dtype, head_dim, target.cell, d)] =
          from_keys[key_place<Layout>(shape_.dtype, head_dim, source.cell, d)];
      to_values[value_place<Layout>(target.cell, d)] = from_values[value_place<Layout>(source.cell, d)];
    }
  });
  if (!shape_.is_int8) return;
  *target.key_scale = *source.key_scale;
  *target.value_scale = *source.value_scale;
}

void KvCache::share_first_cells(const KvCache& from, int64_t count) {
  expects(count <= num_cells() && count <= from.num_cells(),
          "KvCache::share_first_cells: cells that both caches have");
  const int64_t whole = count / kPageCells;
  std::copy_n(from.pages_.begin(), whole, pages_.begin());
  std::copy_n(from.page_starts_.begin(), whole, page_starts_.begin());
  copy_cells(*this, from, whole * kPageCells, count);
}

void KvCache::read(int64_t layer, int64_t cell, int64_t kv_head, float* key, float* value) const {
  const KvLayerView view = this->layer(layer);
  const int64_t head_dim = view.head_dim;
  const Place from = place(view, cell, kv_head);
  const float key_scale = shape_.is_int8 ? *from.key_scale : 1;
  const float value_scale = shape_.is_int8 ? *from.value_scale : 1;
  with_elements(shape_, [&]<typename Element, typename Layout>() {
    const auto* keys = reinterpret_cast<const Element*>(from.keys);
    const auto* values = reinterpret_cast<const Element*>(from.values);
    for (int64_t d = 0; d < head_dim; ++d) {
      key[d] = key_scale * static_cast<float>(keys[key_place<Layout>(shape_.dtype, head_dim, from.cell, d)]);
      value[d] = value_scale * static_cast<float>(values[value_place<Layout>(from.cell, d)]);
    }
  });
}

}  // namespace lacuna
