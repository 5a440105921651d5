#include <chrono>
#include <cstdlib>
#include <cstring>
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
  bool pending = true;
  Clock::time_point when;
};

struct Graph::State {
  std::vector<std::function<void()>> nodes;
};

struct Stream::State {
  std::vector<std::function<void()>> waiting;
  size_t next = 0;
  std::unique_ptr<Graph::State> captured;

  void run_one() {
    const std::function<void()> work = std::move(waiting[next]);
    if (++next == waiting.size()) clear();
    try {
      work();
    } catch (...) {
      clear();
      throw;
    }
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
    state->pending = false;
    state->when = Clock::now();
  });
}

void Stream::wait(const Event& event) {
  while (!event.is_done()) {
    expects(state_->next < state_->waiting.size(), "a stream waits for an event that it recorded");
    state_->run_one();
  }
}

void Stream::wait() {
  while (state_->next < state_->waiting.size()) state_->run_one();
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
  (state_->captured ? state_->captured->nodes : state_->waiting).push_back(std::move(work));
}

size_t Stream::num_waiting() const {
  return state_->waiting.size();
}

}  // namespace lacuna::cuda
