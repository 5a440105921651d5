#include "constraint/finite_language.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "constraint/json_texts.h"

namespace lacuna::finite_language_test {
namespace {

using testing::ElementsAre;

TEST(FiniteLanguage, ListsAllTextsOrNone) {
  const ByteAutomaton few = ByteAutomaton::compile(
      Expression::choice({Expression::text("b"), Expression::text("a"), Expression::text("ab")}), "choice");
  EXPECT_THAT(finite_language(few, 3).value(), ElementsAre("a", "b", "ab"));
  EXPECT_FALSE(finite_language(few, 2));
  EXPECT_FALSE(finite_language(
      ByteAutomaton::compile(Expression::repeat(Expression::text("a"), 0, std::nullopt), "repeat"), 100));
  EXPECT_TRUE(finite_language(ByteAutomaton::compile(Expression::nothing(), "nothing"), 1)->empty());
  EXPECT_EQ(finite_language(ByteAutomaton::compile(json_integer(-9, 9), "integers"), 19)->size(), 19U);
}

TEST(FiniteLanguage, AnyByteIsNoSpecialSymbol) {
  const ByteAutomaton byte = ByteAutomaton::compile(any_byte(), "byte");
  EXPECT_TRUE(byte.accepts("\xFF") && byte.accepts("a"));
  EXPECT_FALSE(byte.accepts("") || byte.accepts("ab"));
  EXPECT_EQ(byte.next(ByteAutomaton::start(), kFirstSpecial), kNoState);
}

}  // namespace
}  // namespace lacuna::finite_language_test
