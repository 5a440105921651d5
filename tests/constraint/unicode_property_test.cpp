#include "constraint/unicode_property.h"

#include <gtest/gtest.h>

namespace lacuna::unicode_property_test {
namespace {

TEST(UnicodeProperty, KnowsCategoriesByShortAndLongNames) {
  for (const char* name : {"L", "Letter", "gc=L", "General_Category=Letter"}) {
    const auto letters = unicode_property(name);
    ASSERT_TRUE(letters) << name;
    EXPECT_TRUE(letters->contains('a') && letters->contains(0xE9) && letters->contains(0x4E2D)) << name;
    EXPECT_FALSE(letters->contains('1') || letters->contains('_')) << name;
  }
  EXPECT_TRUE(unicode_property("Lu")->contains('A') && !unicode_property("Lu")->contains('a'));
  EXPECT_TRUE(unicode_property("Nd")->contains(0x0663));
  EXPECT_TRUE(unicode_property("LC")->contains('a') && !unicode_property("LC")->contains(0x4E2D));
  EXPECT_TRUE(unicode_property("P")->contains('!') && unicode_property("Sc")->contains('$'));
  EXPECT_TRUE(unicode_property("Zs")->contains(' ') && unicode_property("Cc")->contains(0));
  EXPECT_TRUE(unicode_property("ASCII")->contains(0x7F) && !unicode_property("ASCII")->contains(0x80));
  EXPECT_FALSE(unicode_property("Assigned")->contains(0x0378));
  EXPECT_TRUE(unicode_property("Cn")->contains(0x0378));
}

TEST(UnicodeProperty, DoesNotGuess) {
  for (const char* name : {"", "Greek", "Script=Greek", "Alphabetic", "l", "Xx"})
    EXPECT_FALSE(unicode_property(name)) << name;
}

}  // namespace
}  // namespace lacuna::unicode_property_test
