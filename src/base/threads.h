// A thread pool for parallel loops. Results never depend on the number of threads: a loop body writes only
// data of its own index.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace lacuna {

/// One loop runs at a time; call parallel_for from one thread only, never from inside a loop body. Waiting
/// threads spin for a few dozen microseconds, because loops of a pass follow each other closely, and then
/// sleep.
class ThreadPool {
 public:
  /// `num_threads` includes the caller, so 1 starts no thread. 0 means one thread per core that the process
  /// may use.
  explicit ThreadPool(int num_threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls body(index, thread) for each index in [0, count), in any order; thread is in [0, size()). Returns
  /// when all calls have returned. Bodies must not throw.
  template <typename Body>
  void parallel_for(int64_t count, Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    run({count,
         [](void* object, int64_t index, int thread) { (*static_cast<Plain*>(object))(index, thread); },
         const_cast<std::remove_const_t<Plain>*>(&body)});
  }

 private:
  static constexpr size_t kCacheLine = 64;

  struct Loop {
    int64_t count = 0;
    void (*call)(void* body, int64_t index, int thread) = nullptr;
    void* body = nullptr;
  };

  void run(const Loop& loop);
  void work(int thread);
  void take_indices(int thread);

  /// Number of workers, or of groups of workers, that still work on the loop. Each counter has its own cache
  /// line.
  struct alignas(kCacheLine) Countdown {
    std::atomic<int> left{0};
  };

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable start_, finish_;
  Loop loop_;
  std::atomic<bool> stopping_{false};
  std::vector<Countdown> groups_;  ///< [(workers + 7) / 8]
  Countdown busy_groups_;
  // In separate cache lines: waiting workers poll generation_ while busy ones write next_index_.
  alignas(kCacheLine) std::atomic<uint64_t> generation_{0};
  alignas(kCacheLine) std::atomic<int64_t> next_index_{0};
};

/// Binds each thread of the pool, except the caller, to its own core among those that the caller may use. The
/// caller stays unbound, because threads that it starts later inherit its mask; one core is left for it.
/// Throws InputError if the pool has more threads than there are cores.
void pin_workers(ThreadPool& threads);

}  // namespace lacuna
