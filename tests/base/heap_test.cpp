#include "base/heap.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace lacuna::heap_test {
namespace {

TEST(ResidentMemory, GrowsWithWhatIsTouched) {
  constexpr size_t kBytes = 64 << 20;
  const int64_t before = resident_memory();
  const std::vector<char> touched(kBytes, 'x');
  asm volatile("" : : "r"(touched.data()) : "memory");  // or clang would leave it out
  EXPECT_GE(resident_memory(), before + int64_t{kBytes} / 2);
  EXPECT_GE(most_resident_memory(), before + int64_t{kBytes} / 2);
}

// The allocators of sanitizers keep what is freed.
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(ReturnFreeMemory, GivesBackWhatALargeRequestLeft) {
  constexpr size_t kBlock = 1 << 10, kCount = 32 << 10;
  std::vector<std::unique_ptr<char[]>> blocks;
  for (size_t i = 0; i < kCount; ++i) blocks.push_back(std::make_unique<char[]>(kBlock));
  const auto last =
      std::make_unique<char[]>(kBlock);  // above the others, so that free() alone returns nothing
  blocks.clear();
  const int64_t before = resident_memory();
  EXPECT_GT(before, int64_t{kBlock} * kCount);  // the allocator keeps it
  return_free_memory();
  EXPECT_LT(resident_memory(), before - int64_t{kBlock} * kCount / 2);
}
#endif

}  // namespace
}  // namespace lacuna::heap_test
