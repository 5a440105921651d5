#include "constraint/byte_automaton.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "constraint/regex.h"
#include "constraint/transition_table.h"
#include "toy.h"

namespace lacuna::byte_automaton_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

ByteAutomaton compiled(const std::string& regex) {
  return ByteAutomaton::compile(regex_expression(regex, RegexMatch::kWhole, TextEncoding::kUtf8, "regex"),
                                "regex");
}

/// All texts over a and b of up to `length` characters.
std::vector<std::string> all_texts(size_t length) {
  std::vector<std::string> texts{""};
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() == length) continue;
    texts.push_back(texts[i] + "a");
    texts.push_back(texts[i] + "b");
  }
  return texts;
}

/// Which continuations of up to four characters each state accepts: states of a minimal automaton differ in
/// some, if not within four characters then not at all in these small ones.
std::set<std::string> continuations(const ByteAutomaton& automaton, StateId from, size_t length) {
  std::set<std::string> accepted;
  for (const std::string& text : all_texts(length)) {
    StateId state = from;
    for (const char c : text)
      state = state == kNoState ? state : automaton.next(state, static_cast<uint8_t>(c));
    if (state != kNoState && automaton.is_accepting(state)) accepted.insert(text);
  }
  return accepted;
}

TEST(ByteAutomaton, AcceptsWhatStdRegexMatches) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const std::string pattern = random_regex(random, 4);
    const ByteAutomaton automaton = compiled(pattern);
    const std::regex reference(pattern);
    for (const std::string& text : all_texts(6)) {
      ASSERT_EQ(automaton.accepts(text), std::regex_match(text, reference)) << pattern << " on " << text;
    }
  }
}

TEST(ByteAutomaton, IsTrimmedAndMinimal) {
  std::mt19937 random(2);
  for (int round = 0; round < 100; ++round) {
    const std::string pattern = random_regex(random, 3);
    const ByteAutomaton automaton = compiled(pattern);
    std::set<std::set<std::string>> different;
    for (int state = 0; state < automaton.num_states(); ++state) {
      const auto accepted = continuations(automaton, static_cast<StateId>(state), 10);
      EXPECT_FALSE(accepted.empty()) << pattern;
      EXPECT_TRUE(different.insert(accepted).second) << pattern << ": two states are equivalent";
    }
  }
}

TEST(ByteAutomaton, IsTheSameForDifferentExpressionsOfOneLanguage) {
  const ByteAutomaton a = compiled("(a|b)*abb|(a|b)*abb"), b = compiled("[ab]*?ab{2}");
  ASSERT_EQ(a.num_states(), b.num_states());
  ASSERT_EQ(a.num_states(), 4);  // the textbook example
  ASSERT_EQ(a.num_symbol_classes(), b.num_symbol_classes());
  for (int state = 0; state < a.num_states(); ++state) {
    for (int symbol = 0; symbol < kNumSymbols; ++symbol) {
      EXPECT_EQ(a.next(static_cast<StateId>(state), static_cast<Symbol>(symbol)),
                b.next(static_cast<StateId>(state), static_cast<Symbol>(symbol)));
    }
  }
}

TEST(ByteAutomaton, IntersectsLanguages) {
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    const std::string first = random_regex(random, 3), second = random_regex(random, 3);
    const ByteAutomaton a = compiled(first), b = compiled(second);
    AutomatonLimits limits;
    const ByteAutomaton both = ByteAutomaton::intersection(a, b, "regex", limits);
    for (const std::string& text : all_texts(6)) {
      ASSERT_EQ(both.accepts(text), a.accepts(text) && b.accepts(text))
          << first << " and " << second << " on " << text;
    }
  }
}

TEST(ByteAutomaton, OfTheEmptyLanguageHasOneStateThatAcceptsNothing) {
  const ByteAutomaton automaton = compiled("a[]b");
  EXPECT_TRUE(automaton.is_empty());
  EXPECT_EQ(automaton.num_states(), 1);
  EXPECT_FALSE(automaton.accepts(""));
  EXPECT_FALSE(compiled("").is_empty());
}

TEST(ByteAutomaton, NamesTheLimitThatIsExceeded) {
  const Expression letters =
      regex_expression("[ab]*a[ab]{9}", RegexMatch::kWhole, TextEncoding::kUtf8, "regex");
  const auto compile_within = [&](AutomatonLimits limits) {
    return [=] {
      AutomatonLimits own = limits;
      ByteAutomaton::compile(letters, "pattern", own);
    };
  };
  EXPECT_THAT(
      compile_within({.states = 100}),
      ThrowsMessage<AutomatonTooLarge>(HasSubstr("the pattern is too large: it needs more than 100 states")));
  EXPECT_THAT(compile_within({.transitions = 100}),
              ThrowsMessage<AutomatonTooLarge>(HasSubstr("more than 100 transitions")));
  EXPECT_THAT(compile_within({.parts = 100}),
              ThrowsMessage<AutomatonTooLarge>(HasSubstr("more than 100 parts")));
  EXPECT_THAT(compile_within({.work = 10'000}),
              ThrowsMessage<AutomatonTooLarge>(HasSubstr("too long to compile")));
  EXPECT_NO_THROW(compile_within({})());
}

TEST(ByteAutomaton, CompilationsShareTheirWork) {
  AutomatonLimits limits{.work = 20'000};
  const Expression a = Expression::repeat(Expression::text("a"), 10, 20);
  EXPECT_THROW(
      {
        for (int i = 0; i < 100; ++i) ByteAutomaton::compile(a, "text", limits);
      },
      AutomatonTooLarge);
}

TEST(TransitionTable, MergesClassesWithEqualColumns) {
  const ByteAutomaton automaton = compiled("[a-c]x|[d-f]x");
  EXPECT_EQ(automaton.num_symbol_classes(), 3);  // a to f, x, everything else
  EXPECT_EQ(automaton.symbol_class('a'), automaton.symbol_class('f'));
  EXPECT_EQ(automaton.num_states(), 3);
}

}  // namespace
}  // namespace lacuna::byte_automaton_test
