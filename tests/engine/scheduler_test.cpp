#include "engine/scheduler.h"

#include <gmock/gmock.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/communicator.h"
#include "kernels/dispatch.h"
#include "model/tiny_models.h"
#include "options/choose.h"

namespace lacuna::scheduler_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Reason = SchedulingError::Reason;

/// Waits for the end of a request; may hold up the engine in the first pass until it is released.
class WaitingListener final : public RequestListener {
 public:
  explicit WaitingListener(bool holds = false) : holds_(holds) {}

  void started(const Decoder& /*decoder*/, double queue_seconds) override {
    EXPECT_GE(queue_seconds, 0);
    note(has_started_);
  }
  bool stepped(const StepEvent& /*event*/) override {
    std::unique_lock lock(mutex_);
    ++steps_;
    changed_.wait(lock, [&] { return !holds_; });
    return steps_ != last_step_;
  }
  void finished(const Decoder& decoder, const RunStatistics& statistics) override {
    tokens_.assign(decoder.canvas().begin(), decoder.canvas().end());
    passes_ = statistics.forward_passes;
    note(has_ended_);
  }
  void failed(const std::string& sentence) override {
    failure_ = sentence;
    note(has_ended_);
  }

  void release() {
    const std::lock_guard lock(mutex_);
    holds_ = false;
    changed_.notify_all();
  }
  void end_after(int32_t steps) { last_step_ = steps; }
  bool wait_for_start() { return wait(has_started_); }
  bool wait_for_end() { return wait(has_ended_); }

  // After wait_for_end():
  std::vector<TokenId> tokens_;
  std::string failure_;
  int32_t passes_ = 0;

 private:
  void note(bool& what) {
    const std::lock_guard lock(mutex_);
    what = true;
    changed_.notify_all();
  }
  bool wait(const bool& what) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [&] { return what; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool holds_;
  bool has_started_ = false;
  bool has_ended_ = false;
  int32_t steps_ = 0;
  int32_t last_step_ = -1;
};

/// A model whose second rank has ended: it computes no pass.
class BrokenModel final : public BackendModel {
 public:
  explicit BrokenModel(std::shared_ptr<const BackendModel> whole) : whole_(std::move(whole)) {}

  const ModelConfig& config() const override { return whole_->config(); }
  std::string_view device() const override { return whole_->device(); }
  DType dtype() const override { return whole_->dtype(); }
  int64_t weight_bytes() const override { return whole_->weight_bytes(); }
  ModelBytes bytes_of_passes() const override { return whole_->bytes_of_passes(); }
  std::unique_ptr<KvPool> make_pool(int64_t limit) const override { return whole_->make_pool(limit); }
  std::unique_ptr<PassTicket> submit(const StepPlan& /*plan*/, std::span<KvSequence* const> /*sequences*/,
                                     const PassOptions& /*options*/) const override {
    throw RankError(1, "has ended");
  }
  void keep_soft_embeddings(KvSequence& /*sequence*/, std::span<const int32_t> /*cells*/,
                            ConstMatrix<float> /*distributions*/) const override {}
  void compare_outputs(ConstMatrix<float> /*now*/, ConstMatrix<float> /*before*/,
                       std::span<Drift> /*drifts*/) const override {}

 private:
  std::shared_ptr<const BackendModel> whole_;
};

class SchedulerTest : public testing::Test {
 protected:
  SchedulerTest() : model_(tiny_model(tiny_configs()[0])) {}

  Scheduler& start(const SchedulerLimits& limits) {
    scheduler_.emplace(on_cpu(model_, default_table(), threads_), nullptr, limits);
    return *scheduler_;
  }

  void start_one_at_a_time(int32_t max_queue = SchedulerLimits().max_queue) {
    SchedulerLimits limits;
    limits.max_running = 1;
    limits.max_queue = max_queue;
    start(limits);
  }

  std::unique_ptr<Decoder> decoder(int32_t gen_length = 8, uint64_t seed = 0) const {
    GenerationOptions options;
    options.gen_length = gen_length;
    options.seed = seed;
    return make_decoder(model_->config(), options, {1, 2, 3});
  }

  std::vector<uint64_t> submit(const std::shared_ptr<RequestListener>& listener,
                               const std::string& client = {}) {
    std::vector<Scheduler::Job> jobs;
    jobs.push_back({decoder(), listener});
    return scheduler_->submit(std::move(jobs), client);
  }

  Reason reason_of_refusal(int32_t gen_length = 8, const std::string& client = {}) {
    std::vector<Scheduler::Job> jobs;
    jobs.push_back({decoder(gen_length), std::make_shared<WaitingListener>()});
    try {
      scheduler_->submit(std::move(jobs), client);
    } catch (const SchedulingError& error) {
      EXPECT_STRNE(error.what(), "");
      return error.reason();
    }
    ADD_FAILURE() << "the request was taken";
    return Reason::kStopping;
  }

  ThreadPool threads_{1};
  std::shared_ptr<const Model> model_;
  std::optional<Scheduler> scheduler_;
};

TEST_F(SchedulerTest, GivesEachRequestTheTextThatItHasAlone) {
  Engine alone(on_cpu(model_, default_table(), threads_));
  alone.add(decoder());
  alone.run();
  const std::span<const TokenId> expected = alone.decoder(0).canvas();

  start({});
  std::vector<std::shared_ptr<WaitingListener>> listeners;
  for (int i = 0; i < 5; ++i) submit(listeners.emplace_back(std::make_shared<WaitingListener>()));
  for (const auto& listener : listeners) {
    ASSERT_TRUE(listener->wait_for_end());
    EXPECT_EQ(listener->tokens_, std::vector<TokenId>(expected.begin(), expected.end()));
    EXPECT_GT(listener->passes_, 0);
  }
  while (!scheduler_->is_idle()) std::this_thread::yield();
  EXPECT_THAT(scheduler_->states(), IsEmpty());
}

/// Throws where it is told to.
class ThrowingListener final : public RequestListener {
 public:
  enum class Place { kStarted, kStepped, kFinished };
  ThrowingListener(Place place, bool fails_to_hear) : place_(place), fails_to_hear_(fails_to_hear) {}

  void started(const Decoder& /*decoder*/, double /*queue_seconds*/) override { throw_at(Place::kStarted); }
  bool stepped(const StepEvent& /*event*/) override {
    throw_at(Place::kStepped);
    return true;
  }
  void finished(const Decoder& /*decoder*/, const RunStatistics& /*statistics*/) override {
    throw_at(Place::kFinished);
  }
  void failed(const std::string& sentence) override {
    if (fails_to_hear_) throw std::bad_alloc();
    end_.set_value(sentence);
  }
  void lost(const std::exception_ptr& error) noexcept override { end_.set_exception(error); }

  std::promise<std::string> end_;

 private:
  void throw_at(Place place) const {
    if (place == place_) throw std::bad_alloc();
  }

  Place place_;
  bool fails_to_hear_;
};

TEST_F(SchedulerTest, ARequestWhoseListenerThrowsFailsAlone) {
  using Place = ThrowingListener::Place;
  for (const Place place : {Place::kStarted, Place::kStepped, Place::kFinished}) {
    start({});
    const auto other = std::make_shared<WaitingListener>();
    const auto throwing = std::make_shared<ThrowingListener>(place, /*fails_to_hear=*/false);
    const auto deaf = std::make_shared<ThrowingListener>(place, /*fails_to_hear=*/true);
    submit(throwing);
    submit(deaf);
    submit(other);
    EXPECT_THAT(throwing->end_.get_future().get(), HasSubstr("not enough memory"));
    EXPECT_THROW(deaf->end_.get_future().get(), std::bad_alloc);
    ASSERT_TRUE(other->wait_for_end());
    EXPECT_EQ(other->failure_, "");
    while (!scheduler_->is_idle()) std::this_thread::yield();
  }
}

TEST_F(SchedulerTest, CountsWhoRunsAndWhoWaits) {
  start_one_at_a_time();
  const auto first = std::make_shared<WaitingListener>(/*holds=*/true);
  const auto second = std::make_shared<WaitingListener>();
  submit(first);
  ASSERT_TRUE(first->wait_for_start());
  submit(second);
  EXPECT_EQ(scheduler_->totals().running + scheduler_->totals().waiting, 2U);
  const std::vector<RequestState> states = scheduler_->states();
  ASSERT_THAT(states, SizeIs(2));
  EXPECT_TRUE(states[0].is_running);
  EXPECT_FALSE(states[1].is_running);
  EXPECT_EQ(states[1].prompt_tokens, 3);
  first->release();
  EXPECT_TRUE(first->wait_for_end());
  EXPECT_TRUE(second->wait_for_end());
}

TEST_F(SchedulerTest, EndsARequestWhoseListenerHasEnough) {
  start({});
  const auto listener = std::make_shared<WaitingListener>();
  listener->end_after(2);
  submit(listener);
  ASSERT_TRUE(listener->wait_for_end());
  EXPECT_EQ(listener->passes_, 2);
}

TEST_F(SchedulerTest, RefusesWhatDoesNotFitInTheQueue) {
  start_one_at_a_time(/*max_queue=*/1);
  const auto first = std::make_shared<WaitingListener>(/*holds=*/true);
  const auto second = std::make_shared<WaitingListener>();
  submit(first);
  submit(second);
  EXPECT_EQ(reason_of_refusal(), Reason::kQueueFull);
  first->release();
  EXPECT_TRUE(second->wait_for_end());
}

TEST_F(SchedulerTest, RefusesAClientThatHasTooMany) {
  SchedulerLimits limits;
  limits.max_per_client = 1;
  start(limits);
  const auto first = std::make_shared<WaitingListener>(/*holds=*/true);
  const auto other = std::make_shared<WaitingListener>();
  submit(first, "a");
  EXPECT_EQ(reason_of_refusal(8, "a"), Reason::kTooManyFromClient);
  submit(other, "b");
  first->release();
  EXPECT_TRUE(other->wait_for_end());
}

TEST_F(SchedulerTest, RefusesWhatNeedsMoreMemoryThanThereIs) {
  SchedulerLimits limits;
  limits.memory = 1;
  start(limits);
  EXPECT_EQ(reason_of_refusal(), Reason::kTooLarge);
}

TEST_F(SchedulerTest, TakesNothingMoreOnceDrained) {
  start({});
  const auto listener = std::make_shared<WaitingListener>(/*holds=*/true);
  submit(listener);
  scheduler_->drain();
  EXPECT_EQ(reason_of_refusal(), Reason::kStopping);
  listener->release();
  EXPECT_TRUE(listener->wait_for_end());
  EXPECT_THAT(listener->failure_, IsEmpty());
}

TEST_F(SchedulerTest, TellsRequestsThatAreLeftWhenItStops) {
  start_one_at_a_time();
  const auto first = std::make_shared<WaitingListener>(/*holds=*/true);
  const auto second = std::make_shared<WaitingListener>();
  submit(first);
  ASSERT_TRUE(first->wait_for_start());
  submit(second);
  std::thread stopper([&] { scheduler_->stop(); });
  const auto is_stopping = [&] {
    try {
      submit(std::make_shared<WaitingListener>());
    } catch (const SchedulingError& error) {
      return error.reason() == Reason::kStopping;
    }
    return false;
  };
  while (!is_stopping()) std::this_thread::yield();
  first->release();
  stopper.join();
  EXPECT_TRUE(second->wait_for_end());
  EXPECT_THAT(second->failure_, HasSubstr("stopped"));
  EXPECT_EQ(reason_of_refusal(), Reason::kStopping);
}

TEST_F(SchedulerTest, ForgetsACancelledRequest) {
  start_one_at_a_time();
  const auto first = std::make_shared<WaitingListener>(/*holds=*/true);
  const auto second = std::make_shared<WaitingListener>();
  const auto third = std::make_shared<WaitingListener>();
  submit(first);
  const std::vector<uint64_t> ids = submit(second);
  submit(third);
  scheduler_->cancel(ids);
  first->release();
  ASSERT_TRUE(third->wait_for_end());
  EXPECT_THAT(second->tokens_, IsEmpty());
  EXPECT_THAT(second->failure_, IsEmpty());
}

TEST_F(SchedulerTest, FailsARequestThatTakesTooLong) {
  SchedulerLimits limits;
  limits.request_seconds = 1e-9;
  start(limits);
  const auto listener = std::make_shared<WaitingListener>();
  submit(listener);
  ASSERT_TRUE(listener->wait_for_end());
  EXPECT_THAT(listener->failure_, HasSubstr("took longer"));
}

TEST_F(SchedulerTest, FailsAllRequestsOfAModelThatLostARank) {
  scheduler_.emplace(std::make_shared<BrokenModel>(on_cpu(model_, default_table(), threads_)), nullptr,
                     SchedulerLimits());
  EXPECT_EQ(scheduler_->failure(), "");
  const auto listener = std::make_shared<WaitingListener>();
  submit(listener);
  ASSERT_TRUE(listener->wait_for_end());
  EXPECT_THAT(listener->failure_, HasSubstr("rank 1 has ended"));
  EXPECT_EQ(scheduler_->failure(), listener->failure_);
  EXPECT_EQ(reason_of_refusal(), Reason::kBroken);
}

TEST_F(SchedulerTest, CountsRowsThatRequestsHaveStillToCompute) {
  start_one_at_a_time();
  EXPECT_EQ(scheduler_->totals().rows_pending, 0);
  EXPECT_GT(scheduler_->totals().kv_pages, 0);
  const auto first = std::make_shared<WaitingListener>(/*holds=*/true);
  submit(first);
  ASSERT_TRUE(first->wait_for_start());
  const int64_t of_one = scheduler_->totals().rows_pending;
  EXPECT_GE(of_one, 8) << "a row for each token of the answer";
  std::vector<Scheduler::Job> jobs;
  jobs.push_back({decoder(64), std::make_shared<WaitingListener>()});
  scheduler_->submit(std::move(jobs));
  EXPECT_GT(scheduler_->totals().rows_pending, 3 * of_one) << "a long one has more";
  first->release();
}

TEST_F(SchedulerTest, RunsIdleJobsOnlyWhileNoRequestIsThere) {
  start_one_at_a_time();
  const auto request = std::make_shared<WaitingListener>(/*holds=*/true);
  const auto idle = std::make_shared<WaitingListener>(/*holds=*/true);
  const auto between = std::make_shared<WaitingListener>();
  submit(request);
  ASSERT_TRUE(request->wait_for_start());
  int made = 0;
  ASSERT_TRUE(scheduler_->submit_idle({[&] {
                                         ++made;
                                         return decoder();
                                       },
                                       idle}));
  EXPECT_EQ(made, 0);
  request->release();
  ASSERT_TRUE(idle->wait_for_start());  // and is held up in its first pass
  EXPECT_TRUE(scheduler_->is_idle());
  EXPECT_THAT(scheduler_->states(), IsEmpty());
  submit(between);
  idle->release();
  ASSERT_TRUE(between->wait_for_end());
  ASSERT_TRUE(idle->wait_for_end());
  EXPECT_EQ(made, 2);  // the request took its place
  EXPECT_EQ(idle->tokens_, between->tokens_);
}

TEST_F(SchedulerTest, TellsAnIdleJobThatCannotBeMadeAndContinues) {
  start({});
  const auto broken = std::make_shared<WaitingListener>();
  const auto next = std::make_shared<WaitingListener>();
  scheduler_->submit_idle({[]() -> std::unique_ptr<Decoder> { throw std::runtime_error("no"); }, broken});
  scheduler_->submit_idle({[&] { return decoder(); }, next});
  ASSERT_TRUE(broken->wait_for_end());
  EXPECT_EQ(broken->failure_, "no");
  EXPECT_TRUE(next->wait_for_end());
}

TEST_F(SchedulerTest, TakesABoundedNumberOfIdleJobs) {
  start_one_at_a_time();
  const auto request = std::make_shared<WaitingListener>(/*holds=*/true);
  submit(request);
  ASSERT_TRUE(request->wait_for_start());
  const auto offer = [&] {
    return scheduler_->submit_idle({[&] { return decoder(); }, std::make_shared<WaitingListener>()});
  };
  for (size_t i = 0; i < Scheduler::kMaxIdleJobs; ++i) EXPECT_TRUE(offer());
  EXPECT_FALSE(offer());
  scheduler_->drain();
  EXPECT_FALSE(offer());
  request->release();
  EXPECT_TRUE(request->wait_for_end());
}

}  // namespace
}  // namespace lacuna::scheduler_test
