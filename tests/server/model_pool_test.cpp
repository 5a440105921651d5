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

}  // namespace
}  // namespace lacuna::model_pool_test
