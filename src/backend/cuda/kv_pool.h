// Keys and values on the device: one piece of memory cut into pages, which sequences take and share.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/kernels/attention.h"
#include "backend/cuda/runtime.h"

namespace lacuna::cuda {

/// A stream, and the right to use it: models on one device share both, and passes of several threads come one
/// after the other.
struct DeviceStream {
  std::mutex mutex;
  int index = 0;  ///< of the device
  Stream stream;
  std::string failure;        ///< why nothing more is computed; empty: it works
  int64_t taken_bytes = 0;    ///< by weights and pages of the models on the device
  int num_without_pages = 0;  ///< of these models, those that have no pages yet
};

/// The pages of one model. Those who have pages keep it alive.
class PageArena {
 public:
  /// With the page that every sequence ends with, if the model has learned or zero sinks; see sink().
  ///   shape  without memory     num_pages  that sequences may take
  ///   sink   [num_layers] keys and values of all kv heads, empty: zeros; the whole empty: there is no sink
  struct Sink {
    bool exists = false;
    std::vector<std::vector<float>> keys, values;
  };
  PageArena(std::shared_ptr<DeviceStream> stream, const PagePool& shape, int64_t num_pages, const Sink& sink);

  const PagePool& pool() const { return pool_; }
  int64_t num_pages() const { return num_pages_; }
  int64_t page_bytes() const { return pool_.page_elements() * static_cast<int64_t>(sizeof(uint16_t)); }
  /// Index of the page whose first cell is the sink; -1 if the model has no sink.
  int32_t sink_page() const { return sink_page_; }
  DeviceStream& device() const { return *device_; }

  /// Takes a free page and returns its index, or -1 if no page is free. The device's mutex must be held.
  int32_t take();
  void give_back(int32_t page);
  /// Keys of a page's cell for one layer and kv head; values lie kPageCells keys further.
  uint16_t* keys_of(int32_t page, int64_t layer, int64_t kv_head, int64_t cell) const;
  void fill_with_zeros(int32_t page);
  /// Copies the first cells of a page.
  void copy_cells(int32_t from, int32_t to, int64_t count);

 private:
  void write_sink(const Sink& sink);

  std::shared_ptr<DeviceStream> device_;
  DeviceBuffer memory_;
  PagePool pool_;
  int64_t num_pages_;
  int32_t sink_page_ = -1;
  std::vector<int32_t> free_;  // the lowest last
};

/// A page that sequences have together; the last of them gives it back.
class KvPageShare {
 public:
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

class CudaSequence final : public KvSequence {
 public:
  CudaSequence(const SequenceShape& shape, std::shared_ptr<PageArena> arena,
               std::vector<std::shared_ptr<KvPageShare>> pages, int64_t hidden_dim,
               std::shared_ptr<int64_t> taken_bytes);
  ~CudaSequence() override;

  int32_t sink_cell() const override;
  void read_cells(int64_t layer, int64_t kv_head, IndexRange cells, Matrix<float> keys,
                  Matrix<float> values) const override;
  void read_outputs(std::span<const int32_t> cells, Matrix<float> out) const override;

  const std::shared_ptr<PageArena>& arena() const { return arena_; }
  std::vector<std::shared_ptr<KvPageShare>>& pages() { return pages_; }
  const std::vector<std::shared_ptr<KvPageShare>>& pages() const { return pages_; }
  /// Appends its pages, the sink's last.
  void add_page_table(std::vector<int32_t>& table) const;
  /// [num_cells, hidden_dim] f32; of 0 bytes where outputs are not remembered.
  const DeviceBuffer& outputs() const { return outputs_; }

 private:
  std::shared_ptr<PageArena> arena_;
  std::vector<std::shared_ptr<KvPageShare>> pages_;
  int64_t hidden_dim_;
  DeviceBuffer outputs_;
  std::shared_ptr<int64_t> taken_bytes_;
};

CudaSequence& on_device(KvSequence& sequence);
const CudaSequence& on_device(const KvSequence& sequence);

/// A limit on what sequences take of a model's pages.
class CudaPool final : public KvPool {
 public:
  CudaPool(std::shared_ptr<PageArena> arena, int64_t hidden_dim, int64_t limit);

  int64_t bytes_for(const SequenceShape& shape, int64_t shared) const override;
  int64_t limit() const override { return limit_; }
  int64_t bytes() const override { return *taken_bytes_; }
  int64_t bytes_of(std::span<const KvSequence* const> sequences) const override;

  using KvPool::make_sequence;
  std::unique_ptr<KvSequence> make_sequence(const SequenceShape& shape, const KvPrefix& prefix) override;
  void take_prefix(KvSequence& to, const KvPrefix& prefix) override;

 private:
  std::shared_ptr<PageArena> arena_;
  int64_t hidden_dim_;
  int64_t limit_;
  std::shared_ptr<int64_t> taken_bytes_ = std::make_shared<int64_t>(0);
};

}  // namespace lacuna::cuda
