#include "base/numa.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace lacuna::numa_test {
namespace {

TEST(NumaMemory, IsThatOfAtLeastOneNode) {
  EXPECT_GE(num_memory_nodes(), 1);
  EXPECT_LE(num_memory_nodes(), 1024);
}

TEST(NumaMemory, IsReadAndWrittenAsBeforeOnceItIsSpread) {
  std::thread([] {  // of this thread alone
    interleave_memory();
    std::vector<int> numbers(1 << 20, 7);
    std::thread([&numbers] { numbers.back() = 8; }).join();
    EXPECT_EQ(numbers.front(), 7);
    EXPECT_EQ(numbers.back(), 8);
  })
      .join();
}

}  // namespace
}  // namespace lacuna::numa_test
