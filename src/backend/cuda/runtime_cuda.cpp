// runtime.h for CUDA devices. Every call is checked, and errors name the call.
#include <fmt/core.h>

#include <map>
#include <mutex>
#include <utility>

#include "backend/cuda/check_cuda.h"
#include "backend/cuda/runtime.h"
#include "base/error.h"

namespace lacuna::cuda {
namespace {

constexpr size_t kSharedBytesOfAnyKernel = 48 * 1024;  // more needs an attribute of the kernel

int current_device() {
  int device = 0;
  check_call("cudaGetDevice", cudaGetDevice(&device));
  return device;
}

/// Lets a kernel use more than 48 KiB of shared memory. Must be called before it is launched or recorded.
void allow_shared_bytes(int device, const void* kernel, size_t bytes) {
  static std::mutex mutex;
  static std::map<std::pair<int, const void*>, size_t> allowed;
  if (bytes <= kSharedBytesOfAnyKernel) return;
  const std::lock_guard lock(mutex);
  size_t& most = allowed[{device, kernel}];
  if (bytes <= most) return;
  check_call(
      "cudaFuncSetAttribute(MaxDynamicSharedMemorySize)",
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
  most = bytes;
}

std::string in_mebibytes(size_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1024 * 1024));
}

/// "cudaMalloc of 3.0 MiB, of which 1.0 MiB are free".
std::string allocation(const char* call, size_t bytes) {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  if (cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess) return call;
  return fmt::format("{} of {}, with {} free", call, in_mebibytes(bytes), in_mebibytes(free_bytes));
}

// These ignore errors: they must not throw, and at process exit the device may be gone already.
void free_device(void* memory) {
  cudaFree(memory);
}
void free_pinned(void* memory) {
  cudaFreeHost(memory);
}

OwnedMemory allocate_device(size_t bytes) {
  if (bytes == 0) return {};
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes);
  if (error != cudaSuccess) check_call(allocation("cudaMalloc", bytes).c_str(), error);
  return {bytes, memory, free_device};
}

OwnedMemory allocate_pinned(size_t bytes) {
  if (bytes == 0) return {};
  void* memory = nullptr;
  const cudaError_t error = cudaMallocHost(&memory, bytes);
  if (error != cudaSuccess)
    check_call(fmt::format("cudaMallocHost of {}", in_mebibytes(bytes)).c_str(), error);
  return {bytes, memory, free_pinned};
}

}  // namespace

struct Event::State {
  cudaEvent_t event = nullptr;

  State() { check_call("cudaEventCreate", cudaEventCreate(&event)); }
  ~State() { cudaEventDestroy(event); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

struct Graph::State {
  cudaGraphExec_t graph = nullptr;
  size_t num_nodes = 0;

  State() = default;
  ~State() {
    if (graph != nullptr) cudaGraphExecDestroy(graph);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

struct Stream::State {
  int device = current_device();
  cudaStream_t stream = nullptr;
  bool is_capturing = false;

  State() {
    check_call("cudaStreamCreateWithFlags", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  ~State() {
    cudaStreamSynchronize(stream);  // running copies may use memory that is freed next
    cudaStreamDestroy(stream);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// Makes this thread use the stream's device; returns the stream.
  cudaStream_t on_device() const {
    check_call("cudaSetDevice", cudaSetDevice(device));
    return stream;
  }
};

DeviceBuffer::DeviceBuffer(size_t bytes) : OwnedMemory(allocate_device(bytes)) {
  if (bytes == 0) return;
  // A separate stream: waiting for the whole device fails while another thread records a graph.
  Stream stream;
  stream.fill(as<std::byte>(), 0xff, bytes);
  stream.wait();
}

HostBuffer::HostBuffer(size_t bytes) : OwnedMemory(allocate_pinned(bytes)) {}

bool Event::is_done() const {
  if (state_ == nullptr) return true;
  const cudaError_t error = cudaEventQuery(state_->event);
  if (error == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  check_call("cudaEventQuery", error);
  return true;
}

double seconds_between(const Event& from, const Event& to) {
  expects(from.state_ != nullptr && to.state_ != nullptr, "time is measured between events that are done");
  float milliseconds = 0;
  check_call("cudaEventElapsedTime",
             cudaEventElapsedTime(&milliseconds, from.state_->event, to.state_->event));
  return 1e-3 * milliseconds;
}

size_t Graph::num_nodes() const {
  return state_ == nullptr ? 0 : state_->num_nodes;
}

Stream::Stream() : state_(std::make_unique<State>()) {}
Stream::~Stream() = default;

void Stream::copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  check_call("cudaMemcpyAsync", cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, state_->on_device()));
}

void Stream::fill(void* to, uint8_t byte, size_t bytes) {
  if (bytes == 0) return;
  check_call("cudaMemsetAsync", cudaMemsetAsync(to, byte, bytes, state_->on_device()));
}

void Stream::record(Event& event) {
  expects(!state_->is_capturing, "an event is not recorded while a graph is");
  const cudaStream_t stream = state_->on_device();
  if (event.state_ == nullptr || event.state_.use_count() > 1)
    event.state_ = std::make_shared<Event::State>();
  check_call("cudaEventRecord", cudaEventRecord(event.state_->event, stream));
}

void Stream::wait(const Event& event) {
  if (event.state_ != nullptr) check_call("cudaEventSynchronize", cudaEventSynchronize(event.state_->event));
}

void Stream::wait() {
  check_call("cudaStreamSynchronize", cudaStreamSynchronize(state_->on_device()));
}

void Stream::begin_capture() {
  expects(!state_->is_capturing, "a stream records one graph at a time");
  // ThreadLocal: other threads may allocate and wait during the capture.
  check_call("cudaStreamBeginCapture",
             cudaStreamBeginCapture(state_->on_device(), cudaStreamCaptureModeThreadLocal));
  state_->is_capturing = true;
}

Graph Stream::end_capture() {
  expects(state_->is_capturing, "a graph ends that was begun");
  state_->is_capturing = false;
  cudaGraph_t recorded = nullptr;
  check_call("cudaStreamEndCapture", cudaStreamEndCapture(state_->on_device(), &recorded));
  const std::unique_ptr<CUgraph_st, cudaError_t (*)(cudaGraph_t)> owner(recorded, cudaGraphDestroy);
  Graph graph;
  graph.state_ = std::make_shared<Graph::State>();
  check_call("cudaGraphGetNodes", cudaGraphGetNodes(recorded, nullptr, &graph.state_->num_nodes));
  check_call("cudaGraphInstantiate", cudaGraphInstantiate(&graph.state_->graph, recorded, 0));
  return graph;
}

void Stream::launch(const Graph& graph) {
  expects(graph.state_ != nullptr, "a graph was recorded");
  check_call("cudaGraphLaunch", cudaGraphLaunch(graph.state_->graph, state_->on_device()));
}

void* Stream::native() const {
  return state_->on_device();
}

void Stream::launch_kernel(const void* kernel, const simt::LaunchShape& shape, void** arguments) {
  const cudaStream_t stream = state_->on_device();
  allow_shared_bytes(state_->device, kernel, shape.shared_bytes);
  check_call("cudaLaunchKernel",
             cudaLaunchKernel(kernel, dim3(shape.grid.x, shape.grid.y, shape.grid.z), dim3(shape.threads),
                              arguments, shape.shared_bytes, stream));
}

}  // namespace lacuna::cuda
