#include "constraint/hole_lengths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "toy.h"

namespace lacuna::hole_lengths_test {
namespace {

/// A canvas of random tokens and up to two holes.
struct Case {
  std::vector<TokenId> canvas;
  std::vector<StretchableHole> holes;
};

Case random_case(const Toy& toy, std::mt19937& random) {
  Case each;
  for (size_t part = 0; part < 4; ++part) {
    if (each.holes.size() < 2 && random() % 2 == 0) {
      const size_t begin = each.canvas.size();
      const size_t length = 1 + random() % 2;
      each.canvas.insert(each.canvas.end(), length, toy.mask);
      each.holes.push_back({begin, begin + length, length + random() % 3});
    } else {
      each.canvas.push_back(static_cast<TokenId>(random() % static_cast<unsigned>(toy.end)));
    }
  }
  return each;
}

std::vector<TokenId> stretched(const Case& each, const std::vector<size_t>& lengths, TokenId mask) {
  std::vector<TokenId> canvas = each.canvas;
  for (size_t i = each.holes.size(); i-- > 0;) {
    const size_t more = lengths[i] - (each.holes[i].end - each.holes[i].begin);
    canvas.insert(canvas.begin() + static_cast<std::ptrdiff_t>(each.holes[i].end), more, mask);
  }
  return canvas;
}

/// Calls `visit(lengths)` for every combination of the holes' lengths.
template <typename Visit>
void for_each_lengths(const std::vector<StretchableHole>& holes, std::vector<size_t> begun, Visit visit) {
  if (begun.size() == holes.size()) {
    visit(begun);
    return;
  }
  const StretchableHole& hole = holes[begun.size()];
  begun.push_back(0);
  for (begun.back() = hole.end - hole.begin; begun.back() <= hole.most; ++begun.back())
    for_each_lengths(holes, begun, visit);
}

TEST(HoleLengths, AreTheFewestPositionsWithWhichSomeFillingIsAccepted) {
  const Toy toy({"a", "b", "ab", "ba"});
  std::mt19937 random(5);
  int num_stretched = 0, num_impossible = 0;
  for (int round = 0; round < 1500; ++round) {
    const std::string regex = random_regex(random, 4);
    const ByteAutomaton bytes = compile_constraint(RegexConstraint{regex});
    const TokenAutomaton automaton(bytes, toy.vocabulary());
    const Case each = random_case(toy, random);
    // The least sum; of several, the smallest last hole, then the one before it.
    const auto key = [](const std::vector<size_t>& lengths) {
      std::vector<size_t> parts = {std::accumulate(lengths.begin(), lengths.end(), size_t{0})};
      parts.insert(parts.end(), lengths.rbegin(), lengths.rend());
      return parts;
    };
    std::optional<std::vector<size_t>> expected;
    for_each_lengths(each.holes, {}, [&](const std::vector<size_t>& lengths) {
      const std::vector<TokenId> canvas = stretched(each, lengths, toy.mask);
      toy.for_each_filling(canvas, [&](const auto& tokens) {
        const bool has_end = std::find(tokens.begin(), tokens.end(), toy.end) != tokens.end();
        if (has_end || !toy.accepts(bytes, tokens)) return;
        if (!expected || key(lengths) < key(*expected)) expected = lengths;
      });
    });
    const ConstrainedCanvas canvas{.tokens = each.canvas, .mask = toy.mask, .only_text = true};
    const std::optional<std::vector<size_t>> found = fitting_lengths(automaton, canvas, each.holes);
    ASSERT_EQ(found.has_value(), expected.has_value()) << regex;
    if (!found) {
      ++num_impossible;
      continue;
    }
    EXPECT_EQ(*found, *expected) << regex;
    const std::vector<TokenId> fitting = stretched(each, *found, toy.mask);
    EXPECT_TRUE(is_completable(automaton, {.tokens = fitting, .mask = toy.mask, .only_text = true})) << regex;
    num_stretched += fitting.size() > each.canvas.size() ? 1 : 0;
  }
  EXPECT_GT(num_stretched, 5);
  EXPECT_GT(num_impossible, 50);
}

}  // namespace
}  // namespace lacuna::hole_lengths_test
