#include "constraint/token_automaton.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "toy.h"

namespace lacuna::token_automaton_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

/// Where the bytes of a token lead, one after the other.
StateId run(const ByteAutomaton& automaton, StateId state, const std::string& bytes) {
  for (const char c : bytes)
    state = state == kNoState ? state : automaton.next(state, static_cast<uint8_t>(c));
  return state;
}

TEST(TokenAutomaton, LeadsWhereTheBytesOfATokenLead) {
  const Toy toy({"a", "b", "ab", "ba", "aab", "", "abab", "a"});
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const std::string regex = random_regex(random, 4);
    const ByteAutomaton bytes = compile_constraint(RegexConstraint{regex});
    const TokenAutomaton tokens(bytes, toy.vocabulary());
    ASSERT_EQ(tokens.num_states(), bytes.num_states() + 1);
    for (int i = 0; i < bytes.num_states(); ++i) {
      const auto state = static_cast<StateId>(i);
      for (TokenId token = 0; token < toy.end; ++token) {
        const std::string& text = toy.table.bytes[static_cast<size_t>(token)];
        EXPECT_EQ(tokens.next(state, token), text.empty() ? kNoState : run(bytes, state, text))
            << regex << ", " << text;
      }
      EXPECT_EQ(tokens.next(state, toy.end), bytes.is_accepting(state) ? tokens.ended() : kNoState);
      EXPECT_EQ(tokens.next(state, toy.mask), kNoState);
    }
  }
}

TEST(TokenAutomaton, KnowsTheTextThatMustComeNext) {
  const Toy toy({"a", "b", "c", "ab"});
  const auto behind = [&](const std::string& regex, const std::string& text) {
    const TokenAutomaton automaton = toy.automaton(regex);
    StateId state = TokenAutomaton::start();
    for (const char c : text) state = automaton.next(state, static_cast<TokenId>(c - 'a'));
    return automaton.literal(state);
  };
  EXPECT_EQ(behind("abc(a|b)cc", ""), "abc");
  EXPECT_EQ(behind("abc(a|b)cc", "ab"), "c");
  EXPECT_EQ(behind("abc(a|b)cc", "abca"), "cc");
  EXPECT_EQ(behind("ab(c|)", ""), "ab");
  EXPECT_EQ(behind("ab(c|)", "ab"), "") << "the text may end there";
  EXPECT_EQ(behind("[ab]", ""), "");
}

TEST(TokenAutomaton, StaysBehindAnEndTokenWithEveryTokenButTheMask) {
  const Toy toy({"a", "", "b"});
  const TokenAutomaton automaton = toy.automaton("a");
  EXPECT_TRUE(automaton.accepting().contains(automaton.ended()));
  for (TokenId token = 0; token < toy.mask; ++token)
    EXPECT_EQ(automaton.next(automaton.ended(), token), automaton.ended());
  EXPECT_EQ(automaton.next(automaton.ended(), toy.mask), kNoState);
  EXPECT_EQ(automaton.class_of(toy.mask), kNoClass);
  EXPECT_EQ(automaton.class_of(-1), kNoClass);
  EXPECT_EQ(automaton.class_of(1000), kNoClass);
  EXPECT_EQ(automaton.min_tokens(automaton.ended()), 0);
}

TEST(TokenAutomaton, PutsTokensIntoOneClassExactlyIfTheyLeadAlikeFromEveryState) {
  const Toy toy({"a", "b", "ab", "ba", "c", "d", "", "cd", "dc", "abc"});
  std::mt19937 random(2);
  for (int round = 0; round < 100; ++round) {
    const TokenAutomaton automaton = toy.automaton(random_regex(random, 3) + "[cd]{0,3}");
    std::map<std::vector<StateId>, ClassId> class_of_effect;
    TokenId highest_first = -1;
    for (TokenId token = 0; token <= toy.end; ++token) {
      std::vector<StateId> effect;
      for (int state = 0; state < automaton.num_states(); ++state)
        effect.push_back(automaton.next(static_cast<StateId>(state), token));
      const auto [known, is_new] = class_of_effect.try_emplace(effect, automaton.class_of(token));
      EXPECT_EQ(known->second, automaton.class_of(token));
      if (is_new) {
        EXPECT_EQ(automaton.first_token(automaton.class_of(token)), token);
        EXPECT_GT(token, highest_first);  // classes are in the order of their first tokens
        EXPECT_EQ(automaton.class_of(token), class_of_effect.size() - 1);
        highest_first = token;
      }
    }
    EXPECT_EQ(static_cast<size_t>(automaton.num_classes()), class_of_effect.size());
    int size = 0;
    for (int c = 0; c < automaton.num_classes(); ++c) size += automaton.class_size(static_cast<ClassId>(c));
    EXPECT_EQ(size, toy.end + 1);
  }
}

TEST(TokenAutomaton, KnowsTheFewestTokensToAnAcceptedText) {
  const Toy toy({"a", "b", "ab", "bb"});
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    const std::string regex = random_regex(random, 4);
    const ByteAutomaton bytes = compile_constraint(RegexConstraint{regex});
    const TokenAutomaton automaton(bytes, toy.vocabulary());
    int fewest = -1;
    for (size_t length = 0; fewest < 0; ++length) {
      toy.for_each_filling(std::vector<TokenId>(length, toy.mask), [&](const std::vector<TokenId>& tokens) {
        if (toy.accepts(bytes, tokens)) fewest = static_cast<int>(length);
      });
    }
    EXPECT_EQ(automaton.min_tokens(TokenAutomaton::start()), fewest) << regex;
    for (const int limit : {0, 1, 2, 100}) {
      const StateSet within = automaton.completable_within(limit);
      EXPECT_EQ(within.contains(TokenAutomaton::start()), fewest <= limit);
    }
  }
}

TEST(TokenAutomaton, HasNoEdgesToWhereTheVocabularyCannotContinue) {
  const Toy toy({"a", "ab"});  // no token begins with "c"
  const TokenAutomaton automaton = toy.automaton("a|abc|ab(c|ab)");
  StateId after_ab = automaton.next(TokenAutomaton::start(), 1);
  ASSERT_NE(after_ab, kNoState);
  EXPECT_EQ(automaton.min_tokens(after_ab), 1);
  const TokenAutomaton dead = toy.automaton("a|abc");
  EXPECT_EQ(dead.next(TokenAutomaton::start(), 1), kNoState);
  EXPECT_EQ(dead.min_tokens(TokenAutomaton::start()), 1);
}

TEST(TokenAutomaton, ListsEachSuccessorOnce) {
  const Toy toy({"a", "b", "ab"});
  const TokenAutomaton automaton = toy.automaton("[ab]{0,4}");
  for (int i = 0; i < automaton.num_states(); ++i) {
    std::set<StateId> expected;
    for (const auto& edge : automaton.edges(static_cast<StateId>(i))) expected.insert(edge.next);
    const auto successors = automaton.successors(static_cast<StateId>(i));
    EXPECT_EQ(std::vector<StateId>(successors.begin(), successors.end()),
              std::vector<StateId>(expected.begin(), expected.end()));
  }
}

TEST(TokenAutomaton, LetsTokensEndWithinACharacter) {
  // "\xC3\xA9" is é; the first token holds its first byte and a quote before it.
  const Toy toy({"\"\xC3", "\xA9\"", "\xA9", "\"", "\xC3", "\xF0\x9F"});
  const TokenAutomaton automaton(compile_constraint(JsonSchemaConstraint{R"({"type": "string"})"}),
                                 toy.vocabulary());
  const auto after = [&](std::vector<TokenId> tokens) {
    StateId state = TokenAutomaton::start();
    for (const TokenId token : tokens) state = state == kNoState ? state : automaton.next(state, token);
    return state;
  };
  EXPECT_EQ(automaton.min_tokens(after({0})), 1);
  EXPECT_EQ(automaton.min_tokens(after({0, 1})), 0);
  EXPECT_EQ(automaton.min_tokens(after({0, 2, 3})), 0);
  EXPECT_EQ(after({0, 3}), kNoState);                 // a quote within a character
  EXPECT_EQ(after({3, 2}), kNoState);                 // a continuation byte alone
  EXPECT_EQ(automaton.min_tokens(after({3, 5})), 2);  // two bytes of a character are missing
}

TEST(TokenAutomaton, WritesSpecialTokensWhereTheExpressionHasThem) {
  TokenTable table{.bytes = {"a", "<x>", "", ""}, .end_ids = {2}, .excluded = {}, .specials = {1, 3}};
  const Expression expression =
      Expression::sequence({Expression::special(0), Expression::text("a"), Expression::special(1)});
  const TokenAutomaton automaton(ByteAutomaton::compile(expression, "call"), TokenVocabulary(table));
  StateId state = automaton.next(TokenAutomaton::start(), 1);
  ASSERT_NE(state, kNoState);
  EXPECT_EQ(automaton.next(state, 1), kNoState);
  state = automaton.next(state, 0);
  ASSERT_NE(state, kNoState);
  EXPECT_TRUE(automaton.accepting().contains(automaton.next(state, 3)));
  // A special token writes no text, whatever bytes the table gives it.
  EXPECT_THAT([&] { TokenAutomaton(compile_constraint(RegexConstraint{"<x>"}), TokenVocabulary(table)); },
              ThrowsMessage<InputError>(HasSubstr("cannot write any text")));
}

TEST(TokenAutomaton, RefusesMoreEdgesThanItWouldHold) {
  // Nearly every state allows every token, and each leads elsewhere.
  const auto refusal = [](size_t num_tokens, const std::string& regex, const std::string& message) {
    std::vector<std::string> tokens;
    for (size_t length = 1; length <= num_tokens; ++length) tokens.emplace_back(length, 'a');
    const Toy toy(tokens);
    EXPECT_THAT([&] { toy.automaton(regex); }, ThrowsMessage<AutomatonTooLarge>(HasSubstr(message)));
  };
  refusal(1000, "(a{1000}){10}", "tokens' beginnings make more than 8000000 pairs");
  refusal(150, "(a{1000}){10}", "classes of tokens make more than 1000000 pairs");
}

}  // namespace
}  // namespace lacuna::token_automaton_test
