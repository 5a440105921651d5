#include "tune/losses.h"

#include <gtest/gtest.h>

#include <vector>

namespace lacuna::losses_test {
namespace {

TEST(TokenDifference, IsTheShareOfPlacesThatDiffer) {
  const std::vector<int32_t> a = {1, 2, 3, 4};
  EXPECT_EQ(token_difference(a, a), 0);
  EXPECT_EQ(token_difference(a, std::vector<int32_t>{1, 9, 3, 4}), 0.25);
  EXPECT_EQ(token_difference(a, std::vector<int32_t>{1, 2}), 0.5);
  EXPECT_EQ(token_difference(a, {}), 1);
  EXPECT_EQ(token_difference({}, {}), 0);
}

}  // namespace
}  // namespace lacuna::losses_test
