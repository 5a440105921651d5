#include "decode/unmask.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

namespace lacuna::unmask_test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<int32_t> counts(const CountRule& rule, int32_t masked, int32_t steps) {
  std::vector<int32_t> result;
  int32_t left = masked;
  for (int32_t step = 0; step < steps; ++step) {
    result.push_back(fixed_count(rule, {step, steps, masked, left}));
    left -= result.back();
  }
  return result;
}

/// Candidates at positions 0, 1, ... with these confidences.
std::vector<Commit> candidates(const std::vector<double>& confidences) {
  std::vector<Commit> result;
  for (size_t i = 0; i < confidences.size(); ++i) {
    result.push_back({static_cast<int32_t>(i), static_cast<TokenId>(100 + i), confidences[i]});
  }
  return result;
}

std::vector<int32_t> chosen(const UnmaskPolicy& policy, const std::vector<Commit>& from,
                            const BlockProgress& progress, const RngStream& noise = RngStream(0)) {
  std::vector<int32_t> positions;
  for (const Commit& commit : choose(policy, from, progress, noise)) positions.push_back(commit.position);
  EXPECT_TRUE(std::is_sorted(positions.begin(), positions.end()));
  return positions;
}

std::vector<int32_t> chosen(const CountRule& rule, const std::vector<double>& confidences) {
  const auto masked = static_cast<int32_t>(confidences.size());
  return chosen({rule}, candidates(confidences), {0, 1, masked, masked});
}

/// Progress at which EvenSplit takes `count` positions.
BlockProgress taking(int32_t count, int32_t masked) {
  return {0, 1000, count * 1000, masked};
}

TEST(EvenSplit, GivesTheFirstStepsOneMore) {
  EXPECT_THAT(counts(EvenSplit{}, 10, 4), ElementsAre(3, 3, 2, 2));
  EXPECT_THAT(counts(EvenSplit{}, 8, 4), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(counts(EvenSplit{}, 3, 5), ElementsAre(1, 1, 1, 0, 0));
  EXPECT_THAT(counts(EvenSplit{}, 0, 2), ElementsAre(0, 0));
}

TEST(TimeSchedule, TakesThePublishedNumbers) {
  const auto repeat = [](std::initializer_list<int32_t> first, int times, int32_t value,
                         std::initializer_list<int32_t> last) {
    std::vector<int32_t> all(first);
    all.insert(all.end(), static_cast<size_t>(times), value);
    all.insert(all.end(), last);
    return all;
  };
  EXPECT_EQ(counts(TimeSchedule{}, 8, 8), repeat({0}, 6, 1, {2}));
  EXPECT_EQ(counts(TimeSchedule{}, 64, 64), repeat({0}, 62, 1, {2}));
  EXPECT_EQ(counts(TimeSchedule{}, 64, 16), repeat({3}, 14, 4, {5}));
  EXPECT_EQ(counts(TimeSchedule{}, 256, 64), repeat({3}, 62, 4, {5}));
  EXPECT_EQ(counts(TimeSchedule{}, 100, 16), repeat({}, 13, 6, {7, 7, 8}));
}

TEST(TimeSchedule, CountsTimesOfTheSecondHalfBackFromTheEnd) {
  EXPECT_EQ(counts(TimeSchedule{}, 994, 9).at(6), 110);  // counted from 1 it would be 111, by the last bit
}

TEST(TimeSchedule, TakesEverythingInTheLastStep) {
  EXPECT_EQ(unmask_probability(1e-3F, 7, 8), 1.0F);
  for (const int32_t steps : {1, 2, 3, 7, 100}) {
    const std::vector<int32_t> all = counts(TimeSchedule{0.05F}, 57, steps);
    EXPECT_EQ(std::accumulate(all.begin(), all.end(), 0), 57) << steps;
  }
}

TEST(TimeSchedule, ProbabilityIsTheShareOfTheTimeThatIsLeft) {
  for (int32_t step = 0; step < 9; ++step) {
    const double t = 1 + (0.01 - 1) * step / 10.0;
    const double s = 1 + (0.01 - 1) * (step + 1) / 10.0;
    EXPECT_NEAR(unmask_probability(0.01F, step, 10), 1 - s / t, 1e-6);
  }
}

TEST(LinearSchedule, LeavesAShareMaskedThatFallsEvenly) {
  EXPECT_THAT(counts(LinearSchedule{}, 8, 8), Each(1));
  EXPECT_THAT(counts(LinearSchedule{}, 10, 4), ElementsAre(3, 2, 3, 2)) << "7, 5, 2 and 0 remain";
  EXPECT_THAT(counts(LinearSchedule{}, 3, 5), ElementsAre(1, 1, 0, 1, 0)) << "2, 1, 1, 0 and 0 remain";
  EXPECT_THAT(counts(LinearSchedule{}, 7, 1), ElementsAre(7));
  EXPECT_THAT(counts(LinearSchedule{}, 0, 3), Each(0));
}

TEST(LinearSchedule, RoundsShareAndProductToF32) {
  const std::vector<int32_t> all = counts(LinearSchedule{}, 22, 22);
  EXPECT_EQ(all.at(8), 2) << "22 (13 / 22) is less than 13 in f32";
  EXPECT_EQ(all.at(9), 0);
  EXPECT_EQ(std::accumulate(all.begin(), all.end(), 0), 22);
}

TEST(LinearSchedule, TakesNothingWhereFewerAreLeftThanMayRemain) {
  EXPECT_EQ(fixed_count(LinearSchedule{}, {0, 4, 10, 6}), 0);
}

TEST(Remasking, KeepsAShareThatGrowsToAll) {
  const auto kept = [](int32_t open, int32_t steps) {
    std::vector<int32_t> counts;
    for (int32_t step = 0; step < steps; ++step)
      counts.push_back(fixed_count(Remasking{}, {.step = step, .num_steps = steps, .masked_now = open}));
    return counts;
  };
  EXPECT_THAT(kept(4, 4), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(kept(10, 4), ElementsAre(3, 5, 8, 10));
  EXPECT_THAT(kept(3, 7), ElementsAre(1, 1, 2, 2, 3, 3, 3));
  EXPECT_EQ(kept(5, 5).at(3), 4);  // 5 * (1 - 4 / 5) is 1 in f32, and below 1 in f64
}

TEST(Choose, TakesTheMostConfidentAndOfEqualsTheLowestPosition) {
  EXPECT_THAT(chosen({EvenSplit{}}, candidates({0.1, 0.9, 0.5, 0.9, 0.5}), taking(3, 5)),
              ElementsAre(1, 2, 3));
  EXPECT_THAT(chosen({EvenSplit{}}, candidates({0.5, 0.5, 0.5, 0.5}), taking(2, 4)), ElementsAre(0, 1));
  EXPECT_THAT(chosen({EvenSplit{}}, candidates({-3, -1, -2}), taking(1, 3)), ElementsAre(1));
}

TEST(Choose, KeepsTokensAndConfidences) {
  EXPECT_THAT(choose({EvenSplit{}}, candidates({0.1, 0.9}), taking(1, 2), RngStream(0)),
              ElementsAre(Commit{1, 101, 0.9}));
}

TEST(Choose, TakesNoMoreThanThereAre) {
  EXPECT_THAT(chosen({EvenSplit{}}, candidates({0.1, 0.9}), taking(5, 2)), ElementsAre(0, 1));
  EXPECT_THAT(chosen({EvenSplit{}}, {}, taking(5, 0)), IsEmpty());
}

TEST(Threshold, TakesAllThatReachItAndAlwaysTheMostConfident) {
  EXPECT_THAT(chosen(Threshold{0.9}, {0.95, 0.2, 0.9, 0.89}), ElementsAre(0, 2));
  EXPECT_THAT(chosen(Threshold{0.9}, {0.1, 0.3, 0.2}), ElementsAre(1));
  EXPECT_THAT(chosen(Threshold{0.9}, {0.3, 0.3, 0.2}), ElementsAre(0));
  EXPECT_THAT(chosen(Threshold{0.9}, {}), IsEmpty());
}

TEST(Factor, TakesTheLongestPrefixAboveItsBounds) {
  // f = 1: the second needs 1 - 1/3, the third 1 - 1/4, the fourth 1 - 1/5.
  EXPECT_THAT(chosen(Factor{1}, {0.99, 0.9, 0.85, 0.85}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(chosen(Factor{1}, {0.99, 0.9, 0.85, 0.79}), ElementsAre(0, 1, 2));
  EXPECT_THAT(chosen(Factor{1}, {0.9, 0.74, 0.74, 0.85}), ElementsAre(0, 3));  // 0.74 < 0.75 ends the prefix
  EXPECT_THAT(chosen(Factor{1}, {0.1, 0.6}), ElementsAre(1));                  // the last may fail too
  EXPECT_THAT(chosen(Factor{2}, {0.4, 0.3, 0.55}), ElementsAre(0, 2));         // 1 - 2/3, then 1 - 2/4
}

TEST(AncestralSampling, TakesEveryPositionWithTheProbabilityOfTheStep) {
  const UnmaskPolicy policy{AncestralSampling{1e-3F}};
  const std::vector<Commit> all = candidates(std::vector<double>(4000));
  for (const int32_t step : {0, 3, 6}) {
    const double p = unmask_probability(1e-3F, step, 8);
    const double taken =
        static_cast<double>(chosen(policy, all, {step, 8, 4000, 4000}, RngStream(3, step)).size());
    EXPECT_NEAR(taken, 4000 * p, 3.3 * std::sqrt(4000 * p * (1 - p))) << step;
  }
  EXPECT_THAT(chosen(policy, all, {7, 8, 4000, 4000}), SizeIs(4000));
}

TEST(RandomOrder, IsAPermutationThatForgetsConfidence) {
  UnmaskPolicy policy{EvenSplit{}};
  policy.order = UnmaskOrder::kRandom;
  const std::vector<Commit> all = candidates({9, 0, 0, 0, 0, 0, 0, 0});
  std::vector<int> first(8);
  for (uint64_t i = 0; i < 8000; ++i) {
    EXPECT_THAT(chosen(policy, all, taking(8, 8), RngStream(1, i)), SizeIs(8));
    const std::vector<int32_t> one = chosen(policy, all, taking(1, 8), RngStream(1, i));
    ++first[static_cast<size_t>(one.at(0))];
    EXPECT_THAT(chosen(policy, all, taking(3, 8), RngStream(1, i)), testing::Contains(one[0]));
  }
  EXPECT_THAT(first, Each(testing::AllOf(testing::Gt(900), testing::Lt(1100))));  // 1000 +- 3.4 * 30
}

TEST(OrderTemperature, DrawsPositionsWithoutReplacement) {
  UnmaskPolicy policy{EvenSplit{}};
  policy.order_temperature = 0.5F;
  const std::vector<double> confidences = {0.2, 0.9, 0.5, 0.1};
  std::vector<double> weights;
  for (const double confidence : confidences) weights.push_back(std::exp(confidence / 0.5));
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::map<std::vector<int32_t>, double> expected;  // expected frequency of each unordered pair
  for (int32_t a = 0; a < 4; ++a) {
    for (int32_t b = 0; b < 4; ++b) {
      const double wa = weights[static_cast<size_t>(a)];
      if (a != b)
        expected[{std::min(a, b), std::max(a, b)}] += wa / sum * weights[static_cast<size_t>(b)] / (sum - wa);
    }
  }
  constexpr int kCount = 20'000;
  std::map<std::vector<int32_t>, int> observed;
  for (int i = 0; i < kCount; ++i) {
    ++observed[chosen(policy, candidates(confidences), taking(2, 4), RngStream(2, i))];
  }
  double chi_square = 0;
  for (const auto& [pair, probability] : expected) {
    const double difference = observed[pair] - probability * kCount;
    chi_square += difference * difference / (probability * kCount);
  }
  EXPECT_EQ(observed.size(), expected.size());
  EXPECT_LT(chi_square, 20.5);  // 5 degrees of freedom, once in a thousand
}

TEST(EntropyBudget, CountsAllEntropiesButTheLargest) {
  const std::vector<double> negative_entropies = {-0.5, -0.125, -0.25, -2, -1};
  EXPECT_THAT(chosen(EntropyBudget{0.375}, negative_entropies), ElementsAre(0, 1, 2)) << "0.125 + 0.25";
  EXPECT_THAT(chosen(EntropyBudget{0.37}, negative_entropies), ElementsAre(1, 2));
  EXPECT_THAT(chosen(EntropyBudget{0.1}, negative_entropies), ElementsAre(1)) << "always one";
  EXPECT_THAT(chosen(EntropyBudget{10}, negative_entropies), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(chosen(EntropyBudget{10}, {}), IsEmpty());
}

TEST(DecayingThreshold, FallsWithTheShareThatIsWritten) {
  const auto at_share = [](double masked_share) {
    return chosen({DecayingThreshold{0.75, 0.5}}, candidates({0.75, 0.5, 0.5625, 0.1}),
                  {0, 1, 4, 4, masked_share});
  };
  EXPECT_THAT(at_share(1), ElementsAre(0)) << "the threshold itself";
  EXPECT_THAT(at_share(0.5), ElementsAre(0, 2)) << "0.5625";
  EXPECT_THAT(at_share(0), ElementsAre(0, 1, 2)) << "0.375";
}

TEST(SlowFast, HasAThresholdForEachPhase) {
  const std::vector<Commit> from = candidates({0.75, 0.5, 0.9, 0.1});
  const auto count = [&](bool is_exploring) {
    const StepHistory history{.is_exploring = is_exploring};
    return choose({SlowFast{.tau = 0.75, .slow = 0.5}}, from, {}, RngStream(0), {}, history).size();
  };
  EXPECT_EQ(count(true), 3U) << "the bound itself";
  EXPECT_EQ(count(false), 2U);
  EXPECT_THAT(chosen(SlowFast{}, {0.5, 0.6}), ElementsAre(1)) << "always the best";
  EXPECT_THAT(chosen(SlidingBlock{0.75}, {0.75, 0.5, 0.9}), ElementsAre(0, 2));
  EXPECT_THAT(chosen(SlidingBlock{}, {0.5, 0.6}), ElementsAre(1));
  EXPECT_THAT(chosen(AdaptiveBlock{0.75}, {0.75, 0.5, 0.9}), ElementsAre(0, 2));
}

TEST(LocalLeap, RelaxesItsThresholdNearConfidentPositions) {
  const std::vector<double> confidences = {0.8, 0.2, 0.95, 0.7, 0.8, 0.8, 0.1, 0.8};
  EXPECT_THAT(chosen(LocalLeap{0.9, 0.75, 2}, confidences), ElementsAre(0, 2, 4));
  EXPECT_THAT(chosen(LocalLeap{0.9, 0.75, 3}, confidences), ElementsAre(0, 2, 4, 5));
  EXPECT_THAT(chosen(LocalLeap{0.9, 0.7, 1}, confidences), ElementsAre(2, 3)) << "the bound itself";
  EXPECT_THAT(chosen(LocalLeap{0.95, 0.75, 0}, confidences), ElementsAre(2)) << "an anchor reaches tau";
  EXPECT_THAT(chosen(LocalLeap{0.96, 0.1, 9}, confidences), ElementsAre(2)) << "no anchor: the best alone";
  EXPECT_THAT(chosen(LocalLeap{0.8, 0.9, 9}, confidences), ElementsAre(0, 2, 4, 5, 7)) << "tau suffices";
  EXPECT_THAT(chosen(LocalLeap{}, {}), IsEmpty());
  // Distances are those of positions, not of candidates.
  std::vector<Commit> apart = candidates({0.95, 0.8, 0.8});
  apart[1].position = 4;
  apart[2].position = 5;
  EXPECT_THAT(chosen({LocalLeap{}}, apart, {0, 1, 3, 3}), ElementsAre(0, 4));
}

TEST(Klass, TakesWhatIsStableAndConfidentOrElseTheMostConfident) {
  const std::vector<Commit> from = candidates({0.95, 0.9, 0.99, 0.92, 0.5});
  const auto taken = [&](const StepHistory& history) {
    std::vector<int32_t> positions;
    for (const Commit& each : choose({Klass{0.9}}, from, {0, 1, 5, 5}, RngStream(0), {}, history))
      positions.push_back(each.position);
    return positions;
  };
  EXPECT_THAT(taken({.is_stable = {true, true, false, true, true}}), ElementsAre(0, 3)) << "strictly above";
  EXPECT_THAT(taken({.is_stable = {false, true, false, false, true}}), ElementsAre(2));
  EXPECT_THAT(taken({}), ElementsAre(2));
  EXPECT_THAT(choose({Klass{}}, {}, {}, RngStream(0)), IsEmpty());
}

TEST(Wino, TakesAShareOfTheMasksAtMost) {
  const auto count = [](size_t masks, double confidence) {
    return chosen(Wino{0.6}, std::vector<double>(masks, confidence)).size();
  };
  EXPECT_EQ(count(4, 0.7), 4U);
  EXPECT_EQ(count(6, 0.7), 5U) << "at least 5";
  EXPECT_EQ(count(10, 0.7), 7U) << "70%";
  EXPECT_EQ(count(11, 0.7), 7U) << "rounded down";
  EXPECT_EQ(count(100, 0.7), 20U) << "at most 20";
  EXPECT_EQ(count(10, 0.6), 1U) << "strictly above";
  EXPECT_EQ(count(0, 0.7), 0U);
  EXPECT_THAT(chosen(Wino{0.6}, {0.7, 0.61, 0.6, 0.9, 0.1}), ElementsAre(0, 1, 3));
}

TEST(Saber, TakesWhatIsMoreConfidentThanTheMeanOfTheWritten) {
  const std::vector<Commit> from = candidates({0.5, 0.9, 0.8, 0.6, 0.7});
  const auto count = [&](int32_t least, double mean) {
    const StepHistory history{.written_confidence = mean};
    return choose({Saber{least}}, from, {0, 1, 5, 5}, RngStream(0), {}, history).size();
  };
  EXPECT_EQ(count(2, 1), 2U);
  EXPECT_EQ(count(2, 0.55), 4U);
  EXPECT_EQ(count(2, 0.6), 3U) << "strictly above";
  EXPECT_EQ(count(4, 0.85), 4U) << "at least so many";
  EXPECT_EQ(count(9, 0.85), 5U) << "as many as there are";
  EXPECT_THAT(chosen(Saber{2}, {0.5, 0.9, 0.8, 0.9}), ElementsAre(1, 3)) << "nothing has been written";
}

TEST(MultiBlock, TakesLittleEntropyAndAlwaysOneOfTheFirstBlock) {
  const auto chosen_of = [](const std::vector<double>& confidences, int32_t first_end, bool takes_best) {
    std::vector<Commit> candidates;
    for (size_t i = 0; i < confidences.size(); ++i)
      candidates.push_back({static_cast<int32_t>(i), 7, confidences[i]});
    std::vector<int32_t> positions;
    for (const Commit& each : choose({MultiBlock{.bound = 0.5}}, candidates, {}, RngStream(1, 1), {},
                                     {.first_end = first_end, .takes_best = takes_best}))
      positions.push_back(each.position);
    return positions;
  };
  EXPECT_THAT(chosen_of({-0.9, -0.5, -0.6, -0.1}, 2, true), ElementsAre(1, 3));
  EXPECT_THAT(chosen_of({-0.9, -0.8, -0.6, -0.1}, 2, true), ElementsAre(1, 3)) << "one of the first block";
  EXPECT_THAT(chosen_of({-0.9, -0.8, -0.7, -0.6}, 2, true), ElementsAre(1, 3)) << "and the best of all";
  EXPECT_THAT(chosen_of({-0.9, -0.8, -0.7, -0.6}, 2, false), ElementsAre(1)) << "but not for Dream";
  EXPECT_THAT(chosen_of({-0.7, -0.8, -0.9, -0.9}, 2, true), ElementsAre(0)) << "which is the same one";
  EXPECT_THAT(chosen_of({-0.8, -0.8}, 2, false), ElementsAre(0)) << "ties go to the lowest position";
  EXPECT_THAT(chosen_of({}, 2, true), IsEmpty());
}

TEST(UnmaskPolicy, KnowsWhatNeedsNoLogits) {
  UnmaskPolicy policy{EvenSplit{}};
  EXPECT_FALSE(policy.ignores_logits());
  policy.order = UnmaskOrder::kRandom;
  EXPECT_TRUE(policy.ignores_logits());
  EXPECT_TRUE(UnmaskPolicy{AncestralSampling{}}.ignores_logits());
  EXPECT_FALSE(UnmaskPolicy{Threshold{}}.ignores_logits());
  EXPECT_TRUE(UnmaskPolicy{Threshold{}}.traits().runs_until_done);
  EXPECT_TRUE(UnmaskPolicy{Factor{}}.traits().runs_until_done);
  EXPECT_FALSE(UnmaskPolicy{TimeSchedule{}}.traits().runs_until_done);
  for (const CountRule& rule :
       std::vector<CountRule>{LocalLeap{}, EntropyBudget{}, DecayingThreshold{}, Klass{}, Wino{}, Saber{},
                              TraceCredit{}, SlowFast{}, SlidingBlock{}, AdaptiveBlock{}, MultiBlock{}}) {
    EXPECT_TRUE(UnmaskPolicy{rule}.traits().runs_until_done);
    EXPECT_TRUE(UnmaskPolicy{rule}.traits().needs_whole_canvas);
    EXPECT_FALSE(UnmaskPolicy{rule}.ignores_logits());
  }
  EXPECT_FALSE(UnmaskPolicy{Prophet{}}.traits().runs_until_done);
  EXPECT_TRUE(UnmaskPolicy{Prophet{}}.traits().needs_whole_canvas);
}

TEST(SoftTokens, TakesTheFirstPositionsUpToADoubtAndAlwaysOne) {
  EXPECT_THAT(chosen(SoftTokens{0.5}, {0.5, 0.9, 0.4, 0.9}), ElementsAre(0, 1)) << "the bound itself";
  EXPECT_THAT(chosen(SoftTokens{0.95}, {0.5, 0.96}), ElementsAre(0)) << "the first, whatever the others";
  EXPECT_THAT(chosen(SoftTokens{0}, {0.1, 0.2}), ElementsAre(0, 1));
  EXPECT_THAT(chosen(SoftTokens{}, {}), IsEmpty());
  EXPECT_TRUE(UnmaskPolicy{SoftTokens{}}.traits().runs_until_done);
  EXPECT_TRUE(UnmaskPolicy{SoftTokens{}}.traits().needs_blocks);
}

TEST(Dynamic, TakesAllAboveItsThresholdAndAtLeastAsManyAsTheEvenSplit) {
  const std::vector<double> confidences = {0.5, 0.95, 0.9, 0.2, 0.9};
  const auto taken = [&](double tau, int32_t least) {
    return chosen({Dynamic{tau}}, candidates(confidences), taking(least, 5));
  };
  EXPECT_THAT(taken(0.6, 1), ElementsAre(1, 2, 4));
  EXPECT_THAT(taken(0.9, 1), ElementsAre(1)) << "strictly above";
  EXPECT_THAT(taken(0.9, 2), ElementsAre(1, 2)) << "ties go to the lowest position";
  EXPECT_THAT(taken(1, 1), ElementsAre(1));
  EXPECT_THAT(taken(0.6, 4), ElementsAre(0, 1, 2, 4));
}

TEST(EntropyBounded, TakesTheLongestRunWhoseEntropiesStayBelowTheBound) {
  const std::vector<double> negative_entropies = {-0.3, -0.05, -0.1, -2};
  EXPECT_THAT(chosen(EntropyBounded{0.16}, negative_entropies), ElementsAre(1, 2));
  EXPECT_THAT(chosen(EntropyBounded{0.14}, negative_entropies), ElementsAre(1));
  EXPECT_THAT(chosen(EntropyBounded{0.01}, negative_entropies), ElementsAre(1)) << "always one";
  EXPECT_THAT(chosen(EntropyBounded{0.5}, negative_entropies), ElementsAre(0, 1, 2));
  EXPECT_THAT(chosen(EntropyBounded{0.35}, {}), IsEmpty());
}

TEST(Unmask, FromLeftToRightLooksAtNoConfidence) {
  UnmaskPolicy policy;
  policy.order = UnmaskOrder::kLeftToRight;
  EXPECT_THAT(chosen(policy, candidates({0.1, 0.9, 0.5}), taking(2, 3)), ElementsAre(0, 1));
}

}  // namespace
}  // namespace lacuna::unmask_test
