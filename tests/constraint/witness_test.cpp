#include "constraint/witness.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "toy.h"

namespace lacuna::witness_test {
namespace {

const Toy& toy() {
  static const Toy toy({"a", "b", "ab", "ba"});
  return toy;
}

/// Log-probabilities of the tokens of every position, and what they say about classes.
struct Rows {
  Rows(const TokenAutomaton& automaton, std::vector<std::vector<double>> of_tokens)
      : logprobs(std::move(of_tokens)) {
    const auto num_classes = static_cast<size_t>(automaton.num_classes());
    token.resize(logprobs.size());
    best.resize(logprobs.size());
    lse.resize(logprobs.size());
    for (size_t i = 0; i < logprobs.size(); ++i) {
      if (logprobs[i].empty()) {
        scores.push_back({});
        continue;
      }
      token[i].assign(num_classes, -1);
      best[i].assign(num_classes, -std::numeric_limits<float>::infinity());
      std::vector<double> sum(num_classes, 0);
      for (size_t t = 0; t < logprobs[i].size(); ++t) {
        const ClassId c = automaton.class_of(static_cast<TokenId>(t));
        if (c == kNoClass) continue;
        sum[c] += std::exp(logprobs[i][t]);
        if (token[i][c] >= 0 && logprobs[i][t] <= static_cast<double>(best[i][c])) continue;
        token[i][c] = static_cast<TokenId>(t);
        best[i][c] = static_cast<float>(logprobs[i][t]);
      }
      for (const double s : sum) lse[i].push_back(static_cast<float>(std::log(s)));
      scores.push_back({.token = token[i], .logprob = best[i], .lse = lse[i], .sampling_lse = {}});
    }
  }

  std::vector<std::vector<double>> logprobs;  // [positions, tokens]; empty: no scores
  std::vector<std::vector<TokenId>> token;
  std::vector<std::vector<float>> best, lse;
  std::vector<ClassScores> scores;
};

/// Normalised log-probabilities with few digits, so that sums of them are exact; `levels` small: ties are
/// frequent.
std::vector<std::vector<double>> random_logprobs(std::mt19937& random, size_t length, unsigned levels) {
  std::vector<std::vector<double>> rows(length);
  for (auto& row : rows) {
    for (TokenId token = 0; token <= toy().mask; ++token)
      row.push_back(-static_cast<double>(random() % levels) / 8);
  }
  return rows;
}

TEST(BestWitness, IsTheBestOfAllAcceptedAnswersWithTheLowestTokens) {
  std::mt19937 random(1);
  int num_checked = 0;
  for (int round = 0; round < 400; ++round) {
    const std::string regex = random_regex(random, 4);
    const ByteAutomaton bytes = compile_constraint(RegexConstraint{regex});
    const TokenAutomaton automaton(bytes, toy().vocabulary());
    const std::vector<TokenId> canvas = random_canvas(toy(), random, 1 + random() % 5);
    const FeasibleSets sets(automaton, {.tokens = canvas, .mask = toy().mask});
    if (!sets.completable()) continue;
    auto logprobs = random_logprobs(random, canvas.size(), round % 2 == 0 ? 3 : 1000);
    if (round % 3 == 0) logprobs[random() % canvas.size()].clear();  // a wildcard
    const Rows rows(automaton, logprobs);

    double best_score = -1e9;
    std::vector<TokenId> best;
    toy().for_each_filling(canvas, [&](const std::vector<TokenId>& tokens) {
      if (!toy().accepts(bytes, tokens)) return;
      double score = 0;
      for (size_t i = 0; i < tokens.size(); ++i) {
        if (canvas[i] == toy().mask && !logprobs[i].empty())
          score += logprobs[i][static_cast<size_t>(tokens[i])];
      }
      // Fillings come in ascending order, so the first of several best ones has the lowest tokens.
      if (score > best_score) {
        best_score = score;
        best = tokens;
      }
    });
    const Witness witness = best_witness(sets, rows.scores);
    EXPECT_EQ(witness.score, best_score) << regex;
    EXPECT_EQ(witness.tokens, best) << regex;
    ++num_checked;
  }
  EXPECT_GT(num_checked, 100);
}

TEST(BestWitness, GivesProbabilitiesWithinWhatIsAllowed) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    const TokenAutomaton automaton = toy().automaton(random_regex(random, 4));
    const std::vector<TokenId> canvas = random_canvas(toy(), random, 4);
    const FeasibleSets sets(automaton, {.tokens = canvas, .mask = toy().mask});
    if (!sets.completable()) continue;
    auto logprobs = random_logprobs(random, canvas.size(), 1000);
    logprobs[1].clear();
    const Rows rows(automaton, logprobs);
    const Witness witness = best_witness(sets, rows.scores);
    for (size_t i = 0; i < canvas.size(); ++i) {
      double allowed = 0;
      int num_allowed = 0;
      for (TokenId token = 0; token < toy().mask; ++token) {
        if (!sets.allows(i, token)) continue;
        ++num_allowed;
        if (!logprobs[i].empty()) allowed += std::exp(logprobs[i][static_cast<size_t>(token)]);
      }
      if (canvas[i] != toy().mask) {
        EXPECT_EQ(witness.probability[i], 1);
      } else if (logprobs[i].empty()) {
        EXPECT_EQ(witness.probability[i], 0);
      } else if (num_allowed == 1) {
        EXPECT_EQ(witness.probability[i], 1);
      } else {
        const double p = std::exp(logprobs[i][static_cast<size_t>(witness.tokens[i])]);
        // Rows are floats of at most 125: half a unit in the last place is 2^-18 for the token and for the
        // sum.
        EXPECT_NEAR(witness.probability[i], p / allowed, p / allowed * 0x1p-17);
      }
    }
  }
}

TEST(BestWitness, UsesImpossibleTokensOnlyWhereNothingElseIsAllowed) {
  const TokenAutomaton automaton = toy().automaton("a(a|b)");
  const std::vector<TokenId> open(2, -1);
  const FeasibleSets sets(automaton, {.tokens = open});
  const double never = -std::numeric_limits<double>::infinity(), nan = std::nan("");
  const Rows rows(automaton, {{never, 0, never, never, 0, 0}, {nan, -5, 0, 0, never, 0}});
  const Witness witness = best_witness(sets, rows.scores);
  EXPECT_EQ(witness.tokens,
            (std::vector<TokenId>{0, 1}));  // "aa" and "ab" with an end token are twice as bad
  EXPECT_TRUE(std::isfinite(witness.score));
}

/// Frequencies of sampled answers against the exact distribution, by Pearson's chi-square.
void expect_distribution(const std::map<std::vector<TokenId>, double>& exact, const FeasibleSets& sets,
                         const std::vector<ClassScores>& scores, const std::string& what) {
  constexpr int kSamples = 20'000;
  double total = 0;
  for (const auto& [tokens, weight] : exact) total += weight;
  std::map<std::vector<TokenId>, int> counts;
  for (int n = 0; n < kSamples; ++n) ++counts[sample_witness(sets, scores, RngStream(7, n)).tokens];
  double chi_square = 0, rest_expected = 0;
  int rest_count = 0, degrees = -1;
  for (const auto& [tokens, weight] : exact) {
    const double expected = kSamples * weight / total;
    const int count = counts[tokens];
    counts.erase(tokens);
    if (expected < 5) {
      rest_expected += expected;
      rest_count += count;
      continue;
    }
    chi_square += (count - expected) * (count - expected) / expected;
    ++degrees;
  }
  EXPECT_TRUE(counts.empty()) << what << ": sampled an answer that is not accepted";
  if (rest_expected >= 5) {
    chi_square += (rest_count - rest_expected) * (rest_count - rest_expected) / rest_expected;
    ++degrees;
  }
  // Wilson and Hilferty's approximation of the quantile at 1 - 1e-6 (4.75 standard deviations).
  if (degrees < 1) return;
  const double a = 2.0 / (9.0 * degrees);
  EXPECT_LT(chi_square, degrees * std::pow(1 - a + 4.75 * std::sqrt(a), 3))
      << what << ", " << degrees << " degrees";
}

TEST(SampleWitness, FollowsTheProductOfTheRowsRestrictedToAcceptedAnswers) {
  std::mt19937 random(3);
  int num_checked = 0;
  for (int round = 0; round < 60; ++round) {
    const std::string regex = random_regex(random, 5);
    const ByteAutomaton bytes = compile_constraint(RegexConstraint{regex});
    const TokenAutomaton automaton(bytes, toy().vocabulary());
    const std::vector<TokenId> canvas = random_canvas(toy(), random, 2 + random() % 3);
    const FeasibleSets sets(automaton, {.tokens = canvas, .mask = toy().mask});
    if (!sets.completable()) continue;
    Rows rows(automaton, random_logprobs(random, canvas.size(), 16));
    // The caller samples within a class. Here: a fixed token for each, so that its class is what is sampled.
    std::map<std::vector<TokenId>, double> exact;
    toy().for_each_filling(canvas, [&](std::vector<TokenId> tokens) {
      if (!toy().accepts(bytes, tokens)) return;
      double weight = 1;
      for (size_t i = 0; i < tokens.size(); ++i) {
        if (canvas[i] != toy().mask) continue;
        weight *= std::exp(rows.logprobs[i][static_cast<size_t>(tokens[i])]);
        tokens[i] = rows.token[i][automaton.class_of(tokens[i])];
      }
      exact[tokens] += weight;
    });
    expect_distribution(exact, sets, rows.scores, regex);
    ++num_checked;
  }
  EXPECT_GT(num_checked, 20);
}

TEST(SampleWitness, WeighsAWildcardByStatesAndNotByTokens) {
  // A wildcard leads to one of two states: after "a" (one token) or after "b", "c", "d" (three tokens).
  const Toy letters({"a", "b", "c", "d", "x", "y"});
  const TokenAutomaton automaton = letters.automaton("(a|b|c|d)x|[bcd]y|ay");
  // Both states are one: all letters are one class. Make them differ.
  const TokenAutomaton differ = letters.automaton("a[xy]x|[bcd][xy]y");
  const std::vector<TokenId> canvas{-1, -1, -1};
  const FeasibleSets sets(differ, {.tokens = canvas});
  std::vector<std::vector<double>> logprobs(3);
  logprobs[2].assign(8, std::log(0.125));
  const Rows rows(differ, logprobs);
  int num_a = 0;
  for (int n = 0; n < 2000; ++n) {
    const Witness witness = sample_witness(sets, rows.scores, RngStream(1, n));
    num_a += witness.tokens[0] == 0 ? 1 : 0;
    EXPECT_TRUE(witness.tokens[0] == 0 || witness.tokens[0] == 1);  // the lowest token that leads there
    EXPECT_EQ(witness.tokens[1], 4);
  }
  EXPECT_NEAR(num_a, 1000, 5 * std::sqrt(2000 * 0.25));
  EXPECT_EQ(automaton.successors(TokenAutomaton::start()).size(), 1U);
}

TEST(SampleWitness, SamplesWithOtherWeightsThanItReports) {
  const Toy letters({"a", "b"});
  const TokenAutomaton automaton = letters.automaton("a|b");
  // "a" and "b" lead to one state and are one class, so make two: "a" and "bb".
  const Toy two({"a", "b"});
  const TokenAutomaton differ = two.automaton("a|b[ab]");
  const std::vector<TokenId> canvas{-1, -1};
  const FeasibleSets sets(differ, {.tokens = canvas});
  const Rows rows(differ, {std::vector<double>(4, std::log(0.25)), std::vector<double>(4, std::log(0.25))});
  std::vector<ClassScores> scores = rows.scores;
  std::vector<float> cold(static_cast<size_t>(differ.num_classes()), -50);
  cold[differ.class_of(1)] = 0;
  scores[0].sampling_lse = cold;
  for (int n = 0; n < 100; ++n) {
    const Witness witness = sample_witness(sets, scores, RngStream(2, n));
    EXPECT_EQ(witness.tokens[0], 1);
    EXPECT_NEAR(witness.probability[0], 0.5, 1e-6);
  }
  EXPECT_EQ(automaton.class_of(0), automaton.class_of(1));
}

TEST(SampleWitness, DependsOnItsNumbersAlone) {
  const TokenAutomaton automaton = toy().automaton("[ab]{0,6}");
  const std::vector<TokenId> canvas(5, -1);
  const FeasibleSets sets(automaton, {.tokens = canvas});
  std::mt19937 random(5);
  const Rows rows(automaton, random_logprobs(random, canvas.size(), 16));
  const Witness one = sample_witness(sets, rows.scores, RngStream(3, 4)),
                again = sample_witness(sets, rows.scores, RngStream(3, 4));
  EXPECT_EQ(one.tokens, again.tokens);
  EXPECT_EQ(one.probability, again.probability);
}

TEST(Witness, LeavesTheRestPossibleWhateverPartIsCommitted) {
  std::mt19937 random(6);
  for (int round = 0; round < 200; ++round) {
    const TokenAutomaton automaton = toy().automaton(random_regex(random, 5));
    const std::vector<TokenId> canvas(6, toy().mask);
    FeasibleSets sets(automaton, {.tokens = canvas, .mask = toy().mask});
    if (!sets.completable()) continue;
    while (true) {
      std::vector<size_t> open;
      for (size_t i = 0; i < canvas.size(); ++i) {
        if (sets.is_open(i)) open.push_back(i);
      }
      if (open.empty()) break;
      const Rows rows(automaton, random_logprobs(random, canvas.size(), 1000));
      const Witness witness = round % 2 == 0 ? best_witness(sets, rows.scores)
                                             : sample_witness(sets, rows.scores, RngStream(random()));
      for (const size_t i : open) {
        if (random() % 3 == 0 || i == open.front()) sets.set(i, witness.tokens[i]);
      }
      ASSERT_TRUE(sets.completable());
    }
  }
}

}  // namespace
}  // namespace lacuna::witness_test
