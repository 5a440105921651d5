#include "engine/pass_loop.h"

#include <gmock/gmock.h>

#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace lacuna::pass_loop_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// Plans a fixed number of rows of one sequence and notes what it is told, in order.
class NotingDecoder final : public Decoder {
 public:
  /// One row and one sampled token per entry of `positions`.
  explicit NotingDecoder(const std::vector<int32_t>& positions) {
    for (const int32_t position : positions) {
      plan_.add_row(7, position, position);
      LogitRow logit;
      logit.row = plan_.num_rows() - 1;
      plan_.logits.push_back(logit);
    }
    plan_.groups.push_back({0, {0, plan_.num_rows()}, {}, OwnRows::kBidirectional});
    plan_.rules.resize(2);
  }

  int32_t num_sequences() const override { return 1; }
  int32_t num_cells() const override { return 16; }
  bool done() const override { return false; }
  BackendNeeds needs() const override { return {.remembers_outputs = remembers}; }
  const StepPlan& plan() override { return plan_; }
  PassWork uncached_work() const override { return work_of(plan_); }
  StepReport apply(const PassResult& result) override {
    notes.emplace_back("apply");
    for (const RowStatistics& sample : result.samples) samples.push_back(sample.token);
    kv_drift.assign(result.kv_drift.begin(), result.kv_drift.end());
    rollout.assign(result.rollout.begin(), result.rollout.end());
    return {};
  }
  FollowUp follow_up() const override {
    return {.logits = wanted_logits, .probes = wanted_probes, .classes = wanted_classes};
  }
  void apply_follow_up(const FollowUpResult& result, StepReport& report) override {
    notes.emplace_back("apply_follow_up");
    for (const RowStatistics& sample : result.samples) further.push_back(sample.token);
    for (const Drift& drift : result.drifts) drifts.push_back(drift.kl);
    for (const ClassStatistics& each : result.classes) classes.push_back(each.token);
    report.kind = "completed";
    if (keeps_asking) return;
    wanted_probes.clear();
    wanted_classes.clear();
    wanted_logits = std::exchange(wanted_next, {});
  }
  std::span<const TokenId> canvas() const override { return {}; }
  int32_t prompt_length() const override { return 0; }
  int32_t num_final() const override { return 0; }
  IndexRange block() const override { return {}; }
  StopReason stop_reason() const override { return StopReason::kLength; }

  StepPlan plan_;
  bool remembers = false;
  std::vector<LogitRow> wanted_logits;
  bool keeps_asking = false;
  std::vector<LogitRow> wanted_next;  // after the first follow-up
  std::vector<DriftProbe> wanted_probes;
  std::vector<ClassRow> wanted_classes;
  std::vector<std::string> notes;
  std::vector<TokenId> samples, further, classes;
  std::vector<float> kv_drift;
  std::vector<double> rollout, drifts;
};

/// Gives sample i of a pass the token 10 + i, of a follow-up 100 + i, and overwrites what an earlier call
/// returned.
class NotingRunner {
 public:
  std::unique_ptr<PassTicket> submit(const StepPlan& plan, std::span<KvSequence* const> sequences) {
    sequences_.assign(sequences.begin(), sequences.end());
    plan_rows = plan.num_rows();
    num_sequences = sequences.size();
    samples_ = number(plan.logits.size(), 10);
    if (broken_sample >= 0) samples_[static_cast<size_t>(broken_sample)].is_finite = false;
    rollout_.resize(plan.rollout_size());
    std::iota(rollout_.begin(), rollout_.end(), 0);
    kv_drift_.clear();
    for (size_t i = 0; plan.measures_kv_drift && i < 2 * plan.tokens.size(); ++i) {
      kv_drift_.push_back(static_cast<float>(i));
    }
    return std::make_unique<Ticket>(*this, PassResult{samples_, kv_drift_, rollout_});
  }

  FollowUpResult follow_up(const FollowUp& wanted) {
    ++num_follow_ups;
    for (const LogitRow& logit : wanted.logits) asked.emplace_back(logit.row, logit.rule);
    for (const DriftProbe& probe : wanted.probes) asked.emplace_back(probe.row, probe.unconditional_row);
    for (const ClassRow& row : wanted.classes) asked.emplace_back(row.logit.row, row.logit.rule);
    remembered.clear();
    for (const KvSequence* each : sequences_) remembered.push_back(each->shape().remembers_outputs);
    constexpr TokenId kPoison = std::numeric_limits<TokenId>::max();
    for (RowStatistics& sample : samples_) sample = {.token = kPoison, .is_finite = false};
    further_ = number(wanted.logits.size(), 100);
    drifts_.clear();
    for (size_t i = 0; i < wanted.probes.size(); ++i) drifts_.push_back({static_cast<double>(i), 0});
    classes_.assign(count_classes(wanted.classes), {});
    for (size_t i = 0; i < classes_.size(); ++i) classes_[i].token = static_cast<TokenId>(i);
    return {further_, drifts_, classes_};
  }

  int32_t plan_rows = 0;
  size_t num_sequences = 0;
  int num_follow_ups = 0;
  int broken_sample = -1;
  std::vector<std::pair<int32_t, int32_t>> asked;
  std::vector<bool> remembered;

 private:
  class Ticket final : public PassTicket {
   public:
    Ticket(NotingRunner& runner, const PassResult& result) : runner_(runner), result_(result) {}
    const PassResult& wait() override { return result_; }
    FollowUpResult follow_up(const FollowUp& wanted) override { return runner_.follow_up(wanted); }
    void remember_outputs() override {}
    void read_logits(std::span<const LogitRow>, Matrix<float>) override {}
    PassTimes times() const override { return {}; }

   private:
    NotingRunner& runner_;
    PassResult result_;
  };

  static std::vector<RowStatistics> number(size_t count, TokenId first) {
    std::vector<RowStatistics> samples(count);
    for (RowStatistics& sample : samples) sample.token = first++;
    return samples;
  }

  std::vector<KvSequence*> sequences_;
  std::vector<RowStatistics> samples_, further_;
  std::vector<float> kv_drift_;
  std::vector<double> rollout_;
  std::vector<Drift> drifts_;
  std::vector<ClassStatistics> classes_;
};

class NoCells final : public KvSequence {
 public:
  explicit NoCells(const SequenceShape& shape) : KvSequence(shape) {}
  int32_t sink_cell() const override { return -1; }
  void read_cells(int64_t, int64_t, IndexRange, Matrix<float>, Matrix<float>) const override {}
  void read_outputs(std::span<const int32_t>, Matrix<float>) const override {}
};

/// Two requests in one pass.
struct Two {
  NotingDecoder a{{4, 5}}, b{{0, 1, 2}};
  std::vector<std::unique_ptr<KvSequence>> of_a, of_b, of_b_remembering;
  NotingRunner runner;
  PassLoop loop;

  Two() {
    of_a.push_back(std::make_unique<NoCells>(SequenceShape{16}));
    of_b.push_back(std::make_unique<NoCells>(SequenceShape{16}));
    of_b_remembering.push_back(std::make_unique<NoCells>(SequenceShape{16, true}));
  }

  std::span<PassPart> make_pass(bool b_remembers = false) {
    const PassMember members[] = {{&a, of_a}, {&b, b_remembers ? of_b_remembering : of_b}};
    return loop.make_pass(
        [&](const StepPlan& plan, std::span<KvSequence* const> sequences) {
          return runner.submit(plan, sequences);
        },
        members);
  }
};

TEST(PassLoop, GivesEachMemberTheResultsOfItsOwnRows) {
  Two two;
  two.b.plan_.measures_kv_drift = true;
  for (NotingDecoder* each : {&two.a, &two.b}) {
    each->plan_.groups.front().visible = {{0, each == &two.a ? 2 : 3}};
    each->plan_.groups.front().wants_rollout = true;
  }
  const std::span<PassPart> parts = two.make_pass();
  EXPECT_EQ(two.runner.plan_rows, 5);
  EXPECT_EQ(two.runner.num_sequences, 2U);
  EXPECT_THAT(two.a.samples, ElementsAre(10, 11));
  EXPECT_THAT(two.b.samples, ElementsAre(12, 13, 14));
  EXPECT_THAT(two.b.kv_drift, ElementsAre(4, 5, 6, 7, 8, 9));
  EXPECT_THAT(two.a.rollout, ElementsAre(0, 1));
  EXPECT_THAT(two.b.rollout, ElementsAre(2, 3, 4));
  ASSERT_THAT(parts, SizeIs(2));
  EXPECT_EQ(parts[1].work.rows, 3);
  EXPECT_EQ(parts[1].first_row, 2);
  EXPECT_EQ(parts[1].first_rule, 2);
}

TEST(PassLoop, AsksNothingMoreWhereNobodyDoes) {
  Two two;
  two.make_pass();
  EXPECT_EQ(two.runner.num_follow_ups, 0);
  EXPECT_THAT(two.a.notes, ElementsAre("apply"));
}

TEST(PassLoop, MakesOneCallOfAllFollowUps) {
  Two two;
  two.a.wanted_logits.resize(2);
  two.a.wanted_logits[1].row = 1;
  two.b.wanted_logits.resize(1);
  two.b.wanted_logits[0].row = 2;
  two.b.wanted_logits[0].rule = 1;
  two.b.wanted_probes = {{.row = 1, .unconditional_row = 0}, {.row = 2}};
  const std::span<PassPart> parts = two.make_pass(/*b_remembers=*/true);
  EXPECT_EQ(two.runner.num_follow_ups, 1);
  using Pair = std::pair<int32_t, int32_t>;
  EXPECT_THAT(two.runner.asked, ElementsAre(Pair{0, 0}, Pair{1, 0}, Pair{4, 3}, Pair{3, 2}, Pair{4, -1}));
  EXPECT_THAT(two.a.further, ElementsAre(100, 101));
  EXPECT_THAT(two.b.further, ElementsAre(102));
  EXPECT_THAT(two.b.drifts, ElementsAre(0, 1));
  EXPECT_EQ(parts[0].report.kind, "completed");
  EXPECT_EQ(parts[0].work.logit_rows, 2 + 2);
  EXPECT_EQ(parts[1].work.logit_rows, 3 + 1 + (4 + 2));
}

TEST(PassLoop, GivesEachMemberTheClassesOfItsRows) {
  Two two;
  const TokenClasses three{{0, 1, 2}, 3};
  const TokenClasses pair{{0, 1}, 2};
  two.a.wanted_classes = {{LogitRow{}, &three}};
  two.b.wanted_classes = {{LogitRow{}, &pair}, {LogitRow{.row = 1, .rule = 1}, &three}};
  two.make_pass();
  using Pair = std::pair<int32_t, int32_t>;
  EXPECT_THAT(two.runner.asked, ElementsAre(Pair{0, 0}, Pair{2, 2}, Pair{3, 3}));
  EXPECT_THAT(two.a.classes, ElementsAre(0, 1, 2));
  EXPECT_THAT(two.b.classes, ElementsAre(3, 4, 5, 6, 7));
}

TEST(PassLoop, AsksAgainUntilNobodyWantsMore) {
  Two two;
  two.a.wanted_logits.resize(1);
  two.b.wanted_logits.resize(1);
  two.b.wanted_next.resize(2);
  two.make_pass();
  EXPECT_EQ(two.runner.num_follow_ups, 2);
  EXPECT_THAT(two.a.further, ElementsAre(100));
  EXPECT_THAT(two.b.further, ElementsAre(101, 100, 101));
}

TEST(PassLoop, EndsWithADecoderThatNeverStopsAsking) {
  Two two;
  two.a.wanted_logits.resize(1);
  two.a.keeps_asking = true;
  EXPECT_THROW(two.make_pass(), std::logic_error);
}

TEST(PassLoop, TellsADecoderNothingOfOutputsThatAnObserverWants) {
  Two two;
  two.make_pass(/*b_remembers=*/true);
  EXPECT_THAT(two.b.notes, ElementsAre("apply"));
}

TEST(PassLoop, RemembersOutputsOfThoseWhoWantItAfterEveryPass) {
  Two two;
  two.b.remembers = true;
  two.make_pass(/*b_remembers=*/true);
  EXPECT_EQ(two.runner.num_follow_ups, 1);
  EXPECT_THAT(two.runner.remembered, ElementsAre(false, true));
  EXPECT_THAT(two.a.notes, ElementsAre("apply"));
  EXPECT_THAT(two.b.notes, ElementsAre("apply", "apply_follow_up"));
}

TEST(PassLoop, LeavesOutAMemberWhoseLogitsAreNotFinite) {
  Two two;
  two.a.wanted_logits.resize(1);
  two.b.wanted_logits.resize(1);
  two.runner.broken_sample = 1;
  const std::span<PassPart> parts = two.make_pass();
  EXPECT_THAT(parts[0].failure, HasSubstr("infinite or NaN logits at position 5"));
  EXPECT_THAT(two.a.notes, IsEmpty());
  EXPECT_THAT(parts[1].failure, IsEmpty());
  EXPECT_THAT(two.b.further, ElementsAre(100));
}

TEST(PassLoop, StartsEachPassAnew) {
  Two two;
  two.a.wanted_logits.resize(1);
  two.make_pass();
  two.a.wanted_logits.clear();
  two.make_pass();
  EXPECT_EQ(two.runner.plan_rows, 5);
  EXPECT_EQ(two.runner.num_sequences, 2U);
  EXPECT_EQ(two.runner.num_follow_ups, 1);
}

}  // namespace
}  // namespace lacuna::pass_loop_test
