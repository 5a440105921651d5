#include "base/name_list.h"

#include <gtest/gtest.h>

namespace lacuna::name_list_test {
namespace {

TEST(NameList, HasNamesThatAreWholeWords) {
  EXPECT_TRUE(has_name("a bc d", "a") && has_name("a bc d", "bc") && has_name("a bc d", "d"));
  EXPECT_FALSE(has_name("a bc d", "b") || has_name("a bc d", "c") || has_name("a bc d", "") ||
               has_name("", "a") || has_name("a bc d", "a bc"));
}

TEST(LowerCase, ChangesAsciiLettersAlone) {
  EXPECT_EQ(lower_case("Q4_K_M Ä"), "q4_k_m Ä");
  EXPECT_EQ(lower_case(""), "");
}

}  // namespace
}  // namespace lacuna::name_list_test
