// The loop that turns requests into text.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/threads.h"
#include "cache/kv_cache.h"
#include "decode/decoder.h"
#include "model/cost.h"
#include "model/model.h"

namespace lacuna {

/// What a request has cost so far.
struct RunStatistics {
  int32_t steps = 0;           ///< passes in which the request advanced
  int32_t forward_passes = 0;  ///< as many, until a method needs several passes a step
  StepCost cost;
  StepCost baseline;   ///< what the same steps cost without any cache
  double seconds = 0;  ///< from the request's first pass to its last; other requests share them
};

/// What happened to one request in one pass.
struct StepEvent {
  size_t request = 0;      ///< as Engine::add() numbered it
  const Decoder& decoder;  ///< after the step
  const StepPlan& plan;    ///< the request's own part of the pass
  const StepReport& report;
  const RunStatistics& statistics;
  double pass_seconds = 0;  ///< of the whole pass
};

using StepObserver = std::function<void(const StepEvent&)>;

/// Runs requests to their end, at most max_running at a time; those that run share each forward pass, each
/// with the bits it would have alone. Not for use by several threads at once.
class Engine {
 public:
  Engine(std::shared_ptr<const Model> model, const KernelTable& kernels, ThreadPool& threads,
         int32_t max_running = 1);

  /// Queues a request. Requests are numbered from 0.
  size_t add(std::unique_ptr<Decoder> decoder);

  /// One forward pass for all running requests. False when nothing is left to do.
  bool step(const StepObserver& observe = {});
  void run(const StepObserver& observe = {});

  const Decoder& decoder(size_t request) const { return *requests_[request].decoder; }
  const RunStatistics& statistics(size_t request) const { return requests_[request].statistics; }

 private:
  struct Request {
    std::unique_ptr<Decoder> decoder;
    std::vector<KvCache> caches;  // while it runs
    RunStatistics statistics;
    Stopwatch clock;
  };

  void admit();

  std::shared_ptr<const Model> model_;
  KernelContext context_;
  size_t max_running_;
  std::vector<Request> requests_;
  size_t next_ = 0;              // the first request that has not started
  std::vector<size_t> running_;  // in order of arrival

  StepPlan plan_;  // all running requests' plans
  std::vector<KvCache*> caches_;
  std::vector<RowStatistics> drawn_;
  Workspace workspace_;
};

}  // namespace lacuna
