// The keys and values of one sequence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/buffer.h"
#include "base/dtype.h"
#include "kernels/attention.h"

namespace lacuna {

struct KvShape {
  int64_t num_layers = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  DType dtype = DType::kF32;  ///< kF32 or kBF16
  bool has_sink = false;      ///< one cell more, for a learned key and value that every row sees
  bool in_codes = false;  ///< cells hold 8-bit quantized values, each kv head's key and value with a scale;
                          ///< dtype is what matmuls dequantize them to
};

class SparseCells;

/// Layers x cells x kv heads x head_dim, twice, in panels. Cells start as zeros and keep what was last
/// written. Different cells may be written by different threads at once; nobody may read meanwhile.
class KvCache {
 public:
  /// Bytes that `num_cells` cells take; cells are rounded up to whole tiles of 32.
  static int64_t bytes_for(const KvShape& shape, int64_t num_cells);

  KvCache(const KvShape& shape, int64_t num_cells);
  KvCache(KvCache&& other) noexcept;
  KvCache& operator=(KvCache&& other) noexcept;
  ~KvCache();

  int64_t num_cells() const { return num_cells_; }
  /// The cell of the learned key and value, behind those that were asked for; -1: the shape has none.
  int32_t sink_cell() const { return sink_cell_; }
  const KvShape& shape() const { return shape_; }

  /// key, value  [num_kv_heads * head_dim] f32, rounded to the cache's dtype, or to codes: scale * code with
  /// |code| <= 127 and scale = largest |x| of the head / 127, NaN where x holds NaN or infinity
  void write(int64_t layer, int64_t cell, const float* key, const float* value);

  /// Widens what a cell holds for one kv head; key, value  [head_dim] f32.
  void read(int64_t layer, int64_t cell, int64_t kv_head, float* key, float* value) const;

  /// Copies one kv head's key and value from a cell of a cache of the same shape.
  void copy_cell(int64_t layer, int64_t kv_head, const KvCache& from, int64_t from_cell, int64_t to_cell);

  /// Copies the first `count` cells of a cache of the same shape; a multiple of kCellTile.
  void copy_first_cells(const KvCache& from, int64_t count);

  KvLayerView layer(int64_t layer) const;

  /// What sparse attention keeps of this sequence; made by the first call.
  SparseCells& sparse();

 private:
  std::byte* keys(int64_t layer, int64_t kv_head) const;
  std::byte* values(int64_t layer, int64_t kv_head) const;
  /// [num_cells_], of codes
  float* key_scales(int64_t layer, int64_t kv_head) const;
  float* value_scales(int64_t layer, int64_t kv_head) const;

  KvShape shape_;
  int64_t num_cells_;
  int32_t sink_cell_;
  int64_t key_head_bytes_;
  int64_t value_head_bytes_;
  int64_t layer_bytes_;
  std::unique_ptr<SparseCells> sparse_;
  Buffer<std::byte> memory_;  // per layer: all kv heads' keys, then all values, then the scales of both
};

}  // namespace lacuna
