#include "constraint/gbnf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lacuna::gbnf_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

ByteAutomaton compiled(std::string_view grammar) {
  AutomatonLimits limits;
  return ByteAutomaton::compile(gbnf_expression(grammar, "grammar", limits), "grammar");
}

struct Example {
  const char* grammar;
  std::vector<const char*> accepted, rejected;
};

class Grammars : public testing::TestWithParam<Example> {};

TEST_P(Grammars, HaveTheTextsOfTheirRootRule) {
  const ByteAutomaton automaton = compiled(GetParam().grammar);
  for (const char* text : GetParam().accepted)
    EXPECT_TRUE(automaton.accepts(text)) << GetParam().grammar << " on " << text;
  for (const char* text : GetParam().rejected)
    EXPECT_FALSE(automaton.accepts(text)) << GetParam().grammar << " on " << text;
}

INSTANTIATE_TEST_SUITE_P(
    Values, Grammars,
    testing::Values(
        Example{"root ::= \"yes\" | \"no\"", {"yes", "no"}, {"", "yesno"}},
        Example{"# a comment\nroot ::= item (\", \" item)*  # more\nitem ::=\n  [a-c]+\n",
                {"a", "ab, c"},
                {"a,b", "d", ", a"}},
        Example{"root ::= (\"a\" |\n  \"b\"){2,3}", {"ab", "bbb"}, {"a", "abab"}},
        Example{"root ::= [^\"\\\\\\n] \"\\x41\\u00e9\\t\\\"\"", {"xA\xC3\xA9\t\""}, {"\"A\xC3\xA9\t\""}},
        Example{"root ::= .{2,}", {"ab", "\xC3\xA9\nc"}, {"a"}},
        Example{"root ::= x{,2} \"!\"\nx ::= \"x\"", {"!", "x!", "xx!"}, {"xxx!"}},
        Example{"root ::= (\"a\"?)* | \"\"", {"", "aaa"}, {"b"}},
        // Rules that repeat themselves at an end are repetitions, however long.
        Example{"root ::= \"[\" ws \"]\"\nws ::= ([ \\t] ws)?", {"[]", "[       \t     ]"}, {"[a]"}},
        Example{"root ::= \"a\" root | \"b\"", {"b", "aaaaaaaaaaaab"}, {"a", "ba"}},
        Example{"root ::= root \"+\" term | term\nterm ::= [0-9]+", {"1", "1+2+3+4+5+6+7+8"}, {"1+", "+1"}},
        // Others are unrolled.
        Example{"root ::= \"(\" root \")\" | \"x\"", {"x", "((x))"}, {"(x", "((((((x))))))"}}));

TEST(Gbnf, RefusesByLine) {
  const auto refusal = [](const std::string& grammar, const std::string& message) {
    EXPECT_THAT([&] { compiled(grammar); }, ThrowsMessage<InputError>(HasSubstr(message))) << grammar;
  };
  refusal("", "grammar: has no rule \"root\"");
  refusal("a ::= \"x\"", "grammar: has no rule \"root\"");
  refusal("root ::= \"x\"\nroot ::= \"y\"", "grammar: line 2: the rule \"root\" is defined twice");
  refusal("root ::= a\n\nb ::= c", "grammar: line 1: the rule \"a\" is not defined");
  refusal("root = \"x\"", "line 1: expected \"::=\"");
  refusal("root ::= \"x", "the grammar ends too early");
  refusal("root ::= \"x\n\"", "a line ends within a text");
  refusal("root ::= (\"x\"", "expected ')'");
  refusal("root ::= [b-a]", "out of order");
  refusal("root ::= \"\\q\"", "an unknown escape");
  refusal("root ::= \"a\"{3,2}", "most is below its least");
  refusal("root ::= \"a\"{1001}", "a repetition of more than 1000");
  refusal("root ::= <think>", "tokens (<...>) are not supported");
  refusal("root ::= \"a\" root \"b\"", "repeat within themselves without an end");
  refusal("root ::= \xFF", "not valid UTF-8");
  refusal("root ::= " + std::string(65, '(') + std::string(65, ')'), "nest deeper than 64");
  refusal(std::string(70'000, ' '), "has 70000 bytes; expected at most 65536");
}

TEST(Gbnf, TooMuchWorkIsRefused) {
  std::string grammar = "root ::= r0 r0\n";
  for (int i = 0; i < 40; ++i) grammar += fmt::format("r{} ::= r{} r{}\n", i, i + 1, i + 1);
  grammar += "r40 ::= \"x\"\n";
  EXPECT_THROW(compiled(grammar), AutomatonTooLarge);
}

}  // namespace
}  // namespace lacuna::gbnf_test
