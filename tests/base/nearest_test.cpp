#include "base/nearest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lacuna::nearest_test {
namespace {

TEST(EditDistance, CountsChangesOfSingleCharacters) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);  // words: meant
  EXPECT_EQ(edit_distance("abcd", "acbd"), 1);       // neighbours swapped
  EXPECT_EQ(edit_distance("LLaDA", "llada"), 0);
}

TEST(NearestName, IsEmptyWhereNothingIsNear) {
  const std::vector<std::string> known = {"mini-llada", "mini-dream", "mini-llada2"};
  EXPECT_EQ(nearest_name("mini-lada", known), "mini-llada");
  EXPECT_EQ(nearest_name("mini-draem", known), "mini-dream");
  EXPECT_EQ(nearest_name("qwen", known), "");
  EXPECT_EQ(nearest_name("", known), "");
  EXPECT_EQ(nearest_name(std::string(100'000, 'a'), known), "");
}

}  // namespace
}  // namespace lacuna::nearest_test
