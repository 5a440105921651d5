#include "decode/block_grid.h"

#include <gtest/gtest.h>

namespace lacuna::block_grid_test {
namespace {

TEST(BlockGrid, BeginsAtThePromptWhereThatIsABlock) {
  const BlockGrid grid{.length = 4, .prompt = 6, .end = 14};
  EXPECT_EQ(grid.begin_of(0), 0);
  EXPECT_EQ(grid.begin_of(1), 6);
  EXPECT_EQ(grid.begin_of(2), 10);
  EXPECT_EQ(grid.begin_of(3), 14);
  EXPECT_EQ(grid.begin_of(4), 14);
}

TEST(BlockGrid, CutsEverythingIntoEqualBlocksOtherwise) {
  const BlockGrid grid{.length = 4};
  EXPECT_EQ(grid.begin_of(0), 0);
  EXPECT_EQ(grid.begin_of(3), 12);
}

TEST(BlockGrid, FindsTheBlockOfEachPosition) {
  for (const int32_t prompt : {0, 1, 4, 6}) {
    const BlockGrid grid{.length = 4, .prompt = prompt};
    for (int32_t position = 0; position < 40; ++position) {
      const int32_t block = grid.block_of(position);
      EXPECT_LE(grid.begin_of(block), position) << prompt;
      EXPECT_GT(grid.begin_of(block + 1), position) << prompt;
    }
  }
}

}  // namespace
}  // namespace lacuna::block_grid_test
