#include "server/metrics.h"

#include <gmock/gmock.h>

#include <span>
#include <string>
#include <vector>

namespace lacuna::metrics_test {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string text_of(Metrics& metrics) {
  return metrics.text({.waiting = 2, .running = 3, .memory = 4096, .prefix_memory = 512}, {.memory = 8192});
}

TEST(Metrics, ShowWhatTheSchedulerHoldsNow) {
  Metrics metrics;
  const std::string text = text_of(metrics);
  EXPECT_THAT(text, HasSubstr("\nlacuna_requests_running 3\n"));
  EXPECT_THAT(text, HasSubstr("\nlacuna_requests_waiting 2\n"));
  EXPECT_THAT(text, HasSubstr("\nlacuna_kv_cache_bytes 4096\n"));
  EXPECT_THAT(text, HasSubstr("\nlacuna_kv_cache_limit_bytes 8192\n"));
  EXPECT_THAT(text, HasSubstr("\nlacuna_prefix_cache_bytes 512\n"));
}

TEST(Metrics, ShowHowTheCacheOfEachLoadedModelIsKept) {
  Metrics metrics;
  const std::vector<Metrics::CacheConfig> caches = {{"one", 64, 100}, {"two", 64, 7}};
  EXPECT_THAT(
      metrics.text({}, {}, nullptr, caches),
      HasSubstr("\nlacuna_cache_config_info{block_size=\"64\",model=\"two\",num_gpu_blocks=\"7\"} 1\n"));
  EXPECT_THAT(metrics.text({}, {}, nullptr, std::span(caches).first(1)), Not(HasSubstr("model=\"two\"")))
      << "it was unloaded";
  EXPECT_THAT(metrics.text({.rows_pending = 12}, {}), HasSubstr("\nlacuna_rows_pending 12\n"));
}

TEST(Metrics, CountWhatEachPassAddsToItsRequest) {
  Metrics metrics;
  RunStatistics first;
  first.steps = 1;
  first.forward_passes = 2;
  first.cost.rows = 10;
  RunStatistics second = first;
  second.steps = 2;
  second.forward_passes = 3;
  second.cost.rows = 14;
  metrics.count_pass(first, {});
  metrics.count_pass(second, first);
  metrics.count_baseline({.rows = 40});
  const std::string text = text_of(metrics);
  EXPECT_THAT(text, HasSubstr("\nlacuna_steps_total 2\n"));
  EXPECT_THAT(text, HasSubstr("\nlacuna_forward_passes_total 3\n"));
  EXPECT_THAT(text, HasSubstr("\nlacuna_rows_total 14\n"));
  EXPECT_THAT(text, HasSubstr("\nlacuna_rows_baseline_total 40\n"));
}

TEST(Metrics, CountRequestsByOutcome) {
  Metrics metrics;
  metrics.count_request("stop");
  metrics.count_request("stop");
  metrics.count_request("refused");
  const std::string text = text_of(metrics);
  EXPECT_THAT(text, HasSubstr("lacuna_requests_total{outcome=\"stop\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("lacuna_requests_total{outcome=\"refused\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("outcome=\"failed\"")));
}

TEST(Metrics, CountTokensAndObserveTimes) {
  Metrics metrics;
  metrics.count_tokens(7, 4, 5);
  metrics.observe_queue(0.02);
  metrics.observe_first_commit(0.2);
  metrics.observe_request(2);
  const std::string text = text_of(metrics);
  EXPECT_THAT(text, HasSubstr("\nlacuna_prompt_tokens_total 7\n"));
  EXPECT_THAT(text, HasSubstr("\nlacuna_prompt_tokens_shared_total 4\n"));
  EXPECT_THAT(text, HasSubstr("\nlacuna_generation_tokens_total 5\n"));
  EXPECT_THAT(text, HasSubstr("lacuna_queue_seconds_bucket{le=\"0.03\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("lacuna_queue_seconds_bucket{le=\"0.01\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("\nlacuna_time_to_first_commit_seconds_count 1\n"));
  EXPECT_THAT(text, HasSubstr("\nlacuna_request_latency_seconds_sum 2\n"));
}

TEST(Metrics, ShowAnAuditWhereThereIsOne) {
  Metrics metrics;
  EXPECT_THAT(text_of(metrics), Not(HasSubstr("lacuna_audit")));
  AuditState audit{10, 2, 1, 0.2, 0.025, 0.556};
  metrics.text({}, {}, &audit);
  audit.observed = 20;
  const std::string text = metrics.text({}, {}, &audit);
  EXPECT_THAT(text, HasSubstr("\nlacuna_audit_requests_total 20\n"));
  EXPECT_THAT(text, HasSubstr("\nlacuna_audit_changed_total 2\n"));
  EXPECT_THAT(text, HasSubstr("\nlacuna_audit_dropped_total 1\n"));
  EXPECT_THAT(text, HasSubstr("\nlacuna_audit_risk 0.2\n"));
  EXPECT_THAT(text, HasSubstr("\nlacuna_audit_risk_low 0.025\n"));
  EXPECT_THAT(text, HasSubstr("\nlacuna_audit_risk_high 0.556\n"));
}

}  // namespace
}  // namespace lacuna::metrics_test
