#include "constraint/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "constraint/byte_automaton.h"

namespace lacuna::regex_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;

ByteAutomaton compiled(const std::string& pattern, RegexMatch match = RegexMatch::kWhole,
                       TextEncoding encoding = TextEncoding::kUtf8) {
  return ByteAutomaton::compile(regex_expression(pattern, match, encoding, "regex"), "regex");
}

struct Example {
  const char* pattern;
  std::vector<std::string> accepted, rejected;
};

class RegexSyntax : public testing::TestWithParam<Example> {};

TEST_P(RegexSyntax, MatchesAsInEcma262) {
  const auto& [pattern, accepted, rejected] = GetParam();
  const ByteAutomaton automaton = compiled(pattern);
  for (const std::string& text : accepted) EXPECT_TRUE(automaton.accepts(text)) << pattern << " on " << text;
  for (const std::string& text : rejected) EXPECT_FALSE(automaton.accepts(text)) << pattern << " on " << text;
}

INSTANTIATE_TEST_SUITE_P(
    Examples, RegexSyntax,
    testing::Values(
        Example{"a|b|", {"a", "b", ""}, {"ab"}}, Example{"(?:ab)+c?", {"ab", "abab", "ababc"}, {"", "c"}},
        Example{"(?<year>[0-9]{4})", {"2024"}, {"202", "20245"}}, Example{"a{2}", {"aa"}, {"a", "aaa"}},
        Example{"a{2,}", {"aa", "aaaaa"}, {"a"}}, Example{"a{1,2}?", {"a", "aa"}, {"", "aaa"}},
        Example{"a*?b+?", {"b", "aabb"}, {"a"}},
        Example{".", {"a", "\xC3\xA9", "\xF0\x9F\x98\x80"}, {"\n", "\r", "\xE2\x80\xA8", "\xC3", "ab"}},
        Example{"[^a-c]", {"d", "\n", "\xC3\xA9"}, {"a", "c", ""}}, Example{"[]", {}, {"", "a"}},
        Example{"[^]", {"a", "\n"}, {""}}, Example{"[a-]", {"a", "-"}, {"b"}},
        Example{"[-a]", {"a", "-"}, {}}, Example{"[\\]\\-]", {"]", "-"}, {"\\"}},
        Example{"[\\d_]+", {"1_2"}, {"a"}}, Example{"\\d", {"7"}, {"\xD9\xA3", "a"}},
        Example{"\\D", {"a", "\xD9\xA3"}, {"7"}}, Example{"\\w", {"a", "Z", "_", "0"}, {"\xC3\xA9", "-"}},
        Example{"\\W", {"-", "\xC3\xA9"}, {"a"}},
        Example{"\\s", {" ", "\t", "\n", "\xC2\xA0", "\xEF\xBB\xBF", "\xE3\x80\x80"}, {"a", "\xE2\x80\x8B"}},
        Example{"\\S", {"a", "\xE2\x80\x8B"}, {" ", "\xC2\xA0"}}, Example{"[\\s\\S]", {" ", "a"}, {""}},
        Example{"\\x41\\u0042\\u{43}\\t\\0", {std::string("ABC\t\0", 5)}, {"ABC\t"}},
        Example{"\\cA", {"\x01"}, {"A"}}, Example{"\\ud83d\\ude00", {"\xF0\x9F\x98\x80"}, {}},
        Example{"\\ud83d", {}, {"\xED\xA0\xBD"}}, Example{"\\.\\*\\/\\\"\\-", {".*/\"-"}, {}},
        Example{"[\\b]", {"\b"}, {"b"}}, Example{"}]", {"}]"}, {}}, Example{"^ab$", {"ab"}, {"a"}},
        Example{"^^a$$", {"a"}, {}}, Example{"a^b", {}, {"ab", "a^b"}},
        Example{"(^|x)a", {"a", "xa"}, {"ya"}}, Example{"a($|b)", {"a", "ab"}, {"ac"}},
        Example{"$^", {""}, {"a"}}, Example{"(a|$)*", {"", "a", "aa"}, {"b"}},
        Example{"\xC3\xA9+", {"\xC3\xA9\xC3\xA9"}, {"\xC3\xA9\xA9"}},
        Example{"[\xC3\xA0-\xC3\xBF]", {"\xC3\xA9"}, {"e"}}));

TEST(Regex, SearchFindsAMatchAnywhereButAtAssertions) {
  const ByteAutomaton anywhere = compiled("b+", RegexMatch::kSearch);
  for (const char* text : {"b", "abc", "\nb\n"}) EXPECT_TRUE(anywhere.accepts(text)) << text;
  EXPECT_FALSE(anywhere.accepts("aca"));
  const ByteAutomaton begin = compiled("^b", RegexMatch::kSearch);
  EXPECT_TRUE(begin.accepts("bcd"));
  EXPECT_FALSE(begin.accepts("ab"));
  EXPECT_FALSE(begin.accepts("a\nb"));  // not multiline
  const ByteAutomaton end = compiled("b$|^c", RegexMatch::kSearch);
  EXPECT_TRUE(end.accepts("ab"));
  EXPECT_TRUE(end.accepts("cx"));
  EXPECT_FALSE(end.accepts("ba"));
  EXPECT_TRUE(compiled("", RegexMatch::kSearch).accepts("anything"));
}

TEST(Regex, SpeaksOfCodePointsWhereAStringIsEscaped) {
  const ByteAutomaton one = compiled("^.$", RegexMatch::kSearch, TextEncoding::kJsonString);
  for (const char* text : {"a", "\\\"", "\\\\", "\\t", "\xF0\x9F\x98\x80"})
    EXPECT_TRUE(one.accepts(text)) << text;
  for (const char* text : {"\\n", "ab", "\"", "\\", ""}) EXPECT_FALSE(one.accepts(text)) << text;
  const ByteAutomaton backslash = compiled("^\\\\n$", RegexMatch::kSearch, TextEncoding::kJsonString);
  EXPECT_TRUE(backslash.accepts("\\\\n"));
  EXPECT_FALSE(backslash.accepts("\\n"));
  EXPECT_TRUE(compiled("\\u0001", RegexMatch::kSearch, TextEncoding::kJsonString).is_empty());
}

TEST(Regex, AssertionsSpeakOfTheirOwnTextWithinALargerOne) {
  const Expression part = regex_expression("^a$", RegexMatch::kSearch, TextEncoding::kUtf8, "regex");
  const ByteAutomaton automaton = ByteAutomaton::compile(
      Expression::sequence({Expression::text("<"), part, Expression::text(">")}), "text");
  EXPECT_TRUE(automaton.accepts("<a>"));
  EXPECT_FALSE(automaton.accepts("<ba>"));
}

TEST(Regex, RefusesByName) {
  const auto refusal = [](const std::string& pattern, const std::string& message) {
    EXPECT_THAT([&] { compiled(pattern); }, ThrowsMessage<InputError>(HasSubstr(message))) << pattern;
  };
  refusal("(a)\\1", "a back reference at byte 3 is not supported");
  refusal("(?<n>a)\\k<n>", "back reference \"\\k\"");
  refusal("\\p{Script=Greek}", "Unicode property \"Script=Greek\" at byte 0 is not supported");
  refusal("\\pL", "Unicode property");
  refusal("(?=a)*", "cannot be repeated");
  refusal("(?=a", "expected ')'");
  refusal("(?i)a", "inline flag");
  refusal("(?>a)", "atomic group");
  refusal("a{1001}", "a repetition of more than 1000");
  refusal("a{1000000000000000000000}", "a repetition of more than 1000");
  refusal("a{3,2}", "most is below its least");
  refusal("a{x}", "expected a number");
  refusal("a{1,2", "expected '}'");
  refusal("*a", "nothing to repeat");
  refusal("a**", "nothing to repeat");
  refusal("^*", "cannot be repeated");
  refusal("(a", "expected ')'");
  refusal("a)", "')' without '('");
  refusal("[a", "expected ']'");
  refusal("[b-a]", "out of order");
  refusal("[a-\\d]", "single characters");
  refusal("\\q", "ECMA-262 does not know");
  refusal("\\", "a backslash ends the expression");
  refusal("\\u12", "hexadecimal digit");
  refusal("\\u{110000}", "above 10FFFF");
  refusal("a\xFF", "not valid UTF-8 at byte 1");
  refusal("\xED\xA0\x80", "not valid UTF-8");
  refusal(std::string(65, '(') + std::string(65, ')'), "nest deeper than 64");
  refusal(std::string(kMaxRegexBytes + 1, 'a'), "expected at most 16384");
}

TEST(Regex, RefusesWhatRepeatsTooOften) {
  for (const char* pattern :
       {"(((a{1000}){1000}){1000}){1000}", "((((a?){1000}){1000}){1000}){1000}", "(((()){1000}){1000}){1000}",
        "(((){1000}){1000}){0,1000}", "[ab]*a[ab]{30}", "([ab]*a){200}[ab]{200}c|[ab]*a[ab]{18}d"}) {
    EXPECT_THAT([&] { compiled(pattern); },
                ThrowsMessage<AutomatonTooLarge>(StartsWith("the regex is too large")))
        << pattern;
  }
}

}  // namespace
}  // namespace lacuna::regex_test
