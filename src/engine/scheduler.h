// One thread runs the engine for all requests; any thread may submit and cancel requests.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "engine/engine.h"

namespace lacuna {

/// Receives the events of a request. Calls come from the engine's thread, in order, and delay every request:
/// they must be quick. If the listener throws, its request fails and failed() is called next.
class RequestListener {
 public:
  virtual ~RequestListener() = default;

  /// Before the first pass.
  ///   queue_seconds  time in the queue
  virtual void started(const Decoder& /*decoder*/, double /*queue_seconds*/) {}
  /// After a pass. Return false to end the answer, even if the decoder is not done.
  virtual bool stepped(const StepEvent& event) = 0;
  /// The last call: the request is done, or stepped() returned false.
  virtual void finished(const Decoder& decoder, const RunStatistics& statistics) = 0;
  /// The last call, instead of finished(): an error. May come from the thread that calls Scheduler::stop().
  virtual void failed(const std::string& sentence) = 0;
  /// The last call if failed() itself threw `error`: must wake a thread that waits for the request.
  virtual void lost(const std::exception_ptr& /*error*/) noexcept {}
};

struct SchedulerLimits {
  int32_t max_running = 32;
  int32_t max_queue = 256;            ///< waiting requests
  int64_t memory = int64_t{1} << 32;  ///< bytes of K/V and outputs of running requests
  /// Part of `memory` for the prefix cache, in bytes (Engine::share_prefixes); negative: no prefix cache.
  int64_t prefix_memory = int64_t{1} << 28;
  int32_t pass_rows = 1024;  ///< most rows of a shared pass (Engine::limit_rows)
  /// Most running and waiting requests of one client; 0: three quarters of max_running + max_queue, so that
  /// no client holds every place.
  int32_t max_per_client = 0;
  double request_seconds = 0;  ///< time-out from a request's arrival to its end; 0: none
};

/// State of a request as /slots reports it.
struct RequestState {
  uint64_t id = 0;
  bool is_running = false;
  int32_t prompt_tokens = 0;
  int32_t canvas_tokens = 0;
  int32_t final_tokens = 0;
  RunStatistics statistics;
  double seconds = 0;  ///< since its arrival
};

/// The scheduler refused a request.
class SchedulingError : public std::runtime_error {
 public:
  enum class Reason : uint8_t {
    kTooLarge,           ///< needs more than SchedulerLimits::memory
    kTooManyFromClient,  ///< the client has reached max_per_client
    kQueueFull,
    kStopping,   ///< drain() or stop() was called
    kBroken,     ///< failure() says why
    kReplacing,  ///< another model is being replaced
  };
  SchedulingError(Reason reason, const std::string& sentence)
      : std::runtime_error(sentence), reason_(reason) {}

  Reason reason() const { return reason_; }

 private:
  Reason reason_;
};

class Scheduler {
 public:
  struct Job {
    std::unique_ptr<Decoder> decoder;
    std::shared_ptr<RequestListener> listener;
  };
  struct Totals {
    size_t waiting = 0;
    size_t running = 0;
    int64_t memory = 0;         ///< bytes in use by requests that run
    int64_t prefix_memory = 0;  ///< bytes in use by the prefix cache
    /// Rows of the uncached baselines of waiting and running requests, each times the share of its answer
    /// that is not final.
    int64_t rows_pending = 0;
    int64_t kv_pages = 0;  ///< pages of K/V that fit SchedulerLimits::memory
  };
  static constexpr int64_t kCellsOfPage = kPageCells;

  /// Background work for an idle scheduler.
  struct IdleJob {
    std::function<std::unique_ptr<Decoder>()> make;  ///< called in the scheduler's thread; may throw
    std::shared_ptr<RequestListener> listener;
  };

  /// The models' threads and devices must not be used by others.
  Scheduler(std::shared_ptr<const BackendModel> model, std::shared_ptr<const BackendModel> guide,
            const SchedulerLimits& limits);
  /// Drops all requests without calling their listeners; call stop() first to fail them.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Accepts all jobs or none, and returns their ids; they start in this order. Throws SchedulingError, or
  /// InputError if the models cannot compute one.
  ///   client  client's key for SchedulerLimits::max_per_client; empty: not counted
  std::vector<uint64_t> submit(std::vector<Job> jobs, const std::string& client = {});
  /// Whether a request fits SchedulerLimits::memory.
  bool has_memory_for(const Decoder& decoder) const;
  /// Drops requests before the next pass, whether or not they have ended. Their listeners may get events of
  /// the current pass, but none after it.
  void cancel(const std::vector<uint64_t>& ids);

  /// Queues a job that runs alone while no request runs or waits. A request that arrives meanwhile gets the
  /// next pass; later the job is made anew and its listener gets started() again. Returns false if
  /// kMaxIdleJobs wait or the scheduler is draining. Idle jobs do not count as requests or for is_idle().
  /// failed() is called for a job that fails; a job that never ran is dropped silently.
  bool submit_idle(IdleJob job);
  static constexpr size_t kMaxIdleJobs = 64;

  /// Refuses new requests; the present ones continue.
  void drain();
  /// Ends the thread and fails unfinished requests. Afterwards submit() throws.
  void stop();
  /// Whether no request runs or waits.
  bool is_idle() const;
  /// Why no further pass can be computed, for example because a rank ended; empty if passes can be computed.
  std::string failure() const;

  const SchedulerLimits& limits() const { return limits_; }
  Totals totals() const;
  std::vector<RequestState> states() const;

 private:
  struct Request {
    std::unique_ptr<Decoder> decoder;  // null after it moved to the engine
    std::shared_ptr<RequestListener> listener;
    std::string client;
    RequestState state;
    Stopwatch clock;
    int64_t planned_rows = 0;
    int32_t planned_tokens = 1;  // tokens of the answer
    size_t number = 0;           // the engine's
    bool is_added = false;
    bool is_cancelled = false;
    /// Set to end the constraint's work within a pass. The engine polls it.
    std::shared_ptr<std::atomic<bool>> stop = std::make_shared<std::atomic<bool>>(false);
    bool has_ended = false;
    std::exception_ptr error = nullptr;  // thrown by its listener
  };
  using RequestNode = std::map<uint64_t, Request>::node_type;

  /// The idle job in the engine.
  struct RunningIdleJob {
    IdleJob job;
    size_t number = 0;  // the engine's
    bool has_started = false;
    bool has_ended = false;
    std::exception_ptr error = nullptr;  // thrown by its listener
  };

  void end_thread();
  void work();
  /// Adds the next idle job to the engine if there is no other work.
  void start_idle_job();
  /// Moves the idle job from the engine back to the queue, to begin anew.
  void put_idle_job_back() LACUNA_REQUIRES(mutex_);
  void observe_idle_job(const StepEvent& event);
  void finish_idle_job();
  void fail_idle_job(const char* sentence);
  /// Applies submissions and cancellations since the last pass. Returns false if no work is left.
  bool apply_changes();
  bool has_work() const LACUNA_REQUIRES(mutex_);
  /// Adds and removes requests of the engine. Returns requests that the engine refused.
  std::map<uint64_t, Request> update_engine() LACUNA_REQUIRES(mutex_);
  void observe(const StepEvent& event);
  void observe_request(uint64_t id, const StepEvent& event);
  /// Removes and returns the first request for which `chosen` is true, or an empty node if there is no such
  /// request.
  template <typename Chosen>
  RequestNode take_first(const Chosen& chosen);
  /// Removes a failed request from the engine.
  void discard(const Request& request) noexcept;
  void finish_ended();
  void finish(Request& request);
  void update_totals();
  bool is_late(const Request& request) const;
  std::string late_sentence() const;
  /// Limits of the work of a request's constraint.
  Budget::Limits work_limits(const Request& request) const;
  void fail_one(size_t number, const std::string& sentence);
  void fail_late();
  void fail_all(const char* sentence);
  /// Fails all requests and refuses new ones, after a rank or device has ended.
  void fail_permanently(std::string_view cause, std::string_view consequence);

  SchedulerLimits limits_;
  Engine engine_;  // used by thread_; other threads call only functions that engine.h marks thread-safe

  mutable Mutex mutex_;
  Condition wake_;
  std::map<uint64_t, Request> requests_ LACUNA_GUARDED_BY(mutex_);  // in order of arrival
  std::map<size_t, uint64_t> ids_by_number_;                        // the thread's own
  std::deque<IdleJob> idle_jobs_ LACUNA_GUARDED_BY(mutex_);
  std::optional<RunningIdleJob> idle_job_;  // the thread's own
  uint64_t num_submitted_ LACUNA_GUARDED_BY(mutex_) = 0;
  int64_t memory_ LACUNA_GUARDED_BY(mutex_) = 0;
  int64_t prefix_memory_ LACUNA_GUARDED_BY(mutex_) = 0;
  size_t num_running_ LACUNA_GUARDED_BY(mutex_) = 0;
  bool has_changes_ LACUNA_GUARDED_BY(mutex_) = false;
  bool is_draining_ LACUNA_GUARDED_BY(mutex_) = false;
  std::string failure_ LACUNA_GUARDED_BY(mutex_);
  bool is_stopping_ LACUNA_GUARDED_BY(mutex_) = false;
  std::atomic<bool> stops_idle_work_{false};
  std::thread thread_;
};

}  // namespace lacuna
