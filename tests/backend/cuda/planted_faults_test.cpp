// Kernels with one fault each: the simulator, or a sanitizer with it, has to find every one of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/simt/simt.h"
#include "orders.h"

namespace lacuna::simt::planted_faults_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

#ifdef LACUNA_SANITIZERS
const std::string kSanitizers = LACUNA_SANITIZERS;
#else
const std::string kSanitizers;
#endif

bool has_sanitizer(const char* name) {
  return kSanitizers.find(name) != std::string::npos;
}

constexpr uint32_t kThreads = 64;

/// The simulator's error for a kernel.
template <typename Kernel>
std::string fault_of(const LaunchShape& shape, Kernel&& kernel) {
  try {
    simulate(shape, kernel);
  } catch (const Fault& fault) {
    return fault.what();
  }
  return "";
}

/// Wrong results in one of the orders; under ThreadSanitizer, a report.
///   run  returns whether the results are right
template <typename Run>
void expect_race(Run&& run) {
  if (has_sanitizer("thread")) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
          run();
          std::exit(0);
        },
        ::testing::ExitedWithCode(66), "data race.*");
    return;
  }
  int wrong = 0;
  in_every_order([&](const std::string&) { wrong += run() ? 0 : 1; });
  EXPECT_GT(wrong, 0);
}

using Numbers = std::array<float, kThreads>;

/// Each thread hands a number to its neighbour through shared memory.
bool hand_over(bool has_barrier) {
  std::vector<float> out(kThreads, 0);
  simulate({.threads = kThreads, .shared_bytes = sizeof(Numbers)}, [&] {
    auto& numbers = shared<Numbers>();
    numbers[thread_index()] = static_cast<float>(thread_index());
    if (has_barrier) sync_threads();
    out[thread_index()] = numbers[(thread_index() + 1) % kThreads];
  });
  for (uint32_t i = 0; i < kThreads; ++i) {
    if (out[i] != static_cast<float>((i + 1) % kThreads)) return false;
  }
  return true;
}

TEST(PlantedFaults, FindsAMissingBarrier) {
  in_every_order([](const std::string& order) { EXPECT_TRUE(hand_over(true)) << order; });
  expect_race([] { return hand_over(false); });
}

using Landing = std::array<Words4, kThreads>;

struct Fed {
  bool has_barrier = true;  ///< before the buffer is loaded again
  bool has_wait = true;
};

/// Loads a buffer twice with cp.async; after each load, every thread reads what another one loaded.
bool feed(const Fed& fed) {
  std::vector<Words4> source(2 * size_t{kThreads});
  for (uint32_t i = 0; i < 2 * kThreads; ++i) source[i] = {{i, i, i, i}};
  std::vector<uint32_t> out(2 * size_t{kThreads}, 0);
  simulate({.threads = kThreads, .shared_bytes = sizeof(Landing)}, [&] {
    auto& landing = shared<Landing>();
    const uint32_t thread = thread_index();
    for (uint32_t round = 0; round < 2; ++round) {
      copy_async_16(&landing[thread], &source[round * kThreads + thread], true);
      commit_copies();
      if (fed.has_wait || round == 1) wait_copies<0>();
      sync_threads();
      out[round * kThreads + thread] = landing[(thread + 33) % kThreads].words[2];
      if (fed.has_barrier) sync_threads();
    }
  });
  for (uint32_t i = 0; i < 2 * kThreads; ++i) {
    if (out[i] != i / kThreads * kThreads + (i + 33) % kThreads) return false;
  }
  return true;
}

TEST(PlantedFaults, FindsABufferThatIsLoadedAgainBeforeAllHaveReadIt) {
  in_every_order([](const std::string& order) { EXPECT_TRUE(feed({})) << order; });
  expect_race([] { return feed({.has_barrier = false}); });
}

TEST(PlantedFaults, FindsAMissingWaitForAnAsynchronousCopy) {
  EXPECT_FALSE(feed({.has_wait = false}));
}

TEST(PlantedFaults, FindsACopyThatNobodyWaitsFor) {
  const Words4 source = {};
  EXPECT_THAT(fault_of({.threads = kThreads, .shared_bytes = sizeof(Landing)},
                       [&] { copy_async_16(&shared<Landing>()[thread_index()], &source, true); }),
              HasSubstr("thread 0 ended before its asynchronous copies arrived, in block (0, 0, 0)"));
}

TEST(PlantedFaults, NamesThreadsThatWaitAtAShuffleInABranch) {
  EXPECT_THAT(fault_of({.threads = kThreads},
                       [] {
                         if (thread_index() < 48) warp_sum(1.0F);
                       }),
              AllOf(HasSubstr("threads 32..47 wait at shuffle simt.h:"), HasSubstr("threads 48..63 ended"),
                    HasSubstr("in block (0, 0, 0)")));
}

TEST(PlantedFaults, NamesThreadsThatWaitAtABarrierInABranch) {
  EXPECT_THAT(fault_of({.grid = {2, 1, 1}, .threads = kThreads},
                       [] {
                         if (block_index().x == 1 && thread_index() % 64 < 10) sync_threads();
                       }),
              AllOf(HasSubstr("threads 0..9 wait at syncthreads planted_faults_test.cpp:"),
                    HasSubstr("threads 10..63 ended"), HasSubstr("in block (1, 0, 0)")));
}

TEST(PlantedFaults, TellsBarriersAtDifferentLinesApart) {
  const auto kernel = [] {  // outside of the macro, whose arguments all have its line
    if (thread_index() < 32) {
      sync_threads();
    } else {
      sync_threads();
    }
  };
  EXPECT_THAT(fault_of({.threads = kThreads}, kernel),
              HasSubstr("while others wait at syncthreads planted_faults_test.cpp:"));
}

TEST(PlantedFaults, TellsDifferentOperationsOfAWarpApart) {
  EXPECT_THAT(
      fault_of({.threads = kThreads},
               [] {
                 if (lane_index() == 7) {
                   ballot(true);
                 } else {
                   shuffle(1.0F, 0);
                 }
               }),
      AllOf(HasSubstr("thread 7 comes to ballot"), HasSubstr("while others of the warp wait at shuffle")));
}

TEST(PlantedFaults, NamesAWarpThatIsWaitedForByABlock) {
  EXPECT_THAT(fault_of({.threads = kThreads},
                       [] {
                         if (thread_index() == 40) return;
                         if (warp_index() == 1) sync_warp();
                         sync_threads();
                       }),
              AllOf(HasSubstr("threads 0..31 wait at syncthreads"),
                    HasSubstr("threads 32..39 wait at syncwarp"), HasSubstr("threads 40..40 ended")));
}

TEST(PlantedFaults, GoesOnWithTheNextLaunchAfterAFault) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_NE(fault_of({.threads = kThreads},
                       [] {
                         if (thread_index() == 0) sync_threads();
                       }),
              "");
    EXPECT_TRUE(hand_over(true));
  }
}

TEST(PlantedFaults, RefusesAnAsynchronousCopyToAnAddressThatIsNotAligned) {
  const std::array<Words4, 2> source = {};
  const auto fault = [&](size_t to_offset, size_t from_offset) {
    return fault_of({.threads = 32, .shared_bytes = 64}, [&] {
      auto& memory = shared<std::array<std::byte, 64>>();
      copy_async_16(memory.data() + to_offset,
                    reinterpret_cast<const std::byte*>(source.data()) + from_offset, true);
      wait_copies<0>();
    });
  };
  EXPECT_THAT(fault(8, 0), AllOf(HasSubstr("thread 0 gives cp.async an address that is not a multiple of 16"),
                                 HasSubstr("planted_faults_test.cpp:")));
  EXPECT_THAT(fault(0, 4), HasSubstr("gives cp.async an address"));
}

TEST(PlantedFaults, RefusesALoadOfSeveralNumbersFromAnAddressThatIsNotAligned) {
  const auto fault = [&](size_t load_offset, size_t store_offset) {
    return fault_of({.threads = 32, .shared_bytes = 64}, [&] {
      auto& memory = shared<std::array<std::byte, 64>>();
      const auto words = load<Words2>(memory.data() + load_offset);
      store(memory.data() + store_offset, words);
    });
  };
  EXPECT_THAT(fault(4, 0),
              AllOf(HasSubstr("thread 0 loads from an address that is not a multiple of the size"),
                    HasSubstr("planted_faults_test.cpp:")));
  EXPECT_THAT(fault(8, 12), HasSubstr("thread 0 stores to an address that is not a multiple of the size"));
  EXPECT_EQ(fault(8, 16), "");
}

TEST(PlantedFaults, RefusesMoreSharedMemoryThanTheLaunchGave) {
  EXPECT_THAT(
      fault_of({.threads = 32, .shared_bytes = 60}, [] { shared<std::array<std::byte, 64>>()[0] = {}; }),
      HasSubstr("the kernel takes 64 bytes of shared memory, and was launched with 60"));
}

struct TwoArrays {
  float first[8];
  float second[8];
};

TEST(PlantedFaults, FindsAnIndexBehindAnArrayOfSharedMemory) {
  if (!has_sanitizer("undefined")) GTEST_SKIP() << "only the undefined-behaviour sanitizer sees it";
  EXPECT_DEATH(simulate({.threads = 32, .shared_bytes = sizeof(TwoArrays)},
                        [] { shared<TwoArrays>().first[thread_index() / 4 + 1] = 0; }),
               "index 8 out of bounds");
}

TEST(PlantedFaults, FindsAWriteBehindSharedMemory) {
  if (!has_sanitizer("address")) GTEST_SKIP() << "only the address sanitizer sees it";
  EXPECT_DEATH(simulate({.threads = 64, .shared_bytes = sizeof(Numbers)},
                        [] { (&shared<Numbers>()[0])[thread_index() + 1] = 0; }),
               "heap-buffer-overflow");
}

TEST(PlantedFaults, FindsAReadBehindABufferOfTheDevice) {
  if (!has_sanitizer("address")) GTEST_SKIP() << "only the address sanitizer sees it";
  const std::vector<Words4> source(3);
  const Words4* from = source.data();
  EXPECT_DEATH(simulate({.threads = 32, .shared_bytes = sizeof(Landing)},
                        [&] {
                          copy_async_16(&shared<Landing>()[thread_index()], from + thread_index(), true);
                          commit_copies();
                          wait_copies<0>();
                        }),
               "heap-buffer-overflow");
}

/// Touches so much stack that a thread's stack cannot hold it.
uint32_t dive(uint32_t depth) {
  volatile char frame[1024];
  frame[depth % 1024] = static_cast<char>(depth);
  return depth == 0 ? 0 : dive(depth - 1) + static_cast<uint32_t>(frame[depth % 1024]);
}

TEST(PlantedFaults, StopsAThreadThatLeavesItsStack) {
  EXPECT_DEATH(simulate({.threads = 32}, [] { dive(4096); }), "");
}

}  // namespace
}  // namespace lacuna::simt::planted_faults_test
