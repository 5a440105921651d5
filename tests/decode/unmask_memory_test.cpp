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

TEST(CalmPasses, CountsStablePassesOfTheBlock) {
  CalmPasses calm(Klass{0.9, 0.01, 2}, 8);
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

TEST(CalmPasses, OfAHistoryOfOneNeedsOnePassBefore) {
  CalmPasses calm(Klass{0.9, 0.01, 1}, 4);
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
