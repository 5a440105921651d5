#include "backend/shard/shared_memory.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace lacuna::shared_memory_test {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Calls run(end) in a thread for each rank.
void on_each(const std::vector<std::unique_ptr<Communicator>>& ranks,
             const std::function<void(Communicator&)>& run) {
  std::vector<std::thread> threads;
  for (const auto& end : ranks) threads.emplace_back([&run, &end] { run(*end); });
  for (std::thread& thread : threads) thread.join();
}

TEST(SharedMemory, GivesEveryRankTheBytesOfAll) {
  const auto ranks = ranks_of_threads(4, milliseconds(20'000), /*slot_bytes=*/3);
  std::vector<std::string> seen(4);
  on_each(ranks, [&](Communicator& end) {
    const auto rank = static_cast<size_t>(end.rank());
    for (size_t round = 0; round < 50; ++round) {
      const std::string own(rank == 2 ? 0 : 1 + 3 * rank + round % 7, static_cast<char>('a' + rank));
      std::string all;
      for (const auto& bytes : gather_all(end, bytes_of(own))) all += text_of(bytes) + "|";
      if (round == 49) seen[rank] = all;
    }
  });
  EXPECT_THAT(seen, testing::Each("a|bbbb||dddddddddd|"));
}

TEST(SharedMemory, BroadcastsWhatRank0Sends) {
  const auto ranks = ranks_of_threads(3);
  std::vector<std::string> seen(3);
  on_each(ranks, [&](Communicator& end) {
    for (const std::string& sent : {std::string("first"), std::string(), std::string(100'000, 'x')}) {
      const auto bytes = end.rank() == 0 ? bytes_of(sent) : std::span<const std::byte>();
      seen[static_cast<size_t>(end.rank())] +=
          std::to_string(text_of(broadcast(end, bytes, Communicator::Wait::kIdle)) == sent);
    }
  });
  EXPECT_THAT(seen, testing::Each("111"));
}

TEST(SharedMemory, PassesBytesOnToTheNextRank) {
  const auto ranks = ranks_of_threads(3, milliseconds(20'000), /*slot_bytes=*/3);
  std::vector<std::string> seen(3);
  const std::vector<size_t> sizes{0, 4, 10};
  on_each(ranks, [&](Communicator& end) {
    const auto rank = static_cast<size_t>(end.rank());
    for (int round = 0; round < 20; ++round) {
      const std::string own(sizes[rank], static_cast<char>('a' + rank));
      std::string received(sizes[static_cast<size_t>(end.previous())], ' ');
      end.ring_exchange(bytes_of(own), sizes, std::as_writable_bytes(std::span(received)));
      seen[rank] = received;
    }
  });
  EXPECT_THAT(seen, testing::ElementsAre("cccccccccc", "", "bbbb"));
}

TEST(SharedMemory, IsAsPatientAsRanksNeed) {
  const auto ranks = ranks_of_threads(2, milliseconds(50));
  on_each(ranks, [](Communicator& end) {
    if (end.rank() == 1) return;
    end.set_timeout_factor(3);
    EXPECT_THAT([&] { gather_all(end, {}); },
                ThrowsMessage<RankError>("rank 1 has not answered for 0.15 seconds"));
  });
}

TEST(SharedMemory, NamesTheRankThatDoesNotAnswer) {
  const auto ranks = ranks_of_threads(3, milliseconds(50));
  on_each(ranks, [](Communicator& end) {
    if (end.rank() == 1) return;
    EXPECT_THAT([&] { gather_all(end, {}); },
                ThrowsMessage<RankError>("rank 1 has not answered for 0.05 seconds"));
  });
}

TEST(SharedMemory, TellsWhyARankFailed) {
  const auto ranks = ranks_of_threads(3);
  on_each(ranks, [](Communicator& end) {
    if (end.rank() == 1) return end.fail("has no memory left");
    EXPECT_THAT([&] { gather_all(end, {}); }, ThrowsMessage<RankError>("rank 1 has no memory left"));
  });
}

TEST(SharedMemory, ForksRanksThatEndWithRank0) {
  const std::unique_ptr<Communicator> ranks = fork_ranks(3);
  const std::string own(static_cast<size_t>(ranks->rank()) + 1, 'r');
  const auto all = gather_all(*ranks, bytes_of(own));
  if (ranks->rank() != 0) {
    try {
      gather_all(*ranks, {}, Communicator::Wait::kIdle);  // rank 0 does not come
      _exit(1);
    } catch (const RankError&) {
      _exit(0);
    }
  }
  EXPECT_EQ(text_of(all[2]), "rrr");
}

TEST(SharedMemory, NoticesThatAForkWasKilled) {
  const std::unique_ptr<Communicator> ranks = fork_ranks(3);
  if (ranks->rank() == 2) raise(SIGKILL);
  if (ranks->rank() == 1) {
    try {
      gather_all(*ranks, {}, Communicator::Wait::kIdle);
    } catch (const RankError&) {
    }
    _exit(0);
  }
  EXPECT_THAT([&] { gather_all(*ranks, {}); }, ThrowsMessage<RankError>(HasSubstr("has ended")));
}

TEST(SharedMemory, NoticesThatAForkWasStopped) {
  const std::unique_ptr<Communicator> ranks = fork_ranks(3, milliseconds(60'000), milliseconds(300));
  if (ranks->rank() == 2) {
    raise(SIGSTOP);
    _exit(0);
  }
  if (ranks->rank() == 1) {
    std::this_thread::sleep_for(milliseconds(600));  // longer than the silence, but not silent
    try {
      gather_all(*ranks, {}, Communicator::Wait::kIdle);
    } catch (const RankError&) {
    }
    _exit(0);
  }
  EXPECT_THAT([&] { gather_all(*ranks, {}); },
              ThrowsMessage<RankError>("rank 2 has not responded for 0.3 seconds"));
}

}  // namespace
}  // namespace lacuna::shared_memory_test
