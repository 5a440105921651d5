#include "backend/shard/rank_survey.h"

#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "backend/shard/shared_memory.h"

namespace lacuna::rank_survey_test {
namespace {

/// Results of ask(end) on each of three ranks.
template <typename Value>
std::vector<Value> of_all(const std::function<Value(Communicator&)>& ask) {
  const auto ranks = ranks_of_threads(3);
  std::vector<Value> values(ranks.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    threads.emplace_back([&, rank] { values[rank] = ask(*ranks[rank]); });
  for (std::thread& thread : threads) thread.join();
  return values;
}

TEST(RankSurvey, MeasuresTheSameLinkOnAllRanks) {
  const auto links = of_all<RankLink>([](Communicator& end) { return measure_link(end); });
  EXPECT_GT(links[0].bytes_per_second, 0);
  EXPECT_GT(links[0].latency, 0);
  for (const RankLink& link : links) {
    EXPECT_EQ(link.bytes_per_second, links[0].bytes_per_second);
    EXPECT_EQ(link.latency, links[0].latency);
  }
}

TEST(RankSurvey, FindsTheLeastValue) {
  EXPECT_THAT(of_all<double>([](Communicator& end) { return least_of_ranks(end, 3 - end.rank()); }),
              testing::Each(1.0));
}

TEST(RankSurvey, DividesTheMemoryOfAHostAmongItsRanks) {
  const auto memory = [](const std::vector<std::string>& hosts, const std::vector<int64_t>& available) {
    return of_all<int64_t>([&](Communicator& end) {
      const auto rank = static_cast<size_t>(end.rank());
      return memory_of_each(end, hosts[rank], available[rank]);
    });
  };
  EXPECT_THAT(memory({"a", "a", "a"}, {90, 92, 91}), testing::Each(30));
  EXPECT_THAT(memory({"a", "b", "a"}, {90, 50, 90}), testing::Each(45));
  EXPECT_THAT(memory({"a", "b", "c"}, {90, 50, 70}), testing::Each(50));
}

}  // namespace
}  // namespace lacuna::rank_survey_test
