// The threads on which requests are read, prepared and refused. What takes little work never waits for what
// takes much, whoever asks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/budget.h"
#include "base/mutex.h"
#include "server/memory_guard.h"

namespace lacuna {

inline constexpr int kHandlerThreads = 8;

struct HandlerLimits {
  int threads =
      kHandlerThreads;  ///< more than long_jobs + waiting_long_jobs, so that one is always free for others
  int long_jobs = 2;    ///< jobs beyond long_looks that continue at once
  int waiting_long_jobs = 4;  ///< jobs that wait to be one of these; one more is refused
  size_t waiting_jobs = 256;  ///< jobs that no thread has begun; one more is refused
  int long_looks = 64;        ///< looks of a job's budgets (16,384 steps each) until it is long
};

/// A bounded pool of threads. A job works under budgets with the observer that it gets. A job whose budgets
/// have looked more than `long_looks` times is a long one, and waits within its next look until it may
/// continue. It waits no longer than it is wanted: its budgets' flags and deadlines end it there, too. Both
/// kinds of waiting end first for the client with the fewest jobs that run, then for the one whose turn was
/// longest ago. Where too many wait, the client with the most of them gives up its newest.
class HandlerPool {
 public:
  struct Job {
    std::string client;
    int64_t bytes = 0;  ///< of memory that it may take; reserved while it runs
    /// Its exceptions are dropped. Its observer throws ApiError 503 where the job cannot continue: too many
    /// that take much work wait, or there is no memory.
    std::function<void(Budget::Observer&)> run;
    /// Called instead of `run`, from any thread: too many wait, or there is no memory.
    std::function<void()> refuse;
  };

  explicit HandlerPool(const HandlerLimits& limits = {},
                       std::shared_ptr<MemoryGuard> memory = std::make_shared<MemoryGuard>());
  /// Calls stop().
  ~HandlerPool();
  HandlerPool(const HandlerPool&) = delete;
  HandlerPool& operator=(const HandlerPool&) = delete;

  /// Takes a job to run or to refuse it, at once where too many wait or the pool has stopped.
  void add(Job job);

  /// Long jobs that wait until they may continue.
  size_t num_waiting_long() const;

  /// Drops jobs that no thread has begun and waits for the others, whose flags the caller has set. Once.
  void stop();

 private:
  class Running;

  /// A client with jobs that wait or run.
  struct Client {
    int jobs = 0, running = 0, long_running = 0;
    uint64_t turn = 0, long_turn = 0;  // its last ones
  };

  void work();
  void begin(const Running& running) LACUNA_REQUIRES(mutex_);
  void end(const Running& running) LACUNA_REQUIRES(mutex_);
  void wait_for_turn(Running& running, const Budget& budget);
  void let_long_go_on() LACUNA_REQUIRES(mutex_);
  void forget(const std::string& client) LACUNA_REQUIRES(mutex_);

  const HandlerLimits limits_;
  const std::shared_ptr<MemoryGuard> memory_;
  mutable Mutex mutex_;
  Condition changed_;
  std::vector<Job> waiting_ LACUNA_GUARDED_BY(mutex_);            // in their order
  std::vector<Running*> waiting_long_ LACUNA_GUARDED_BY(mutex_);  // likewise
  std::map<std::string, Client> clients_ LACUNA_GUARDED_BY(mutex_);
  uint64_t num_turns_ LACUNA_GUARDED_BY(mutex_) = 0;
  int num_long_ LACUNA_GUARDED_BY(mutex_) = 0;
  bool is_stopping_ LACUNA_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace lacuna
