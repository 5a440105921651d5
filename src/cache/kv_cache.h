// The keys and values of one sequence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
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
  bool has_sink = false;      ///< one cell more, for a learned key and value that every row sees
  bool is_int8 = false;  ///< cells hold 8-bit quantized values, each kv head's key and value with a scale;
                         ///< dtype is what matmuls dequantize them to
  std::vector<KvHeads> heads_by_layer = {};  ///< [num_layers] where layers differ, else empty
  int64_t soft_embedding_dim =
      0;  ///< width of what a sequence keeps of each cell's last distribution; 0: none

  KvHeads heads_of(int64_t layer) const {
    return heads_by_layer.empty() ? KvHeads{num_kv_heads, head_dim}
                                  : heads_by_layer[static_cast<size_t>(layer)];
  }
};

class SparseCells;

/// Memory that a sequence counts, which begins as zeros. A page is that of kPageCells cells of all layers:
/// per layer all kv heads' keys, then all values, then the scales of both where cells are codes.
struct KvPage {
  /// count  bytes that sequences take, of which this one's are a part while it exists; may be null
  KvPage(int64_t bytes, std::shared_ptr<int64_t> count);
  ~KvPage();
  KvPage(const KvPage&) = delete;
  KvPage& operator=(const KvPage&) = delete;

  Buffer<std::byte> memory;

 private:
  std::shared_ptr<int64_t> count_;
};

/// Layers x cells x kv heads x head_dim, twice, in pages of panels. Cells start as zeros and keep what was
/// last written. Different cells may be written by different threads at once; nobody may read meanwhile.
class KvCache {
 public:
  static int64_t page_bytes(const KvShape& shape);
  /// Bytes that `num_cells` cells take: whole pages, and soft embeddings.
  static int64_t bytes_for(const KvShape& shape, int64_t num_cells);

  /// count  bytes that pages take, to which those of this cache are added; may be null
  KvCache(const KvShape& shape, int64_t num_cells, std::shared_ptr<int64_t> count = nullptr);
  /// With the first `shared` cells of `from`, as share_first_cells() gives them, and its sink.
  KvCache(const KvCache& from, int64_t shared, int64_t num_cells);
  KvCache(KvCache&& other) noexcept;
  KvCache& operator=(KvCache&& other) noexcept;
  ~KvCache();

  /// Those that were asked for and the sink, rounded up to whole pages.
  int64_t num_cells() const { return static_cast<int64_t>(pages_.size()) * kPageCells; }
  /// Bytes that it takes besides its pages.
  int64_t own_bytes() const { return own_ ? own_->memory.size() : 0; }
  /// The cell of the learned key and value, after those that were asked for; -1: the shape has none.
  int32_t sink_cell() const { return sink_cell_; }
  const KvShape& shape() const { return shape_; }

  /// key, value  [num_kv_heads * head_dim] f32, rounded to the cache's dtype, or to codes: scale * code with
  /// |code| <= 127 and scale = largest |x| of the head / 127, NaN where x holds NaN or infinity.
  /// Not for a page that other caches have as well.
  void write(int64_t layer, int64_t cell, const float* key, const float* value);

  /// Widens what a cell holds for one kv head; key, value  [head_dim] f32.
  void read(int64_t layer, int64_t cell, int64_t kv_head, float* key, float* value) const;

  /// Copies one kv head's key and value from a cell of a cache of the same shape.
  void copy_cell(int64_t layer, int64_t kv_head, const KvCache& from, int64_t from_cell, int64_t to_cell);

  /// Takes over the first `count` cells of a cache of the same shape. Whole pages are then those of both,
  /// which neither may write to while the other has them; the cells of the page after them are copied.
  void share_first_cells(const KvCache& from, int64_t count);

  const std::vector<std::shared_ptr<KvPage>>& pages() const { return pages_; }
  bool shares_page_of(int64_t cell) const {
    return pages_[static_cast<size_t>(cell / kPageCells)].use_count() > 1;
  }

  KvLayerView layer(int64_t layer) const;

  /// The mean embedding of each cell under the distribution that a pass found for it, zeros at first:
  /// [cells that were asked for, KvShape::soft_embedding_dim] f32. Sequences do not share it.
  Matrix<float> soft_embeddings() const;

  /// State of sparse attention for this sequence; created by the first call.
  SparseCells& sparse();

 private:
  struct Place;

  void begin(int64_t num_cells);
  void add_pages(int64_t count);
  /// Where one kv head's key and value of a cell lie.
  Place place(const KvLayerView& layer, int64_t cell, int64_t kv_head) const;

  KvShape shape_;
  int32_t sink_cell_;
  std::shared_ptr<int64_t> count_;
  std::vector<int64_t> layer_starts_;  // [num_layers] in a page, in bytes
  std::unique_ptr<KvPage> own_;        // soft embeddings
  int64_t asked_cells_ = 0;
  std::vector<std::shared_ptr<KvPage>> pages_;
  std::vector<std::byte*> page_starts_;  // first byte of each of pages_
  std::unique_ptr<SparseCells> sparse_;
};

}  // namespace lacuna
