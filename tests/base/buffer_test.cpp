#include "base/buffer.h"

#include <gmock/gmock.h>

#include <array>
#include <new>
#include <span>

namespace lacuna::buffer_test {
namespace {

TEST(Buffer, StartsEmpty) {
  const Buffer<float> buffer;
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_EQ(buffer.size(), 0);
}

TEST(Buffer, IsZeroedAndAlignedToCacheLines) {
  for (const int64_t count : {1, 3, 64, 1000, 100'001}) {
    const Buffer<char> buffer(count);
    EXPECT_EQ(buffer.size(), count);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0U);
    EXPECT_THAT(std::span(buffer.data(), static_cast<size_t>(count)), testing::Each(0));
  }
}

TEST(Buffer, BeginsAtAHugePageWhereItFillsOne) {
  constexpr int64_t kHugePage = 2 << 20;
  for (const int64_t count : {kHugePage, kHugePage + 1, 5 * kHugePage - 3}) {
    const Buffer<char> buffer(count);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kHugePage, 0U);
    EXPECT_EQ(buffer.data()[count - 1], 0);
  }
}

TEST(Buffer, KeepsMemoryAndContentsWhereItIsLargeEnough) {
  Buffer<int> buffer(10);
  buffer.data()[9] = 7;
  const int* memory = buffer.data();
  for (const int64_t count : {10, 1, 0}) {
    buffer.reserve(count);
    EXPECT_EQ(buffer.data(), memory);
    EXPECT_EQ(buffer.size(), 10);
    EXPECT_EQ(buffer.data()[9], 7);
  }
}

TEST(Buffer, IsZeroedAgainWhereItGrows) {
  Buffer<int> buffer(10);
  buffer.data()[0] = 7;
  buffer.reserve(1000);
  EXPECT_EQ(buffer.size(), 1000);
  EXPECT_THAT(std::span(buffer.data(), 1000), testing::Each(0));
}

TEST(Buffer, RefusesSizesThatRoundingWouldWrapAround) {
  Buffer<std::array<char, 2>> buffer;
  EXPECT_THROW(buffer.reserve(INT64_MAX), std::bad_alloc);
  EXPECT_EQ(buffer.size(), 0);
}

TEST(Buffer, MovesItsMemory) {
  Buffer<int> buffer(10);
  const int* memory = buffer.data();
  const Buffer<int> moved = std::move(buffer);
  EXPECT_EQ(moved.data(), memory);
}

}  // namespace
}  // namespace lacuna::buffer_test
