#include "server/model_pool.h"

#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "running_server.h"

namespace lacuna::model_pool_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Models of 1 byte each that count how often they are loaded.
struct Tiny {
  explicit Tiny(size_t count) : loads(count) {
    for (size_t i = 0; i < count; ++i) {
      loads[i] = 0;
      opened.push_back(
          std::make_shared<OpenedModel>("mini-llada", find_model(zoo_folder("mini-llada").string())));
    }
  }

  std::vector<PoolModel> models() {
    std::vector<PoolModel> all;
    for (size_t i = 0; i < opened.size(); ++i) {
      all.push_back({"m" + std::to_string(i), opened[i], 1, [this, i] {
                       ++loads[i];
                       SessionOptions options;
                       options.threads = 1;
                       return std::shared_ptr<InferenceSession>(InferenceSession::load(opened[i], options));
                     }});
    }
    return all;
  }

  std::vector<std::shared_ptr<const OpenedModel>> opened;
  std::vector<std::atomic<int>> loads;
};

/// The lease that a model gives, once it has.
ModelPool::Lease lease_of(ModelPool& pool, size_t index) {
  std::promise<ModelPool::Lease> promise;
  pool.use(index, [&](ModelPool::Lease lease, const std::string&) { promise.set_value(std::move(lease)); });
  return promise.get_future().get();
}

PoolLimits limits_of(int64_t bytes, double idle_seconds = 0) {
  PoolLimits limits;
  limits.bytes = bytes;
  limits.idle_seconds = idle_seconds;
  return limits;
}

std::vector<size_t> loaded(const ModelPool& pool) {
  std::vector<size_t> all;
  for (const ModelPool::Loaded& each : pool.loaded()) all.push_back(each.index);
  return all;
}

TEST(ModelPool, LoadsAModelWhenItIsAskedFor) {
  Tiny tiny(2);
  ModelPool pool(tiny.models(), limits_of(2));
  EXPECT_THAT(loaded(pool), ElementsAre());
  EXPECT_NE(lease_of(pool, 1), nullptr);
  EXPECT_NE(lease_of(pool, 1), nullptr);
  EXPECT_EQ(tiny.loads[1], 1);
  EXPECT_EQ(tiny.loads[0], 0);
  EXPECT_THAT(loaded(pool), ElementsAre(1U));
}

TEST(ModelPool, UnloadsTheLeastRecentlyUsedForAnother) {
  Tiny tiny(3);
  ModelPool pool(tiny.models(), limits_of(2));
  lease_of(pool, 0);
  lease_of(pool, 1);
  lease_of(pool, 0);
  lease_of(pool, 2);
  EXPECT_THAT(loaded(pool), ElementsAre(0U, 2U));
}

TEST(ModelPool, KeepsAModelThatIsInUse) {
  Tiny tiny(2);
  ModelPool pool(tiny.models(), limits_of(1));
  ModelPool::Lease first = lease_of(pool, 0);
  std::promise<void> second, again;
  pool.use(1, [&](const ModelPool::Lease& lease, const std::string&) {
    EXPECT_NE(lease, nullptr);
    second.set_value();
  });
  // The first model has to leave, so who asks for it now waits for its turn.
  while (!pool.loaded().at(0).is_leaving) std::this_thread::yield();
  pool.use(0, [&](const ModelPool::Lease& lease, const std::string&) {
    EXPECT_NE(lease, nullptr);
    again.set_value();
  });
  EXPECT_EQ(tiny.loads[1], 0) << "there is no room";
  EXPECT_FALSE(first->opened().config().vocab_size == 0) << "the lease still holds it";
  first.reset();
  second.get_future().get();
  again.get_future().get();
  EXPECT_EQ(tiny.loads[0], 2);
  EXPECT_EQ(tiny.loads[1], 1);
}

TEST(ModelPool, UnloadsWhatIsIdle) {
  Tiny tiny(1);
  ModelPool pool(tiny.models(), limits_of(1, 1e-3));
  ModelPool::Lease lease = lease_of(pool, 0);
  EXPECT_THAT(loaded(pool), ElementsAre(0U)) << "it is in use";
  lease.reset();
  while (!loaded(pool).empty()) std::this_thread::yield();
  EXPECT_NE(lease_of(pool, 0), nullptr);
  EXPECT_EQ(tiny.loads[0], 2);
}

TEST(ModelPool, TellsWhyAModelCannotBeLoaded) {
  Tiny tiny(1);
  std::vector<PoolModel> models = tiny.models();
  models[0].load = []() -> std::shared_ptr<InferenceSession> { throw InputError("the disk is gone"); };
  ModelPool pool(std::move(models), limits_of(1));
  EXPECT_THAT([&] { pool.load(0); }, ThrowsMessage<InputError>(HasSubstr("the disk is gone")));
  EXPECT_THAT(loaded(pool), ElementsAre());
}

TEST(ModelPool, GoesOnWhereACallerThrows) {
  Tiny tiny(2);
  ModelPool pool(tiny.models(), limits_of(1));
  pool.use(0, [](const ModelPool::Lease&, const std::string&) { throw std::bad_alloc(); });
  EXPECT_NE(lease_of(pool, 1), nullptr);
  EXPECT_NE(lease_of(pool, 0), nullptr);
}

TEST(ModelPool, RefusesMoreThanMayWaitAndEndsThoseThatDo) {
  Tiny tiny(1);
  std::mutex mutex;
  std::vector<PoolModel> models = tiny.models();
  const auto load = models[0].load;
  models[0].load = [&, load] {
    const std::lock_guard lock(mutex);
    return load();
  };
  PoolLimits limits = limits_of(1);
  limits.max_waiting = 1;
  std::promise<std::string> outcome;
  std::unique_lock lock(mutex);
  ModelPool pool(std::move(models), limits);
  pool.use(0, [&](const ModelPool::Lease&, const std::string& failure) { outcome.set_value(failure); });
  EXPECT_THROW(pool.use(0, [](const ModelPool::Lease&, const std::string&) {}), SchedulingError);
  pool.stop();
  EXPECT_THAT(outcome.get_future().get(), HasSubstr("stopping"));
  lock.unlock();
  EXPECT_THROW(pool.use(0, [](const ModelPool::Lease&, const std::string&) {}), SchedulingError);
}

/// Replaces a model and waits; what went wrong.
std::string replace(ModelPool& pool, size_t index, PoolModel::Load load) {
  std::promise<std::string> failure;
  pool.replace(index, std::move(load), [&](const std::string& sentence) { failure.set_value(sentence); });
  return failure.get_future().get();
}

TEST(ModelPool, ReplacesAModelAndKeepsTheOldOneForThoseWhoUseIt) {
  Tiny tiny(1);
  ModelPool pool(tiny.models(), limits_of(1));
  ModelPool::Lease old = lease_of(pool, 0);
  EXPECT_EQ(replace(pool, 0, tiny.models()[0].load), "");
  ModelPool::Lease now = lease_of(pool, 0);
  EXPECT_NE(now.get(), old.get());
  EXPECT_NE(old->opened().config().vocab_size, 0) << "it is still there";
  EXPECT_EQ(pool.loaded().size(), 2U);
  EXPECT_THAT([&] { pool.replace(0, tiny.models()[0].load, [](const std::string&) {}); },
              ThrowsMessage<SchedulingError>(HasSubstr("still use the previous weights")));
  old.reset();
  while (pool.loaded().size() > 1) std::this_thread::yield();
  EXPECT_EQ(lease_of(pool, 0).get(), now.get());
  const auto is_accepted = [&] {
    try {
      EXPECT_EQ(replace(pool, 0, tiny.models()[0].load), "");
      return true;
    } catch (const SchedulingError&) {
      return false;
    }
  };
  while (!is_accepted()) std::this_thread::yield();  // until the first one is gone
}

TEST(ModelPool, KeepsAModelWhoseReplacementCannotBeLoaded) {
  Tiny tiny(1);
  ModelPool pool(tiny.models(), limits_of(1));
  const InferenceSession* before = lease_of(pool, 0).get();
  std::promise<void> goes_on;
  std::promise<std::string> failure;
  pool.replace(
      0,
      [&]() -> std::shared_ptr<InferenceSession> {
        goes_on.get_future().get();
        throw InputError("there is no such file");
      },
      [&](const std::string& sentence) { failure.set_value(sentence); });
  EXPECT_THAT([&] { pool.replace(0, tiny.models()[0].load, [](const std::string&) {}); },
              ThrowsMessage<SchedulingError>(HasSubstr("another reload is in progress")));
  EXPECT_EQ(lease_of(pool, 0).get(), before) << "it answers while the other is loaded";
  goes_on.set_value();
  EXPECT_EQ(failure.get_future().get(), "there is no such file");
  EXPECT_EQ(lease_of(pool, 0).get(), before);
}

/// A model on ranks that can be made to end.
class Breakable final : public BackendModel {
 public:
  explicit Breakable(std::shared_ptr<const BackendModel> whole) : whole_(std::move(whole)) {}

  const ModelConfig& config() const override { return whole_->config(); }
  std::string_view device() const override { return whole_->device(); }
  DType dtype() const override { return whole_->dtype(); }
  int64_t weight_bytes() const override { return whole_->weight_bytes(); }
  ModelBytes bytes_of_passes() const override { return whole_->bytes_of_passes(); }
  std::string failure() const override { return is_broken_ ? "rank 1 has ended" : ""; }
  std::unique_ptr<KvPool> make_pool(int64_t limit) const override { return whole_->make_pool(limit); }
  std::unique_ptr<PassTicket> submit(const StepPlan& plan, std::span<KvSequence* const> sequences,
                                     const PassOptions& options) const override {
    return whole_->submit(plan, sequences, options);
  }
  void keep_soft_embeddings(KvSequence& /*sequence*/, std::span<const int32_t> /*cells*/,
                            ConstMatrix<float> /*distributions*/) const override {}
  void compare_outputs(ConstMatrix<float> /*now*/, ConstMatrix<float> /*before*/,
                       std::span<Drift> /*drifts*/) const override {}

  void end_rank() { is_broken_ = true; }

 private:
  std::shared_ptr<const BackendModel> whole_;
  std::atomic<bool> is_broken_{false};
};

/// One breakable model, loaded anew whenever the pool wants it.
struct BreakableModel {
  BreakableModel() : tiny(1), whole(tiny.models()[0].load()) {}

  std::vector<PoolModel> models() {
    PoolModel model{"m", tiny.opened[0], 1, [this] {
                      ++loads;
                      if (fails) throw InputError("rank 1 cannot be started");
                      last = std::make_shared<Breakable>(whole->parts().model);
                      return std::make_shared<InferenceSession>(tiny.opened[0], InferenceSession::Parts{last},
                                                                SchedulerLimits());
                    }};
    return {std::move(model)};
  }

  Tiny tiny;
  std::shared_ptr<InferenceSession> whole;
  std::shared_ptr<Breakable> last;
  std::atomic<int> loads{0};
  std::atomic<bool> fails{false};
};

TEST(ModelPool, LoadsAModelAgainThatLostARankWhileItWasIdle) {
  BreakableModel breakable;
  PoolLimits limits = limits_of(1);
  limits.restarts = 5;
  ModelPool pool(breakable.models(), limits);
  pool.load(0);
  EXPECT_FALSE(pool.failure().has_value());
  breakable.last->end_rank();
  const std::optional<PoolFailure> failure = pool.failure();
  ASSERT_TRUE(failure.has_value());
  EXPECT_THAT(failure->sentence, HasSubstr("rank 1 has ended"));
  EXPECT_FALSE(failure->is_final);
  while (pool.failure().has_value()) std::this_thread::yield();
  EXPECT_EQ(breakable.loads, 2);
  EXPECT_NE(lease_of(pool, 0), nullptr);
}

TEST(ModelPool, GivesUpAfterAsManyRestartsAsItMayTry) {
  BreakableModel breakable;
  PoolLimits limits = limits_of(1);
  limits.restarts = 2;
  ModelPool pool(breakable.models(), limits);
  pool.load(0);
  breakable.fails = true;
  breakable.last->end_rank();
  while (!pool.failure() || !pool.failure()->is_final) std::this_thread::yield();
  EXPECT_EQ(breakable.loads, 3);
  EXPECT_THAT(pool.failure()->sentence, HasSubstr("rank 1 cannot be started; restart the server"));
  EXPECT_THAT([&] { lease_of(pool, 0); }, ThrowsMessage<SchedulingError>(HasSubstr("restart the server")));
}

TEST(ModelPool, LeavesABrokenModelWhereNothingIsStartedAgain) {
  BreakableModel breakable;
  ModelPool pool(breakable.models(), limits_of(1));
  pool.load(0);
  breakable.last->end_rank();
  EXPECT_TRUE(pool.failure()->is_final);
  EXPECT_EQ(breakable.loads, 1);
}

}  // namespace
}  // namespace lacuna::model_pool_test
