#include "decode/unmask_memory.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace lacuna::unmask_memory_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr TokenId kMask = 2;

std::vector<Commit> candidates(const std::vector<std::pair<int32_t, double>>& confidences) {
  std::vector<Commit> result;
  for (const auto& [position, confidence] : confidences) result.push_back({position, 7, confidence});
  return result;
}

std::vector<Drift> drifts(const std::vector<double>& divergences) {
  std::vector<Drift> result;
  for (const double kl : divergences) result.push_back({kl, 0});
  return result;
}

TEST(StablePasses, CountsStablePassesOfTheBlock) {
  StablePasses calm(Klass{0.9, 0.01, 2}, 8);
  const std::vector<Commit> from = candidates({{3, 0.5}, {5, 0.5}});
  calm.start_block();
  EXPECT_THAT(calm.count(from, {}), ElementsAre(false, false)) << "the first pass has none before it";
  EXPECT_THAT(calm.count(from, drifts({0.001, 0.001})), ElementsAre(false, false));
  EXPECT_THAT(calm.count(from, drifts({0.001, 0.01})), ElementsAre(true, false)) << "strictly below";
  EXPECT_THAT(calm.count(from, drifts({0.001, 0})), ElementsAre(true, false)) << "it begins again";
  EXPECT_THAT(calm.count(from, drifts({1, 0})), ElementsAre(false, true));
  calm.start_block();
  EXPECT_THAT(calm.count(from, drifts({0, 0})), ElementsAre(false, false)) << "passes of the block count";
  EXPECT_THAT(calm.count(from, drifts({0, std::numeric_limits<double>::infinity()})),
              ElementsAre(true, false));
}

TEST(StablePasses, OfAHistoryOfOneNeedsOnePassBefore) {
  StablePasses calm(Klass{0.9, 0.01, 1}, 4);
  calm.start_block();
  EXPECT_THAT(calm.count(candidates({{0, 1}}), {}), ElementsAre(false));
  EXPECT_THAT(calm.count(candidates({{0, 1}}), drifts({0})), ElementsAre(true));
}

TEST(Verdicts, RevokeUnlikelyTokensButFewerThanWereCommitted) {
  const std::vector<int32_t> positions = {4, 5, 6, 7};
  const std::vector<double> probabilities = {0.5, 0.9, 0.2, 0.5};
  Verdicts verdicts(Wino{0.6, 0.9});
  verdicts.start_block();
  EXPECT_THAT(verdicts.revoked({}, {}, 4), IsEmpty());
  EXPECT_THAT(verdicts.revoked(positions, probabilities, 3), ElementsAre(6, 4, 7)) << "strictly below";
  EXPECT_THAT(verdicts.revoked(positions, probabilities, 2), ElementsAre(6, 4)) << "the step before took 3";
  EXPECT_THAT(verdicts.revoked(positions, probabilities, 2), ElementsAre(6)) << "and the next 2";
  EXPECT_THAT(verdicts.revoked(positions, probabilities, 1), IsEmpty()) << "one commit revokes nothing";
  EXPECT_THAT(verdicts.revoked(positions, probabilities, 9), IsEmpty()) << "the step before took 1";
  verdicts.start_block();
  EXPECT_THAT(verdicts.revoked(positions, probabilities, 2), ElementsAre(6, 4, 7));
}

TEST(ConfidenceTrace, RevokesWhatHasGrownLeast) {
  Canvas canvas({5}, 6, kMask, false);
  ConfidenceTrace trace(Saber{4}, canvas.length());
  trace.open(std::vector<int32_t>{1, 2, 3, 4}, true);
  EXPECT_EQ(trace.mean_written(), 1);
  const auto write = [&](const std::vector<Commit>& commits) {
    for (const Commit& commit : commits) canvas.commit(commit);
    trace.write(commits);
  };
  trace.see(candidates({{1, 0.9}, {2, 0.3}, {3, 0.5}, {4, 0.4}}));
  write(candidates({{1, 0.9}, {3, 0.5}, {4, 0.4}}));
  EXPECT_DOUBLE_EQ(trace.mean_written(), 0.6);
  EXPECT_THAT(trace.revoked(canvas, 3), ElementsAre(4, 3)) << "half of at least 4, from confidences of 0";
  // A token that is revoked counts until the position is written again.
  canvas.commit({4, kMask, 0});
  trace.see(candidates({{1, 0.8}, {2, 0.6}, {3, 0.5}, {4, 0.4}}));
  write(candidates({{2, 0.6}}));
  EXPECT_DOUBLE_EQ(trace.mean_written(), 0.6);
  EXPECT_THAT(trace.revoked(canvas, 1), ElementsAre(1, 3)) << "position 1 has lost confidence";
  write(candidates({{4, 0.8}}));
  EXPECT_DOUBLE_EQ(trace.mean_written(), 0.7);
}

TEST(ConfidenceTrace, RevokesAnEighthAndNeverAll) {
  Canvas canvas({}, 30, kMask, false);
  const auto count = [&](int32_t least, size_t committed) {
    ConfidenceTrace trace(Saber{least}, canvas.length());
    std::vector<Commit> all;
    std::vector<int32_t> positions;
    for (int32_t position = 0; position < 30; ++position) {
      all.push_back({position, 7, 0.5});
      positions.push_back(position);
      canvas.commit(all.back());
    }
    trace.open(positions, true);
    trace.see(all);
    return trace.revoked(canvas, committed).size();
  };
  EXPECT_EQ(count(1, 1), 0U);
  EXPECT_EQ(count(2, 2), 1U);
  EXPECT_EQ(count(2, 8), 1U);
  EXPECT_EQ(count(2, 9), 2U);
  EXPECT_EQ(count(2, 24), 3U);
  EXPECT_EQ(count(6, 6), 3U);
}

TEST(ConfidenceTrace, LeavesWhatALaterBlockSeesForTheFirstTime) {
  Canvas canvas({}, 4, kMask, false);
  ConfidenceTrace trace(Saber{2}, canvas.length());
  trace.open(std::vector<int32_t>{0, 1}, true);
  trace.see(candidates({{0, 0.5}, {1, 0.5}}));
  trace.open(std::vector<int32_t>{2, 3}, false);
  for (const int32_t position : {0, 1, 2}) canvas.commit({position, 7, 0.5});
  trace.see(candidates({{0, 0.9}, {1, 0.8}, {2, 0.1}, {3, 0.1}}));
  EXPECT_THAT(trace.revoked(canvas, 2), ElementsAre(1));
  trace.see(candidates({{0, 0.9}, {1, 0.8}, {2, 0.05}, {3, 0.1}}));
  EXPECT_THAT(trace.revoked(canvas, 2), ElementsAre(2)) << "seen before";
}

std::vector<RowStatistics> rows_listing(const std::vector<std::vector<double>>& probabilities) {
  std::vector<RowStatistics> rows;
  for (const auto& each : probabilities) {
    RowStatistics row;
    for (const double probability : each) row.listed_logprobs.push_back(std::log(probability));
    rows.push_back(row);
  }
  return rows;
}

TEST(CreditLedger, RaisesTokensThatWerePredictedBefore) {
  const TraceCredit rule{.alpha = 0.5, .gamma = 1, .beta = 0.5};
  CreditLedger ledger(rule, 4);
  ledger.start_block();
  EXPECT_THAT(ledger.credited(2), IsEmpty());
  // One token of probability 0.6 gets a credit of 0.6: weights 0.6 sqrt(1.6) and 0.4.
  const std::vector<Commit> first = {{2, 9, 0.6}};
  const double weight = 0.6 * std::sqrt(1.6);
  std::vector<Commit> credited = ledger.with_credit(first, rows_listing({{}}));
  ASSERT_EQ(credited.size(), 1U);
  EXPECT_EQ(credited[0].position, 2);
  EXPECT_EQ(credited[0].token, 9);
  EXPECT_NEAR(credited[0].confidence, weight / (weight + 0.4), 1e-12);
  EXPECT_THAT(ledger.credited(2), ElementsAre(9));
  // Now token 5 leads with 0.4, but 9 has 0.38 and half of its credit.
  credited = ledger.with_credit(std::vector<Commit>{{2, 5, 0.4}}, rows_listing({{0.38}}));
  const double of_5 = 0.4 * std::sqrt(1.4);
  const double of_9 = 0.38 * std::sqrt(1.3);
  EXPECT_EQ(credited[0].token, of_9 > of_5 ? 9 : 5);
  EXPECT_NEAR(credited[0].confidence, std::max(of_5, of_9) / (of_5 + of_9 + 0.22), 1e-12);
  EXPECT_THAT(ledger.credited(2), ElementsAre(5, 9));
  // Token 9 leads again: credits of 0.5 * 0.4 and 0.5 * 0.3 + 0.5.
  credited = ledger.with_credit(std::vector<Commit>{{2, 9, 0.5}}, rows_listing({{0.3, 0.5}}));
  const double again = 0.5 * std::sqrt(1.65);
  EXPECT_EQ(credited[0].token, 9);
  EXPECT_NEAR(credited[0].confidence, again / (again + 0.3 * std::sqrt(1.2) + 0.2), 1e-12);
  EXPECT_THAT(ledger.credited(1), IsEmpty());
  ledger.start_block();
  EXPECT_THAT(ledger.credited(2), IsEmpty());
}

TEST(CreditLedger, MayWriteATokenOfAnEarlierPass) {
  CreditLedger ledger(TraceCredit{.alpha = 2, .gamma = 1, .beta = 1}, 1);
  ledger.start_block();
  ledger.with_credit(std::vector<Commit>{{0, 9, 0.9}}, rows_listing({{}}));
  const auto credited = ledger.with_credit(std::vector<Commit>{{0, 5, 0.5}}, rows_listing({{0.4}}));
  EXPECT_EQ(credited[0].token, 9) << "0.4 * 1.9^2 is more than 0.5 * 1.5^2";
  EXPECT_LE(credited[0].confidence, 1);
}

/// Writes positions of a canvas whose prompt has two tokens.
void write(Canvas& canvas, const std::vector<int32_t>& positions) {
  for (const int32_t position : positions) canvas.commit({position, 7, 1});
}

TEST(SpanCycle, EndsItsSpanWhereTwoEstimatesAgree) {
  Canvas canvas({5, 6}, 10, kMask, false);
  SpanCycle cycle({.span = 0.3, .explore = 3});
  cycle.start_block({0, 2, 12, 0});
  const auto pass = [&](const std::vector<std::pair<int32_t, double>>& confidences,
                        const std::vector<int32_t>& written) {
    cycle.see(candidates(confidences));
    write(canvas, written);
    cycle.finish_pass(canvas);
  };
  EXPECT_TRUE(cycle.is_exploring());
  EXPECT_EQ(cycle.end(), 12) << "it writes anywhere in the block";
  pass({{2, 0.9}, {7, 0.3}, {9, 0.29}}, {2});
  pass({{3, 0.9}, {6, 0.4}, {9, 0.2}}, {3});
  pass({{4, 0.9}, {10, 0.4}}, {4});
  EXPECT_FALSE(cycle.is_exploring());
  EXPECT_EQ(cycle.end(), 7) << "8 and 7 agree; later ones do not count";
  EXPECT_FALSE(cycle.is_cut()) << "its first pass sees all";
  pass({{5, 0.9}}, {5});
  EXPECT_TRUE(cycle.is_cut());
  pass({{6, 0.9}}, {6});
  EXPECT_TRUE(cycle.is_exploring()) << "the span is written";
  EXPECT_FALSE(cycle.is_cut());
}

TEST(SpanCycle, TakesTheMeanOfTheLastTwoEstimatesThatDiffer) {
  Canvas canvas({5, 6}, 10, kMask, false);
  const auto end_after = [&](const std::vector<int32_t>& last_confident) {
    SpanCycle cycle({.span = 0.3, .explore = static_cast<int32_t>(last_confident.size())});
    cycle.start_block({0, 2, 12, 0});
    for (const int32_t position : last_confident) {
      cycle.see(candidates({{2, 0.1}, {position, 0.5}}));
      cycle.finish_pass(canvas);
    }
    return cycle.end();
  };
  EXPECT_EQ(end_after({3, 11, 6}), 9) << "12 and 7, rounded down";
  EXPECT_EQ(end_after({11, 9}), 11);
  EXPECT_EQ(end_after({5, 4}), 5) << "half of their difference is below 1";
  EXPECT_EQ(end_after({7}), 8) << "one estimate";
}

TEST(SpanCycle, GrowsByOnePositionWhereNothingIsConfident) {
  Canvas canvas({kMask, 6}, 4, kMask, false);
  SpanCycle cycle({.explore = 1});
  cycle.start_block({0, 2, 6, 0});
  cycle.see(candidates({{0, 0.9}, {2, 0.1}, {3, 0.1}}));
  cycle.finish_pass(canvas);
  EXPECT_EQ(cycle.end(), 3) << "masks of the prompt say nothing about the span";
  write(canvas, {2});
  cycle.finish_pass(canvas);
  EXPECT_FALSE(cycle.is_exploring()) << "and belong to it";
  write(canvas, {0});
  cycle.finish_pass(canvas);
  EXPECT_TRUE(cycle.is_exploring());
  cycle.see(candidates({{3, 0.1}, {4, 0.1}}));
  cycle.finish_pass(canvas);
  EXPECT_EQ(cycle.end(), 4) << "from where the last span ended";
}

TEST(SlidingEnd, MovesByOnePositionForEachThatIsWritten) {
  Canvas canvas({5, 6}, 10, kMask, false);
  SlidingEnd sliding({.start = 3});
  SlidingEnd narrow({.start = 3, .most = 4});
  for (SlidingEnd* const each : {&sliding, &narrow}) each->start_block(canvas, {0, 2, 10, 0});
  EXPECT_EQ(sliding.end(canvas), 5);
  write(canvas, {3, 4});
  EXPECT_EQ(sliding.end(canvas), 7);
  EXPECT_EQ(narrow.end(canvas), 6) << "4 positions from the first mask, which is 2";
  write(canvas, {2});
  EXPECT_EQ(narrow.end(canvas), 8) << "3 and 3 from the begin are fewer than 4 from the first mask";
  write(canvas, {5, 6, 7});
  EXPECT_EQ(sliding.end(canvas), 10) << "the block ends";
  write(canvas, {8, 9});
  EXPECT_EQ(sliding.end(canvas), 10);
}

TEST(SlidingEnd, LeavesAMaskWhereGivenTokensFillItsStart) {
  const std::vector<TokenId> answer = {7, 7, 7, 7, kMask, 7};
  Canvas canvas({5}, 6, kMask, false, answer);
  SlidingEnd sliding({.start = 2});
  sliding.start_block(canvas, {0, 1, 7, 0});
  EXPECT_EQ(sliding.end(canvas), 6);
}

TEST(BegunBlocks, BeginOneBlockAPassOnceEnoughOfTheLastIsWritten) {
  Canvas canvas({5}, 12, kMask, false);
  BegunBlocks begun({.add = 0.5}, 4);
  begun.start(canvas);
  EXPECT_EQ(begun.end(), 5);
  write(canvas, {1});
  begun.finish_pass(canvas);
  EXPECT_EQ(begun.end(), 5);
  write(canvas, {2});
  begun.finish_pass(canvas);
  EXPECT_EQ(begun.end(), 9) << "half of it";
  EXPECT_EQ(begun.first_end(canvas), 5);
  write(canvas, {3, 4});
  begun.finish_pass(canvas);
  EXPECT_EQ(begun.end(), 9) << "the last one counts";
  EXPECT_EQ(begun.first_end(canvas), 9);
  write(canvas, {5, 6, 7, 8, 9, 10, 11, 12});
  begun.skip_written(canvas);
  EXPECT_EQ(begun.end(), 13);
  begun.finish_pass(canvas);
  EXPECT_EQ(begun.end(), 13);
}

TEST(BegunBlocks, SkipWhatATextGives) {
  const std::vector<TokenId> answer = {7, 7, 7, 7, 7, kMask};
  Canvas canvas({5}, 6, kMask, false, answer);
  BegunBlocks begun({.add = 1}, 2);
  begun.start(canvas);
  EXPECT_EQ(begun.end(), 5) << "a written block begins the next one";
  begun.skip_written(canvas);
  EXPECT_EQ(begun.end(), 7);
  EXPECT_EQ(begun.first_end(canvas), 7);
}

TEST(DelimitedEnd, IsBehindTheMostConfidentDelimiterOfTheWindow) {
  const AdaptiveBlock rule{.delimiter = 0.3};
  const std::vector<TokenId> delimiters = {8, 9};
  const auto end = [&](const std::vector<Commit>& predictions) {
    return delimited_end(rule, delimiters, predictions, {2, 8}, 6);
  };
  EXPECT_EQ(end({{2, 7, 0.9}, {3, 8, 0.4}, {5, 9, 0.6}, {7, 8, 0.5}}), 6);
  EXPECT_EQ(end({{3, 8, 0.5}, {5, 9, 0.5}}), 4) << "ties go to the lowest position";
  EXPECT_EQ(end({{3, 8, 0.3}}), 4) << "a confidence that equals the bound suffices";
  EXPECT_EQ(end({{3, 8, 0.29}, {4, 7, 0.9}}), 6) << "none is confident";
  EXPECT_EQ(end({{1, 8, 0.9}, {7, 8, 0.4}, {8, 8, 0.9}}), 8) << "others are outside of the window";
  EXPECT_EQ(end({}), 6);
}

TEST(Prophet, TakesTheMeanLeadAndABoundForEachThirdOfTheSteps) {
  RowStatistics near;
  near.likeliest = {{7, -0.1}, {8, -1.1}};
  RowStatistics far;
  far.likeliest = {{7, -0.001}, {8, -9.001}};
  EXPECT_DOUBLE_EQ(mean_lead(std::vector<RowStatistics>{near, far}), 5);
  far.likeliest.pop_back();
  EXPECT_EQ(mean_lead(std::vector<RowStatistics>{far}), std::numeric_limits<double>::infinity());
  const Prophet rule{3, 2, 1};
  EXPECT_EQ(lead_to_exit(rule, 0.329), 3);
  EXPECT_EQ(lead_to_exit(rule, 0.33), 2);
  EXPECT_EQ(lead_to_exit(rule, 0.669), 2);
  EXPECT_EQ(lead_to_exit(rule, 0.67), 1);
  EXPECT_EQ(lead_to_exit(rule, 1), 1);
}

}  // namespace
}  // namespace lacuna::unmask_memory_test
