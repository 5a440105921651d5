#include "server/model_pool.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/exception_text.h"
#include "base/mutex.h"

namespace lacuna {
namespace {

using PoolClock = std::chrono::steady_clock;

constexpr const char* kStopping = "the server is stopping";

}  // namespace

/// What the pool's thread, its callers and leases share.
struct ModelPool::State : std::enable_shared_from_this<State> {
  struct Slot {
    Lease session;  // null: not loaded
    size_t num_leases = 0;
    bool is_leaving = false;  // no new leases: memory is needed for another
    PoolClock::time_point last_used = {};
  };
  struct Waiting {
    size_t index = 0;
    Then then;
  };

  State(const std::vector<PoolModel>& all, const PoolLimits& its_limits)
      : models(all), limits(its_limits), slots(all.size()) {}

  /// Counts as one lease from its making to its end, which must not be under the lock.
  struct Hold {
    Hold(std::shared_ptr<State> its_pool, size_t its_index, bool is_use)
        : pool(std::move(its_pool)), index(its_index), counts_as_use(is_use) {}
    ~Hold() {
      const MutexLock lock(pool->mutex);
      Slot& slot = pool->slots[index];
      --slot.num_leases;
      if (counts_as_use) slot.last_used = PoolClock::now();
      pool->changed.notify_all();
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

    std::shared_ptr<State> pool;
    size_t index;
    bool counts_as_use;
  };

  Lease lease(size_t index, bool counts_as_use) LACUNA_REQUIRES(mutex) {
    const auto hold = std::make_shared<Hold>(shared_from_this(), index, counts_as_use);
    Slot& slot = slots[index];
    ++slot.num_leases;
    if (counts_as_use) slot.last_used = PoolClock::now();
    return {hold, slot.session.get()};
  }

  bool can_lease(size_t index) const LACUNA_REQUIRES(mutex) {
    return slots[index].session != nullptr && !slots[index].is_leaving;
  }

  int64_t loaded_bytes() const LACUNA_REQUIRES(mutex) {
    int64_t bytes = 0;
    for (size_t i = 0; i < slots.size(); ++i) bytes += slots[i].session != nullptr ? models[i].bytes : 0;
    return bytes;
  }

  void work();
  void fail_first(const std::exception& error) LACUNA_REQUIRES(mutex);
  bool serve_first() LACUNA_REQUIRES(mutex);
  bool make_room(size_t index) LACUNA_REQUIRES(mutex);
  void unload(size_t index) LACUNA_REQUIRES(mutex);
  void unload_idle() LACUNA_REQUIRES(mutex);
  std::optional<PoolClock::time_point> next_idle_end() const LACUNA_REQUIRES(mutex);

  const std::vector<PoolModel>& models;
  const PoolLimits limits;
  mutable Mutex mutex;
  Condition changed;
  std::vector<Slot> slots LACUNA_GUARDED_BY(mutex);
  std::deque<Waiting> waiting LACUNA_GUARDED_BY(mutex);
  bool is_stopping LACUNA_GUARDED_BY(mutex) = false;
  std::thread thread;
};

void ModelPool::State::work() {
  const MutexLock lock(mutex);
  while (!is_stopping) {
    if (!waiting.empty()) {
      try {
        serve_first();
      } catch (const std::exception& error) {
        fail_first(error);
      }
      continue;
    }
    unload_idle();
    if (is_stopping || !waiting.empty()) continue;
    if (const std::optional<PoolClock::time_point> end = next_idle_end()) {
      changed.wait_until(mutex, *end);
    } else {
      changed.wait(mutex);
    }
  }
}

/// What a request is told must not end the pool's thread.
void tell(const ModelPool::Then& then, ModelPool::Lease lease, const std::string& failure) noexcept {
  try {
    then(std::move(lease), failure);
  } catch (const std::exception&) {  // `then` has told who asked, or cannot
  }
}

/// Tells the request that waits longest what kept it from being served.
void ModelPool::State::fail_first(const std::exception& error) {
  if (waiting.empty()) return;
  std::string failure = "it failed";  // short enough to need no memory
  try {
    failure = text_of(error);
  } catch (const std::bad_alloc&) {
  }
  const Waiting first = std::move(waiting.front());
  waiting.pop_front();
  mutex.unlock();
  tell(first.then, nullptr, failure);
  mutex.lock();
}

/// Loads the model of the request that waits longest, and serves all that wait for it. False: the pool stops.
bool ModelPool::State::serve_first() {
  const size_t index = waiting.front().index;
  std::string failure;
  if (slots[index].session == nullptr) {
    if (!make_room(index)) return false;
    mutex.unlock();
    Lease session;
    std::exception_ptr error;  // whose text may need memory: not without the mutex
    try {
      session = models[index].load();
    } catch (const std::exception&) {
      error = std::current_exception();
    }
    mutex.lock();
    slots[index].session = std::move(session);
    try {
      if (error) std::rethrow_exception(error);
    } catch (const std::exception& cause) {
      failure = text_of(cause);
    }
  }
  slots[index].is_leaving = false;
  std::vector<std::pair<Then, Lease>> served;
  served.reserve(waiting.size());
  for (auto each = waiting.begin(); each != waiting.end();) {
    if (each->index != index) {
      ++each;
      continue;
    }
    Lease leased;
    try {
      if (failure.empty()) leased = lease(index, true);
    } catch (const std::bad_alloc&) {
      if (served.empty()) throw;
      break;  // the others are served the next time
    }
    served.emplace_back(std::move(each->then), std::move(leased));
    each = waiting.erase(each);
  }
  mutex.unlock();
  for (auto& [then, leased] : served) tell(then, std::move(leased), failure);
  served.clear();
  mutex.lock();
  return true;
}

/// Unloads models, the least recently used first, until the model fits; waits for those that are in use.
bool ModelPool::State::make_room(size_t index) {
  while (!is_stopping && loaded_bytes() + models[index].bytes > limits.bytes) {
    std::optional<size_t> oldest;
    for (size_t i = 0; i < slots.size(); ++i) {
      if (slots[i].session == nullptr) continue;
      const bool is_free = slots[i].num_leases == 0;
      const bool beats =
          !oldest || (is_free && slots[*oldest].num_leases > 0) ||
          (is_free == (slots[*oldest].num_leases == 0) && slots[i].last_used < slots[*oldest].last_used);
      if (beats) oldest = i;
    }
    expects(oldest.has_value(), "make_room: a model fits where no other is loaded");
    slots[*oldest].is_leaving = true;
    if (slots[*oldest].num_leases == 0) {
      unload(*oldest);
    } else {
      changed.wait(mutex);
    }
  }
  // Models that were to leave, and need not, take requests again.
  for (Slot& slot : slots) slot.is_leaving = false;
  return !is_stopping;
}

void ModelPool::State::unload(size_t index) {
  slots[index].is_leaving = true;
  Lease session = std::move(slots[index].session);
  slots[index].session = nullptr;
  mutex.unlock();
  session.reset();
  ::malloc_trim(0);
  mutex.lock();
  slots[index].is_leaving = false;
}

void ModelPool::State::unload_idle() {
  for (size_t i = 0; limits.idle_seconds > 0 && i < slots.size(); ++i) {
    const bool is_free = slots[i].session != nullptr && slots[i].num_leases == 0;
    const std::chrono::duration<double> idle = PoolClock::now() - slots[i].last_used;
    if (is_free && idle.count() >= limits.idle_seconds) unload(i);
  }
}

std::optional<PoolClock::time_point> ModelPool::State::next_idle_end() const {
  std::optional<PoolClock::time_point> next;
  if (limits.idle_seconds <= 0) return next;
  for (const Slot& slot : slots) {
    if (slot.session == nullptr || slot.num_leases > 0) continue;
    const PoolClock::time_point end =
        slot.last_used +
        std::chrono::duration_cast<PoolClock::duration>(std::chrono::duration<double>(limits.idle_seconds));
    if (!next || end < *next) next = end;
  }
  return next;
}

ModelPool::ModelPool(std::vector<PoolModel> models, const PoolLimits& limits)
    : models_(std::move(models)), state_(std::make_shared<State>(models_, limits)) {
  state_->thread = std::thread([state = state_.get()] { state->work(); });
}

ModelPool::~ModelPool() {
  stop();
  state_->thread.join();
  const MutexLock lock(state_->mutex);
  for (size_t i = 0; i < models_.size(); ++i) {
    if (state_->slots[i].session == nullptr) continue;
    // Requests that run would never end where their scheduler was stopped: it ends them first.
    while (state_->slots[i].num_leases > 0) state_->changed.wait(state_->mutex);
    state_->unload(i);
  }
}

void ModelPool::use(size_t index, Then then) {
  Lease leased;
  {
    const MutexLock lock(state_->mutex);
    if (state_->is_stopping) throw SchedulingError(SchedulingError::Reason::kStopping, kStopping);
    if (!state_->can_lease(index)) {
      if (state_->waiting.size() >= state_->limits.max_waiting) {
        throw SchedulingError(
            SchedulingError::Reason::kQueueFull,
            fmt::format("{} requests wait for their models; try again later", state_->waiting.size()));
      }
      state_->waiting.push_back({index, std::move(then)});
      state_->changed.notify_all();
      return;
    }
    leased = state_->lease(index, true);
  }
  then(std::move(leased), {});
}

void ModelPool::load(size_t index) {
  auto done = std::make_shared<std::promise<std::string>>();
  use(index, [done](const Lease& /*lease*/, const std::string& failure) { done->set_value(failure); });
  if (const std::string failure = done->get_future().get(); !failure.empty()) throw InputError(failure);
}

size_t ModelPool::num_waiting() const {
  const MutexLock lock(state_->mutex);
  return state_->waiting.size();
}

std::vector<ModelPool::Loaded> ModelPool::loaded() const {
  std::vector<Loaded> all;  // leases end without the lock
  all.reserve(models_.size());
  const MutexLock lock(state_->mutex);
  for (size_t i = 0; i < models_.size(); ++i) {
    const State::Slot& slot = state_->slots[i];
    if (slot.session != nullptr) all.push_back({i, slot.is_leaving, state_->lease(i, false)});
  }
  return all;
}

void ModelPool::stop() {
  std::deque<State::Waiting> waiting;
  {
    const MutexLock lock(state_->mutex);
    state_->is_stopping = true;
    waiting = std::exchange(state_->waiting, {});
  }
  state_->changed.notify_all();
  const std::string failure = kStopping;
  for (State::Waiting& each : waiting) tell(each.then, nullptr, failure);
}

}  // namespace lacuna
