// This machine as a backend: a pass is computed when it is submitted. Sizes are in bytes.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>

#include "backend/backend.h"
#include "base/threads.h"
#include "kernels/table.h"
#include "model/model.h"

namespace lacuna {

/// Threads and kernels that models compute with. Any thread may submit passes of models on one device: they
/// are computed one after the other.
class CpuDevice {
 public:
  /// The kernels of this machine's instruction set.
  ///   threads  0: one for each core that the process may use     pin  binds them to cores
  explicit CpuDevice(int threads, bool pin = false);
  /// With what outlives it.
  CpuDevice(const KernelTable& kernels, ThreadPool& threads);
  CpuDevice(const CpuDevice&) = delete;
  CpuDevice& operator=(const CpuDevice&) = delete;

  const KernelTable& kernels() const { return kernels_; }
  ThreadPool& threads() const { return threads_; }
  KernelContext context() const { return {kernels_, threads_}; }
  /// Held by whoever computes with the threads.
  std::mutex& mutex() const { return mutex_; }

 private:
  std::unique_ptr<ThreadPool> own_threads_;
  const KernelTable& kernels_;
  ThreadPool& threads_;
  mutable std::mutex mutex_;
};

/// Null for no model.
std::shared_ptr<const BackendModel> on_cpu(std::shared_ptr<const Model> model,
                                           std::shared_ptr<const CpuDevice> device);
/// The same on a device of its own; `kernels` and `threads` outlive the model, and only it uses the threads.
std::shared_ptr<const BackendModel> on_cpu(std::shared_ptr<const Model> model, const KernelTable& kernels,
                                           ThreadPool& threads);

/// Reads the weights of a checkpoint, or makes random ones. Throws InputError.
///   folder  or a .gguf file; empty: random weights     random_seed  of those
std::shared_ptr<const BackendModel> load_on_cpu(const std::shared_ptr<const CpuDevice>& device,
                                                const std::filesystem::path& folder,
                                                const ModelConfig& config, const WeightFormats& formats,
                                                uint64_t random_seed, const LoadProgress& progress);

/// Memory of a run of one request.
struct RunMemory {
  int64_t weights = 0;
  int64_t kv = 0;       ///< keys and values of the canvas
  int64_t buffers = 0;  ///< of a pass over it

  int64_t total() const { return weights + kv + buffers; }
};

/// Predicted memory of a run over `canvas` tokens on this machine.
///   stored  the checkpoint's weights; null: a dense model's
RunMemory predict_cpu_memory(const ModelConfig& config, const WeightFormats& formats, int64_t canvas,
                             const WeightSource* stored);

}  // namespace lacuna
