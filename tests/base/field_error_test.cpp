#include "base/field_error.h"

#include <gtest/gtest.h>

#include <new>
#include <string>

namespace lacuna::field_error_test {
namespace {

std::string field_of(const std::string& place, const auto& read) {
  try {
    in_field(place, read);
  } catch (const FieldError& error) {
    return error.field();
  }
  return "no error";
}

TEST(InField, NamesTheFieldThatWasRead) {
  EXPECT_EQ(in_field("n", [] { return 3; }), 3);
  EXPECT_EQ(field_of("n", [] { throw InputError("n is 0"); }), "n");
}

TEST(InField, KeepsTheFieldThatAnErrorNames) {
  EXPECT_EQ(field_of("a", [] { throw FieldError("a.b", "a.b is 0"); }), "a.b");
}

TEST(InField, LeavesOtherErrorsAlone) {
  EXPECT_THROW(in_field("n", [] { throw std::bad_alloc(); }), std::bad_alloc);
}

}  // namespace
}  // namespace lacuna::field_error_test
