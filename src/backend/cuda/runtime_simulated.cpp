#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "backend/cuda/runtime.h"
#include "base/error.h"

namespace lacuna::cuda {

using Clock = std::chrono::steady_clock;

namespace {

OwnedMemory allocate(size_t bytes) {
  void* memory = nullptr;
  if (posix_memalign(&memory, 256, bytes == 0 ? 1 : bytes) != 0) throw std::bad_alloc();
  return {bytes, memory, std::free};
}

}  // namespace

struct Event::State {
  std::atomic<bool> pending = true;
  Clock::time_point when;
};

struct Graph::State {
  std::vector<std::function<void()>> nodes;
};

struct Stream::State {
  std::mutex running;  // held by the thread that runs the work; taken before `queue`
  std::mutex queue;
  std::vector<std::function<void()>> waiting;
  size_t next = 0;
  std::exception_ptr fault;  // exception of failed work; the work after it was dropped
  std::unique_ptr<Graph::State> captured;

  /// Runs the next item of work; returns false if the queue is empty.
  bool run_one() {
    std::function<void()> work;
    {
      const std::lock_guard lock(queue);
      if (next == waiting.size()) return false;
      work = std::move(waiting[next]);
      if (++next == waiting.size()) clear();
    }
    try {
      work();
    } catch (...) {
      const std::lock_guard lock(queue);
      clear();
      fault = std::current_exception();
      throw;
    }
    return true;
  }
  void clear() {
    waiting.clear();
    next = 0;
  }
};

DeviceBuffer::DeviceBuffer(size_t bytes) : OwnedMemory(allocate(bytes)) {
  std::memset(as<std::byte>(), 0xff, bytes);
}

HostBuffer::HostBuffer(size_t bytes) : OwnedMemory(allocate(bytes)) {}

bool Event::is_done() const {
  return state_ == nullptr || !state_->pending;
}

double seconds_between(const Event& from, const Event& to) {
  expects(from.state_ != nullptr && to.state_ != nullptr && from.is_done() && to.is_done(),
          "time is measured between events that are done");
  return std::chrono::duration<double>(to.state_->when - from.state_->when).count();
}

size_t Graph::num_nodes() const {
  return state_ == nullptr ? 0 : state_->nodes.size();
}

Stream::Stream() : state_(std::make_unique<State>()) {}
Stream::~Stream() = default;

void Stream::copy(void* to, const void* from, size_t bytes) {
  if (bytes > 0) enqueue([=] { std::memcpy(to, from, bytes); });
}

void Stream::fill(void* to, uint8_t byte, size_t bytes) {
  if (bytes > 0) enqueue([=] { std::memset(to, byte, bytes); });
}

void Stream::record(Event& event) {
  expects(state_->captured == nullptr, "an event is not recorded while a graph is");
  event.state_ = std::make_shared<Event::State>();
  enqueue([state = event.state_] {
    state->when = Clock::now();
    state->pending = false;
  });
}

void Stream::wait(const Event& event) {
  const std::lock_guard lock(state_->running);
  while (!event.is_done()) {
    if (state_->run_one()) continue;
    if (state_->fault != nullptr) std::rethrow_exception(state_->fault);
    expects(false, "a stream waits for an event that it recorded");
  }
}

void Stream::wait() {
  const std::lock_guard lock(state_->running);
  while (state_->run_one()) {
  }
}

void Stream::begin_capture() {
  expects(state_->captured == nullptr, "a stream records one graph at a time");
  state_->captured = std::make_unique<Graph::State>();
}

Graph Stream::end_capture() {
  expects(state_->captured != nullptr, "a graph ends that was begun");
  Graph graph;
  graph.state_ = std::move(state_->captured);
  return graph;
}

void Stream::launch(const Graph& graph) {
  expects(graph.state_ != nullptr, "a graph was recorded");
  for (const auto& node : graph.state_->nodes) enqueue(node);
}

void Stream::enqueue(std::function<void()> work) {
  const std::lock_guard lock(state_->queue);
  (state_->captured ? state_->captured->nodes : state_->waiting).push_back(std::move(work));
}

size_t Stream::num_waiting() const {
  return state_->waiting.size();
}

}  // namespace lacuna::cuda
