#include "constraint/expression.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "constraint/byte_automaton.h"

namespace lacuna::expression_test {
namespace {

bool accepts(const Expression& expression, const std::string& text) {
  return ByteAutomaton::compile(expression, "expression").accepts(text);
}

TEST(Expression, PropagatesTheEmptyLanguage) {
  const Expression nothing = Expression::nothing(), a = Expression::text("a");
  EXPECT_TRUE(Expression::sequence({a, nothing}).is_nothing());
  EXPECT_TRUE(Expression::choice({nothing, nothing}).is_nothing());
  EXPECT_FALSE(Expression::choice({nothing, a}).is_nothing());
  EXPECT_TRUE(Expression::repeat(nothing, 1, {}).is_nothing());
  EXPECT_FALSE(Expression::repeat(nothing, 0, {}).is_nothing());
  EXPECT_TRUE(Expression::members({{nothing, true}, {a, false}}, a).is_nothing());
  EXPECT_FALSE(Expression::members({{nothing, false}, {a, true}}, a).is_nothing());
  EXPECT_TRUE(Expression::automaton(ByteAutomaton::compile(nothing, "expression")).is_nothing());
}

TEST(Expression, SeparatesRepeatedParts) {
  const Expression list = Expression::repeat(Expression::text("a"), 2, 4, Expression::text(","));
  for (const char* text : {"a,a", "a,a,a", "a,a,a,a"}) EXPECT_TRUE(accepts(list, text)) << text;
  for (const char* text : {"", "a", "a,", "aa", "a,a,a,a,a"}) EXPECT_FALSE(accepts(list, text)) << text;
  const Expression any = Expression::repeat(Expression::text("a"), 0, {}, Expression::text(","));
  for (const char* text : {"", "a", "a,a,a,a,a,a"}) EXPECT_TRUE(accepts(any, text)) << text;
  for (const char* text : {",", "a,", "a,,a"}) EXPECT_FALSE(accepts(any, text)) << text;
  const Expression three = Expression::repeat(Expression::text("a"), 3, {}, Expression::text(","));
  for (const char* text : {"a,a,a", "a,a,a,a"}) EXPECT_TRUE(accepts(three, text)) << text;
  for (const char* text : {"", "a", "a,a"}) EXPECT_FALSE(accepts(three, text)) << text;
}

TEST(Expression, SeparatesMembersWhicheverAreLeftOut) {
  const Expression list = Expression::members(
      {{Expression::text("a"), false}, {Expression::text("b"), true}, {Expression::text("c"), false}},
      Expression::text(","));
  for (const char* text : {"b", "a,b", "b,c", "a,b,c"}) EXPECT_TRUE(accepts(list, text)) << text;
  for (const char* text : {"", "a", "a,c", ",b", "b,", "a,,b", "b,a"})
    EXPECT_FALSE(accepts(list, text)) << text;
}

TEST(Expression, KeepsSpecialTokensApartFromBytes) {
  const ByteAutomaton automaton = ByteAutomaton::compile(
      Expression::sequence({Expression::special(2), Expression::text("a")}), "expression");
  EXPECT_FALSE(automaton.accepts("a"));
  const StateId state = automaton.next(ByteAutomaton::start(), kFirstSpecial + 2);
  ASSERT_NE(state, kNoState);
  EXPECT_TRUE(automaton.is_accepting(automaton.next(state, 'a')));
  EXPECT_EQ(automaton.next(ByteAutomaton::start(), kFirstSpecial + 1), kNoState);
}

}  // namespace
}  // namespace lacuna::expression_test
