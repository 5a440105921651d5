#include "server/metrics.h"

#include <prometheus/text_serializer.h>

#include <vector>

namespace lacuna {

Metrics::Metrics()
    : requests_(prometheus::BuildCounter()
                    .Name("lacuna_requests_total")
                    .Help("Requests that ended, by outcome")
                    .Register(registry_)),
      prompt_tokens_(counter("lacuna_prompt_tokens_total", "Tokens of prompts")),
      shared_tokens_(counter("lacuna_prompt_tokens_shared_total",
                             "Tokens of prompts, each choice's own, whose K/V were another request's")),
      generated_tokens_(counter("lacuna_generation_tokens_total", "Tokens of answers, without end tokens")),
      steps_(counter("lacuna_steps_total", "Passes of the main model, each request's own")),
      passes_(counter("lacuna_forward_passes_total", "Passes of both models, each request's own")),
      rows_(counter("lacuna_rows_total", "Rows computed")),
      flops_(counter("lacuna_flops_total", "FLOPs of rows, attention and logits")),
      rows_baseline_(counter("lacuna_rows_baseline_total",
                             "Rows that the uncached baseline computes for the requests that finished")),
      flops_baseline_(counter("lacuna_flops_baseline_total",
                              "FLOPs that the uncached baseline computes for the requests that finished")),
      running_(gauge("lacuna_requests_running", "Requests that take part in passes")),
      waiting_(gauge("lacuna_requests_waiting", "Requests in the queue")),
      kv_bytes_(gauge("lacuna_kv_cache_bytes", "K/V and outputs of running requests")),
      kv_limit_(gauge("lacuna_kv_cache_limit_bytes", "What these may come to")),
      kv_usage_(gauge("lacuna_kv_cache_usage_ratio", "The first of these by the second, 1: full")),
      prefix_bytes_(gauge("lacuna_prefix_cache_bytes", "K/V kept of requests that ran")),
      rows_pending_(gauge("lacuna_rows_pending",
                          "Rows of the uncached baselines of requests that wait or run, times the share of "
                          "their answers that is not final")),
      cache_config_(
          prometheus::BuildGauge()
              .Name("lacuna_cache_config_info")
              .Help("Always 1; labels: tokens per K/V page (block_size), number of pages (num_gpu_blocks)")
              .Register(registry_)),
      latency_(histogram("lacuna_request_latency_seconds", "From a request's arrival to its end")),
      first_commit_(histogram("lacuna_time_to_first_commit_seconds",
                              "From arrival to the first text that will not change")),
      queue_(histogram("lacuna_queue_seconds", "From arrival to the first pass")) {}

/// Metrics of the audit, registered when the first audit state is shown.
struct Metrics::AuditFamilies {
  prometheus::Counter& requests;
  prometheus::Counter& changed;
  prometheus::Counter& dropped;
  prometheus::Gauge& risk;
  prometheus::Gauge& low;
  prometheus::Gauge& high;
};

Metrics::~Metrics() = default;

void Metrics::show(const AuditState& audit) {
  if (audit_ == nullptr) {
    audit_ = std::make_unique<AuditFamilies>(AuditFamilies{
        counter("lacuna_audit_requests_total", "Answers that were compared with the baseline's"),
        counter("lacuna_audit_changed_total", "Of these, those whose text differs"),
        counter("lacuna_audit_dropped_total", "Answers chosen for the audit that were not compared"),
        gauge("lacuna_audit_risk", "Mean loss of the answers that were compared"),
        gauge("lacuna_audit_risk_low", "Lower end of the 95% interval of the risk"),
        gauge("lacuna_audit_risk_high", "Upper end of the 95% interval of the risk")});
  }
  const auto raise = [](prometheus::Counter& counter, int64_t total) {
    counter.Increment(static_cast<double>(total) - counter.Value());
  };
  raise(audit_->requests, audit.observed);
  raise(audit_->changed, audit.changed);
  raise(audit_->dropped, audit.dropped);
  audit_->risk.Set(audit.risk);
  audit_->low.Set(audit.low);
  audit_->high.Set(audit.high);
}

prometheus::Counter& Metrics::counter(const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry_).Add({});
}

prometheus::Gauge& Metrics::gauge(const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry_).Add({});
}

prometheus::Histogram& Metrics::histogram(const char* name, const char* help) {
  const prometheus::Histogram::BucketBoundaries bounds = {0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000};
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry_).Add({}, bounds);
}

void Metrics::count_pass(const RunStatistics& statistics, const RunStatistics& before) {
  passes_.Increment(statistics.forward_passes - before.forward_passes);
  steps_.Increment(statistics.steps - before.steps);
  rows_.Increment(static_cast<double>(statistics.cost.rows - before.cost.rows));
  flops_.Increment(statistics.cost.flops() - before.cost.flops());
}

void Metrics::count_baseline(const StepCost& baseline) {
  rows_baseline_.Increment(static_cast<double>(baseline.rows));
  flops_baseline_.Increment(baseline.flops());
}

void Metrics::count_tokens(int32_t prompt, int32_t shared, int32_t generated) {
  prompt_tokens_.Increment(prompt);
  shared_tokens_.Increment(shared);
  generated_tokens_.Increment(generated);
}

void Metrics::count_request(std::string_view outcome) {
  requests_.Add({{"outcome", std::string(outcome)}}).Increment();
}

std::string Metrics::text(const Scheduler::Totals& totals, const SchedulerLimits& limits,
                          const AuditState* audit, std::span<const CacheConfig> caches) {
  const MutexLock lock(text_mutex_);
  if (audit != nullptr) show(*audit);
  running_.Set(static_cast<double>(totals.running));
  waiting_.Set(static_cast<double>(totals.waiting));
  kv_bytes_.Set(static_cast<double>(totals.memory));
  kv_limit_.Set(static_cast<double>(limits.memory));
  kv_usage_.Set(limits.memory > 0 ? static_cast<double>(totals.memory) / static_cast<double>(limits.memory)
                                  : 0);
  prefix_bytes_.Set(static_cast<double>(totals.prefix_memory));
  rows_pending_.Set(static_cast<double>(totals.rows_pending));
  std::vector<prometheus::Gauge*> shown;
  for (const CacheConfig& cache : caches) {
    shown.push_back(&cache_config_.Add({{"model", cache.model},
                                        {"block_size", std::to_string(cache.block_cells)},
                                        {"num_gpu_blocks", std::to_string(cache.num_blocks)}}));
    shown.back()->Set(1);
  }
  std::string text = prometheus::TextSerializer().Serialize(registry_.Collect());
  // The set of loaded models may change until the next call.
  for (prometheus::Gauge* gauge : shown) cache_config_.Remove(gauge);
  return text;
}

}  // namespace lacuna
