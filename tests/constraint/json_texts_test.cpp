#include "constraint/json_texts.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "constraint/byte_automaton.h"
#include "constraint/regex.h"
#include "random_texts.h"

namespace lacuna::json_texts_test {
namespace {

using nlohmann::ordered_json;

ByteAutomaton compiled(const Expression& expression) {
  return ByteAutomaton::compile(expression, "text");
}

TEST(JsonTexts, HaveOneFormInEachLayout) {
  const auto value =
      ordered_json::parse(R"({"b": [1, 2.5, 3.0, -0.0, true, null], "a": {"x\n": "é\u0001/"}, "": []})");
  EXPECT_EQ(json_text(value, JsonLayout::kSpaced),
            "{\"b\": [1, 2.5, 3, 0, true, null], \"a\": {\"x\\n\": \"\xC3\xA9\\u0001/\"}, \"\": []}");
  EXPECT_EQ(json_text(value, JsonLayout::kCompact),
            "{\"b\":[1,2.5,3,0,true,null],\"a\":{\"x\\n\":\"\xC3\xA9\\u0001/\"},\"\":[]}");
}

TEST(JsonTexts, WriteFloatsThatAreIntegersWithoutAFractionWhereSixtyFourBitsHoldThem) {
  const auto text = [](double value) { return json_text(ordered_json(value), JsonLayout::kCompact); };
  EXPECT_EQ(text(3.0), "3");
  EXPECT_EQ(text(-0x1p62), "-4611686018427387904");
  EXPECT_EQ(text(0x1p63), "9.223372036854776e+18");
  EXPECT_EQ(text(-1e300), "-1e+300");
}

TEST(JsonTexts, IntegersAreThoseOfTheRange) {
  std::mt19937 random(1);
  const auto any = [&](int limit) {
    return static_cast<int64_t>(random() % static_cast<unsigned>(2 * limit + 1)) - limit;
  };
  for (int round = 0; round < 150; ++round) {
    const int limit = round % 3 == 0 ? 20 : round % 3 == 1 ? 150 : 2000;
    const auto [first, last] = std::minmax({any(limit), any(limit)});
    const ByteAutomaton automaton = compiled(json_integer(first, last));
    for (int64_t value = -2500; value <= 2500; ++value) {
      ASSERT_EQ(automaton.accepts(std::to_string(value)), first <= value && value <= last)
          << value << " in " << first << " to " << last;
    }
    for (const char* text : {"-0", "00", "01", "-01", "", "-", "+1", "1.0"})
      ASSERT_FALSE(automaton.accepts(text)) << text;
  }
  const ByteAutomaton largest = compiled(json_integer(-kLargestInteger, kLargestInteger));
  EXPECT_TRUE(largest.accepts("999999999999999"));
  EXPECT_TRUE(largest.accepts("-999999999999999"));
  EXPECT_FALSE(largest.accepts("1000000000000000"));
}

TEST(JsonTexts, NumbersAreWithinTheirBoundsWhenTheyAreReadAsDoubles) {
  std::mt19937 random(2);
  const std::vector<int64_t> limits{-kLargestInteger, -100'000'000'000, -1000, -17, -1, 0, 1, 9, 10, 17, 1000,
                                    123'456'789'012,  kLargestInteger};
  for (int round = 0; round < 300; ++round) {
    NumberBounds bounds;
    std::tie(bounds.first, bounds.last) =
        std::minmax({limits[random() % limits.size()], limits[random() % limits.size()]});
    bounds.excludes_first = random() % 2 == 0;
    bounds.excludes_last = random() % 2 == 0;
    const ByteAutomaton automaton = compiled(json_number(bounds));
    if (automaton.is_empty()) {
      EXPECT_EQ(bounds.first, bounds.last);
      continue;
    }
    const auto first = static_cast<double>(bounds.first), last = static_cast<double>(bounds.last);
    RandomTexts texts(automaton, static_cast<unsigned>(round));
    for (int i = 0; i < 100; ++i) {
      const std::string text = texts.next(40);
      const double value = ordered_json::parse(text).get<double>();
      ASSERT_TRUE(bounds.excludes_first ? value > first : value >= first) << text << " from " << first;
      ASSERT_TRUE(bounds.excludes_last && bounds.last < kLargestInteger ? value < last : value <= last + 1)
          << text << " to " << last;
      ASSERT_TRUE(bounds.last == kLargestInteger || value <= last) << text;
      ASSERT_NE(text.substr(0, 2), "-0.0") << text;
    }
  }
}

TEST(JsonTexts, NumbersLeaveOutNothingButDigits) {
  const ByteAutomaton unit = compiled(json_number({.first = 0, .last = 1}));
  for (const char* text : {"0", "1", "0.5", "0.0", "0.999999999999999"})
    EXPECT_TRUE(unit.accepts(text)) << text;
  for (const char* text : {"-0", "1.0", "1.5", "2", "-0.5", ".5", "0.", "00", "5e-1"})
    EXPECT_FALSE(unit.accepts(text)) << text;
  const ByteAutomaton open =
      compiled(json_number({.first = -1, .last = 1, .excludes_first = true, .excludes_last = true}));
  for (const char* text : {"0", "0.5", "-0.5", "-0.99", "-0.01"}) EXPECT_TRUE(open.accepts(text)) << text;
  for (const char* text : {"1", "-1", "-1.0", "-0.0", "1.0"}) EXPECT_FALSE(open.accepts(text)) << text;
  const ByteAutomaton any = compiled(json_number({}));
  for (const char* text : {"0", "-1", "12.25", "-0.5", "999999999999999.999999999999999"})
    EXPECT_TRUE(any.accepts(text)) << text;
}

TEST(JsonTexts, FreeValuesAreJsonOfLimitedDepth) {
  for (const JsonLayout layout : {JsonLayout::kSpaced, JsonLayout::kCompact}) {
    const ByteAutomaton automaton = compiled(free_json_value(2, layout));
    RandomTexts texts(automaton, 3);
    for (int i = 0; i < 300; ++i) {
      const std::string text = texts.next(40);
      ASSERT_TRUE(ordered_json::accept(text)) << text;
    }
    for (const char* value : {"[[1]]", "[{}]", R"({"a":[1]})", R"({"a":{"b":null}})", "true", "[]"})
      EXPECT_TRUE(automaton.accepts(json_text(ordered_json::parse(value), layout))) << value;
    for (const char* value : {"[[[]]]", R"({"a":[{}]})"})
      EXPECT_FALSE(automaton.accepts(json_text(ordered_json::parse(value), layout))) << value;
  }
}

TEST(JsonTexts, DatesExist) {
  const ByteAutomaton date =
      compiled(regex_expression(*format_pattern("date"), RegexMatch::kWhole, TextEncoding::kUtf8, "date"));
  constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  for (const int year : {1000, 1900, 1999, 2000, 2023, 2024, 2100, 2400, 2999}) {
    const bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    for (int month = 0; month <= 13; ++month) {
      for (int day = 0; day <= 32; ++day) {
        const bool exists = month >= 1 && month <= 12 && day >= 1 &&
                            day <= kDays[month - 1] + (month == 2 && is_leap ? 1 : 0);
        char text[32];
        std::snprintf(text, sizeof text, "%04d-%02d-%02d", year, month, day);
        EXPECT_EQ(date.accepts(text), exists) << text;
      }
    }
  }
}

TEST(JsonTexts, KnowFormats) {
  const auto accepts = [](const char* format, const char* text) {
    return compiled(
               regex_expression(*format_pattern(format), RegexMatch::kWhole, TextEncoding::kUtf8, format))
        .accepts(text);
  };
  EXPECT_TRUE(accepts("time", "23:59:59Z"));
  EXPECT_TRUE(accepts("time", "00:00:00.25+05:30"));
  EXPECT_FALSE(accepts("time", "24:00:00Z"));
  EXPECT_FALSE(accepts("time", "12:00:00"));
  EXPECT_TRUE(accepts("date-time", "2024-02-29T12:00:00Z"));
  EXPECT_FALSE(accepts("date-time", "2023-02-29T12:00:00Z"));
  EXPECT_TRUE(accepts("uuid", "123e4567-e89b-12d3-a456-426614174000"));
  EXPECT_FALSE(accepts("uuid", "123e4567e89b12d3a456426614174000"));
  EXPECT_TRUE(accepts("ipv4", "192.168.0.255"));
  EXPECT_FALSE(accepts("ipv4", "192.168.0.256"));
  EXPECT_FALSE(accepts("ipv4", "192.168.00.1"));
  EXPECT_TRUE(accepts("email", "first.last+tag@mail.example-site.org"));
  EXPECT_FALSE(accepts("email", "a..b@example.org"));
  EXPECT_FALSE(accepts("email", "a@-example.org"));
  EXPECT_FALSE(accepts("email", "a@example"));
  EXPECT_TRUE(accepts("duration", "P1Y2M3DT4H5M6S"));
  EXPECT_TRUE(accepts("duration", "P2W"));
  EXPECT_FALSE(accepts("duration", "P"));
  EXPECT_FALSE(accepts("duration", "PT"));
  EXPECT_FALSE(accepts("duration", "P1Y1D"));
  for (const char* text : {"::", "::1", "1::", "fe80::1:2", "1:2:3:4:5:6:7:8"})
    EXPECT_TRUE(accepts("ipv6", text)) << text;
  for (const char* text : {":", "1::2::3", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "g::"})
    EXPECT_FALSE(accepts("ipv6", text)) << text;
  EXPECT_TRUE(accepts("hostname", "mail.example-site.org"));
  EXPECT_FALSE(accepts("hostname", "-a.org"));
  EXPECT_TRUE(accepts("uri", "https://example.org:8080/a/b%20c?x=1&y=2#top"));
  EXPECT_FALSE(accepts("uri", "example.org/a"));
  EXPECT_FALSE(accepts("uri", "http://a b"));
  EXPECT_TRUE(accepts("json-pointer", "/a~1b/0"));
  EXPECT_FALSE(accepts("json-pointer", "a"));
  EXPECT_FALSE(format_pattern("color"));
}

}  // namespace
}  // namespace lacuna::json_texts_test
