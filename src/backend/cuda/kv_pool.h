// Paged KV cache on the device: one allocation, divided into pages that sequences own or share.
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

/// A stream and its mutex, shared by all models of a device: passes of several threads run one after the
/// other.
struct DeviceStream {
  std::mutex mutex;
  int index = 0;  ///< index of the device
  Stream stream;
  std::string failure;           ///< why the device has failed; empty: it works
  int64_t taken_bytes = 0;       ///< bytes of weights and pages of all models on the device
  int num_without_pages = 0;     ///< models without pages so far
  int64_t num_graph_passes = 0;  ///< passes whose layers were sent as a graph; for tests
};

/// Records the device's first failure and throws it. The caller holds the device's mutex.
[[noreturn]] inline void fail(DeviceStream& device, const std::exception& error) {
  if (device.failure.empty())
    device.failure = "the device failed and computes nothing more: " + std::string(error.what());
  throw lacuna::DeviceError(device.failure);
}

/// Calls `work` with the device's mutex held and the device in use. After a failure of the device, all later
/// calls throw the same DeviceError. InputError, std::logic_error and lack of memory fail only this call.
template <typename Work>
auto on_stream(DeviceStream& device, Work&& work) {
  const std::lock_guard lock(device.mutex);
  if (!device.failure.empty()) throw lacuna::DeviceError(device.failure);
  try {
    use_device(device.index);
    try {
      return work();
    } catch (const std::bad_alloc&) {
      device.stream
          .wait();  // work already sent may use memory that unwinding frees; a failure is the device's
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

/// Waits for work before `event` without the mutex, so that other threads can send passes. Throws as
/// on_stream() does.
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

/// Layout of a model's pages: 32 cells of every layer, layer after layer.
class PageShape {
 public:
  PageShape(const ModelConfig& config, CellFormat format);

  CellFormat format() const { return layers_.front().format; }
  int64_t num_layers() const { return std::ssize(layers_); }
  int64_t num_kv_heads(int64_t layer) const { return layers_[static_cast<size_t>(layer)].num_kv_heads; }
  int64_t page_bytes() const { return layers_.front().page_bytes(); }
  /// One layer's part of the pages.
  ///   pages  address of page 0
  PagePool pool_of(int64_t layer, std::byte* pages) const;

 private:
  std::vector<PagePool> layers_;  // shapes only, `memory` is null
  std::vector<int64_t> begins_;   // byte offset of each layer's cells in a page
};

/// f32 rows that sequences keep per cell besides K/V pages: remembered outputs and soft embeddings.
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

/// The pages of one model, kept alive by every owner of a page.
class PageArena {
 public:
  /// Attention sink: a cell that every row of the model sees.
  struct Sink {
    bool exists = false;
    /// [num_layers] rows [num_kv_heads * head_dim]; empty: zeros.
    std::vector<std::vector<float>> keys, values;
  };
  /// Allocates the pages, a spare one, and one more for the sink if it exists. Throws InputError if too
  /// little device memory is left.
  ///   num_pages  pages for sequences
  PageArena(std::shared_ptr<DeviceStream> stream, PageShape shape, int64_t num_pages, const Sink& sink);

  /// Keys and values of one layer, as kernels take them.
  PagePool pool_of(int64_t layer) const { return shape_.pool_of(layer, memory_.as<std::byte>()); }
  int64_t num_pages() const { return num_pages_; }
  int64_t page_bytes() const { return shape_.page_bytes(); }
  /// Index of the page whose first cell is the sink; -1 if the model has no sink.
  int32_t sink_page() const { return sink_page_; }
  /// Index of the page for keys and values of padding rows. No row attends to its cells.
  int32_t spare_page() const { return static_cast<int32_t>(num_pages_); }
  /// Number of pages besides those for sequences: spare page and sink.
  static int64_t num_own_pages(const Sink& sink) { return sink.exists ? 2 : 1; }
  DeviceStream& device() const { return *device_; }

  /// Takes free pages, the lowest first, and fills them with zeros; returns their indices, or nothing if
  /// fewer are free. The device's mutex must be held.
  std::vector<int32_t> take(int64_t count);
  int64_t num_free() const { return std::ssize(free_); }
  /// The device's mutex must be held.
  void give_back(int32_t page);
  /// Address of a page's cells of one layer and kv head (layout: PagePool).
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
  std::vector<int32_t> free_;  // descending
};

/// Reference-counted page: the last sequence that holds it returns it to the arena.
class KvPageShare {
 public:
  ///   page         from PageArena::take()
  ///   taken_bytes  counter of the pool that took it
  KvPageShare(std::shared_ptr<PageArena> arena, int32_t page, std::shared_ptr<int64_t> taken_bytes);
  ~KvPageShare();
  KvPageShare(const KvPageShare&) = delete;
  KvPageShare& operator=(const KvPageShare&) = delete;

  int32_t page() const { return page_; }

 private:
  std::shared_ptr<PageArena> arena_;
  int32_t page_;
  std::shared_ptr<int64_t> taken_bytes_;
};

/// State of sparse attention for one sequence. Passes use it one after the other.
struct SparseMemory {
  DeviceBuffer chosen;     ///< [layers, kv heads, num_chosen] cells, ascending
  int32_t num_chosen = 0;  ///< 0: nothing was chosen yet
  DeviceBuffer bounds;     ///< [layers, kv heads, most_pages, 2, head_dim], see page_bounds()
  int32_t page_size = 0;   ///< cells per page of `bounds`
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
  /// Replaces the sequence's page `index` by a page of another sequence.
  void share_page(size_t index, const std::shared_ptr<KvPageShare>& page);
  /// Appends the indices of its pages, then of the sink's page.
  void add_page_table(std::vector<int32_t>& table) const;
  /// [num_cells, hidden_dim] f32; empty if outputs are not remembered.
  const DeviceBuffer& outputs() const { return outputs_; }
  /// [hidden_dim] f32 of a cell; only for models with canvases.
  float* soft_embedding(int32_t cell) const;
  SparseMemory& sparse() const { return sparse_; }

 private:
  std::shared_ptr<PageArena> arena_;
  std::vector<std::shared_ptr<KvPageShare>> pages_;
  std::vector<int32_t> page_table_;  // indices of `pages_`, contiguous
  RowMemory rows_;
  DeviceBuffer outputs_, soft_embeddings_;
  mutable SparseMemory sparse_;
  std::shared_ptr<int64_t> taken_bytes_;
};

/// Makes sequences from a model's pages, within a limit in bytes.
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
  /// Zero-filled device memory; empty if bytes is 0.
  DeviceBuffer zeros(int64_t bytes) const;

  std::shared_ptr<PageArena> arena_;
  RowMemory rows_;
  int64_t limit_;
  std::shared_ptr<int64_t> taken_bytes_ = std::make_shared<int64_t>(0);
};

}  // namespace lacuna::cuda
