// What the host needs of a device: memory, streams, events, graphs and launches. There is one body for a
// build without CUDA, runtime_simulated.cpp, in which work runs late, in order, on the simulator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "backend/cuda/simt/simt.h"

namespace lacuna::cuda {

/// Memory of the device. The host must not touch it; the simulated one holds NaN until it is written.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(size_t bytes);

  template <typename T>
  T* as() const {
    return static_cast<T*>(memory_.get());
  }
  size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<void, void (*)(void*)> memory_{nullptr, nullptr};
  size_t bytes_ = 0;
};

class Stream;

/// A place in a stream.
class Event {
 public:
  bool is_done() const { return !pending_; }

 private:
  friend class Stream;
  bool pending_ = false;
};

/// Work that was recorded once and can be sent to a stream again and again. Pointers are fixed; what they
/// point to is read when the work runs.
class Graph {
 public:
  size_t num_nodes() const { return nodes_.size(); }

 private:
  friend class Stream;
  std::vector<std::function<void()>> nodes_;
};

/// Work in order. Nothing has happened when a call returns, and all of it when wait() does.
class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Between host and device, or on the device. Memory on the host must keep its bytes until the copy has
  /// run.
  void copy(void* to, const void* from, size_t bytes);
  void fill(void* to, uint8_t byte, size_t bytes);
  void record(Event& event);
  /// Runs what was sent before `event`. Throws what a kernel of it threw; the rest of the stream is then
  /// gone.
  void wait(const Event& event);
  void wait();

  /// What follows is recorded instead of sent, until end_capture().
  void begin_capture();
  Graph end_capture();
  void launch(const Graph& graph);

#ifdef __CUDACC__
  void launch_kernel(const void* kernel, const simt::LaunchShape& shape, void** arguments);
#endif
  void enqueue(std::function<void()> work);
  size_t num_waiting() const {
    return waiting_.size();
  }

 private:
  void run_one();

  std::vector<std::function<void()>> waiting_;
  size_t next_ = 0;
  std::unique_ptr<Graph> captured_;
};

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
