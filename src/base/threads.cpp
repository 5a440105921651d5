#include "base/threads.h"

#include <algorithm>
#include <latch>

#include "base/affinity.h"
#include "base/error.h"

namespace lacuna {
namespace {

/// Workers that share a counter at the end of a loop. With a single counter, its cache line would visit every
/// worker's core in turn.
constexpr size_t kGroup = 8;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // waits for some cycles, while `yield` is a no-op on most cores
#endif
}

/// Busy-waits briefly for an event; the caller then sleeps. Falling asleep and waking up take longer than
/// most loops of a pass.
template <typename Happened>
void spin_until(Happened&& happened) {
  constexpr int kPauses = 1000;  // 15 to 60 us, depending on the processor
  for (int i = 0; i < kPauses && !happened(); ++i) pause();
}

}  // namespace

ThreadPool::ThreadPool(int num_threads) {
  if (num_threads <= 0) num_threads = std::max(1, num_usable_cores());
  groups_ = std::vector<Countdown>((static_cast<size_t>(num_threads - 1) + kGroup - 1) / kGroup);
  for (int thread = 1; thread < num_threads; ++thread) {
    workers_.emplace_back([this, thread] { work(thread); });
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  start_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(const Loop& loop) {
  if (workers_.empty() || loop.count <= 1) {
    for (int64_t index = 0; index < loop.count; ++index) loop.call(loop.body, index, 0);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    loop_ = loop;
    next_index_.store(0, std::memory_order_relaxed);
    for (size_t group = 0; group < groups_.size(); ++group) {
      const size_t others = workers_.size() - group * kGroup;
      groups_[group].left.store(static_cast<int>(std::min(others, kGroup)), std::memory_order_relaxed);
    }
    busy_groups_.left = static_cast<int>(groups_.size());
    ++generation_;
  }
  start_.notify_all();
  take_indices(0);
  const auto is_done = [this] { return busy_groups_.left == 0; };
  spin_until(is_done);
  if (is_done()) return;
  std::unique_lock lock(mutex_);
  finish_.wait(lock, is_done);
}

void ThreadPool::work(int thread) {
  uint64_t seen = 0;
  const auto is_called = [&] { return stopping_ || generation_ != seen; };
  while (true) {
    spin_until(is_called);
    if (!is_called()) {
      std::unique_lock lock(mutex_);
      start_.wait(lock, is_called);
    }
    if (stopping_) return;
    seen = generation_;
    take_indices(thread);
    if (--groups_[static_cast<size_t>(thread - 1) / kGroup].left > 0) continue;
    if (--busy_groups_.left > 0) continue;
    {
      const std::lock_guard lock(mutex_);
    }  // so that the caller cannot miss the notification between its check and its wait
    finish_.notify_one();
  }
}

void ThreadPool::take_indices(int thread) {
  // The loop is stable while any thread is busy: run() waits for all of them before it returns.
  for (int64_t index = next_index_.fetch_add(1, std::memory_order_relaxed); index < loop_.count;
       index = next_index_.fetch_add(1, std::memory_order_relaxed)) {
    loop_.call(loop_.body, index, thread);
  }
}

void pin_workers(ThreadPool& threads) {
  const std::vector<int> cores = physical_cores_first(usable_cores());
  if (cores.empty()) throw InputError("--pin: this system cannot bind a thread to a core; expected no --pin");
  if (threads.size() > static_cast<int>(cores.size())) {
    throw InputError(
        "--pin binds {} threads to cores of their own; expected at most {}, the cores that it may use",
        threads.size(), cores.size());
  }
  // One index per thread, and no call returns before all are taken: each thread takes one.
  std::latch all_taken(threads.size());
  threads.parallel_for(threads.size(), [&](int64_t, int thread) {
    all_taken.arrive_and_wait();
    if (thread != 0) bind_to_core(cores[static_cast<size_t>(thread)]);
  });
}

}  // namespace lacuna
