#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "backend/cuda/runtime.h"
#include "base/error.h"

namespace lacuna::cuda {

DeviceBuffer::DeviceBuffer(size_t bytes) : bytes_(bytes) {
  void* memory = nullptr;
  if (posix_memalign(&memory, 256, bytes == 0 ? 1 : bytes) != 0) throw std::bad_alloc();
  std::memset(memory, 0xff, bytes);
  memory_ = {memory, std::free};
}

void Stream::copy(void* to, const void* from, size_t bytes) {
  if (bytes > 0) enqueue([=] { std::memcpy(to, from, bytes); });
}

void Stream::fill(void* to, uint8_t byte, size_t bytes) {
  enqueue([=] { std::memset(to, byte, bytes); });
}

void Stream::record(Event& event) {
  expects(captured_ == nullptr, "an event is not recorded while a graph is");
  event.pending_ = true;
  enqueue([&event] { event.pending_ = false; });
}

void Stream::wait(const Event& event) {
  while (event.pending_) {
    expects(next_ < waiting_.size(), "a stream waits for an event that it recorded");
    run_one();
  }
}

void Stream::wait() {
  while (next_ < waiting_.size()) run_one();
}

void Stream::run_one() {
  const std::function<void()> work = std::move(waiting_[next_]);
  if (++next_ == waiting_.size()) {
    waiting_.clear();
    next_ = 0;
  }
  try {
    work();
  } catch (...) {
    waiting_.clear();
    next_ = 0;
    throw;
  }
}

void Stream::begin_capture() {
  expects(captured_ == nullptr, "a stream records one graph at a time");
  captured_ = std::make_unique<Graph>();
}

Graph Stream::end_capture() {
  expects(captured_ != nullptr, "a graph ends that was begun");
  Graph graph = std::move(*captured_);
  captured_.reset();
  return graph;
}

void Stream::launch(const Graph& graph) {
  for (const auto& node : graph.nodes_) enqueue(node);
}

void Stream::enqueue(std::function<void()> work) {
  std::vector<std::function<void()>>& queue = captured_ ? captured_->nodes_ : waiting_;
  queue.push_back(std::move(work));
}

}  // namespace lacuna::cuda
