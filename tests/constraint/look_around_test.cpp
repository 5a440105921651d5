#include "constraint/look_around.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "constraint/regex.h"

namespace lacuna::look_around_test {
namespace {

struct Example {
  const char* pattern;
  std::vector<const char*> accepted, rejected;
};

class LookAroundPatterns : public testing::TestWithParam<Example> {};

TEST_P(LookAroundPatterns, MatchAsEcmaScriptSays) {
  const ByteAutomaton automaton = ByteAutomaton::compile(
      regex_expression(GetParam().pattern, RegexMatch::kSearch, TextEncoding::kUtf8, "regex"), "regex");
  for (const char* text : GetParam().accepted)
    EXPECT_TRUE(automaton.accepts(text)) << GetParam().pattern << " on " << text;
  for (const char* text : GetParam().rejected)
    EXPECT_FALSE(automaton.accepts(text)) << GetParam().pattern << " on " << text;
}

INSTANTIATE_TEST_SUITE_P(
    Values, LookAroundPatterns,
    testing::Values(Example{"^(?=.*[0-9])(?=.*[a-z]).{3,4}$", {"a12", "1bc4"}, {"abc", "123", "a1", "abcd1"}},
                    Example{"^(?!admin$)[a-z]+$", {"user", "admins"}, {"admin"}},
                    Example{"^(?:(?!--)[a-z-])+$", {"a-b-c", "-"}, {"a--b"}},
                    Example{"(?<=\\$)[0-9]+$", {"a$12"}, {"a12", "$a12"}},
                    Example{"^[a-z]+(?<!x)$", {"ab", "xa"}, {"ax"}},
                    Example{"\\bcat\\b", {"cat", "a cat.", "(cat)"}, {"cats", "bobcat", "cat_"}},
                    Example{"^\\Ba|a\\B!", {}, {"ab"}}, Example{"\\Bat", {"cat"}, {"at", "c at"}},
                    Example{"^(?=.*\\bb\\b)[a-z ]*$", {"a b", "b"}, {"ab", "a"}},
                    Example{"^(?=a(?!b))", {"ac", "a"}, {"ab"}},
                    Example{"(?=^a)a|(?<=b$)", {"ab", "b"}, {"cc", "ba c"}},
                    Example{"^(?<=)a(?=)$", {"a"}, {"b"}}));

TEST(LookAround, HasALimitedNumberOfAssertions) {
  std::string pattern;
  for (char c = 'a'; c <= 'z'; ++c) pattern += std::string("(?=.*") + c + ")";
  EXPECT_THAT([&] { regex_expression(pattern, RegexMatch::kWhole, TextEncoding::kUtf8, "regex"); },
              testing::ThrowsMessage<InputError>(testing::HasSubstr("more than 15 different look-arounds")));
}

}  // namespace
}  // namespace lacuna::look_around_test
