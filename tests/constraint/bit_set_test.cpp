#include "constraint/bit_set.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace lacuna::bit_set_test {
namespace {

TEST(BitSet, HoldsWhatASetHolds) {
  for (const size_t size : {1U, 63U, 64U, 65U, 200U}) {
    BitSet bits(size);
    std::set<size_t> elements;
    EXPECT_TRUE(bits.is_empty());
    for (size_t i = 0; i < size; i += 7) {
      bits.insert(i);
      elements.insert(i);
    }
    bits.erase(0);
    elements.erase(0);
    for (size_t i = 0; i < size; ++i)
      EXPECT_EQ(bits.contains(i), elements.contains(i)) << i << " of " << size;
    EXPECT_EQ(bits.count(), elements.size());
    std::vector<size_t> visited;
    bits.for_each([&](size_t element) { visited.push_back(element); });
    EXPECT_EQ(visited, std::vector<size_t>(elements.begin(), elements.end()));
  }
}

TEST(BitSet, IntersectsWhereAnElementIsCommon) {
  BitSet a(100), b(100);
  a.insert(3);
  a.insert(99);
  b.insert(4);
  EXPECT_FALSE(a.intersects(b));
  b.insert(99);
  EXPECT_TRUE(a.intersects(b));
  a &= b;
  EXPECT_EQ(a.count(), 1U);
  EXPECT_TRUE(a.contains(99));
  a.clear();
  EXPECT_TRUE(a.is_empty());
}

}  // namespace
}  // namespace lacuna::bit_set_test
