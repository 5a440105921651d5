#include "backend/cuda/cuda_model.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/cuda/device.h"
#include "backend/cuda/device_model.h"
#include "backend/cuda/kv_pool.h"
#include "backend/cuda/soft_embeddings.h"
#include "backend/cuda/ticket.h"
#include "backend/cuda/weights.h"
#include "base/error.h"
#include "base/memory.h"
#include "model/adapters.h"
#include "weights/weight_format.h"

namespace lacuna {
namespace {

using cuda::DeviceModel;
using cuda::DeviceStream;
using cuda::PageArena;

/// Device memory for weights, keys and values. The rest is for libraries and passes.
int64_t usable_bytes(const DeviceStream& device) {
  const cuda::DeviceMemory memory = cuda::device_memory();
  constexpr int64_t kMaxForPasses = int64_t{3} << 30;
  const int64_t usable = memory.total - memory.total / 16 - std::min(memory.total / 8, kMaxForPasses);
  return std::min(usable - device.taken_bytes, memory.free);
}

/// Uploads weights as they are read: the host holds only the embedding, the head and one layer.
class Upload {
 public:
  Upload(const CudaDevice& device, const CpuDevice& host, const ModelConfig& config, DType dtype)
      : device_(*device.stream()), host_(host), config_(config), dtype_(dtype) {
    sink_.exists = config.kv_sink || config.zero_sink;
  }

  void add_layer(int64_t index, const LayerParameters& layer) {
    if (config_.kv_sink) {
      sink_.keys.push_back(layer.k_sink);
      sink_.values.push_back(layer.v_sink);
    }
    cuda::on_stream(device_, [&] {
      const std::lock_guard lock(host_.mutex());
      layers_.push_back(cuda::upload_layer(device_.stream, host_.threads(), config_, dtype_, index, layer));
    });
  }
  /// Uploads the weights that add_layer() did not get.
  cuda::DeviceWeights finish(const Parameters& rest) {
    return cuda::on_stream(device_, [&] {
      const std::lock_guard lock(host_.mutex());
      return cuda::upload_weights(device_.stream, host_.threads(), config_, dtype_, rest, std::move(layers_));
    });
  }
  /// The model's learned keys and values of the attention sink.
  const PageArena::Sink& sink() const { return sink_; }

 private:
  DeviceStream& device_;
  const CpuDevice& host_;
  const ModelConfig& config_;
  DType dtype_;
  PageArena::Sink sink_;
  std::vector<cuda::DeviceLayer> layers_;
};

class CudaModel final : public BackendModel {
 public:
  CudaModel(std::shared_ptr<const CudaDevice> device, std::shared_ptr<const CpuDevice> host,
            const CudaOptions& options, const ModelConfig& config, const WeightFormats& formats,
            cuda::DeviceWeights weights, PageArena::Sink sink)
      : device_(std::move(device)), host_(std::move(host)), options_(options), sink_(std::move(sink)) {
    const int64_t rotary_dim = config.rotary_dim > 0 ? config.rotary_dim : config.head_dim;
    on_device_.rope = rope_frequencies(config.rope, rotary_dim);
    if (config.sliding)
      on_device_.sliding_rope = rope_frequencies(config.sliding->rope, config.sliding->head_dim);
    on_device_.config = config;
    on_device_.dtype = formats.dtype;
    if (formats.dtype == DType::kF32) cell_format_ = cuda::CellFormat::kF32;
    if (formats.kv_int8) cell_format_ = cuda::CellFormat::kInt8;
    on_device_.device = device_->stream();
    on_device_.uses_graphs = options.graphs;
    on_device_.weights = std::move(weights);
    const std::lock_guard lock(on_device_.device->mutex);
    on_device_.device->taken_bytes += on_device_.weights.bytes();
    ++on_device_.device->num_without_pages;
  }
  ~CudaModel() override {
    const std::lock_guard lock(on_device_.device->mutex);
    on_device_.device->taken_bytes -= on_device_.weights.bytes() + page_bytes_;
    if (arena_ == nullptr) --on_device_.device->num_without_pages;
  }

  const ModelConfig& config() const override { return on_device_.config; }
  std::string_view device() const override { return device_->name(); }
  DType dtype() const override { return on_device_.dtype; }
  int64_t weight_bytes() const override { return on_device_.weights.bytes(); }
  ModelBytes bytes_of_passes() const override {
    const auto page = static_cast<double>(page_shape().page_bytes());
    return {static_cast<double>(on_device_.weights.layer_bytes),
            static_cast<double>(on_device_.weights.head.bytes()), page / cuda::kPageCells};
  }

  std::unique_ptr<KvPool> make_pool(int64_t limit) const override {
    const ModelConfig& config = on_device_.config;
    return std::make_unique<cuda::CudaPool>(
        arena(), cuda::RowMemory{config.hidden_dim, config.canvas.has_value()}, limit);
  }

  std::unique_ptr<PassTicket> submit(const StepPlan& plan, std::span<KvSequence* const> sequences,
                                     const PassOptions& options) const override {
    if (options.observe_attention) {
      throw InputError("the attention of a model on {} cannot be observed; expected --device cpu",
                       device_->name());
    }
    return std::make_unique<cuda::CudaTicket>(on_device_, *host_, memories_, plan, sequences);
  }

  void keep_soft_embeddings(KvSequence& sequence, std::span<const int32_t> cells,
                            ConstMatrix<float> distributions) const override {
    expects(distributions.rows == std::ssize(cells) && distributions.cols == on_device_.config.vocab_size,
            "keep_soft_embeddings: cells by vocabulary");
    const auto& own = sequence_of<const cuda::CudaSequence>(sequence);
    std::vector<float*> kept;
    for (const int32_t cell : cells) kept.push_back(own.soft_embedding(cell));
    const std::vector<float> factors(cells.size(), on_device_.embedding_scale());
    cuda::Staging staging;
    cuda::on_stream(*on_device_.device,
                    [&] { cuda::keep_soft_embeddings(on_device_, staging, distributions, factors, kept); });
  }

  void compare_outputs(ConstMatrix<float> now, ConstMatrix<float> before,
                       std::span<Drift> drifts) const override {
    cuda::compare_outputs(on_device_, now, before, drifts);
  }

 private:
  cuda::PageShape page_shape() const { return {on_device_.config, cell_format_}; }

  /// All pages of the model. Allocated by the first pool, after all models of the device have their weights.
  const std::shared_ptr<PageArena>& arena() const {
    const std::lock_guard lock(arena_mutex_);
    if (arena_ != nullptr) return arena_;
    const cuda::PageShape shape = page_shape();
    const int64_t page_bytes = shape.page_bytes();
    int64_t pages = 0;
    cuda::on_stream(*on_device_.device, [&] {
      DeviceStream& device = *on_device_.device;
      const int64_t share = usable_bytes(device) / device.num_without_pages;
      pages = std::min(options_.kv_bytes, share) / page_bytes - PageArena::num_own_pages(sink_);
      if (pages < 1) {
        throw InputError("{} has {} left after the weights, and keys and values of {} tokens need {}",
                         device_->name(), human_bytes(std::max<int64_t>(share, 0)), cuda::kPageCells,
                         human_bytes(page_bytes));
      }
    });
    arena_ = std::make_shared<PageArena>(on_device_.device, shape, pages, sink_);
    page_bytes_ = (pages + PageArena::num_own_pages(sink_)) * page_bytes;
    const std::lock_guard device_lock(on_device_.device->mutex);
    --on_device_.device->num_without_pages;
    on_device_.device->taken_bytes += page_bytes_;
    return arena_;
  }

  std::shared_ptr<const CudaDevice> device_;
  std::shared_ptr<const CpuDevice> host_;
  CudaOptions options_;
  PageArena::Sink sink_;
  cuda::CellFormat cell_format_ = cuda::CellFormat::kBf16;
  mutable DeviceModel on_device_;
  mutable cuda::PassMemories memories_;
  mutable std::mutex arena_mutex_;
  mutable std::shared_ptr<PageArena> arena_;
  mutable int64_t page_bytes_ = 0;
};

void check_formats(const WeightFormats& formats) {
  if (formats.int8_activations)
    throw InputError("--activations is int8, for which there is no CUDA kernel yet; expected auto");
}

/// Throws InputError if the device has too little memory; called before any allocation.
void check_room(const CudaDevice& device, const ModelConfig& config, const WeightFormats& formats,
                const WeightSource* stored) {
  const int64_t needed = weight_bytes_on_device(config, formats, stored);
  int64_t room = 0;
  cuda::on_stream(*device.stream(), [&] { room = usable_bytes(*device.stream()); });
  if (needed <= room) return;
  std::string fitting;
  for (const NamedWeightFormat& known : kWeightFormats) {
    if (known.name != "int8" && known.name != "fp8" && known.name != "int4-group") continue;
    WeightFormats smaller = formats;
    smaller.layers = known.format;
    if (formats.dtype != DType::kBF16 || weight_bytes_on_device(config, smaller, stored) > room) continue;
    fitting += (fitting.empty() ? "--weights " : ", ") + std::string(known.name);
  }
  throw InputError("the weights take {} and {} has {} for them; {}", human_bytes(needed), device.name(),
                   human_bytes(room),
                   fitting.empty() ? "no format with a CUDA kernel fits" : fitting + " fits");
}

}  // namespace

int64_t weight_bytes_on_device(const ModelConfig& config, const WeightFormats& formats,
                               const WeightSource* stored) {
  int64_t bytes = predicted_bytes(config, formats, stored, {}, cuda::matrix_bytes);
  const int64_t rows = config.vocab_size * config.hidden_dim * static_cast<int64_t>(size_of(formats.dtype));
  if (config.canvas) bytes += rows;  // the embedding transposed
  if (!formats.embedding || !formats.embedding->is_quantized()) return bytes;
  if (config.tied_embeddings) return bytes + rows;
  return bytes + rows - cuda::matrix_bytes(*formats.embedding, config.vocab_size, config.hidden_dim);
}

CudaDevice::CudaDevice(int index) {
  const int count = cuda::num_devices();
  if (index < 0 || index >= count) {
    throw InputError("--device is cuda:{}; expected a device from cuda:0 to cuda:{}", index, count - 1);
  }
  cuda::use_device(index);
  name_ = cuda::device_name(index);
  stream_ = std::make_shared<DeviceStream>();
  stream_->index = index;
}

int num_cuda_devices() {
  return cuda::num_devices();
}

std::string why_no_cuda_device() {
  return cuda::list_devices().why_none;
}

CudaBuild cuda_build() {
#ifdef LACUNA_SIMULATED_DEVICE
  return CudaBuild::kSimulator;
#else
  return CudaBuild::kCuda;
#endif
}

std::shared_ptr<const CudaDevice> open_cuda_device(int index) {
  return std::make_shared<const CudaDevice>(index);
}

std::shared_ptr<const BackendModel> load_on_cuda(const std::shared_ptr<const CudaDevice>& device,
                                                 std::shared_ptr<const CpuDevice> host,
                                                 const std::filesystem::path& folder,
                                                 const ModelConfig& config, const WeightFormats& formats,
                                                 uint64_t random_seed, const LoadProgress& progress,
                                                 const CudaOptions& options) {
  check_formats(formats);
  const int64_t shared_bytes = cuda::on_stream(*device->stream(), [] { return cuda::most_shared_bytes(); });
  cuda::check_supported(config, formats.dtype == DType::kF32, formats.kv_int8, shared_bytes);
  const std::unique_ptr<WeightSource> stored = folder.empty() ? nullptr : open_weights(folder, config);
  check_room(*device, config, formats, stored.get());
  Upload upload(*device, *host, config, formats.dtype);
  const LayerSink add_layer = [&](int64_t index, const LayerParameters& layer) {
    upload.add_layer(index, layer);
  };
  ThreadPool& threads = host->threads();
  cuda::DeviceWeights weights = upload.finish(
      folder.empty() ? random_parameters(config, random_seed, formats, threads, progress, {}, add_layer)
                     : load_parameters(config, *stored, formats, threads, progress, {}, add_layer));
  return std::make_shared<const CudaModel>(device, std::move(host), options, config, formats,
                                           std::move(weights), upload.sink());
}

}  // namespace lacuna
