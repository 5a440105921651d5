// A model in another process: every number is the one that it computes there, and its end is noticed. The
// other process is a thread here, over the same sockets.
#include "backend/shard/remote_model.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/shard/message_socket.h"
#include "backend/shard/remote_messages.h"
#include "backend/sharded.h"
#include "base/error.h"

namespace lacuna::remote_model_test {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::pair<MessageSocket, MessageSocket> connected() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw std::runtime_error("no sockets");
  return {MessageSocket(ends[0]), MessageSocket(ends[1])};
}

struct Ends {
  RemoteConnection own, other;
};

Ends connected_ends() {
  auto [passes, other_passes] = connected();
  auto [questions, other_questions] = connected();
  return {{std::move(passes), std::move(questions)}, {std::move(other_passes), std::move(other_questions)}};
}

/// A tiny model that a thread hosts.
class Hosted {
 public:
  explicit Hosted(
      const ModelConfig& config, std::function<void()> check = [] {})
      : threads_(1),
        whole_(on_cpu(Model::random(config, 5, DType::kF32, threads_), default_table(), threads_)) {
    Ends ends = connected_ends();
    host_ = std::thread([this, end = std::make_shared<RemoteConnection>(std::move(ends.other)),
                         check = std::move(check)] { host_model(*whole_, std::move(*end), check); });
    remote_ = remote_model(config, std::move(ends.own), milliseconds(60'000), [this] { ++num_ends_; });
  }
  ~Hosted() {
    remote_.reset();
    host_.join();
  }
  Hosted(const Hosted&) = delete;
  Hosted& operator=(const Hosted&) = delete;

  const BackendModel& whole() const { return *whole_; }
  const BackendModel& remote() const { return *remote_; }
  int num_ends() const { return num_ends_; }

 private:
  ThreadPool threads_;
  std::shared_ptr<const BackendModel> whole_;
  std::shared_ptr<const BackendModel> remote_;
  std::thread host_;
  std::atomic<int> num_ends_{0};
};

struct Numbers {
  std::vector<RowStatistics> samples, more;
  std::vector<float> kv_drift;
  std::vector<double> drifts;
  std::vector<ClassStatistics> classes;
};

StepPlan plan_for(const ModelConfig& config, uint64_t seed) {
  StepPlan plan = canvas_plan(random_tokens(seed, 12, 80), own_rows_of(config));
  plan.measures_kv_drift = true;
  plan.rules[0].temperature = 0.7F;
  plan.rules[0].listed = {3, 5};
  plan.rules[0].measures_all = true;
  for (LogitRow& logit : plan.logits) {
    logit.noise = RngStream(seed, logit.row);
    logit.num_likeliest = logit.row % 3;
    logit.scored = 7;
  }
  return plan;
}

Numbers pass(const BackendModel& model, KvSequence& sequence, uint64_t seed, bool probes) {
  const StepPlan plan = plan_for(model.config(), seed);
  KvSequence* sequences[] = {&sequence};
  const std::unique_ptr<PassTicket> ticket = model.submit(plan, sequences);
  const PassResult& result = ticket->wait();
  Numbers numbers;
  numbers.samples.assign(result.samples.begin(), result.samples.end());
  numbers.kv_drift.assign(result.kv_drift.begin(), result.kv_drift.end());
  TokenClasses halves;
  halves.count = 2;
  for (int64_t token = 0; token < model.config().vocab_size; ++token)
    halves.of_token.push_back(static_cast<uint16_t>(token % 2));
  const std::vector<LogitRow> logits(plan.logits.begin(), plan.logits.begin() + 3);
  const std::vector<ClassRow> classes = {{plan.logits[0], &halves, true}, {plan.logits[1], &halves, false}};
  std::vector<DriftProbe> wanted;
  if (probes) wanted = {{.row = 2, .cell = 2}, {.row = 5, .cell = 5}};
  const FollowUpResult more = ticket->follow_up({logits, wanted, classes});
  numbers.more.assign(more.samples.begin(), more.samples.end());
  for (const Drift& drift : more.drifts) {
    numbers.drifts.push_back(drift.kl);
    numbers.drifts.push_back(drift.max_log_change);
  }
  numbers.classes.assign(more.classes.begin(), more.classes.end());
  ticket->remember_outputs();
  return numbers;
}

TEST(RemoteModel, GivesTheNumbersOfTheModelThatComputes) {
  const ModelConfig config = tiny_configs()[0];
  const Hosted hosted(config);
  std::vector<Numbers> all;
  for (const BackendModel* model : {&hosted.whole(), &hosted.remote()}) {
    const std::unique_ptr<KvPool> pool = model->make_pool();
    const std::unique_ptr<KvSequence> sequence = pool->make_sequence({12, /*remembers_outputs=*/true});
    all.push_back(pass(*model, *sequence, 1, false));
    all.push_back(pass(*model, *sequence, 2, true));
  }
  for (const size_t i : {0, 1}) {
    EXPECT_TRUE(all[i].samples == all[i + 2].samples);
    EXPECT_TRUE(all[i].more == all[i + 2].more);
    EXPECT_EQ(all[i].kv_drift, all[i + 2].kv_drift);
    EXPECT_EQ(all[i].drifts, all[i + 2].drifts);
    EXPECT_TRUE(all[i].classes == all[i + 2].classes);
  }
  EXPECT_EQ(all[1].drifts.size(), 4U);
  EXPECT_FALSE(all[0].samples == all[1].samples) << "other seeds give other samples";
}

TEST(RemoteModel, CountsWhatItsSequencesTake) {
  const ModelConfig config = tiny_configs()[0];
  const Hosted hosted(config);
  const std::unique_ptr<KvPool> pool = hosted.remote().make_pool();
  const std::unique_ptr<KvPool> whole = hosted.whole().make_pool();
  EXPECT_EQ(pool->bytes_for({100}, 64), whole->bytes_for({100}, 64));
  std::unique_ptr<KvSequence> first = pool->make_sequence({130});
  const int64_t alone = pool->bytes();
  EXPECT_EQ(alone, pool->bytes_for({130}));
  std::unique_ptr<KvSequence> second = pool->make_sequence({130}, {first.get(), 128});
  EXPECT_LT(pool->bytes(), 2 * alone) << "they share two pages";
  const KvSequence* both[] = {first.get(), second.get()};
  EXPECT_EQ(pool->bytes_of(both), pool->bytes());
  first.reset();
  second.reset();
  EXPECT_EQ(pool->bytes(), 0);
  const std::unique_ptr<KvPool> full = hosted.remote().make_pool(1);
  EXPECT_EQ(full->make_sequence({1}), nullptr) << "there is no room";
}

TEST(RemoteModel, TellsThatARankEndedWhileNothingIsComputed) {
  std::atomic<bool> is_broken{false};
  const Hosted hosted(tiny_configs()[0], [&] {
    if (is_broken) throw RankError(2, "has ended");
  });
  EXPECT_EQ(hosted.remote().failure(), "");
  const std::unique_ptr<KvPool> pool = hosted.remote().make_pool();
  is_broken = true;
  while (hosted.remote().failure().empty()) std::this_thread::yield();
  EXPECT_EQ(hosted.remote().failure(), "rank 2 has ended");
  EXPECT_THAT([&] { pool->make_sequence({1}); }, ThrowsMessage<RankError>("rank 2 has ended"));
  while (hosted.num_ends() == 0) std::this_thread::yield();
  EXPECT_EQ(hosted.num_ends(), 1);
}

/// The messages that a host begins with.
nlohmann::json hello() {
  return {{"device", "test"}, {"dtype", 0}, {"weight_bytes", 1}, {"bytes_of_passes", {1, 1, 1}}};
}

TEST(RemoteModel, TellsThatTheOtherProcessEnded) {
  Ends ends = connected_ends();
  ends.other.passes.send(hello());
  const auto model = remote_model(tiny_configs()[0], std::move(ends.own), milliseconds(60'000), [] {});
  ends.other.passes.close();
  ends.other.questions.close();
  EXPECT_THAT([&] { model->make_pool(); }, ThrowsMessage<RankError>("rank 0 has ended"));
  EXPECT_EQ(model->failure(), "rank 0 has ended");
}

TEST(RemoteModel, EndsAProcessThatIsSilent) {
  Ends ends = connected_ends();
  ends.other.passes.send(hello());
  const auto model = remote_model(tiny_configs()[0], std::move(ends.own), milliseconds(20), [] {});
  EXPECT_THAT([&] { model->make_pool(); },
              ThrowsMessage<RankError>(HasSubstr("rank 0 has not responded for 0.02 seconds")));
}

/// Answers every question after a quarter of a second that this process ran, and writes to `asked` before it.
void answer_slowly(MessageSocket& questions, int asked) {
  try {
    while (questions.receive()) {
      if (write(asked, "?", 1) != 1) return;
      for (int part = 0; part < 25; ++part) std::this_thread::sleep_for(milliseconds(10));
      questions.send(nlohmann::json::object());
    }
  } catch (const ConnectionLost&) {
  }
}

TEST(RemoteModel, DoesNotTakeAPauseOfBothProcessesForSilence) {
  std::array<int, 2> asked{};
  ASSERT_EQ(pipe(asked.data()), 0);
  const pid_t both = fork();
  if (both == 0) try {
      Ends ends = connected_ends();
      ends.other.passes.send(hello());
      std::thread host([&] { answer_slowly(ends.other.questions, asked[1]); });
      const auto model = remote_model(tiny_configs()[0], std::move(ends.own), milliseconds(600), [] {});
      std::this_thread::sleep_for(milliseconds(2500));  // two answers
      _exit(model->failure().empty() ? 0 : 1);
    } catch (const std::exception&) {
      _exit(2);
    }
  close(asked[1]);  // so that a read ends where the other process does
  char question = 0;
  ASSERT_EQ(read(asked[0], &question, 1), 1);
  ASSERT_EQ(kill(both, SIGSTOP), 0);
  std::this_thread::sleep_for(milliseconds(1200));  // the silence twice
  ASSERT_EQ(kill(both, SIGCONT), 0);
  int status = 0;
  ASSERT_EQ(waitpid(both, &status, 0), both);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  close(asked[0]);
}

TEST(RemoteModel, SaysWhyThereIsNoModel) {
  Ends ends = connected_ends();
  refuse_model(std::move(ends.other), "rank 1: there is no such file");
  EXPECT_THAT([&] { remote_model(tiny_configs()[0], std::move(ends.own), milliseconds(20), [] {}); },
              ThrowsMessage<InputError>("rank 1: there is no such file"));
  Ends gone = connected_ends();
  gone.other.passes.close();
  EXPECT_THAT([&] { remote_model(tiny_configs()[0], std::move(gone.own), milliseconds(20), [] {}); },
              ThrowsMessage<InputError>(HasSubstr("ended before")));
}

TEST(RemoteModel, RefusesWhatReadsIntoThePass) {
  const Hosted hosted(tiny_configs()[0]);
  const std::unique_ptr<KvPool> pool = hosted.remote().make_pool();
  const std::unique_ptr<KvSequence> sequence = pool->make_sequence({4});
  const std::vector<int32_t> cells = {0};
  EXPECT_THROW(sequence->read_outputs(cells, {}), InputError);
  EXPECT_THROW(sequence->read_cells(0, 0, {0, 1}, {}, {}), InputError);
  EXPECT_THROW(hosted.remote().compare_outputs({}, {}, {}), InputError);
}

TEST(MessageSocket, CarriesMessagesByName) {
  const std::string name = fmt::format("lacuna-test-{}", getpid());
  const MessageListener listener(name);
  EXPECT_FALSE(listener.accept(milliseconds(0)).has_value());
  MessageSocket client = connect_to(name);
  std::optional<MessageSocket> server = listener.accept(milliseconds(1000));
  ASSERT_TRUE(server.has_value());
  EXPECT_FALSE(server->receive(milliseconds(0)).has_value());
  client.send({{"n", 0.1}, {"list", {1, 2}}});
  EXPECT_EQ(server->receive(), (nlohmann::json{{"n", 0.1}, {"list", {1, 2}}}));
  client.close();
  EXPECT_THROW(server->receive(), ConnectionLost);
  EXPECT_THROW(connect_to(name + "-other"), ConnectionLost);
}

TEST(MessageSocket, RefusesWhatIsNoMessage) {
  for (const std::string& bytes : {std::string(8, '\xff'), std::string("\1\0\0\0\0\0\0\0\xff", 9)}) {
    auto [own, other] = connected();
    ASSERT_EQ(write(other.descriptor(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    EXPECT_THROW(own.receive(), ConnectionLost);
  }
}

}  // namespace
}  // namespace lacuna::remote_model_test
