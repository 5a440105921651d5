// The assumptions and the bound of SureLock's Theorem 1 on models with random weights: properties that hold
// whatever they are.
#include "instruments/lock.h"

#include <gmock/gmock.h>

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "engine/engine.h"
#include "instruments/random_requests.h"
#include "model/tiny_models.h"
#include "options/choose.h"

namespace lacuna::lock_test {
namespace {

using testing::AllOf;
using testing::Ge;
using testing::HasSubstr;
using testing::Le;
using testing::ThrowsMessage;

constexpr int32_t kPrompt = kRandomPrompt;
constexpr int32_t kAnswer = 16;

class LockTrial : public testing::Test {
 protected:
  static GenerationOptions options() {
    GenerationOptions options;
    options.gen_length = kAnswer;
    return options;
  }

  LockFindings run(const BackendModel& model, const SureLock& settings, int32_t count = 1) {
    return analyze_lock(model, threads_, random_requests(model, options(), count), settings, kMaxLogits);
  }

  /// Every row that may lock does so at once.
  static SureLock eager() {
    SureLock settings;
    settings.eps = 1e5;
    settings.gate = 100;
    return settings;
  }

  ThreadPool threads_{2};
  std::shared_ptr<const BackendModel> llada_ =
      on_cpu(tiny_model(tiny_configs()[0]), default_table(), threads_);
  std::shared_ptr<const BackendModel> dream_ =
      on_cpu(tiny_model(tiny_configs()[4]), default_table(), threads_);
};

TEST(TailConstants, BoundTheErrorOnlyWhereDivergencesContract) {
  const TailConstants constants{0.25, 3};
  EXPECT_DOUBLE_EQ(*constants.bound(0.04), 3 / 0.5 * 0.2);
  EXPECT_DOUBLE_EQ(*constants.bound(0), 6 * 1e-6);
  EXPECT_FALSE((TailConstants{1, 3}.bound(0.04)));
  EXPECT_FALSE((TailConstants{7, 3}.bound(0.04)));
}

TEST(Quantile, IsTheNearestRank) {
  std::vector<float> values = {5, 1, 4, 2, 3};
  EXPECT_EQ(quantile(values, 0), 1);
  EXPECT_EQ(quantile(values, 0.2), 1);
  EXPECT_EQ(quantile(values, 0.21), 2);
  EXPECT_EQ(quantile(values, 0.5), 3);
  EXPECT_EQ(quantile(values, 1), 5);
  values.clear();
  EXPECT_TRUE(std::isnan(quantile(values, 0.5)));
}

TEST_F(LockTrial, ChangesNothingThatIsWritten) {
  for (const auto& model : {llada_, dream_}) {
    Engine engine(model, 1);
    engine.add(std::move(random_requests(*model, options()).front()));
    engine.run();
    const auto followed = random_requests(*model, options());
    analyze_lock(*model, threads_, followed, {}, kMaxLogits);
    const auto expected = engine.decoder(0).canvas();
    EXPECT_TRUE(std::ranges::equal(followed.front()->canvas(), expected));
  }
}

TEST_F(LockTrial, ErrorsStayWithinTheBoundOfTheRowsOwnConstants) {
  int32_t bounded = 0;
  for (const auto& model : {llada_, dream_}) {
    for (const LockedRow& lock : run(*model, eager(), 3).locks) {
      const std::optional<double> bound = lock.constants.bound(lock.divergence);
      if (!bound || lock.steps_after == 0) continue;
      ++bounded;
      EXPECT_LE(lock.error, *bound + lock.steps_after * lock.constants.gain * 1e-6);
      EXPECT_LE(lock.likely_error, lock.error);
    }
  }
  EXPECT_GT(bounded, 0);
}

TEST_F(LockTrial, LocksWhatTheDecodersLockTakesFirst) {
  SureLock settings;
  settings.eps = 1e5;
  settings.gate = 40;
  GenerationOptions locked = options();
  locked.lock = "eps=1e5,gate=40";
  for (const auto& model : {llada_, dream_}) {
    const LockFindings findings = run(*model, settings);
    ASSERT_FALSE(findings.locks.empty());
    const int32_t first = findings.locks.front().step;
    std::vector<int32_t> expected;
    for (const LockedRow& lock : findings.locks) {
      if (lock.step == first) expected.push_back(lock.position + kPrompt);
    }
    class FirstLocks final : public Instrument {
     public:
      void finished(const FollowedPass& /*pass*/, const StepReport& report) override {
        if (!rows.empty() || report.locked.empty()) return;
        rows = report.locked;
        step = report.step;
      }
      std::vector<int32_t> rows;
      int32_t step = -1;
    } found;
    follow(*model, *random_requests(*model, locked).front(), found);
    EXPECT_EQ(found.step, first);
    EXPECT_EQ(found.rows, expected);
  }
}

TEST_F(LockTrial, CountsEveryRowOnceItsTokenWasRead) {
  SureLock settings = eager();
  const LockFindings findings = run(*llada_, settings);
  // One token in each of kAnswer passes: the prompt's rows count from the second pass on, an answer's from
  // the pass after its commit.
  int32_t prompt = 0;
  int32_t answer = 0;
  for (const RowStep& step : findings.steps) ++(step.position < 0 ? prompt : answer);
  EXPECT_EQ(prompt, kPrompt * (kAnswer - 1));
  EXPECT_EQ(answer, kAnswer * (kAnswer - 1) / 2);
  EXPECT_EQ(std::ssize(findings.locks), kPrompt + kAnswer - 1);  // the last token is read by no pass
  for (const LockedRow& lock : findings.locks) {
    EXPECT_EQ(lock.steps_after, kAnswer - 1 - lock.step);
    if (lock.steps_after == 0) {
      EXPECT_EQ(lock.error, 0);
    }
  }
}

TEST_F(LockTrial, AStricterTrialLocksLess) {
  SureLock strict = eager();
  strict.eps = 0;
  EXPECT_TRUE(run(*llada_, strict).locks.empty());
  SureLock gated = eager();
  gated.gate = 1;
  EXPECT_LT(run(*llada_, gated).locks.size(), run(*llada_, eager()).locks.size());
}

TEST_F(LockTrial, RefusesWhatTheTheoremDoesNotCover) {
  SureLock delta;
  delta.delta = 1;
  EXPECT_THAT([&] { run(*llada_, delta); }, ThrowsMessage<InputError>(HasSubstr("expected eps=E")));
  SureLock unlocking;
  unlocking.unlock_every = 4;
  EXPECT_THAT([&] { run(*llada_, unlocking); }, ThrowsMessage<InputError>(HasSubstr("unlock-every=4")));
  EXPECT_THAT([&] { analyze_lock(*llada_, threads_, random_requests(*llada_, options()), {}, 1000); },
              ThrowsMessage<InputError>(HasSubstr("three distributions of 21 positions")));
  GenerationOptions dual = options();
  dual.cache = "dual";
  EXPECT_THAT([&] { analyze_lock(*llada_, threads_, random_requests(*llada_, dual), {}, kMaxLogits); },
              ThrowsMessage<InputError>(HasSubstr("expected --cache none")));
}

TEST_F(LockTrial, ReportsSharesThatAddUp) {
  const LockFindings findings = run(*llada_, eager(), 2);
  const auto rows = to_json(findings, true);
  int64_t of_steps = 0;
  int64_t of_positions = 0;
  int64_t locks = 0;
  for (const auto& row : rows) {
    if (row.contains("step")) of_steps += row["rows"].get<int64_t>();
    if (row.contains("position")) of_positions += row["locks"].get<int64_t>();
    if (row.contains("lock_step")) ++locks;
    if (row.contains("applies") && row["applies"].is_number()) {
      EXPECT_THAT(row["applies"].get<double>(), AllOf(Ge(0), Le(1)));
    }
    if (row.contains("constants") && row["constants"] == "of the row itself" && row["held"].is_number()) {
      EXPECT_EQ(row["held"], 1);
    }
  }
  EXPECT_EQ(of_steps, std::ssize(findings.steps));
  EXPECT_EQ(locks, std::ssize(findings.locks));
  EXPECT_EQ(of_positions, locks - 2 * kPrompt);
  EXPECT_EQ(std::ssize(to_json(findings, false)), std::ssize(rows) - locks);
}

}  // namespace
}  // namespace lacuna::lock_test
