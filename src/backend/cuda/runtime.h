// Resources of a device that the host uses: its memory, pinned memory of the host, streams, events, graphs
// and launches. There are two bodies: runtime_cuda.cpp calls the CUDA runtime; in runtime_simulated.cpp work
// runs late, in order, on the simulator.
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

/// A call of the CUDA runtime that failed. The message is a sentence with the call's name.
class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A call of the CUDA runtime that failed because memory was short, after which the device still works. The
/// message is a sentence with the call's name.
class DeviceMemoryError : public std::bad_alloc {
 public:
  explicit DeviceMemoryError(const std::string& sentence) : sentence_(sentence) {}
  const char* what() const noexcept override { return sentence_.what(); }

 private:
  std::runtime_error sentence_;  // copies of it do not throw, as copies of exceptions must not
};

/// Memory that is freed with its owner.
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

/// Memory of the device, which the host must not touch. It holds 0xff (NaN in f32 and bf16) until it is
/// written. Throws std::bad_alloc (a DeviceMemoryError on a device) if too little memory is left.
class DeviceBuffer : public OwnedMemory {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(size_t bytes);
};

/// Memory of the host for copies to and from the device, which are asynchronous only there (pinned). Throws
/// as DeviceBuffer does.
class HostBuffer : public OwnedMemory {
 public:
  HostBuffer() = default;
  explicit HostBuffer(size_t bytes);
};

class Stream;

/// A place in a stream. Copies are the same place.
class Event {
 public:
  /// True of an event that no stream has recorded.
  bool is_done() const;

 private:
  friend class Stream;
  friend double seconds_between(const Event& from, const Event& to);
  struct State;
  std::shared_ptr<State> state_;
};

/// Device time between two events of one stream that are done. Of the simulator, time on the host.
double seconds_between(const Event& from, const Event& to);

/// Work that was recorded once and can be sent to a stream again and again. Pointers are fixed; what they
/// point to is read when the work runs. A graph lives until all that was sent of it has run.
class Graph {
 public:
  size_t num_nodes() const;

 private:
  friend class Stream;
  struct State;
  std::shared_ptr<State> state_;
};

/// Work in order. Nothing has happened when a call returns, and all of it when wait() does. A stream belongs
/// to the device that its thread uses (use_device() in device.h); any thread may call it, one at a time, and
/// further ones may wait().
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Between host and device, or on the device. Memory on the host must keep its bytes until the copy has
  /// run; in a graph it is a HostBuffer's.
  void copy(void* to, const void* from, size_t bytes);
  void fill(void* to, uint8_t byte, size_t bytes);
  void record(Event& event);
  /// Runs what was sent before `event`. Throws where a kernel or a copy of it failed: CudaError, after
  /// which the process cannot use the device again; in the simulator what the kernel threw, and the rest of
  /// the stream is then gone.
  void wait(const Event& event);
  void wait();

  /// Records the following work instead of sending it, until end_capture().
  void begin_capture();
  Graph end_capture();
  void launch(const Graph& graph);

  /// For launch() alone; only the body for devices has it.
  void launch_kernel(const void* kernel, const simt::LaunchShape& shape, void** arguments);
  /// The cudaStream_t, for what libraries send; only the body for devices has it.
  void* native() const;
  /// For launch() and tests of the simulator, whose body alone has these.
  void enqueue(std::function<void()> work);
  size_t num_waiting() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The work that `send` sends, as a graph. If `send` throws, nothing of it is left in the stream.
template <typename Send>
Graph record_graph(Stream& stream, Send&& send) {
  stream.begin_capture();
  try {
    send();
  } catch (...) {
    try {
      stream.end_capture();
    } catch (const std::exception&) {  // the first error is the one to know
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
