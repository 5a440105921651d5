#include "backend/shard/rank_survey.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <vector>

#include "base/clock.h"

namespace lacuna {
namespace {

template <typename Value>
std::vector<Value> values_of_all(Communicator& ranks, const Value& own) {
  const std::vector<size_t> sizes(static_cast<size_t>(ranks.size()), sizeof(Value));
  std::vector<Value> values(sizes.size());
  ranks.all_gather(std::as_bytes(std::span(&own, 1)), sizes, std::as_writable_bytes(std::span(values)));
  return values;
}

/// Seconds of an all-gather of `bytes` from each rank, measured by the slowest rank.
double time_exchange(Communicator& ranks, std::vector<std::byte>& own, std::vector<std::byte>& all,
                     size_t bytes) {
  const auto count = static_cast<size_t>(ranks.size());
  own.resize(bytes);
  all.resize(bytes * count);
  const std::vector<size_t> sizes(count, bytes);
  values_of_all(ranks, 0.0);  // a barrier
  const Stopwatch clock;
  ranks.all_gather(own, sizes, all);
  return -least_of_ranks(ranks, -clock.seconds());
}

}  // namespace

RankLink measure_link(Communicator& ranks) {
  constexpr double kLongEnough = 0.05;  // seconds; makes short bursts of the link negligible
  constexpr size_t kFirst = size_t{1} << 18;
  constexpr size_t kMax = size_t{1} << 28;  // sum over all ranks
  constexpr int kTries = 9;
  std::vector<std::byte> own, all;
  std::vector<double> latencies;
  latencies.reserve(kTries);
  for (int i = 0; i < kTries; ++i) latencies.push_back(time_exchange(ranks, own, all, 1));
  std::nth_element(latencies.begin(), latencies.begin() + kTries / 2, latencies.end());
  RankLink link;
  link.latency = latencies[kTries / 2];
  time_exchange(ranks, own, all, kFirst);  // warm-up: opens connections and touches pages
  for (size_t bytes = kFirst; bytes * static_cast<size_t>(ranks.size()) <= kMax; bytes *= 2) {
    const double seconds = time_exchange(ranks, own, all, bytes);
    link.bytes_per_second = static_cast<double>(bytes) * (ranks.size() - 1) / seconds;
    if (seconds >= kLongEnough) break;
  }
  return link;
}

double least_of_ranks(Communicator& ranks, double value) {
  const std::vector<double> values = values_of_all(ranks, value);
  return *std::min_element(values.begin(), values.end());
}

int64_t memory_of_each(Communicator& ranks, const std::string& host, int64_t available) {
  const std::vector<int64_t> bytes = values_of_all(ranks, available);
  const auto hosts = gather_all(ranks, std::as_bytes(std::span(host)));
  std::map<std::vector<std::byte>, int64_t> ranks_of;
  for (const auto& name : hosts) ++ranks_of[name];
  int64_t least = std::numeric_limits<int64_t>::max();
  for (size_t rank = 0; rank < bytes.size(); ++rank)
    least = std::min(least, bytes[rank] / ranks_of[hosts[rank]]);
  return least;
}

}  // namespace lacuna
