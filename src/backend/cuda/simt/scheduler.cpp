#include "backend/cuda/simt/scheduler.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <string_view>
#include <vector>

#include "backend/cuda/simt/fibers.h"
#include "base/rng.h"

namespace lacuna::simt {
namespace {

constexpr uint32_t kMaxThreads = 1024;

/// State of a barrier or warp operation. ThreadSanitizer's release and acquire use two addresses (`order`)
/// alternately: a thread that already enters the next meeting must not be ordered before one that is still
/// leaving this one.
struct Meeting {
  uint32_t arrived = 0;
  Location at;
  std::array<char, 2> order = {};
  int turn = 0;
};

struct Warp {
  Meeting meeting;
  WarpOperation operation = WarpOperation::kShuffle;
  std::array<void*, kWarpSize> lanes = {};
};

enum class State : uint8_t { kReady, kAtBarrier, kAtWarp, kEnded };

struct Fiber {
  Context context;
  std::unique_ptr<FiberStack> stack;
  ThreadPlace place;
  State state = State::kEnded;
  std::deque<std::vector<AsyncCopy>> groups;  // committed, oldest first
  std::vector<AsyncCopy> open_group;
};

/// Ring buffer of fixed capacity: ThreadSanitizer would report allocations that one fiber makes and another
/// frees.
class ReadyFibers {
 public:
  uint32_t size() const { return size_; }
  void clear() { size_ = 0; }
  void add(Fiber* fiber) { at(size_++) = fiber; }
  Fiber* take_first() {
    Fiber* fiber = at(0);
    ++first_;
    --size_;
    return fiber;
  }
  Fiber* take_last() { return at(--size_); }
  void move_to_end(uint32_t index) { std::swap(at(index), at(size_ - 1)); }

 private:
  Fiber*& at(uint32_t index) { return fibers_[(first_ + index) % kMaxThreads]; }

  std::array<Fiber*, kMaxThreads> fibers_ = {};
  uint32_t first_ = 0;
  uint32_t size_ = 0;
};

std::string_view name(WarpOperation operation) {
  switch (operation) {
    case WarpOperation::kShuffle:
      return "shuffle";
    case WarpOperation::kBallot:
      return "ballot";
    case WarpOperation::kSyncWarp:
      return "syncwarp";
    case WarpOperation::kLoadMatrix:
      return "ldmatrix";
    case WarpOperation::kMultiply:
      return "mma";
  }
  return "";
}

std::string place_of(const Location& at) {
  std::string_view file = at.file;
  if (const size_t slash = file.rfind('/'); slash != std::string_view::npos) file.remove_prefix(slash + 1);
  return std::string(file) + ":" + std::to_string(at.line);
}

bool same_place(const Location& a, const Location& b) {
  return a.line == b.line && std::strcmp(a.file, b.file) == 0;
}

/// The running block, and the fibers that blocks use one after the other.
class Simulator {
 public:
  SimulatorOptions options;
  SimulatorCounters counters;

  void run(const LaunchShape& shape, const std::function<void()>& kernel) {
    check(shape);
    while (fibers_.size() < shape.threads) fibers_.push_back(std::make_unique<Fiber>());
    kernel_ = &kernel;
    random_ = RngStream(options.seed);
    drawn_ = 0;
    std::vector<uint32_t> blocks(size_t{shape.grid.x} * shape.grid.y * shape.grid.z);
    std::iota(blocks.begin(), blocks.end(), 0U);
    if (options.order != ThreadOrder::kFirstCome) {
      for (size_t i = blocks.size(); i > 1; --i)
        std::swap(blocks[i - 1], blocks[draw(static_cast<uint32_t>(i))]);
    }
    for (const uint32_t block : blocks) run_block(shape, block);
  }

  const ThreadPlace& place() const { return current_->place; }
  Fiber& current() { return *current_; }
  void* shared(size_t bytes) {
    if (bytes > shape_.shared_bytes) {
      give_up([&] {
        return "the kernel takes " + std::to_string(bytes) +
               " bytes of shared memory, and was launched with " + std::to_string(shape_.shared_bytes);
      });
    }
    return shared_.get();
  }

  void meet_warp(WarpOperation operation, void* mine, void (*all)(void* const*), const Location& at) {
    Warp& warp = warps_[current_->place.thread / kWarpSize];
    Meeting& meeting = warp.meeting;
    if (meeting.arrived > 0 && (warp.operation != operation || !same_place(meeting.at, at))) {
      give_up([&] {
        return thread(*current_) + " comes to " + std::string(name(operation)) + " " + place_of(at) +
               " while others of the warp wait at " + std::string(name(warp.operation)) + " " +
               place_of(meeting.at);
      });
    }
    warp.operation = operation;
    meeting.at = at;
    warp.lanes[current_->place.thread % kWarpSize] = mine;
    void* order = &meeting.order[static_cast<size_t>(meeting.turn)];
    release(order);
    if (++meeting.arrived < kWarpSize) {
      wait(State::kAtWarp);
    } else {
      all(warp.lanes.data());
      ++counters.collectives;
      open(meeting, State::kAtWarp, current_->place.thread / kWarpSize * kWarpSize, kWarpSize);
    }
    acquire(order);
  }

  void meet_block(const Location& at) {
    if (barrier_.arrived > 0 && !same_place(barrier_.at, at)) {
      give_up([&] {
        return thread(*current_) + " comes to syncthreads " + place_of(at) +
               " while others wait at syncthreads " + place_of(barrier_.at);
      });
    }
    barrier_.at = at;
    void* order = &barrier_.order[static_cast<size_t>(barrier_.turn)];
    release(order);
    if (++barrier_.arrived < shape_.threads) {
      wait(State::kAtBarrier);
    } else {
      ++counters.barriers;
      open(barrier_, State::kAtBarrier, 0, shape_.threads);
    }
    acquire(order);
  }

  /// Aborts the launch. An abandoned fiber runs no destructors, so no std::string may be alive at the jump.
  template <typename Describe>
  [[noreturn]] void give_up(Describe&& describe_fault) {
    fault_ = describe_fault() + in_block();
    release(&ended_);
    jump(current_->context, host_, true);
    std::abort();  // unreachable: nothing jumps back to an abandoned fiber
  }

 private:
  void check(const LaunchShape& shape) const {
    if (shape.threads == 0 || shape.threads > kMaxThreads || shape.threads % kWarpSize != 0) {
      throw Fault("a block has " + std::to_string(shape.threads) +
                  " threads; a multiple of 32 up to 1024 is accepted");
    }
    if (static_cast<int64_t>(shape.shared_bytes) > options.max_shared_bytes) {
      throw Fault("a block asks for " + std::to_string(shape.shared_bytes) + " bytes of shared memory; " +
                  std::to_string(options.max_shared_bytes >> 10) + " KiB are there");
    }
    if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0 || shape.grid.y > 65535 ||
        shape.grid.z > 65535) {
      throw Fault("a grid has no blocks, or more than 65,535 in y or z");
    }
  }

  uint32_t draw(uint32_t count) { return random_.below(drawn_++, count); }

  void run_block(const LaunchShape& shape, uint32_t block) {
    shape_ = shape;
    const size_t bytes = std::max<size_t>(shape.shared_bytes, 1);
    void* memory = nullptr;
    if (posix_memalign(&memory, 128, bytes) != 0) throw std::bad_alloc();
    shared_.reset(memory);
    std::memset(memory, 0xff, bytes);
    warps_.assign(shape.threads / kWarpSize, {});
    barrier_ = {};
    fault_ = {};
    ready_.clear();
    block_ = {block % shape.grid.x, block / shape.grid.x % shape.grid.y, block / shape.grid.x / shape.grid.y};
    describe_host_thread(host_);
    for (uint32_t thread = 0; thread < shape.threads; ++thread) start(thread);
    counters.threads += shape.threads;
    release(&launched_);
    if (Fiber* first = take_ready()) {
      current_ = first;
      jump(host_, first->context, false);
    }
    acquire(&ended_);
    end_block();
  }

  void start(uint32_t thread) {
    Fiber& fiber = *fibers_[thread];
    if (!fiber.stack) fiber.stack = std::make_unique<FiberStack>();
    fiber.stack->start(fiber.context, &Simulator::enter);
    fiber.place = {thread, block_, shape_};
    fiber.groups.clear();
    fiber.open_group.clear();
    fiber.state = State::kReady;
    ready_.add(&fiber);
  }

  static void enter(boost::context::detail::transfer_t transfer);

  void end_block() {
    const bool stuck = std::any_of(fibers_.begin(), fibers_.begin() + shape_.threads,
                                   [](const auto& fiber) { return fiber->state != State::kEnded; });
    if (fault_.empty() && stuck) fault_ = describe_waiting() + in_block();
    if (fault_.empty()) return;
    for (Warp& warp : warps_) acquire_all(warp.meeting);
    acquire_all(barrier_);
    for (auto& fiber : fibers_) {
      if (fiber->state != State::kEnded) fiber = std::make_unique<Fiber>();  // the old stack still has frames
    }
    throw Fault(fault_);
  }

  static void acquire_all(Meeting& meeting) {
    for (char& order : meeting.order) acquire(&order);
  }

  std::string in_block() const {
    return ", in block (" + std::to_string(block_.x) + ", " + std::to_string(block_.y) + ", " +
           std::to_string(block_.z) + ")";
  }

  static std::string thread(const Fiber& fiber) { return "thread " + std::to_string(fiber.place.thread); }

  std::string describe(const Fiber& fiber) const {
    switch (fiber.state) {
      case State::kAtWarp: {
        const Warp& warp = warps_[fiber.place.thread / kWarpSize];
        return "wait at " + std::string(name(warp.operation)) + " " + place_of(warp.meeting.at);
      }
      case State::kAtBarrier:
        return "wait at syncthreads " + place_of(barrier_.at);
      case State::kEnded:
        return "ended";
      case State::kReady:
        break;
    }
    return "are ready";
  }

  /// "threads 0..15 wait at shuffle norm.cu:12; threads 16..31 ended".
  std::string describe_waiting() const {
    std::string text;
    for (uint32_t first = 0; first < shape_.threads;) {
      const std::string what = describe(*fibers_[first]);
      uint32_t last = first;
      while (last + 1 < shape_.threads && describe(*fibers_[last + 1]) == what) ++last;
      if (!text.empty()) text += "; ";
      text += "threads " + std::to_string(first) + ".." + std::to_string(last) + " " + what;
      first = last + 1;
    }
    return text;
  }

  Fiber* take_ready() {
    if (ready_.size() == 0) return nullptr;
    if (options.order == ThreadOrder::kFirstCome) return ready_.take_first();
    if (options.order == ThreadOrder::kRandom) ready_.move_to_end(draw(ready_.size()));
    return ready_.take_last();
  }

  /// Leaves the current fiber, which cannot continue, and jumps to the next one.
  void leave(State state, bool for_good) {
    Fiber* self = current_;
    self->state = state;
    Fiber* next = take_ready();
    if (next == self) return;
    ++counters.switches;
    current_ = next;
    jump(self->context, next != nullptr ? next->context : host_, for_good);
  }

  void wait(State state) { leave(state, false); }

  void open(Meeting& meeting, State waiting, uint32_t first, uint32_t count) {
    meeting.arrived = 0;
    meeting.turn ^= 1;
    for (uint32_t thread = first; thread < first + count; ++thread) {
      Fiber& fiber = *fibers_[thread];
      if (fiber.state != waiting) continue;
      fiber.state = State::kReady;
      ready_.add(&fiber);
    }
  }

  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  std::vector<std::unique_ptr<Fiber>> fibers_;
  ReadyFibers ready_;
  Fiber* current_ = nullptr;
  Context host_;
  const std::function<void()>* kernel_ = nullptr;
  LaunchShape shape_;
  Index3 block_;
  std::unique_ptr<void, Free> shared_;
  std::vector<Warp> warps_;
  Meeting barrier_;
  std::string fault_;
  RngStream random_{0};
  uint64_t drawn_ = 0;
  char launched_ = 0;
  char ended_ = 0;
};

thread_local Simulator simulator;

void Simulator::enter(boost::context::detail::transfer_t transfer) {
  Fiber& self = *simulator.current_;
  arrive(transfer, self.context);
  acquire(&simulator.launched_);
  (*simulator.kernel_)();
  if (!self.open_group.empty() ||
      std::any_of(self.groups.begin(), self.groups.end(), [](const auto& group) { return !group.empty(); })) {
    simulator.give_up([&] { return thread(self) + " ended before its asynchronous copies arrived"; });
  }
  release(&simulator.ended_);
  simulator.leave(State::kEnded, true);
  std::abort();  // unreachable: an ended fiber is restarted, not continued
}

}  // namespace

SimulatorOptions& simulator_options() {
  return simulator.options;
}
SimulatorCounters& simulator_counters() {
  return simulator.counters;
}
void simulate(const LaunchShape& shape, const std::function<void()>& kernel) {
  simulator.run(shape, kernel);
}

const ThreadPlace& current_place() {
  return simulator.place();
}
void* shared_memory(size_t bytes) {
  return simulator.shared(bytes);
}
void meet_warp(WarpOperation operation, void* mine, void (*all)(void* const*), const Location& at) {
  simulator.meet_warp(operation, mine, all, at);
}
void meet_block(const Location& at) {
  simulator.meet_block(at);
}
void fail(const char* what, const Location& at) {
  simulator.give_up([&] {
    return "thread " + std::to_string(current_place().thread) + " " + what + " at " + place_of(at);
  });
}

void add_async_copy(const AsyncCopy& copy) {
  simulator.current().open_group.push_back(copy);
}

void commit_async_copies() {
  Fiber& fiber = simulator.current();
  fiber.groups.push_back(std::move(fiber.open_group));
  fiber.open_group.clear();
}

bool take_async_copy(int pending, AsyncCopy& copy) {
  auto& groups = simulator.current().groups;
  while (groups.size() > static_cast<size_t>(pending)) {
    if (groups.front().empty()) {
      groups.pop_front();
      continue;
    }
    copy = groups.front().back();
    groups.front().pop_back();
    return true;
  }
  return false;
}

}  // namespace lacuna::simt
