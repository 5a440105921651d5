#include "eval/tuning_log.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "temporary_folder.h"

namespace lacuna::tuning_log_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(TuningLog, KeepsRuns) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "new" / "log.jsonl";
  {
    TuningLog log(file, 10);
    EXPECT_EQ(log.baseline(3), nullptr);
    log.add(3, {"00000000000000aa", {1, 2, 3}, true, {0.1, 0.7, 5, 0.25}, 1.5});
    log.add("--lock eps=1", 3, {1, 0, 0.125, 0.3, {1.0 / 3, 2, 4, 0.5}, 0.4});
    log.set_speed(1e9);
    log.set_peaks({8e11, 2.5e10});
  }
  const TuningLog log(file, 10);
  EXPECT_EQ(log.num_found(), 2U);
  ASSERT_NE(log.baseline(3), nullptr);
  EXPECT_EQ(log.baseline(3)->tokens, (std::vector<TokenId>{1, 2, 3}));
  EXPECT_TRUE(log.baseline(3)->correct);
  EXPECT_EQ(log.baseline(3)->work.flops, 0.1);
  EXPECT_EQ(log.baseline(3)->work.bytes, 0.7);
  EXPECT_EQ(log.baseline(3)->mean_nll, 1.5);
  const TunedRun* const run = log.tuned("--lock eps=1", 3);
  ASSERT_NE(run, nullptr);
  EXPECT_EQ(run->token, 0.125);
  EXPECT_EQ(run->kl, 0.3);
  EXPECT_EQ(run->judge, 0.4);
  EXPECT_EQ(run->work.flops, 1.0 / 3);
  EXPECT_EQ(log.tuned("--lock eps=2", 3), nullptr);
  EXPECT_EQ(log.speed(), 1e9);
  EXPECT_EQ(log.peaks(), (MachinePeaks{8e11, 2.5e10}));
}

TEST(MachinePeaks, AddTheTimesOfComputingAndReading) {
  EXPECT_EQ((MachinePeaks{10, 2}.seconds({5, 4, 1, 0})), 2.5);
}

TEST(TuningLog, TakesLinesThatCannotBeReadAsAbsent) {
  const TemporaryFolder folder;
  folder.write("log.jsonl",
               "no JSON\n[]\n{}\n{\"prompt\": 1}\n{\"peak_flops\": 0, \"peak_bandwidth\": 1}\n"
               "{\"prompt\": 99, \"setting\": \"a\", \"changed\": 0, \"wrong\": 0, \"token\": 0, \"flops\": "
               "1, \"bytes\": 1, "
               "\"rows\": 1, \"seconds\": 1}\n"
               "{\"prompt\": 1, \"setting\": \"a\", \"changed\": 7, \"wrong\": 0, \"token\": 0, \"flops\": "
               "1, \"bytes\": 1, "
               "\"rows\": 1, \"seconds\": 1}\n"
               "{\"prompt\": 1, \"text\": 5, \"tokens\": \"x\"}\n"
               "{\"prompt\": 2, \"setting\": \"a\", \"changed\": 1, \"wrong\": 0, \"token\": 0, \"flops\": "
               "1, \"bytes\": 1, "
               "\"rows\": 1, \"seconds\": 1}\n{\"prompt\": 3, \"sett");
  TuningLog log(folder.path() / "log.jsonl", 10);
  EXPECT_EQ(log.num_found(), 1U);
  EXPECT_FALSE(log.peaks());
  ASSERT_NE(log.tuned("a", 2), nullptr);
  EXPECT_EQ(log.tuned("a", 1), nullptr);
}

TEST(TuningLog, ContinuesBehindALineThatWasCutOff) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "log.jsonl";
  folder.write("log.jsonl", "{\"prompt\": 3, \"sett");
  TuningLog(file, 10).add(1, {"00000000000000aa", {}, false, {}});
  EXPECT_NE(TuningLog(file, 10).baseline(1), nullptr);
}

TEST(TuningLog, BelongsToOneProcessAtATime) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "log.jsonl";
  const TuningLog log(file, 10);
  EXPECT_THAT(([&] { TuningLog(file, 10); }), ThrowsMessage<InputError>(HasSubstr("another lacuna tune")));
}

TEST(TuningLog, RefusesAFileThatCannotBeWritten) {
  EXPECT_THAT(([] { TuningLog("/dev/null/log.jsonl", 10); }),
              ThrowsMessage<InputError>(HasSubstr("cannot be written")));
}

}  // namespace
}  // namespace lacuna::tuning_log_test
