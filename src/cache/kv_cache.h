// The keys and values of one sequence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/dtype.h"
#include "base/matrix.h"
#include "kernels/attention.h"

namespace lacuna {

struct KvHeads {
  int64_t count = 0;
  int64_t dim = 0;
};

struct KvShape {
  int64_t num_layers = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  DType dtype = DType::kF32;  ///< kF32 or kBF16
  bool has_sink = false;      ///< one more cell, for a learned key and value that every row attends to
  bool is_int8 = false;  ///< cells hold int8 values, one scale for each kv head's key and one for its value;
                         ///< matmuls dequantize them to dtype
  std::vector<KvHeads> heads_by_layer = {};  ///< [num_layers] if layers differ, else empty
  int64_t soft_embedding_dim = 0;            ///< width of the soft embedding that each cell keeps; 0: none

  KvHeads heads_of(int64_t layer) const {
    return heads_by_layer.empty() ? KvHeads{num_kv_heads, head_dim}
                                  : heads_by_layer[static_cast<size_t>(layer)];
  }
};

class SparseCells;

/// Zero-initialized memory, counted in a total. A page of a KvCache holds kPageCells cells of all layers: per
/// layer the keys of all kv heads, then all values, then, if cells are int8, the scales of both.
struct KvPage {
  /// count  total in bytes, to which this memory is added until destruction; may be null
  KvPage(int64_t bytes, std::shared_ptr<int64_t> count);
  ~KvPage();
  KvPage(const KvPage&) = delete;
  KvPage& operator=(const KvPage&) = delete;

  Buffer<std::byte> memory;

 private:
  std::shared_ptr<int64_t> count_;
};

/// Keys and values [layers, cells, kv heads, head_dim], in pages of panels. Cells start as zeros. Threads may
/// write different cells concurrently, but must not read meanwhile.
class KvCache {
 public:
  static int64_t page_bytes(const KvShape& shape);
  /// Bytes of a cache of `num_cells` cells: whole pages and soft embeddings.
  static int64_t bytes_for(const KvShape& shape, int64_t num_cells);

  /// count  total in bytes, to which this cache's memory is added; may be null
  KvCache(const KvShape& shape, int64_t num_cells, std::shared_ptr<int64_t> count = nullptr);
  /// Shares the first `shared` cells of `from` as share_first_cells() does, and copies its sink.
  KvCache(const KvCache& from, int64_t shared, int64_t num_cells);
  KvCache(KvCache&& other) noexcept;
  KvCache& operator=(KvCache&& other) noexcept;
  ~KvCache();

  /// Requested cells plus the sink, rounded up to whole pages.
  int64_t num_cells() const { return static_cast<int64_t>(pages_.size()) * kPageCells; }
  /// Bytes besides the pages: soft embeddings, and what rows keep.
  int64_t own_bytes() const { return (own_ ? own_->memory.size() : 0) + (kept_ ? kept_->memory.size() : 0); }
  /// The cell of the learned key and value, after the requested cells; -1: the shape has none.
  int32_t sink_cell() const { return sink_cell_; }
  const KvShape& shape() const { return shape_; }

  /// key, value  [num_kv_heads * head_dim] f32, rounded to the cache's dtype or quantized to int8: scale * q
  /// with |q| <= 127 and scale = max |x| of the head / 127. The scale is NaN if x holds NaN or infinity. A
  /// null key leaves the cell's. The cell's page must not be shared with other caches.
  void write(int64_t layer, int64_t cell, const float* key, const float* value);

  /// Dequantizes a cell's key and value of one kv head; key, value  [head_dim] f32.
  void read(int64_t layer, int64_t cell, int64_t kv_head, float* key, float* value) const;

  /// Copies one kv head's key and value from a cell of a cache of the same shape.
  void copy_cell(int64_t layer, int64_t kv_head, const KvCache& from, int64_t from_cell, int64_t to_cell);

  /// Replaces the first `count` cells by those of a cache of the same shape. Whole pages become shared:
  /// neither cache may write to them while the other holds them. Cells of a last partial page are copied.
  void share_first_cells(const KvCache& from, int64_t count);

  const std::vector<std::shared_ptr<KvPage>>& pages() const { return pages_; }
  bool shares_page_of(int64_t cell) const {
    return pages_[static_cast<size_t>(cell / kPageCells)].use_count() > 1;
  }

  KvLayerView layer(int64_t layer) const;

  /// Mean embedding of each requested cell under its last computed distribution, initially zeros: [requested
  /// cells, KvShape::soft_embedding_dim] f32. Not shared between sequences.
  Matrix<float> soft_embeddings() const;

  /// Makes room for what each layer adds to the rows of these cells, zeros at first; see LayerReuse.
  void keep_layers(IndexRange cells, int64_t hidden_dim);
  static int64_t kept_bytes(const KvShape& shape, IndexRange cells, int64_t hidden_dim);
  /// [hidden_dim], for a cell of keep_layers().
  std::span<float> kept_layer(int64_t layer, int64_t cell) const;

  /// State of sparse attention for this sequence; created by the first call.
  SparseCells& sparse();

 private:
  struct Place;

  void begin(int64_t num_cells);
  void add_pages(int64_t count);
  /// Addresses of one kv head's key and value of a cell.
  Place place(const KvLayerView& layer, int64_t cell, int64_t kv_head) const;

  KvShape shape_;
  int32_t sink_cell_;
  std::shared_ptr<int64_t> count_;
  std::vector<int64_t> layer_starts_;  // [num_layers] byte offsets in a page
  std::unique_ptr<KvPage> own_;        // soft embeddings
  std::unique_ptr<KvPage> kept_;       // [layers, kept_cells_, hidden_dim]
  IndexRange kept_cells_;
  int64_t kept_dim_ = 0;
  int64_t asked_cells_ = 0;
  std::vector<std::shared_ptr<KvPage>> pages_;
  std::vector<std::byte*> page_starts_;  // first byte of each of pages_
  std::unique_ptr<SparseCells> sparse_;
};

}  // namespace lacuna
