// The threads that parse, prepare and refuse requests. Short jobs never wait for long ones.
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
      kHandlerThreads;        ///< more than long_jobs + waiting_long_jobs, so that short jobs always have one
  int long_jobs = 2;          ///< long jobs that run at the same time
  int waiting_long_jobs = 4;  ///< long jobs that wait to continue; one more is refused
  size_t waiting_jobs = 256;  ///< jobs that have not started; one more is refused
  int long_checks = 64;       ///< budget checks (every 16,384 steps) after which a job is long
};

/// A bounded pool of threads. A job works under budgets that report each check to the observer that run()
/// gets. After `long_checks` checks the job counts as long: its next check blocks until it may continue, or
/// throws if the budget's stop flag or deadline ends the job. Jobs start, and long jobs continue, in this
/// order: first clients with the fewest running (long) jobs, then the least recently served one. If too many
/// jobs wait, the newest one of the client with the most waiting jobs is refused.
class HandlerPool {
 public:
  struct Job {
    std::string client;
    int64_t bytes = 0;  ///< memory that it may take; reserved while it runs
    /// Does the work; exceptions are dropped. The observer throws ApiError 503 if the job cannot continue:
    /// too many long jobs wait, or memory is short.
    std::function<void(Budget::Observer&)> run;
    /// Called instead of `run`, from any thread, if too many jobs wait, memory is short or the pool has
    /// stopped.
    std::function<void()> refuse;
  };

  explicit HandlerPool(const HandlerLimits& limits = {},
                       std::shared_ptr<MemoryGuard> memory = std::make_shared<MemoryGuard>());
  /// Calls stop().
  ~HandlerPool();
  HandlerPool(const HandlerPool&) = delete;
  HandlerPool& operator=(const HandlerPool&) = delete;

  /// Queues a job. Refuses a job at once if too many wait or the pool has stopped.
  void add(Job job);

  /// Number of long jobs that wait to continue.
  size_t num_waiting_long() const;

  /// Drops jobs that have not started and waits for the running ones, whose stop flags the caller has set.
  void stop();

 private:
  class Running;

  /// A client with waiting or running jobs.
  struct Client {
    int jobs = 0, running = 0, long_running = 0;
    uint64_t turn = 0, long_turn = 0;  // turns of its jobs that started or continued last
  };

  void work();
  void begin(const Running& running) LACUNA_REQUIRES(mutex_);
  void end(const Running& running) LACUNA_REQUIRES(mutex_);
  void wait_for_turn(Running& running, const Budget& budget);
  void resume_long_jobs() LACUNA_REQUIRES(mutex_);
  void forget(const std::string& client) LACUNA_REQUIRES(mutex_);

  const HandlerLimits limits_;
  const std::shared_ptr<MemoryGuard> memory_;
  mutable Mutex mutex_;
  Condition changed_;
  std::vector<Job> waiting_ LACUNA_GUARDED_BY(mutex_);            // in order of arrival
  std::vector<Running*> waiting_long_ LACUNA_GUARDED_BY(mutex_);  // in order of arrival
  std::map<std::string, Client> clients_ LACUNA_GUARDED_BY(mutex_);
  uint64_t num_turns_ LACUNA_GUARDED_BY(mutex_) = 0;
  int num_long_ LACUNA_GUARDED_BY(mutex_) = 0;
  bool is_stopping_ LACUNA_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace lacuna
