// One thread runs the engine for every request; any thread may bring requests and take them away.
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

/// Who wants to know about a request. Calls come from the engine's thread, in order, and hold up every
/// request: they must be quick. A request whose listener throws fails: the listener is told so next.
class RequestListener {
 public:
  virtual ~RequestListener() = default;

  /// Before the first pass.
  ///   queue_seconds  that the request waited
  virtual void started(const Decoder& /*decoder*/, double /*queue_seconds*/) {}
  /// After a pass. False: the answer is complete, whatever the decoder has left to do.
  virtual bool stepped(const StepEvent& event) = 0;
  /// The last call: the request is done, or stepped() has said so.
  virtual void finished(const Decoder& decoder, const RunStatistics& statistics) = 0;
  /// The last call, instead: something went wrong. May come from the thread that calls Scheduler::stop().
  virtual void failed(const std::string& sentence) = 0;
  /// The last call where failed() itself threw `error`: whoever waits has to be let go.
  virtual void lost(const std::exception_ptr& /*error*/) noexcept {}
};

struct SchedulerLimits {
  int32_t max_running = 32;
  int32_t max_queue = 256;            ///< requests that wait
  int64_t memory = int64_t{1} << 32;  ///< bytes of K/V and outputs of the requests that run
  /// Bytes of `memory` that may hold K/V of requests that ran (Engine::share_prefixes); negative: each
  /// request reads its prompt itself.
  int64_t prefix_memory = int64_t{1} << 28;
  int32_t pass_rows = 1024;  ///< rows of a pass that several requests share (Engine::limit_rows)
  /// Requests of one client that run or wait; 0: three quarters of max_running + max_queue, so that no client
  /// holds every place.
  int32_t max_per_client = 0;
  double request_seconds = 0;  ///< from a request's arrival to its end; later it fails; 0: no limit
};

/// State of a request as /slots reports it.
struct RequestState {
  uint64_t id = 0;
  bool is_running = false;
  int32_t prompt_tokens = 0;
  int32_t canvas_tokens = 0;
  int32_t final_tokens = 0;
  RunStatistics statistics;
  double seconds = 0;  ///< since it came
};

/// A request that the scheduler does not take.
class SchedulingError : public std::runtime_error {
 public:
  enum class Reason : uint8_t {
    kTooLarge,           ///< it needs more memory than there is for all requests together
    kTooManyFromClient,  ///< the client has as many requests as it may
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
    int64_t prefix_memory = 0;  ///< bytes in use by prefixes of those that ran
    /// Rows of the uncached baselines of requests that wait or run, times the share of their answers that is
    /// not final.
    int64_t rows_pending = 0;
    int64_t kv_pages = 0;  ///< pages of K/V that fit SchedulerLimits::memory
  };
  static constexpr int64_t kCellsOfPage = kPageCells;

  /// Work for when nothing else is to be done.
  struct IdleJob {
    std::function<std::unique_ptr<Decoder>()> make;  ///< called in the scheduler's thread; may throw
    std::shared_ptr<RequestListener> listener;
  };

  /// Nobody else uses what the models compute with.
  Scheduler(std::shared_ptr<const BackendModel> model, std::shared_ptr<const BackendModel> guide,
            const SchedulerLimits& limits);
  /// Forgets all requests; their listeners hear nothing more. stop() tells them.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Takes all jobs or none; they start in this order. Throws SchedulingError, or InputError where the models
  /// cannot compute one.
  ///   client  who asks, for SchedulerLimits::max_per_client; empty: not counted
  std::vector<uint64_t> submit(std::vector<Job> jobs, const std::string& client = {});
  /// Whether a request's keys and values fit SchedulerLimits::memory.
  bool has_memory_for(const Decoder& decoder) const;
  /// Forgets requests before the next pass, those that have ended already included. Their listeners may hear
  /// what the current pass does, and nothing after it.
  void cancel(const std::vector<uint64_t>& ids);

  /// Takes a job that runs alone and while no request runs or waits, after those that were taken before it. A
  /// request that comes meanwhile gets the next pass; the job is made again and begins anew later, and its
  /// listener is told `started` again. False where kMaxIdleJobs wait or the scheduler is draining. Idle jobs
  /// count neither as requests nor for is_idle(). A job that fails is told so; jobs that never ran are
  /// forgotten, and their listeners hear nothing.
  bool submit_idle(IdleJob job);
  static constexpr size_t kMaxIdleJobs = 64;

  /// Takes no more requests; those that it has continue.
  void drain();
  /// Ends the thread and fails the requests that are left. Afterwards submit() throws.
  void stop();
  /// Whether no request runs or waits.
  bool is_idle() const;
  /// Why no pass can be computed any more, as a sentence: a rank of the model has ended, in a pass or while
  /// nothing was computed. Empty while passes can.
  std::string failure() const;

  const SchedulerLimits& limits() const { return limits_; }
  Totals totals() const;
  std::vector<RequestState> states() const;

 private:
  struct Request {
    std::unique_ptr<Decoder> decoder;  // until the engine has it
    std::shared_ptr<RequestListener> listener;
    std::string client;
    RequestState state;
    Stopwatch clock;
    int64_t planned_rows = 0;
    int32_t planned_tokens = 1;  // of the answer
    size_t number = 0;           // the engine's
    bool is_added = false;
    bool is_cancelled = false;
    /// Ends the work of its constraint within a pass. The engine looks at it while it has the request.
    std::shared_ptr<std::atomic<bool>> stop = std::make_shared<std::atomic<bool>>(false);
    bool has_ended = false;
    std::exception_ptr error = nullptr;  // exception of its listener
  };
  using RequestNode = std::map<uint64_t, Request>::node_type;

  /// The idle job that the engine has.
  struct RunningIdleJob {
    IdleJob job;
    size_t number = 0;  // the engine's
    bool has_started = false;
    bool has_ended = false;
    std::exception_ptr error = nullptr;  // exception of its listener
  };

  void end_thread();
  void work();
  /// Gives the engine the next idle job, where there is one and nothing else.
  void start_idle_job();
  /// Takes the idle job from the engine, to begin anew.
  void put_idle_job_back() LACUNA_REQUIRES(mutex_);
  void observe_idle_job(const StepEvent& event);
  void finish_idle_job();
  void fail_idle_job(const char* sentence);
  /// Brings the engine up to what was asked for since the last pass. False: nothing is left to do.
  bool take_orders();
  bool has_work() const LACUNA_REQUIRES(mutex_);
  /// Adds to the engine and removes from it. Returns requests that the engine could not take.
  std::map<uint64_t, Request> follow_orders() LACUNA_REQUIRES(mutex_);
  void observe(const StepEvent& event);
  void observe_request(uint64_t id, const StepEvent& event);
  /// Removes and returns the first request for which `chosen` is true, or an empty node if there is no such
  /// request.
  template <typename Chosen>
  RequestNode take_first(const Chosen& chosen);
  /// Takes a request from the engine that has failed.
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
  /// Fails all requests that run, and refuses new ones: a rank or a device has ended.
  void break_off(std::string_view cause, std::string_view consequence);

  SchedulerLimits limits_;
  Engine engine_;  // the thread's own; others call only functions that engine.h marks "any thread"

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
  bool has_orders_ LACUNA_GUARDED_BY(mutex_) = false;
  bool is_draining_ LACUNA_GUARDED_BY(mutex_) = false;
  std::string failure_ LACUNA_GUARDED_BY(mutex_);
  bool is_stopping_ LACUNA_GUARDED_BY(mutex_) = false;
  std::atomic<bool> stops_idle_work_{false};
  std::thread thread_;
};

}  // namespace lacuna
