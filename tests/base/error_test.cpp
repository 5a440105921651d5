#include "base/error.h"

#include <gtest/gtest.h>

#include <string>

namespace lacuna::error_test {
namespace {

TEST(InputError, FormatsItsArgumentsAndTakesATextWithoutThemLiterally) {
  EXPECT_STREQ(InputError("{}: {} bytes", "a.bin", 3).what(), "a.bin: 3 bytes");
  EXPECT_STREQ(InputError(std::string("100% of {}")).what(), "100% of {}");
}

TEST(Expects, ThrowsOnlyWhereItsConditionFails) {
  EXPECT_NO_THROW(expects(true, "holds"));
  EXPECT_THROW(expects(false, "does not hold"), std::logic_error);
}

}  // namespace
}  // namespace lacuna::error_test
