#include "constraint/code_points.h"

#include <gtest/gtest.h>

#include <vector>

namespace lacuna::code_points_test {
namespace {

TEST(CodePointSet, MergesRangesAndLeavesOutSurrogates) {
  const CodePointSet set({{0x61, 0x62}, {0x63, 0x70}, {0x60, 0x61}, {0xD700, 0xE000}, {0x110000, 0x200000}});
  EXPECT_EQ(set.intervals(),
            (std::vector<CodePointSet::Interval>{{0x60, 0x70}, {0xD700, 0xD7FF}, {0xE000, 0xE000}}));
  EXPECT_EQ(set.complement().complement(), set);
  EXPECT_TRUE(CodePointSet::all().complement().is_empty());
  EXPECT_FALSE(CodePointSet::all().contains(0xDABC));
}

}  // namespace
}  // namespace lacuna::code_points_test
