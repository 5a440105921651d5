#include "constraint/feasible.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "toy.h"

namespace lacuna::feasible_test {
namespace {

struct Case {
  std::string regex;
  ByteAutomaton bytes;
  TokenAutomaton automaton;
  std::vector<TokenId> canvas;
};

Case random_case(const Toy& toy, std::mt19937& random) {
  const std::string regex = random_regex(random, 4);
  ByteAutomaton bytes = compile_constraint(RegexConstraint{regex});
  TokenAutomaton automaton(bytes, toy.vocabulary());
  return {regex, std::move(bytes), std::move(automaton), random_canvas(toy, random, random() % 6)};
}

const Toy& toy() {
  static const Toy toy({"a", "b", "ab", "ba"});
  return toy;
}

TEST(Feasible, IsCompletableExactlyIfSomeFillingIsAccepted) {
  std::mt19937 random(1);
  int num_completable = 0;
  for (int round = 0; round < 400; ++round) {
    const Case each = random_case(toy(), random);
    bool expected = false;
    toy().for_each_filling(
        each.canvas, [&](const auto& tokens) { expected = expected || toy().accepts(each.bytes, tokens); });
    const ConstrainedCanvas canvas{.tokens = each.canvas, .mask = toy().mask};
    EXPECT_EQ(FeasibleSets(each.automaton, canvas).completable(), expected) << each.regex;
    EXPECT_EQ(is_completable(each.automaton, canvas), expected) << each.regex;
    num_completable += expected ? 1 : 0;
  }
  EXPECT_GT(num_completable, 50);
  EXPECT_LT(num_completable, 350);
}

TEST(Feasible, AllowsExactlyTheTokensOfAcceptedFillings) {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    const Case each = random_case(toy(), random);
    const FeasibleSets sets(each.automaton, {.tokens = each.canvas, .mask = toy().mask});
    for (size_t i = 0; i < each.canvas.size(); ++i) {
      std::vector<TokenId> opened = each.canvas;
      opened[i] = toy().mask;  // a known token may be replaced
      std::set<TokenId> expected, allowed;
      toy().for_each_filling(opened, [&](const auto& tokens) {
        if (toy().accepts(each.bytes, tokens)) expected.insert(tokens[i]);
      });
      const ClassSet classes = sets.allowed(i);
      for (TokenId token = 0; token < toy().mask; ++token) {
        if (classes.contains(each.automaton.class_of(token))) allowed.insert(token);
        EXPECT_EQ(sets.allows(i, token), expected.contains(token)) << each.regex;
      }
      EXPECT_EQ(allowed, expected) << each.regex << " at " << i;
      EXPECT_FALSE(sets.allows(i, toy().mask));
      EXPECT_FALSE(sets.allows(i, -1));
      EXPECT_EQ(sets.forced(i), expected.size() == 1 ? std::optional(*expected.begin()) : std::nullopt)
          << each.regex;
    }
  }
}

TEST(Feasible, LetsNoOpenPositionEndATextThatFillsItsCanvas) {
  std::mt19937 random(9);
  int num_completable = 0;
  for (int round = 0; round < 300; ++round) {
    Case each = random_case(toy(), random);
    const auto is_possible = [&](const std::vector<TokenId>& tokens) {
      for (size_t i = 0; i < tokens.size(); ++i) {
        if (each.canvas[i] == toy().mask && tokens[i] == toy().end) return false;
      }
      const auto end = std::find(tokens.begin(), tokens.end(), toy().end);
      return std::count(end, tokens.end(), toy().end) == tokens.end() - end &&
             toy().accepts(each.bytes, tokens);
    };
    bool expected = false;
    std::vector<std::set<TokenId>> allowed(each.canvas.size());
    toy().for_each_filling(each.canvas, [&](const auto& tokens) {
      if (!is_possible(tokens)) return;
      expected = true;
      for (size_t i = 0; i < tokens.size(); ++i) allowed[i].insert(tokens[i]);
    });
    // A known token after an end token may be anything; here, too, an end token.
    const auto first_end = std::find(each.canvas.begin(), each.canvas.end(), toy().end);
    if (std::count(first_end, each.canvas.end(), toy().end) != each.canvas.end() - first_end) continue;
    const ConstrainedCanvas canvas{.tokens = each.canvas, .mask = toy().mask, .only_text = true};
    FeasibleSets sets(each.automaton, canvas);
    EXPECT_EQ(sets.completable(), expected) << each.regex;
    EXPECT_EQ(is_completable(each.automaton, canvas), expected) << each.regex;
    for (size_t i = 0; expected && i < each.canvas.size(); ++i) {
      for (TokenId token = 0; each.canvas[i] == toy().mask && token < toy().mask; ++token)
        EXPECT_EQ(sets.allows(i, token), allowed[i].contains(token)) << each.regex << " at " << i;
    }
    num_completable += expected ? 1 : 0;
  }
  EXPECT_GT(num_completable, 20);
}

TEST(Feasible, LeavesTheTokensAfterABlockOpen) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const Case each = random_case(toy(), random);
    const size_t after = random() % 3;
    std::vector<TokenId> longer = each.canvas;
    longer.resize(longer.size() + after, toy().mask);
    const FeasibleSets block(
        each.automaton,
        {.tokens = each.canvas, .mask = toy().mask, .tokens_after = static_cast<int64_t>(after)});
    const FeasibleSets whole(each.automaton, {.tokens = longer, .mask = toy().mask});
    EXPECT_EQ(block.completable(), whole.completable()) << each.regex;
    for (size_t i = 0; i < each.canvas.size(); ++i)
      EXPECT_EQ(block.allowed(i), whole.allowed(i)) << each.regex;
  }
}

TEST(Feasible, BeginsAtGivenStates) {
  std::mt19937 random(4);
  for (int round = 0; round < 200; ++round) {
    Case each = random_case(toy(), random);
    each.canvas.insert(each.canvas.begin(), toy().mask);
    const FeasibleSets whole(each.automaton, {.tokens = each.canvas, .mask = toy().mask});
    const std::vector<TokenId> rest(each.canvas.begin() + 1, each.canvas.end());
    const FeasibleSets later(
        each.automaton, {.tokens = rest, .mask = toy().mask, .tokens_after = 0, .start = &whole.forward(1)});
    EXPECT_EQ(later.completable(), whole.completable()) << each.regex;
    for (size_t i = 0; i < rest.size(); ++i) EXPECT_EQ(later.allowed(i), whole.allowed(i + 1)) << each.regex;
  }
}

TEST(Feasible, UpdatesAsIfMadeAnew) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    Case each = random_case(toy(), random);
    each.canvas.resize(5, toy().mask);
    FeasibleSets sets(each.automaton, {.tokens = each.canvas, .mask = toy().mask});
    for (int change = 0; change < 6; ++change) {
      const size_t i = random() % each.canvas.size();
      each.canvas[i] = static_cast<TokenId>(random() % static_cast<unsigned>(toy().mask + 1));
      sets.set(i, each.canvas[i] == toy().mask ? -1 : each.canvas[i]);
      const FeasibleSets anew(each.automaton, {.tokens = each.canvas, .mask = toy().mask});
      for (size_t k = 0; k <= each.canvas.size(); ++k) {
        ASSERT_EQ(sets.forward(k), anew.forward(k)) << each.regex;
        ASSERT_EQ(sets.backward(k), anew.backward(k)) << each.regex;
      }
    }
  }
}

TEST(Feasible, ForcesAPositionThatCanGetOneTokenOnly) {
  const Toy words({"x", "yes", "no", "y", "es"});
  const TokenAutomaton automaton = words.automaton("x(yes|no)x");
  std::vector<TokenId> canvas(4, words.mask);
  FeasibleSets sets(automaton, {.tokens = canvas, .mask = words.mask});
  // Four positions: "x", "y", "es", "x", or "x", "yes" or "no", "x", end.
  EXPECT_EQ(sets.forced(0), TokenId{0});
  EXPECT_EQ(sets.forced(1), std::nullopt);
  EXPECT_EQ(sets.forced(2), std::nullopt);
  sets.set(0, 0);
  sets.set(1, 3);
  EXPECT_EQ(sets.forced(2), TokenId{4});
  EXPECT_EQ(sets.forced(3), TokenId{0});
  EXPECT_TRUE(sets.completable());
}

TEST(Feasible, AnEmptyCanvasIsCompletableIfTheEmptyTextIs) {
  EXPECT_TRUE(FeasibleSets(toy().automaton("a*"), {}).completable());
  EXPECT_FALSE(FeasibleSets(toy().automaton("a"), {}).completable());
  EXPECT_TRUE(
      FeasibleSets(toy().automaton("a"), {.tokens = {}, .mask = -1, .tokens_after = 1}).completable());
}

}  // namespace
}  // namespace lacuna::feasible_test
