#include "tasks/written_numbers.h"

#include <gtest/gtest.h>

#include <optional>

namespace lacuna::written_numbers_test {
namespace {

TEST(StrictNumber, StandsBehindFourSigns) {
  EXPECT_EQ(strict_number("12 eggs\n#### 18"), "18");
  EXPECT_EQ(strict_number("#### -1,234.50."), "-1234.50");
  EXPECT_EQ(strict_number("#### 5 #### 6"), "5");
  EXPECT_EQ(strict_number("#### x #### 6"), "6");
  EXPECT_EQ(strict_number("The answer is 18."), std::nullopt);
  EXPECT_EQ(strict_number("####18"), std::nullopt);
  EXPECT_EQ(strict_number("#### ."), std::nullopt);
  EXPECT_EQ(strict_number("#### "), std::nullopt);
  EXPECT_EQ(strict_number(""), std::nullopt);
}

TEST(LastNumber, IsTheLastAnywhere) {
  EXPECT_EQ(last_number("She has 12, then 18 eggs."), "18");
  EXPECT_EQ(last_number("That makes $1,234."), "1234");
  EXPECT_EQ(last_number("-7"), "-7");
  EXPECT_EQ(last_number("3.50 ..."), "3.50");
  EXPECT_EQ(last_number("12+7=19"), "19");
  EXPECT_EQ(last_number("none."), std::nullopt);
  EXPECT_EQ(last_number(""), std::nullopt);
}

}  // namespace
}  // namespace lacuna::written_numbers_test
