// Keys and values on the device: one piece of memory cut into pages, which sequences take and share.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/device.h"
#include "backend/cuda/kernels/attention.h"
#include "backend/cuda/runtime.h"
#include "base/error.h"
#include "model/config.h"

namespace lacuna::cuda {

/// A stream, and the right to use it: models on one device share both, and passes of several threads come one
/// after the other.
struct DeviceStream {
  std::mutex mutex;
  int index = 0;  ///< of the device
  Stream stream;
  std::string failure;           ///< why nothing more is computed; empty: it works
  int64_t taken_bytes = 0;       ///< by weights and pages of the models on the device
  int num_without_pages = 0;     ///< models without pages so far
  int64_t num_graph_passes = 0;  ///< passes whose layers were sent as a graph; for tests
};

/// Notes why the device failed, unless that is known, and throws it. The caller holds the device's mutex.
[[noreturn]] inline void fail(DeviceStream& device, const std::exception& error) {
  if (device.failure.empty())
    device.failure = "the device failed and computes nothing more: " + std::string(error.what());
  throw lacuna::DeviceError(device.failure);
}

/// Calls `work` with the device's mutex held and the device in use. After a failure there, all
/// later calls throw the same DeviceError. InputError and std::logic_error are the caller's; a pass for which
/// there is too little memory fails alone.
template <typename Work>
auto on_stream(DeviceStream& device, Work&& work) {
  const std::lock_guard lock(device.mutex);
  if (!device.failure.empty()) throw lacuna::DeviceError(device.failure);
  try {
    use_device(device.index);
    try {
      return work();
    } catch (const std::bad_alloc&) {
      device.stream.wait();  // what was sent reads memory that is given up now; a failure is the device's
      throw;
    }
  } catch (const InputError&) {
    throw;
  } catch (const std::logic_error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw std::runtime_error(
        "the device has too little memory left for this pass; expected fewer rows in it");
  } catch (const std::exception& error) {
    fail(device, error);
  }
}

/// Waits for what was sent before `event`. Other threads have the mutex meanwhile, and send passes. Failures
/// are those of on_stream().
inline void wait_for(DeviceStream& device, const Event& event) {
  on_stream(device, [] {});
  try {
    device.stream.wait(event);
  } catch (const std::logic_error&) {
    throw;
  } catch (const std::exception& error) {
    const std::lock_guard lock(device.mutex);
    fail(device, error);
  }
}

/// Layout of a model's pages: 32 cells of each of its layers, one layer behind the other.
class PageShape {
 public:
  PageShape(const ModelConfig& config, CellFormat format);

  CellFormat format() const { return layers_.front().format; }
  int64_t num_layers() const { return std::ssize(layers_); }
  int64_t num_kv_heads(int64_t layer) const { return layers_[static_cast<size_t>(layer)].num_kv_heads; }
  int64_t page_bytes() const { return layers_.front().page_bytes(); }
  /// A layer's part of pages.
  ///   pages  where page 0 begins
  PagePool pool_of(int64_t layer, std::byte* pages) const;

 private:
  std::vector<PagePool> layers_;  // without memory
  std::vector<int64_t> begins_;   // where each layer's cells begin in a page, in bytes
};

/// Rows of f32 that the sequences of a model keep for their cells, next to pages.
struct RowMemory {
  int64_t hidden_dim = 0;
  bool keeps_soft_embeddings = false;

  int64_t output_bytes(const SequenceShape& shape) const {
    return shape.remembers_outputs ? bytes_of(shape) : 0;
  }
  int64_t soft_embedding_bytes(const SequenceShape& shape) const {
    return keeps_soft_embeddings ? bytes_of(shape) : 0;
  }
  int64_t bytes(const SequenceShape& shape) const {
    return output_bytes(shape) + soft_embedding_bytes(shape);
  }

 private:
  int64_t bytes_of(const SequenceShape& shape) const {
    return shape.num_cells * hidden_dim * static_cast<int64_t>(sizeof(float));
  }
};

/// The pages of one model. Those who have pages keep it alive.
class PageArena {
 public:
  /// The cell that every row of a model with attention sinks sees.
  struct Sink {
    bool exists = false;
    /// [num_layers] of all kv heads, [num_kv_heads * head_dim] each; empty if the sink's keys and values are
    /// zeros.
    std::vector<std::vector<float>> keys, values;
  };
  /// Allocates the pages, a spare one, and one more for the sink if it exists. InputError if the device has
  /// too little memory left.
  ///   num_pages  that sequences may take
  PageArena(std::shared_ptr<DeviceStream> stream, PageShape shape, int64_t num_pages, const Sink& sink);

  /// The keys and values of one layer, as kernels get them.
  PagePool pool_of(int64_t layer) const { return shape_.pool_of(layer, memory_.as<std::byte>()); }
  int64_t num_pages() const { return num_pages_; }
  int64_t page_bytes() const { return shape_.page_bytes(); }
  /// Index of the page whose first cell is the sink; -1 if the model has no sink.
  int32_t sink_page() const { return sink_page_; }
  /// Index of the page for keys and values of rows that pad a pass. No row attends to its cells.
  int32_t spare_page() const { return static_cast<int32_t>(num_pages_); }
  /// Pages of an arena that no sequence takes.
  static int64_t num_own_pages(const Sink& sink) { return sink.exists ? 2 : 1; }
  DeviceStream& device() const { return *device_; }

  /// Takes free pages, the lowest first, and fills them with zeros; returns their indices, or nothing if
  /// fewer are free. The device's mutex must be held.
  std::vector<int32_t> take(int64_t count);
  int64_t num_free() const { return std::ssize(free_); }
  /// The device's mutex must be held.
  void give_back(int32_t page);
  /// Where a page's cells of one layer and kv head lie, as PagePool says.
  std::byte* head_of(int32_t page, int64_t layer, int64_t kv_head) const;
  /// Copies the first cells of a page.
  void copy_cells(int32_t from, int32_t to, int64_t count);

 private:
  void fill_with_zeros(int32_t page);
  /// The device's mutex must be held.
  void write_sink(const Sink& sink);

  std::shared_ptr<DeviceStream> device_;
  DeviceBuffer memory_;
  PageShape shape_;
  int64_t num_pages_;
  int32_t sink_page_ = -1;
  std::vector<int32_t> free_;  // the lowest last
};

/// A page that sequences have together; the last of them gives it back.
class KvPageShare {
 public:
  ///   page  taken from the arena
  KvPageShare(std::shared_ptr<PageArena> arena, int32_t page, std::shared_ptr<int64_t> taken_bytes);
  ~KvPageShare();
  KvPageShare(const KvPageShare&) = delete;
  KvPageShare& operator=(const KvPageShare&) = delete;

  int32_t page() const { return page_; }

 private:
  std::shared_ptr<PageArena> arena_;
  int32_t page_;
  std::shared_ptr<int64_t> taken_bytes_;  // of the pool that it was taken through
};

/// Memory of sparse attention for one sequence. Passes that use it come one after the other.
struct SparseMemory {
  DeviceBuffer chosen;     ///< [layers, kv heads, num_chosen] cells, ascending
  int32_t num_chosen = 0;  ///< 0: nothing was chosen yet
  DeviceBuffer bounds;     ///< [layers, kv heads, most_pages, 2, head_dim], as page_bounds() writes them
  int32_t page_size = 0;   ///< cells of what these bounds are of
  int32_t most_pages = 0;
  int32_t num_bounded = 0;  ///< cells that have bounds in the layers from first_layer on
  int32_t first_layer = 0;
};

class CudaSequence final : public KvSequence {
 public:
  ///   outputs, soft_embeddings  filled with zeros; empty if they are not kept
  CudaSequence(const SequenceShape& shape, std::shared_ptr<PageArena> arena,
               std::vector<std::shared_ptr<KvPageShare>> pages, DeviceBuffer outputs,
               DeviceBuffer soft_embeddings, const RowMemory& rows, std::shared_ptr<int64_t> taken_bytes);
  ~CudaSequence() override;

  int32_t sink_cell() const override;
  void read_cells(int64_t layer, int64_t kv_head, IndexRange cells, Matrix<float> keys,
                  Matrix<float> values) const override;
  void read_outputs(std::span<const int32_t> cells, Matrix<float> out) const override;

  const std::shared_ptr<PageArena>& arena() const { return arena_; }
  const std::vector<std::shared_ptr<KvPageShare>>& pages() const { return pages_; }
  /// Takes a page that another sequence has, too, in the place of its own.
  void share_page(size_t index, const std::shared_ptr<KvPageShare>& page);
  /// Appends its pages, the sink's last.
  void add_page_table(std::vector<int32_t>& table) const;
  /// [num_cells, hidden_dim] f32; of 0 bytes where outputs are not remembered.
  const DeviceBuffer& outputs() const { return outputs_; }
  /// [hidden_dim] f32 of a cell; only of models with canvases.
  float* soft_embedding(int32_t cell) const;
  SparseMemory& sparse() const { return sparse_; }

 private:
  std::shared_ptr<PageArena> arena_;
  std::vector<std::shared_ptr<KvPageShare>> pages_;
  std::vector<int32_t> page_table_;  // which pages these are, in one place
  RowMemory rows_;
  DeviceBuffer outputs_, soft_embeddings_;
  mutable SparseMemory sparse_;
  std::shared_ptr<int64_t> taken_bytes_;
};

/// A limit on what sequences take of a model's pages.
class CudaPool final : public KvPool {
 public:
  CudaPool(std::shared_ptr<PageArena> arena, const RowMemory& rows, int64_t limit);

  int64_t bytes_for(const SequenceShape& shape, int64_t shared) const override;
  int64_t limit() const override { return limit_; }
  int64_t bytes() const override { return *taken_bytes_; }
  int64_t bytes_of(std::span<const KvSequence* const> sequences) const override;

  using KvPool::make_sequence;
  std::unique_ptr<KvSequence> make_sequence(const SequenceShape& shape, const KvPrefix& prefix) override;
  void take_prefix(KvSequence& to, const KvPrefix& prefix) override;

 private:
  /// Memory of the device, empty where there are no bytes.
  DeviceBuffer zeros(int64_t bytes) const;

  std::shared_ptr<PageArena> arena_;
  RowMemory rows_;
  int64_t limit_;
  std::shared_ptr<int64_t> taken_bytes_ = std::make_shared<int64_t>(0);
};

}  // namespace lacuna::cuda
