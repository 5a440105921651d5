#include "decode/surelock.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <vector>

#include "base/rng.h"

namespace lacuna::surelock_test {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr TokenId kMask = 2;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

using ByRow = std::function<double(int32_t row)>;

ByRow always(double value) {
  return [value](int32_t) { return value; };
}

/// Values of rows 0, 1, ...
ByRow listed(std::vector<double> values) {
  return [values = std::move(values)](int32_t row) { return values.at(static_cast<size_t>(row)); };
}

struct PassOutcome {
  std::vector<int32_t> rows, judged, passed, probed, unsure, locked, unlocked;

  bool operator==(const PassOutcome&) const = default;
};

/// Measurements of a pass.
struct Measured {
  ByRow certainty = always(0.5);
  ByRow kl = always(0);
  ByRow max_log_change = always(0);
};

/// A canvas whose passes compute every row that is not locked.
class LockingRun {
 public:
  LockingRun(const SureLock& settings, std::vector<TokenId> prompt, int32_t gen_length, bool shifted = false)
      : canvas_(std::move(prompt), gen_length, kMask, shifted), table_(settings, canvas_) {}

  PassOutcome pass(const Measured& measured = {}, const std::vector<int32_t>& committed = {}) {
    PassOutcome out;
    for (int32_t row = 0; row < canvas_.length(); ++row) out.rows.push_back(row);
    table_.remove_locked(out.rows);
    out.judged = table_.rows_to_judge(canvas_, out.rows, canvas_.masked_positions(0, canvas_.length()));
    out.probed = table_.rows_to_probe(canvas_);
    canvas_.count_pass(out.rows);
    for (const int32_t position : committed) canvas_.commit({position, 9, 1});
    std::vector<double> certainties;
    for (const int32_t row : out.judged) certainties.push_back(measured.certainty(row));
    out.passed = table_.close_gate(canvas_, out.judged, certainties);
    for (const int32_t row : out.probed) {
      if (table_.is_unsure(measured.certainty(row))) out.unsure.push_back(row);
    }
    out.unlocked = table_.unlock(canvas_, out.probed, drifts(out.unsure, measured));
    out.locked = table_.lock(canvas_, drifts(out.passed, measured));
    table_.count_pass(out.rows);
    return out;
  }

  const Canvas& canvas() const { return canvas_; }
  const LockTable& table() const { return table_; }

 private:
  static std::vector<LockTable::RowDrift> drifts(const std::vector<int32_t>& rows, const Measured& measured) {
    std::vector<LockTable::RowDrift> result;
    for (const int32_t row : rows) result.push_back({row, measured.kl(row), measured.max_log_change(row)});
    return result;
  }

  Canvas canvas_;
  LockTable table_;
};

SureLock without_gate(double eps) {
  SureLock lock;
  lock.eps = eps;
  lock.gate = 100;
  return lock;
}

SureLock with_gate(double percent) {
  SureLock lock = without_gate(1);
  lock.gate = percent;
  return lock;
}

TEST(SureLock, DefaultsAreThoseOfThePage) {
  const SureLock lock;
  EXPECT_EQ(lock.eps, 5e-4);
  EXPECT_EQ(lock.gate, 20);
  EXPECT_EQ(lock.min_age, 1);
  EXPECT_FALSE(lock.gate_counts_unlocked);
  EXPECT_FALSE(lock.eager_prompt);
  EXPECT_FALSE(lock.delta.has_value());
  EXPECT_EQ(lock.unlock_every, 0);
  EXPECT_EQ(lock.probes, 32);
  EXPECT_FALSE(lock.unlock_eps.has_value());
  EXPECT_EQ(lock.min_locked_passes, 4);
  EXPECT_EQ(lock.cooldown, 4);
  EXPECT_EQ(lock.strictness, 0.5);
}

TEST(SureLock, NothingLocksInTheFirstPassForNothingIsThereToCompareWith) {
  LockingRun run(without_gate(1e6), {7, 8}, 1);
  const PassOutcome first = run.pass();
  EXPECT_THAT(first.passed, IsEmpty());
  EXPECT_THAT(first.locked, IsEmpty());
  EXPECT_THAT(run.pass().locked, ElementsAre(0, 1));
}

TEST(SureLock, ARowLocksIfItMovedNoMoreThanEps) {
  LockingRun run(without_gate(1e-3), {7, 8, 9, 10}, 1);
  run.pass();
  const PassOutcome second = run.pass({.kl = listed({0, 1e-3, 1.001e-3, kInfinity})});
  EXPECT_THAT(second.passed, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(second.locked, ElementsAre(0, 1));
  EXPECT_EQ(run.table().num_locked(), 2);
  EXPECT_TRUE(run.table().is_locked(1));
  EXPECT_FALSE(run.table().is_locked(2));
  const PassOutcome third = run.pass({.kl = always(1)});
  EXPECT_THAT(third.rows, ElementsAre(2, 3, 4));
  EXPECT_THAT(third.passed, ElementsAre(2, 3));
}

TEST(SureLock, EpsOfZeroLocksNothing) {
  LockingRun run(without_gate(0), {7, 8}, 1);
  for (int pass = 0; pass < 4; ++pass) EXPECT_THAT(run.pass().locked, IsEmpty());
  EXPECT_EQ(run.table().num_locked(), 0);
}

TEST(SureLock, MaskedRowsAreNotLockable) {
  LockingRun run(without_gate(1), {7, kMask, 9}, 2);
  run.pass();
  run.pass();
  EXPECT_THAT(run.pass().locked, IsEmpty());
  EXPECT_TRUE(run.table().is_locked(0));
  EXPECT_FALSE(run.table().is_locked(1));
  EXPECT_TRUE(run.table().is_locked(2));
}

TEST(SureLock, AShiftedRowNeedsBothItsTokenAndTheOneItPredicts) {
  LockingRun run(without_gate(1), {7, 8, kMask, 9}, 1, true);
  run.pass();
  EXPECT_THAT(run.pass().locked, ElementsAre(0));  // 1 predicts a mask, 2 is one, 3 predicts one
  EXPECT_THAT(run.pass({}, {4}).locked, ElementsAre(3));
  EXPECT_THAT(run.pass({}, {2}).locked, ElementsAre(1, 4));  // the last row predicts nothing
  EXPECT_THAT(run.pass().locked, ElementsAre(2));
}

TEST(SureLock, MinAgeCountsThePassesThatReadTheToken) {
  for (const int32_t min_age : {0, 1, 2, 5}) {
    SureLock lock = without_gate(1);
    lock.min_age = min_age;
    LockingRun run(lock, {}, 1);
    run.pass();
    PassOutcome outcome = run.pass({}, {0});  // the pass that commits the token read a mask
    for (int32_t age = 0; age < min_age; ++age) {
      EXPECT_THAT(outcome.locked, IsEmpty()) << min_age;
      outcome = run.pass();
    }
    EXPECT_THAT(outcome.locked, ElementsAre(0)) << min_age;
  }
}

TEST(SureLock, WithoutACommitTheFirstPassesOfAPromptAgeIt) {
  SureLock lock = without_gate(1);
  lock.min_age = 3;
  LockingRun run(lock, {7}, 1);
  run.pass();
  EXPECT_THAT(run.pass().locked, IsEmpty());
  EXPECT_THAT(run.pass().locked, ElementsAre(0));
}

TEST(SureLock, JudgesOnlyRowsThatMayBecomeLockable) {
  SureLock lock = with_gate(20);
  LockingRun known(lock, {7, kMask}, 1);
  EXPECT_THAT(known.pass().judged, ElementsAre(0));
  lock.min_age = 0;  // a sampled position may be committed and lock at once
  LockingRun young(lock, {7, kMask}, 1);
  EXPECT_THAT(young.pass().judged, ElementsAre(0, 1, 2));
  lock.min_age = 2;
  LockingRun old(lock, {7}, 1);
  EXPECT_THAT(old.pass().judged, IsEmpty());
  EXPECT_THAT(old.pass().judged, ElementsAre(0));
  lock.gate_counts_unlocked = true;
  LockingRun all(lock, {7, kMask}, 1);
  EXPECT_THAT(all.pass().judged, ElementsAre(0, 1, 2));
}

TEST(SureLock, AShiftedRowIsJudgedWhereItsPositionIsDrawn) {
  SureLock lock = with_gate(20);
  const Canvas canvas({7, 8, 9}, 3, kMask, true);
  const LockTable table(lock, canvas);
  const std::vector<int32_t> rows = {0, 1, 2, 3, 4, 5};
  EXPECT_THAT(table.rows_to_judge(canvas, rows, std::vector<int32_t>{3}), ElementsAre(0, 1, 2));
  EXPECT_THAT(table.rows_to_judge(canvas, rows, std::vector<int32_t>{4}), ElementsAre(0, 1));
}

// Rows 0 to 9 of a prompt, 1 - certainty = 0.09, 0.19, ..., 0.99 in a shuffled order.
const std::vector<double> kCertainties = {0.31, 0.81, 0.11, 0.91, 0.51, 0.01, 0.71, 0.21, 0.61, 0.41};

std::vector<int32_t> passing(const SureLock& lock, const std::vector<double>& certainties = kCertainties) {
  LockingRun run(lock, std::vector<TokenId>(certainties.size(), 7), 0);
  const Measured measured{.certainty = listed(certainties)};
  run.pass(measured);
  return run.pass(measured).passed;
}

TEST(SureLock, TheGateLetsTheMostCertainPercentPass) {
  EXPECT_THAT(passing(with_gate(20)), ElementsAre(1, 3));
  EXPECT_THAT(passing(with_gate(30)), ElementsAre(1, 3, 6));
  EXPECT_THAT(passing(with_gate(90)), ElementsAre(0, 1, 2, 3, 4, 6, 7, 8, 9));
  EXPECT_EQ(passing(with_gate(100)).size(), 10U);
}

TEST(SureLock, TheGateRoundsUpAndLetsAtLeastOnePass) {
  EXPECT_THAT(passing(with_gate(0)), ElementsAre(3));
  EXPECT_THAT(passing(with_gate(10)), ElementsAre(3));
  EXPECT_THAT(passing(with_gate(10.1)), ElementsAre(1, 3));
  EXPECT_THAT(passing(with_gate(1), {0.4}), ElementsAre(0));
  EXPECT_EQ(passing(with_gate(99.9)).size(), 10U);
}

TEST(SureLock, AWholePercentageIsNotRoundedUpByItsBinaryFraction) {
  // 7 / 100 * 100 is 7.000000000000001 in double.
  std::vector<double> certainties;
  for (int i = 0; i < 100; ++i) certainties.push_back(0.995 - 0.005 * i);
  EXPECT_EQ(passing(with_gate(7), certainties).size(), 7U);
  EXPECT_EQ(passing(with_gate(55), certainties).size(), 55U);
}

TEST(SureLock, TiesWithTheThresholdPass) {
  EXPECT_THAT(passing(with_gate(25), {0.5, 0.9, 0.5, 0.5}), ElementsAre(1));
  EXPECT_THAT(passing(with_gate(50), {0.5, 0.9, 0.5, 0.5}), ElementsAre(0, 1, 2, 3));
}

TEST(SureLock, ThePopulationOfCandidatesHoldsLockableRowsOnly) {
  // Masked rows are the most confident; among the four known ones, 50% are two.
  const Measured measured{.certainty = listed({0.5, 0.6, 0.7, 0.8, 0.95, 0.96, 0.97, 0.98})};
  LockingRun candidates(with_gate(50), {7, 7, 7, 7}, 4);
  candidates.pass(measured);
  EXPECT_THAT(candidates.pass(measured).passed, ElementsAre(2, 3));
  SureLock lock = with_gate(50);
  lock.gate_counts_unlocked = true;
  LockingRun unlocked(lock, {7, 7, 7, 7}, 4);
  unlocked.pass(measured);
  EXPECT_THAT(unlocked.pass(measured).passed, IsEmpty());  // all four that pass are masked
  lock.gate = 75;
  LockingRun wider(lock, {7, 7, 7, 7}, 4);
  wider.pass(measured);
  EXPECT_THAT(wider.pass(measured).passed, ElementsAre(2, 3));  // the last two of six
}

TEST(SureLock, LockedRowsLeaveThePopulation) {
  for (const bool counts_unlocked : {false, true}) {
    SureLock lock = with_gate(50);
    lock.gate_counts_unlocked = counts_unlocked;
    LockingRun run(lock, {7, 7, 7, 7}, 0);
    const Measured measured{.certainty = listed({0.9, 0.8, 0.7, 0.6})};
    run.pass(measured);
    EXPECT_THAT(run.pass(measured).locked, ElementsAre(0, 1));
    EXPECT_THAT(run.pass(measured).locked, ElementsAre(2));  // half of the two that are left
    EXPECT_THAT(run.pass(measured).locked, ElementsAre(3));
  }
}

TEST(SureLock, AnEagerPromptPassesWithoutTheGateAndIsNotInItsPopulation) {
  const Measured measured{.certainty = listed({0.1, 0.99, 0.2, 0.5, 0.6, 0.7, 0.8})};
  for (const bool shifted : {false, true}) {
    SureLock lock = with_gate(25);
    lock.eager_prompt = true;
    LockingRun eager(lock, {7, 7, 7}, 4, shifted);
    eager.pass(measured, {3, 4, 5, 6});
    // Shifted, row 2 of the prompt predicts position 3, which is not in it: it is one of five, of which two
    // pass.
    EXPECT_EQ(eager.pass(measured).passed,
              shifted ? std::vector<int32_t>({0, 1, 5, 6}) : std::vector<int32_t>({0, 1, 2, 6}));
    lock.eager_prompt = false;
    LockingRun paper(lock, {7, 7, 7}, 4, shifted);
    paper.pass(measured, {3, 4, 5, 6});
    EXPECT_THAT(paper.pass(measured).passed, ElementsAre(1, 6));  // ceil(25% of 7)
  }
}

TEST(SureLock, AnEagerPromptStillHasToHaveItsAge) {
  SureLock lock = with_gate(20);
  lock.eager_prompt = true;
  lock.min_age = 3;
  LockingRun run(lock, {7, kMask}, 1);
  run.pass();
  EXPECT_THAT(run.pass().passed, IsEmpty());
  EXPECT_THAT(run.pass().passed, ElementsAre(0));  // never the gap
}

// Unlocking

SureLock unlocking(int32_t every) {
  SureLock lock = without_gate(0.01);
  lock.unlock_every = every;
  return lock;
}

const Measured kSettled{.certainty = always(0.5), .kl = always(0)};
const Measured kMoved{.certainty = always(0.5), .kl = always(5)};

TEST(SureLock, ProbesOnlyInEveryUthPassOfTheRequest) {
  LockingRun run(unlocking(3), {7, 8}, 0);
  std::vector<int32_t> probing;
  for (int32_t pass = 0; pass < 13; ++pass) {
    if (!run.pass().probed.empty()) probing.push_back(pass);
  }
  EXPECT_THAT(probing, ElementsAre(3, 6, 9, 12));
  LockingRun never(without_gate(0.01), {7, 8}, 0);
  for (int32_t pass = 0; pass < 8; ++pass) EXPECT_THAT(never.pass().probed, IsEmpty());
}

TEST(SureLock, ProbesLockedRowsAloneAndThoseOfLongestAgoFirst) {
  SureLock lock = unlocking(1);
  lock.probes = 2;
  LockingRun run(lock, std::vector<TokenId>(6, 7), 0);
  run.pass();
  // Passes 1 and 2 lock rows in the order 4, 1, 5, then 0, 2; row 3 never.
  EXPECT_THAT(run.pass({.kl = listed({1, 0, 1, 1, 0, 0})}).locked, ElementsAre(1, 4, 5));
  const PassOutcome second = run.pass({.kl = listed({0, 0, 0, 1, 0, 0})});
  EXPECT_THAT(second.locked, ElementsAre(0, 2));
  EXPECT_THAT(second.probed, ElementsAre(1, 4));  // lowest positions of the three locked in pass 1
  const Measured still{.kl = listed({0, 0, 0, 1, 0, 0})};
  EXPECT_THAT(run.pass(still).probed, ElementsAre(0, 5));  // 5 of pass 1, then the lowest of pass 2
  EXPECT_THAT(run.pass(still).probed, ElementsAre(1, 2));
  EXPECT_THAT(run.pass(still).probed, ElementsAre(0, 4));  // 4 of pass 2, then the lowest of pass 3
  EXPECT_THAT(run.pass(still).probed, ElementsAre(1, 5));  // 5 of pass 3, then the lowest of pass 4
}

TEST(SureLock, AProbedRowUnlocksIfItMovedAndTheGateIsBelowIt) {
  SureLock lock = unlocking(1);
  lock.gate = 50;
  lock.min_locked_passes = 0;
  LockingRun run(lock, std::vector<TokenId>(6, 7), 0);
  run.pass();
  // Rows 0, 1 and 2 are the most confident and lock.
  const Measured early{.certainty = listed({0.9, 0.8, 0.7, 0.4, 0.5, 0.6}), .kl = always(0)};
  ASSERT_THAT(run.pass(early).locked, ElementsAre(0, 1, 2));
  // Among 3, 4 and 5, u = 0.25, 0.5, 0.75, the gate takes ceil(1.5) = 2: theta = 0.5. Default bound: 10 *
  // 0.01.
  const PassOutcome outcome = run.pass(
      {.certainty = listed({0.25, 0.375, 0.5, 0.75, 0.5, 0.25}), .kl = listed({0.5, 0.09, 0.5, 1, 1, 1})});
  EXPECT_THAT(outcome.probed, ElementsAre(0, 1, 2));
  EXPECT_THAT(outcome.unsure, ElementsAre(0, 1));
  EXPECT_THAT(outcome.unlocked, ElementsAre(0));
  EXPECT_FALSE(run.table().is_locked(0));
  EXPECT_TRUE(run.table().is_locked(1));
  EXPECT_EQ(run.table().num_locked(), 2);
}

TEST(SureLock, WithoutAThresholdEveryProbeThatIsNotCertainCounts) {
  SureLock lock = unlocking(1);
  lock.min_locked_passes = 0;
  for (const double gate : {100.0, 20.0}) {  // no gate; a gate whose population is empty
    lock.gate = gate;
    LockingRun run(lock, {7}, 0);
    run.pass();
    ASSERT_THAT(run.pass().locked, ElementsAre(0));
    EXPECT_THAT(run.pass({.certainty = always(1), .kl = always(5)}).unlocked, IsEmpty());
    EXPECT_THAT(run.pass({.certainty = always(0.999), .kl = always(5)}).unlocked, ElementsAre(0));
  }
}

TEST(SureLock, UnlockEpsReplacesTenTimesEps) {
  SureLock lock = unlocking(1);
  lock.min_locked_passes = 0;
  lock.unlock_eps = 0.5;
  LockingRun run(lock, {7}, 0);
  run.pass();
  run.pass();
  EXPECT_THAT(run.pass({.kl = always(0.5)}).unlocked, IsEmpty());
  EXPECT_THAT(run.pass({.kl = always(0.51)}).unlocked, ElementsAre(0));
  LockingRun usual(unlocking(6), {7}, 0);
  usual.pass();
  usual.pass();
  for (int pass = 2; pass < 6; ++pass) usual.pass();
  EXPECT_THAT(usual.pass({.kl = always(0.0999)}).unlocked, IsEmpty());
  for (int pass = 7; pass < 12; ++pass) usual.pass();
  EXPECT_THAT(usual.pass({.kl = always(0.1001)}).unlocked, ElementsAre(0));
}

TEST(SureLock, ALockHoldsForMoreThanTheInterval) {
  for (const int32_t interval : {0, 1, 4}) {
    SureLock lock = unlocking(1);
    lock.min_locked_passes = interval;
    LockingRun run(lock, {7}, 0);
    run.pass();
    ASSERT_THAT(run.pass(kSettled).locked, ElementsAre(0));
    for (int32_t since = 1; since <= interval; ++since) EXPECT_THAT(run.pass(kMoved).unlocked, IsEmpty());
    EXPECT_THAT(run.pass(kMoved).unlocked, ElementsAre(0)) << interval;
  }
}

TEST(SureLock, AnUnlockedRowIsComputedAgainAndRestsBeforeItMayLock) {
  for (const int32_t cooldown : {0, 1, 4}) {
    SureLock lock = unlocking(1);
    lock.min_locked_passes = 0;
    lock.cooldown = cooldown;
    LockingRun run(lock, {7}, 0);
    run.pass();
    run.pass(kSettled);
    const PassOutcome unlocking_pass = run.pass(kMoved);
    EXPECT_THAT(unlocking_pass.rows, IsEmpty());
    ASSERT_THAT(unlocking_pass.unlocked, ElementsAre(0));
    for (int32_t since = 1; since <= cooldown; ++since) {
      const PassOutcome resting = run.pass(kSettled);
      EXPECT_THAT(resting.rows, ElementsAre(0));
      EXPECT_THAT(resting.locked, IsEmpty()) << since;
    }
    EXPECT_THAT(run.pass(kSettled).locked, ElementsAre(0)) << cooldown;
  }
}

TEST(SureLock, ASecondLockIsStricter) {
  SureLock lock = unlocking(1);
  lock.min_locked_passes = 0;
  lock.cooldown = 0;
  lock.strictness = 0.25;
  LockingRun run(lock, {7}, 0);
  run.pass();
  ASSERT_THAT(run.pass({.kl = always(0.01)}).locked, ElementsAre(0));
  ASSERT_THAT(run.pass(kMoved).unlocked, ElementsAre(0));
  EXPECT_THAT(run.pass({.kl = always(0.00251)}).locked, IsEmpty());
  EXPECT_THAT(run.pass({.kl = always(0.0025)}).locked, ElementsAre(0));
}

// A bound on the error instead of eps

SureLock bounded(double delta, double eps = 0) {
  SureLock lock = without_gate(eps);
  lock.delta = delta;
  return lock;
}

TEST(SureLock, EstimatesTheThresholdFromTheNinetyFifthPercentiles) {
  // 64 rows: the 61st smallest of 64 values is their 95th percentile.
  LockingRun run(bounded(0.2), std::vector<TokenId>(64, 7), 0);
  const auto place = [](int32_t row) { return (row * 37) % 64 + 1; };  // 1 to 64, shuffled
  run.pass();
  EXPECT_THAT(run.pass({.kl = always(0.04)}).locked, IsEmpty());
  EXPECT_EQ(run.table().estimate().samples, 0);
  EXPECT_EQ(run.table().estimate().eps, 0);
  const PassOutcome outcome =
      run.pass({.kl = [&](int32_t row) { return 0.04 * place(row) / 100; },
                .max_log_change = [&](int32_t row) { return 0.2 * (65 - place(row)) / 10; }});
  const DriftEstimate& estimate = run.table().estimate();
  EXPECT_EQ(estimate.samples, 64);
  EXPECT_THAT(estimate.contraction, DoubleNear(0.61, 1e-12));
  EXPECT_THAT(estimate.gain, DoubleNear(6.1, 1e-12));
  const double root = 0.2 * (1 - std::sqrt(0.61)) / 6.1;
  EXPECT_THAT(estimate.eps, DoubleNear(root * root, 1e-15));
  // 5.2e-5: below the least D of all, 4e-4.
  EXPECT_THAT(outcome.locked, IsEmpty());
  const PassOutcome next =
      run.pass({.kl = [&](int32_t row) { return row == 5 ? 1e-5 : 0.02 * place(row) / 100; }});
  EXPECT_THAT(next.locked, ElementsAre(5));
}

/// Locked rows of a pass that brings this many samples of these quotients; its D is `d`.
std::vector<int32_t> locked_by(const SureLock& lock, int32_t samples, double contraction, double gain,
                               double d, double* eps = nullptr) {
  LockingRun run(lock, std::vector<TokenId>(static_cast<size_t>(samples), 7), 0);
  const double before = d / contraction;
  run.pass();
  EXPECT_THAT(run.pass({.kl = always(before)}).locked, IsEmpty());
  const auto outcome = run.pass({.kl = always(d), .max_log_change = always(gain * std::sqrt(before))});
  EXPECT_EQ(run.table().estimate().samples, samples);
  if (eps != nullptr) *eps = run.table().estimate().eps;
  return outcome.locked;
}

TEST(SureLock, NothingLocksBeforeSixtyFourSamples) {
  // (0.1 (1 - 0.5) / 2)^2 = 6.25e-4
  EXPECT_THAT(locked_by(bounded(0.1), 63, 0.25, 2, 6e-4), IsEmpty());
  EXPECT_EQ(locked_by(bounded(0.1), 64, 0.25, 2, 6e-4).size(), 64U);
  EXPECT_THAT(locked_by(bounded(0.1), 64, 0.25, 2, 6.5e-4), IsEmpty());
}

TEST(SureLock, NothingLocksWhereTheTheoremDoesNotHold) {
  double eps = -1;
  EXPECT_THAT(locked_by(bounded(1e3), 64, 0.995, 1, 1e-5, &eps), IsEmpty());
  EXPECT_EQ(eps, 0);
  EXPECT_THAT(locked_by(bounded(1e3), 64, 3, 1, 1e-5), IsEmpty());
  EXPECT_EQ(locked_by(bounded(1e3), 64, 0.985, 1, 1e-5).size(), 64U);
}

TEST(SureLock, EpsServesUntilThereIsAnEstimate) {
  double eps = -1;
  EXPECT_EQ(locked_by(bounded(0.1, 1e-3), 63, 0.25, 2, 9e-4, &eps).size(), 63U);
  EXPECT_EQ(eps, 1e-3);
  EXPECT_THAT(locked_by(bounded(0.1, 1e-3), 64, 0.25, 2, 9e-4, &eps), IsEmpty());
  EXPECT_THAT(eps, DoubleNear(6.25e-4, 1e-12));
  EXPECT_EQ(locked_by(bounded(0.1, 1e-3), 64, 0.995, 2, 9.96e-4, &eps).size(), 64U);
  EXPECT_EQ(eps, 1e-3);
}

TEST(SureLock, TheEstimatedThresholdStaysWithinItsBounds) {
  double eps = -1;
  EXPECT_THAT(locked_by(bounded(1e-4), 64, 0.25, 100, 1e-3, &eps), IsEmpty());
  EXPECT_EQ(eps, 1e-8);
  EXPECT_EQ(locked_by(bounded(100), 64, 0.25, 2, 0.049, &eps).size(), 64U);
  EXPECT_EQ(eps, 5e-2);
}

TEST(SureLock, OnlyRowsMeasuredInTwoPassesInARowGiveSamples) {
  LockingRun run(bounded(0.1), {7, 8}, 1);
  run.pass();
  run.pass({.kl = always(0.5)});
  EXPECT_EQ(run.table().estimate().samples, 0);
  run.pass({.kl = always(0.25)});
  EXPECT_EQ(run.table().estimate().samples, 2);
  EXPECT_THAT(run.table().estimate().contraction, DoubleNear(0.5, 1e-12));
  run.pass({.kl = always(0.25)}, {2});  // row 2 is known but has not been read
  EXPECT_EQ(run.table().estimate().samples, 4);
  run.pass({.kl = always(0.25)});  // its first D
  EXPECT_EQ(run.table().estimate().samples, 6);
  run.pass({.kl = always(0.25)});
  EXPECT_EQ(run.table().estimate().samples, 9);
}

TEST(SureLock, ADriftOfLessThanRoundingGivesNoSampleToDivideBy) {
  LockingRun run(bounded(0.1), {7, 8, 9}, 0);
  run.pass();
  run.pass({.kl = listed({0, 0.99e-12, 1e-12})});
  run.pass({.kl = always(0.5e-12)});
  EXPECT_EQ(run.table().estimate().samples, 1);
  EXPECT_THAT(run.table().estimate().contraction, DoubleNear(0.5, 1e-12));
}

TEST(SureLock, APassWithoutMeasurementBreaksTheRow) {
  const SureLock lock = bounded(0.1);
  Canvas canvas({7}, 0, kMask, false);
  LockTable table(lock, canvas);
  const std::vector<int32_t> rows = {0};
  const auto pass = [&](bool measures) {
    canvas.count_pass(rows);
    if (measures) table.lock(canvas, std::vector<LockTable::RowDrift>{{0, 0.5, 0.5}});
    table.count_pass(rows);
  };
  for (const bool measures : {false, true, false, true, false}) pass(measures);
  EXPECT_EQ(table.estimate().samples, 0);
  pass(true);
  pass(true);
  EXPECT_EQ(table.estimate().samples, 1);
}

TEST(SureLock, WithoutDeltaNothingIsEstimated) {
  LockingRun run(without_gate(1e-3), {7, 8}, 0);
  for (int pass = 0; pass < 4; ++pass) run.pass({.kl = always(0.5)});
  EXPECT_EQ(run.table().estimate().samples, 0);
  EXPECT_EQ(run.table().estimate().eps, 1e-3);
}

// The page's five steps and its unlocking once more, over sets of rows.

class PlainLock {
 public:
  PlainLock(const SureLock& lock, std::vector<TokenId> prompt, int32_t gen_length, bool shifted)
      : lock_(lock),
        shifted_(shifted),
        prompt_(static_cast<int32_t>(prompt.size())),
        tokens_(std::move(prompt)) {
    tokens_.resize(tokens_.size() + static_cast<size_t>(gen_length), kMask);
  }

  PassOutcome pass(const Measured& measured, const std::vector<int32_t>& committed) {
    PassOutcome out;
    for (int32_t row = 0; row < size(); ++row) {
      if (!locks_.contains(row)) out.rows.push_back(row);
    }
    if (lock_.unlock_every > 0 && pass_ % lock_.unlock_every == 0) {
      std::set<std::pair<int32_t, int32_t>> by_age;  // last probe, row
      for (const auto& [row, when] : locks_) by_age.emplace(when.second, row);
      for (const auto& [when, row] : by_age) {
        if (static_cast<int32_t>(out.probed.size()) < lock_.probes) out.probed.push_back(row);
      }
      std::sort(out.probed.begin(), out.probed.end());
    }
    for (const int32_t row : out.rows) {
      if (known(row)) ++age_[row];
    }
    for (const int32_t position : committed) {
      tokens_[static_cast<size_t>(position)] = 9;
      age_[position] = 0;
    }

    const auto u = [&](int32_t row) { return 1 - measured.certainty(row); };
    std::vector<int32_t> lockable;
    for (const int32_t row : out.rows) {
      const bool rests = unlocked_.contains(row) && pass_ - unlocked_[row] <= lock_.cooldown;
      if (known(row) && (!shifted_ || row + 1 == size() || known(row + 1)) && age_[row] >= lock_.min_age &&
          !rests) {
        lockable.push_back(row);
      }
    }
    const auto is_eager = [&](int32_t row) {
      return lock_.eager_prompt && row + (shifted_ ? 1 : 0) < prompt_;
    };
    std::vector<double> population;
    for (const int32_t row : lock_.gate_counts_unlocked ? out.rows : lockable) {
      if (!is_eager(row)) population.push_back(u(row));
    }
    std::sort(population.begin(), population.end());
    std::optional<double> theta;
    if (lock_.gate < 100 && !population.empty()) {
      const auto n = static_cast<double>(population.size());
      theta = population[static_cast<size_t>(std::max(1.0, std::ceil(lock_.gate * n / 100))) - 1];
    }
    for (const int32_t row : lockable) {
      if (theta && !is_eager(row) && u(row) > *theta) continue;
      if (!seen_.contains(row)) continue;  // D is infinite
      out.passed.push_back(row);
      if (lock_.eps > 0 && measured.kl(row) <= (unlocked_.contains(row) ? lock_.strictness : 1) * lock_.eps) {
        out.locked.push_back(row);
      }
    }
    for (const int32_t row : out.probed) {
      locks_[row].second = pass_;
      if (!(u(row) > theta.value_or(0))) continue;
      out.unsure.push_back(row);
      if (measured.kl(row) > lock_.unlock_eps.value_or(10 * lock_.eps) &&
          pass_ - locks_[row].first > lock_.min_locked_passes) {
        out.unlocked.push_back(row);
      }
    }
    for (const int32_t row : out.unlocked) {
      locks_.erase(row);
      unlocked_[row] = pass_;
    }
    for (const int32_t row : out.locked) locks_[row] = {pass_, pass_};
    seen_.insert(out.rows.begin(), out.rows.end());
    ++pass_;
    return out;
  }

 private:
  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }
  bool known(int32_t position) const { return tokens_[static_cast<size_t>(position)] != kMask; }

  SureLock lock_;
  bool shifted_;
  int32_t prompt_;
  std::vector<TokenId> tokens_;
  std::map<int32_t, int32_t> age_;
  std::map<int32_t, std::pair<int32_t, int32_t>> locks_;  // row: pass of the lock, of the last probe
  std::map<int32_t, int32_t> unlocked_;                   // row: pass
  std::set<int32_t> seen_;
  int32_t pass_ = 0;
};

TEST(SureLock, EqualsThePageOnRandomRuns) {
  int64_t locks = 0;
  int64_t unlocks = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const RngStream noise(seed, 1);
    uint64_t draws = 0;
    const auto below = [&](uint32_t count) { return static_cast<int32_t>(noise.below(draws++, count)); };
    SureLock lock;
    lock.eps = 0.2;
    lock.gate = std::vector<double>{0, 10, 20, 50, 100}[static_cast<size_t>(below(5))];
    lock.min_age = below(4);
    lock.gate_counts_unlocked = below(2) == 1;
    lock.eager_prompt = below(2) == 1;
    lock.unlock_every = below(4);
    lock.probes = 1 + below(4);
    if (below(2) == 1) {
      lock.unlock_eps = 0.6;
    } else {
      lock.eps = 0.05;
    }
    lock.min_locked_passes = below(4);
    lock.cooldown = below(4);
    const bool shifted = below(2) == 1;
    std::vector<TokenId> prompt(static_cast<size_t>(below(8)), 7);
    for (TokenId& token : prompt) token = below(6) == 0 ? kMask : 7;
    const int32_t gen_length = 1 + below(10);
    LockingRun run(lock, prompt, gen_length, shifted);
    PlainLock plain(lock, prompt, gen_length, shifted);
    for (int pass = 0; pass < 25; ++pass) {
      std::vector<int32_t> committed = run.canvas().masked_positions(0, run.canvas().length());
      std::erase_if(committed, [&](int32_t) { return below(5) != 0; });
      const RngStream rows(seed, 2, pass);
      const Measured measured{
          // Coarse, so that ties come up; with min-age 0 a row is judged before it is known.
          .certainty = [&](int32_t row) { return rows.below(static_cast<uint64_t>(row), 8) / 8.0 + 0.125; },
          .kl = [&](int32_t row) { return rows.uniform(static_cast<uint64_t>(row) + 1000); }};
      PassOutcome got = run.pass(measured, committed);
      got.judged.clear();  // which rows are asked beforehand is not specified
      const PassOutcome expected = plain.pass(measured, committed);
      ASSERT_EQ(got.rows, expected.rows) << seed << ", pass " << pass;
      ASSERT_EQ(got.probed, expected.probed) << seed << ", pass " << pass;
      ASSERT_EQ(got.passed, expected.passed) << seed << ", pass " << pass;
      ASSERT_EQ(got.unsure, expected.unsure) << seed << ", pass " << pass;
      ASSERT_EQ(got.locked, expected.locked) << seed << ", pass " << pass;
      ASSERT_EQ(got.unlocked, expected.unlocked) << seed << ", pass " << pass;
      locks += static_cast<int64_t>(got.locked.size());
      unlocks += static_cast<int64_t>(got.unlocked.size());
    }
  }
  EXPECT_GT(locks, 1000);
  EXPECT_GT(unlocks, 200);
}

TEST(SureLock, RefusesAnotherNumberOfCertaintiesThanRows) {
  const Canvas canvas({7}, 1, kMask, false);
  LockTable table({}, canvas);
  EXPECT_THROW(table.close_gate(canvas, std::vector<int32_t>{0}, {}), std::logic_error);
}

TEST(SureLock, InfiniteDriftsGiveNoSamples) {
  SureLock lock;
  lock.delta = 0.1;
  lock.eps = 0;
  lock.gate = 100;
  Canvas canvas({7}, 0, 2, false);
  LockTable table(lock, canvas);
  const double infinity = std::numeric_limits<double>::infinity();
  for (int pass = 0; pass < 3; ++pass) {
    canvas.count_pass(std::vector<int32_t>{0});
    table.lock(canvas, std::vector<LockTable::RowDrift>{{0, infinity, infinity}});
    table.count_pass(std::vector<int32_t>{0});
  }
  EXPECT_EQ(table.estimate().samples, 0);
}

}  // namespace
}  // namespace lacuna::surelock_test
