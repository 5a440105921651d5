// Metrics for Prometheus (GET /metrics). docs/reference/server.md lists the names.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "engine/engine.h"
#include "engine/scheduler.h"
#include "server/audit.h"

namespace lacuna {

/// Thread-safe.
class Metrics {
 public:
  Metrics();
  ~Metrics();

  /// Counts one pass of a request: the difference between its `statistics` now and `before` the pass.
  void count_pass(const RunStatistics& statistics, const RunStatistics& before);
  /// Counts the cost of a finished request's uncached baseline.
  void count_baseline(const StepCost& baseline);
  void observe_queue(double seconds) { queue_.Observe(seconds); }
  void observe_first_commit(double seconds) { first_commit_.Observe(seconds); }
  /// Counts the tokens of one choice.
  ///   shared  prompt tokens whose K/V come from another request
  void count_tokens(int32_t prompt, int32_t shared, int32_t generated);
  /// Counts the end of a generation request: "stop", "length", "cancelled", "refused" or "failed".
  void count_request(std::string_view outcome);
  void observe_request(double seconds) { latency_.Observe(seconds); }

  /// Layout of a model's K/V cache.
  struct CacheConfig {
    std::string model;
    int64_t block_cells = 0;
    int64_t num_blocks = 0;
  };

  /// All metrics in Prometheus' text format.
  ///   audit  null: nothing is audited
  std::string text(const Scheduler::Totals& totals, const SchedulerLimits& limits,
                   const AuditState* audit = nullptr, std::span<const CacheConfig> caches = {});

 private:
  prometheus::Counter& counter(const char* name, const char* help);
  prometheus::Gauge& gauge(const char* name, const char* help);
  prometheus::Histogram& histogram(const char* name, const char* help);

  prometheus::Registry registry_;
  prometheus::Family<prometheus::Counter>& requests_;
  prometheus::Counter& prompt_tokens_;
  prometheus::Counter& shared_tokens_;
  prometheus::Counter& generated_tokens_;
  prometheus::Counter& steps_;
  prometheus::Counter& passes_;
  prometheus::Counter& rows_;
  prometheus::Counter& flops_;
  prometheus::Counter& rows_baseline_;
  prometheus::Counter& flops_baseline_;
  prometheus::Gauge& running_;
  prometheus::Gauge& waiting_;
  prometheus::Gauge& kv_bytes_;
  prometheus::Gauge& kv_limit_;
  prometheus::Gauge& kv_usage_;
  prometheus::Gauge& prefix_bytes_;
  prometheus::Gauge& rows_pending_;
  prometheus::Family<prometheus::Gauge>& cache_config_;
  prometheus::Histogram& latency_;
  prometheus::Histogram& first_commit_;
  prometheus::Histogram& queue_;

  struct AuditFamilies;
  Mutex text_mutex_;
  void show(const AuditState& audit) LACUNA_REQUIRES(text_mutex_);
  std::unique_ptr<AuditFamilies> audit_ LACUNA_GUARDED_BY(text_mutex_);  // null: nothing was audited
};

}  // namespace lacuna
