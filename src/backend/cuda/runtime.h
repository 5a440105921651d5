// Host interface to a device: device memory, pinned host memory, streams, events, graphs and launches.
// Implemented by runtime_cuda.cpp with the CUDA runtime, and by runtime_simulated.cpp, which queues work and
// runs it in order on the simulator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include "backend/cuda/simt/simt.h"

namespace lacuna::cuda {

/// A failed call of the CUDA runtime. The message is a sentence with the call's name.
class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A call of the CUDA runtime that failed for lack of memory; the device still works. The message is a
/// sentence with the call's name.
class DeviceMemoryError : public std::bad_alloc {
 public:
  explicit DeviceMemoryError(const std::string& sentence) : sentence_(sentence) {}
  const char* what() const noexcept override { return sentence_.what(); }

 private:
  std::runtime_error sentence_;  // copying it does not throw, unlike a std::string
};

/// Owning handle of a block of memory.
class OwnedMemory {
 public:
  OwnedMemory() = default;
  ///   release  frees `memory`; it does not throw
  OwnedMemory(size_t bytes, void* memory, void (*release)(void*)) : memory_(memory, release), bytes_(bytes) {}

  template <typename T>
  T* as() const {
    return static_cast<T*>(memory_.get());
  }
  size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<void, void (*)(void*)> memory_{nullptr, nullptr};
  size_t bytes_ = 0;
};

/// Device memory, which the host must not access; filled with 0xff bytes (NaN in f32 and bf16). Throws
/// std::bad_alloc (a DeviceMemoryError on a device) if too little memory is left.
class DeviceBuffer : public OwnedMemory {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(size_t bytes);
};

/// Pinned host memory, which copies to and from the device need to be asynchronous. Throws as DeviceBuffer
/// does.
class HostBuffer : public OwnedMemory {
 public:
  HostBuffer() = default;
  explicit HostBuffer(size_t bytes);
};

class Stream;

/// A point in a stream. Copies refer to the same point.
class Event {
 public:
  /// Whether the work before the event has run; true for an event that was never recorded.
  bool is_done() const;

 private:
  friend class Stream;
  friend double seconds_between(const Event& from, const Event& to);
  struct State;
  std::shared_ptr<State> state_;
};

/// Device time between two finished events of one stream; on the simulator, host time.
double seconds_between(const Event& from, const Event& to);

/// Recorded work that can be sent to a stream repeatedly, with fixed pointers; their targets are read when
/// the work runs. A graph must live until all its launches have run.
class Graph {
 public:
  size_t num_nodes() const;

 private:
  friend class Stream;
  struct State;
  std::shared_ptr<State> state_;
};

/// Ordered, asynchronous work: calls return at once, and wait() returns when the work is done. A stream
/// belongs to the device in use at its construction (use_device() in device.h). Any thread may call it, one
/// at a time; others may wait() meanwhile.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Copies between host and device, or on the device. Host memory must not change until the copy has run; in
  /// a graph it must be a HostBuffer's.
  void copy(void* to, const void* from, size_t bytes);
  void fill(void* to, uint8_t byte, size_t bytes);
  void record(Event& event);
  /// Waits for the work before `event`. If a kernel or copy failed, throws CudaError, and the process cannot
  /// use the device again; the simulator rethrows the kernel's exception and drops the rest of the stream.
  void wait(const Event& event);
  void wait();

  /// Records the following work instead of sending it, until end_capture().
  void begin_capture();
  Graph end_capture();
  void launch(const Graph& graph);

  /// Only for launch(); only runtime_cuda.cpp implements it.
  void launch_kernel(const void* kernel, const simt::LaunchShape& shape, void** arguments);
  /// The cudaStream_t, for libraries; only runtime_cuda.cpp implements it.
  void* native() const;
  // For launch() and tests of the simulator; only runtime_simulated.cpp implements these:
  void enqueue(std::function<void()> work);
  size_t num_waiting() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Records the work that `send` sends as a graph. If `send` throws, its work is discarded.
template <typename Send>
Graph record_graph(Stream& stream, Send&& send) {
  stream.begin_capture();
  try {
    send();
  } catch (...) {
    try {
      stream.end_capture();
    } catch (const std::exception&) {  // reports only the first error
    }
    throw;
  }
  return stream.end_capture();
}

/// Sends `kernel` with a copy of its arguments.
template <typename Arguments>
void launch(Stream& stream, void (*kernel)(Arguments), const simt::LaunchShape& shape,
            const Arguments& arguments) {
#ifdef __CUDACC__
  Arguments copy = arguments;
  void* pointers[] = {&copy};
  stream.launch_kernel(reinterpret_cast<const void*>(kernel), shape, pointers);
#else
  stream.enqueue([kernel, shape, arguments] { simt::simulate(shape, [&] { kernel(arguments); }); });
#endif
}

}  // namespace lacuna::cuda
