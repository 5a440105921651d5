#include "constraint/schema_numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>
#include <string>

#include "random_texts.h"

namespace lacuna::schema_numbers_test {
namespace {

ByteAutomaton compiled(const Expression& expression) {
  return ByteAutomaton::compile(expression, "numbers");
}

// All decimals of three digits around the bounds, compared as doubles.
TEST(SchemaNumbers, AreThoseBetweenTheirBounds) {
  struct Case {
    double lower, upper;
    bool excludes_lower, excludes_upper;
  };
  for (const Case& each : {Case{-1.25, 2.5, false, false},
                           {-1.25, 2.5, true, true},
                           {0.1, 0.3, false, true},
                           {-0.3, -0.1, true, false},
                           {0.125, 0.125, false, false},
                           {1.05, 1.5, true, false}}) {
    AutomatonLimits limits;
    const ByteAutomaton automaton =
        compiled(json_number_between(DecimalBound{each.lower, each.excludes_lower},
                                     DecimalBound{each.upper, each.excludes_upper}, "numbers", limits));
    for (int thousandths = -3000; thousandths <= 3000; ++thousandths) {
      const std::string text = fmt::format("{:.3f}", thousandths / 1000.0);
      const double value = std::strtod(text.c_str(), nullptr);
      const bool is_within = (each.excludes_lower ? value > each.lower : value >= each.lower) &&
                             (each.excludes_upper ? value < each.upper : value <= each.upper);
      if (value == 0) continue;  // has one text, "0"
      EXPECT_EQ(automaton.accepts(text), is_within) << text;
    }
  }
}

TEST(SchemaNumbers, AreWithinBoundsOfManyDigitsAsDoubles) {
  for (const double bound : {1.0 / 3, 2.0 / 3 * 1e-7, 123456.789012345678, 0.1 + 0.2}) {
    for (const bool is_excluded : {false, true}) {
      AutomatonLimits limits;
      const ByteAutomaton above =
          compiled(json_number_between(DecimalBound{bound, is_excluded}, std::nullopt, "numbers", limits));
      const ByteAutomaton below =
          compiled(json_number_between(std::nullopt, DecimalBound{bound, is_excluded}, "numbers", limits));
      RandomTexts more(above, 1), less(below, 2);
      for (int i = 0; i < 200; ++i) {
        const double high = std::strtod(more.next(30).c_str(), nullptr);
        const double low = std::strtod(less.next(30).c_str(), nullptr);
        EXPECT_TRUE(is_excluded ? high > bound : high >= bound) << high;
        EXPECT_TRUE(is_excluded ? low < bound : low <= bound) << low;
      }
    }
  }
}

TEST(SchemaNumbers, MultiplesAreThoseOfIntegerArithmetic) {
  for (const int divisor : {1, 2, 3, 7, 10, 97, 1000}) {
    AutomatonLimits limits;
    const ByteAutomaton multiples = compiled(json_multiples(divisor, true, "numbers", limits));
    const ByteAutomaton others = compiled(json_multiples(divisor, false, "numbers", limits));
    for (int value = -2100; value <= 2100; ++value) {
      EXPECT_EQ(multiples.accepts(std::to_string(value)), value % divisor == 0) << value;
      EXPECT_EQ(others.accepts(std::to_string(value)), value % divisor != 0) << value;
    }
    EXPECT_FALSE(multiples.accepts("00") || multiples.accepts("-0") || multiples.accepts(""));
  }
}

TEST(SchemaNumbers, ListedMultiplesAreExactAsDecimalsAndAsDoubles) {
  const ByteAutomaton cents = compiled(listed_json_multiples(0.01, -1, HUGE_VAL));
  int count = 0;
  for (int value = -300; value <= 3000; ++value) {
    std::string text =
        fmt::format("{}{}.{:02}", value < 0 ? "-" : "", std::abs(value) / 100, std::abs(value) % 100);
    while (text.ends_with('0')) text.pop_back();
    if (text.ends_with('.')) text.pop_back();
    if (!cents.accepts(text)) continue;
    ++count;
    const double quotient = std::strtod(text.c_str(), nullptr) / 0.01;
    EXPECT_EQ(quotient, std::trunc(quotient)) << text;
    EXPECT_GE(value, -100);
  }
  EXPECT_GT(count, 2000);
  EXPECT_TRUE(compiled(listed_json_multiples(1e-25, 0, 1)).is_empty());
}

TEST(SchemaNumbers, PlainOnesHaveOneText) {
  const ByteAutomaton plain = compiled(plain_json_number());
  for (const char* text : {"0", "-3", "1.5", "0.000001", "-123456789.123456"})
    EXPECT_TRUE(plain.accepts(text)) << text;
  for (const char* text : {"1.0", "1.50", "-0", "1.0000001", "-0.0"})
    EXPECT_FALSE(plain.accepts(text)) << text;
}

}  // namespace
}  // namespace lacuna::schema_numbers_test
