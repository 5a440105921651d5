// CPU backend: submit() computes the pass before it returns. Sizes are in bytes.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>

#include "backend/backend.h"
#include "base/threads.h"
#include "kernels/table.h"
#include "model/model.h"

namespace lacuna {

/// Threads and kernels of models. Any thread may submit passes of models on one device; the device computes
/// them one after the other.
class CpuDevice {
 public:
  /// Uses the kernels of this machine's instruction set.
  ///   threads  0: one per core that the process may use     pin  binds the threads to cores
  explicit CpuDevice(int threads, bool pin = false);
  /// `kernels` and `threads` must outlive the device.
  CpuDevice(const KernelTable& kernels, ThreadPool& threads);
  CpuDevice(const CpuDevice&) = delete;
  CpuDevice& operator=(const CpuDevice&) = delete;

  const KernelTable& kernels() const { return kernels_; }
  ThreadPool& threads() const { return threads_; }
  KernelContext context() const { return {kernels_, threads_}; }
  /// Must be held while computing with the threads.
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
/// Makes a device for this model alone; `kernels` and `threads` must outlive the model, and nothing else may
/// use the threads.
std::shared_ptr<const BackendModel> on_cpu(std::shared_ptr<const Model> model, const KernelTable& kernels,
                                           ThreadPool& threads);

/// Reads the weights of a checkpoint, or makes random ones. Throws InputError.
///   folder       or a .gguf file; empty: random weights
///   random_seed  for random weights
std::shared_ptr<const BackendModel> load_on_cpu(const std::shared_ptr<const CpuDevice>& device,
                                                const std::filesystem::path& folder,
                                                const ModelConfig& config, const WeightFormats& formats,
                                                uint64_t random_seed, const LoadProgress& progress);

/// Memory for one request.
struct RunMemory {
  int64_t weights = 0;
  int64_t kv = 0;       ///< keys and values of the canvas
  int64_t buffers = 0;  ///< workspace of a pass over the canvas

  int64_t total() const { return weights + kv + buffers; }
};

/// Predicted memory of a run over `canvas` tokens on this machine.
///   stored  weights of the checkpoint; null: an unquantized checkpoint
RunMemory predict_cpu_memory(const ModelConfig& config, const WeightFormats& formats, int64_t canvas,
                             const WeightSource* stored);

}  // namespace lacuna
