#include "server/model_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <exception>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "base/budget.h"
#include "base/error.h"
#include "base/exception_text.h"
#include "base/heap.h"
#include "base/mutex.h"

namespace lacuna {
namespace {

using PoolClock = std::chrono::steady_clock;

constexpr const char* kStopping = "the server is stopping";
constexpr std::chrono::milliseconds kFirstPause{500};
constexpr std::chrono::milliseconds kLongestPause{60'000};
constexpr std::chrono::milliseconds kBetweenLooks{200};
/// A model that ran this long before it failed starts a new sequence of restarts.
constexpr std::chrono::minutes kStableAfter{5};

std::string tell_final(const std::string& failure) {
  return failure + "; restart the server";
}

}  // namespace

/// State shared by the pool's thread, its callers and leases.
struct ModelPool::State : std::enable_shared_from_this<State> {
  /// A loaded session. Only the pool's thread frees it.
  struct Held {
    size_t index = 0;
    Lease session;
    size_t num_leases = 0;
  };
  struct Slot {
    PoolModel::Load load;
    std::shared_ptr<Held> held;  // null: not loaded
    bool is_leaving = false;     // gives no new leases: another model needs the memory
    PoolClock::time_point last_used = {};
    // State after the processes that computed the model have ended:
    std::string failure;  // one sentence; empty while they run
    bool has_given_up = false;
    int num_restarts = 0;  // consecutive restarts
    PoolClock::time_point loaded_at = {};
    PoolClock::time_point restart_at = {};

    bool is_free() const { return held != nullptr && held->num_leases == 0; }
  };
  struct Replacement {
    size_t index = 0;
    PoolModel::Load load;
    std::function<void(const std::string&)> then;
  };
  struct Waiting {
    size_t index = 0;
    Then then;
  };

  State(const std::vector<PoolModel>& all, const PoolLimits& its_limits)
      : models(all), limits(its_limits), slots(all.size()) {
    for (size_t i = 0; i < slots.size(); ++i) slots[i].load = models[i].load;
  }

  /// One lease, counted during its lifetime. Its destructor locks the mutex.
  struct Hold {
    Hold(std::shared_ptr<State> its_pool, std::shared_ptr<Held> its_model, bool is_use)
        : pool(std::move(its_pool)), held(std::move(its_model)), counts_as_use(is_use) {}
    ~Hold() {
      const MutexLock lock(pool->mutex);
      --held->num_leases;
      if (counts_as_use) pool->slots[held->index].last_used = PoolClock::now();
      pool->changed.notify_all();
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

    std::shared_ptr<State> pool;
    std::shared_ptr<Held> held;
    bool counts_as_use;
  };

  Lease lease(const std::shared_ptr<Held>& held, bool counts_as_use) LACUNA_REQUIRES(mutex) {
    const auto hold = std::make_shared<Hold>(shared_from_this(), held, counts_as_use);
    ++held->num_leases;
    if (counts_as_use) slots[held->index].last_used = PoolClock::now();
    return {hold, held->session.get()};
  }

  bool can_lease(size_t index) const LACUNA_REQUIRES(mutex) {
    const Slot& slot = slots[index];
    return slot.held != nullptr && !slot.is_leaving && slot.failure.empty();
  }

  void hold(size_t index, Lease session) LACUNA_REQUIRES(mutex) {
    Slot& slot = slots[index];
    slot.held = std::make_shared<Held>(Held{index, std::move(session)});
    slot.loaded_at = PoolClock::now();
    slot.failure.clear();
  }
  void retire(size_t index) LACUNA_REQUIRES(mutex) {
    if (slots[index].held == nullptr) return;
    retired.push_back(slots[index].held);
    slots[index].held = nullptr;
  }

  int64_t loaded_bytes() const LACUNA_REQUIRES(mutex) {
    int64_t bytes = 0;
    for (size_t i = 0; i < slots.size(); ++i) bytes += slots[i].held != nullptr ? models[i].bytes : 0;
    return bytes;
  }

  void work();
  void work_once() LACUNA_REQUIRES(mutex);
  void fail_first() LACUNA_REQUIRES(mutex);
  void free(Lease session) LACUNA_REQUIRES(mutex);
  Lease load(const PoolModel::Load& loader, std::string& failure) LACUNA_REQUIRES(mutex);
  bool serve_first() LACUNA_REQUIRES(mutex);
  bool make_room(size_t index) LACUNA_REQUIRES(mutex);
  void unload(size_t index) LACUNA_REQUIRES(mutex);
  void unload_idle() LACUNA_REQUIRES(mutex);
  std::optional<PoolClock::time_point> next_idle_end() const LACUNA_REQUIRES(mutex);
  void replace_one() LACUNA_REQUIRES(mutex);
  void free_retired() LACUNA_REQUIRES(mutex);
  void check_for_failures() LACUNA_REQUIRES(mutex);
  void schedule_restart(Slot& slot) const;
  void restart_failed() LACUNA_REQUIRES(mutex);

  const std::vector<PoolModel>& models;
  const PoolLimits limits;
  mutable Mutex mutex;
  Condition changed;
  std::vector<Slot> slots LACUNA_GUARDED_BY(mutex);
  std::deque<Waiting> waiting LACUNA_GUARDED_BY(mutex);
  std::optional<Replacement> replacement LACUNA_GUARDED_BY(mutex);  // replacement that is still loading
  std::vector<std::shared_ptr<Held>> retired LACUNA_GUARDED_BY(mutex);
  bool is_stopping LACUNA_GUARDED_BY(mutex) = false;
  std::atomic<bool> stops_work{false};  // ends the work of the pool's thread
  std::thread thread;
};

namespace {

/// Calls `then`; an exception of the request's callback must not end the pool's thread.
void tell(const ModelPool::Then& then, ModelPool::Lease lease, const std::string& failure) noexcept {
  try {
    then(std::move(lease), failure);
  } catch (const std::exception&) {  // `then` reports its own errors if it can
  }
}

/// An exception's sentence, or a short text if there is no memory for it.
std::string text_of_failure(const std::exception_ptr& error) noexcept {
  std::string sentence = "it failed";  // short enough to need no memory
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& cause) {
    try {
      sentence = lacuna::text_of(cause);
    } catch (const std::bad_alloc&) {
    }
  } catch (...) {
  }
  return sentence;
}

}  // namespace

void ModelPool::State::work() {
  const Budget budget("loading", {.stop = &stops_work});
  const MutexLock lock(mutex);
  while (!is_stopping) {
    try {
      work_once();
    } catch (const std::exception&) {
      fail_first();
    }
  }
  if (!replacement) return;
  const auto then = std::exchange(replacement, std::nullopt)->then;
  mutex.unlock();
  tell([&then](const Lease& /*none*/, const std::string& why) { then(why); }, nullptr, kStopping);
  mutex.lock();
}

void ModelPool::State::work_once() {
  if (replacement) replace_one();
  if (!waiting.empty()) {
    serve_first();
    return;
  }
  free_retired();
  unload_idle();
  check_for_failures();
  restart_failed();
  if (is_stopping || !waiting.empty() || replacement) return;
  std::optional<PoolClock::time_point> end = next_idle_end();
  if (limits.restarts)
    end = std::min(end.value_or(PoolClock::time_point::max()), PoolClock::now() + kBetweenLooks);
  if (end) {
    changed.wait_until(mutex, *end);
  } else {
    changed.wait(mutex);
  }
}

/// Fails the longest waiting request with the current exception.
void ModelPool::State::fail_first() {
  if (waiting.empty()) return;
  const std::string failure = text_of_failure(std::current_exception());
  const Waiting first = std::move(waiting.front());
  waiting.pop_front();
  mutex.unlock();
  tell(first.then, nullptr, failure);
  mutex.lock();
}

/// Loads a session with the mutex unlocked. After an error, returns null and sets `failure`.
ModelPool::Lease ModelPool::State::load(const PoolModel::Load& loader, std::string& failure) {
  mutex.unlock();
  Lease session;
  try {
    session = loader();
  } catch (...) {
    failure = text_of_failure(std::current_exception());
  }
  mutex.lock();
  return session;
}

void ModelPool::State::replace_one() {
  const size_t index = replacement->index;
  const PoolModel::Load loader = replacement->load;
  std::string failure;
  if (Lease session = load(loader, failure); session != nullptr) {
    retire(index);
    slots[index].load = loader;
    slots[index].has_given_up = false;
    slots[index].num_restarts = 0;
    hold(index, std::move(session));
  }
  const std::function<void(const std::string&)> then = std::exchange(replacement, std::nullopt)->then;
  mutex.unlock();
  tell([&then](const Lease& /*none*/, const std::string& why) { then(why); }, nullptr, failure);
  mutex.lock();
}

/// Frees sessions that were replaced and are no longer used.
void ModelPool::State::free_retired() {
  for (size_t i = 0; i < retired.size();) {
    if (retired[i]->num_leases > 0) {
      ++i;
      continue;
    }
    const std::shared_ptr<Held> held = retired[i];
    free(std::exchange(held->session, nullptr));
    // Until now it counted as being in memory.
    retired.erase(std::ranges::find(retired, held));
    i = 0;
  }
}

void ModelPool::State::schedule_restart(Slot& slot) const {
  slot.has_given_up = slot.num_restarts >= *limits.restarts;
  const PoolClock::duration pause = kFirstPause * (1 << std::min(slot.num_restarts, 10));
  slot.restart_at = PoolClock::now() + std::min<PoolClock::duration>(pause, kLongestPause);
}

void ModelPool::State::check_for_failures() {
  for (size_t i = 0; limits.restarts && i < slots.size(); ++i) {
    const std::shared_ptr<Held> held = slots[i].held;
    if (held == nullptr) continue;
    mutex.unlock();  // a scheduler may give leases back
    std::string failure;
    try {
      failure = held->session->scheduler().failure();
    } catch (const std::exception&) {  // checked again soon
    }
    mutex.lock();
    if (failure.empty()) continue;
    Slot& slot = slots[i];
    slot.failure = std::move(failure);
    if (PoolClock::now() - slot.loaded_at >= kStableAfter) slot.num_restarts = 0;
    schedule_restart(slot);
    retire(i);
  }
}

void ModelPool::State::restart_failed() {
  for (size_t i = 0; i < slots.size(); ++i) {
    Slot& slot = slots[i];
    const bool is_due = !slot.failure.empty() && !slot.has_given_up && PoolClock::now() >= slot.restart_at;
    if (!is_due || is_stopping) continue;
    ++slot.num_restarts;
    const PoolModel::Load loader = slot.load;
    std::string failure;
    if (Lease session = load(loader, failure); session != nullptr) {
      hold(i, std::move(session));
      continue;
    }
    slot.failure = failure;
    schedule_restart(slot);
  }
}

/// Loads the model of the longest waiting request and serves all requests for it. False: the pool stops.
bool ModelPool::State::serve_first() {
  const size_t index = waiting.front().index;
  std::string failure;
  if (slots[index].held == nullptr) {
    if (!make_room(index)) return false;
    const PoolModel::Load loader = slots[index].load;
    if (Lease session = load(loader, failure); session != nullptr) hold(index, std::move(session));
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
      if (failure.empty()) leased = lease(slots[index].held, true);
    } catch (const std::bad_alloc&) {
      if (served.empty()) throw;
      break;  // the others are served in the next call
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

/// Unloads the least recently used models until the model fits; waits for models in use.
bool ModelPool::State::make_room(size_t index) {
  while (!is_stopping && loaded_bytes() + models[index].bytes > limits.bytes) {
    std::optional<size_t> oldest;
    for (size_t i = 0; i < slots.size(); ++i) {
      if (slots[i].held == nullptr) continue;
      const bool is_free = slots[i].is_free();
      const bool beats =
          !oldest || (is_free && !slots[*oldest].is_free()) ||
          (is_free == slots[*oldest].is_free() && slots[i].last_used < slots[*oldest].last_used);
      if (beats) oldest = i;
    }
    expects(oldest.has_value(), "make_room: a model fits where no other is loaded");
    slots[*oldest].is_leaving = true;
    if (slots[*oldest].is_free()) {
      unload(*oldest);
    } else {
      changed.wait(mutex);
    }
  }
  // Models that were marked but not unloaded give leases again.
  for (Slot& slot : slots) slot.is_leaving = false;
  return !is_stopping;
}

/// Frees a session with the mutex unlocked.
void ModelPool::State::free(Lease session) {
  mutex.unlock();
  session.reset();
  return_free_memory();
  mutex.lock();
}

void ModelPool::State::unload(size_t index) {
  free(std::move(std::exchange(slots[index].held, nullptr)->session));
}

void ModelPool::State::unload_idle() {
  for (size_t i = 0; limits.idle_seconds > 0 && i < slots.size(); ++i) {
    const std::chrono::duration<double> idle = PoolClock::now() - slots[i].last_used;
    if (slots[i].is_free() && idle.count() >= limits.idle_seconds) unload(i);
  }
}

std::optional<PoolClock::time_point> ModelPool::State::next_idle_end() const {
  std::optional<PoolClock::time_point> next;
  if (limits.idle_seconds <= 0) return next;
  for (const Slot& slot : slots) {
    if (!slot.is_free()) continue;
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
  // Sessions are freed after their last lease, since stopping a scheduler would leave its requests
  // unfinished.
  for (size_t i = 0; i < models_.size(); ++i) state_->retire(i);
  const auto is_leased = [](const auto& held) { return held->num_leases > 0; };
  while (std::ranges::any_of(state_->retired, is_leased)) state_->changed.wait(state_->mutex);
  state_->free_retired();
}

void ModelPool::use(size_t index, Then then) {
  Lease leased;
  {
    const MutexLock lock(state_->mutex);
    if (state_->is_stopping) throw SchedulingError(SchedulingError::Reason::kStopping, kStopping);
    const State::Slot& slot = state_->slots[index];
    if (!slot.failure.empty()) {
      throw SchedulingError(SchedulingError::Reason::kBroken,
                            slot.has_given_up ? tell_final(slot.failure) : slot.failure);
    }
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
    leased = state_->lease(slot.held, true);
  }
  then(std::move(leased), {});
}

void ModelPool::load(size_t index) {
  auto done = std::make_shared<std::promise<std::string>>();
  use(index, [done](const Lease& /*lease*/, const std::string& failure) { done->set_value(failure); });
  if (const std::string failure = done->get_future().get(); !failure.empty()) throw InputError(failure);
}

void ModelPool::replace(size_t index, PoolModel::Load load, std::function<void(const std::string&)> then) {
  {
    const MutexLock lock(state_->mutex);
    if (state_->is_stopping) throw SchedulingError(SchedulingError::Reason::kStopping, kStopping);
    if (state_->replacement || !state_->retired.empty()) {
      throw SchedulingError(
          SchedulingError::Reason::kReplacing,
          state_->replacement ? "another reload is in progress; try again when it has finished"
                              : "requests still use the previous weights; try again when they have finished");
    }
    state_->replacement = {index, std::move(load), std::move(then)};
  }
  state_->changed.notify_all();
}

std::optional<PoolFailure> ModelPool::failure() const {
  // Checks loaded models first: the pool sets a slot's failure before it unloads the model.
  for (const Loaded& each : loaded()) {
    const std::string failure = each.is_replaced ? "" : each.lease->scheduler().failure();
    if (failure.empty()) continue;
    if (!state_->limits.restarts) return PoolFailure{tell_final(failure)};
    return PoolFailure{failure, false};  // the pool will restart it
  }
  const MutexLock lock(state_->mutex);
  for (const State::Slot& slot : state_->slots) {
    if (!slot.failure.empty())
      return PoolFailure{slot.has_given_up ? tell_final(slot.failure) : slot.failure, slot.has_given_up};
  }
  return {};
}

size_t ModelPool::num_waiting() const {
  const MutexLock lock(state_->mutex);
  return state_->waiting.size();
}

std::vector<ModelPool::Loaded> ModelPool::loaded() const {
  std::vector<Loaded> all;  // destroyed after the lock is released
  const MutexLock lock(state_->mutex);
  all.reserve(models_.size() + state_->retired.size());
  for (size_t i = 0; i < models_.size(); ++i) {
    const State::Slot& slot = state_->slots[i];
    if (slot.held != nullptr) all.push_back({i, slot.is_leaving, false, state_->lease(slot.held, false)});
  }
  for (const std::shared_ptr<State::Held>& held : state_->retired) {
    if (held->session != nullptr) all.push_back({held->index, true, true, state_->lease(held, false)});
  }
  return all;
}

ModelPool::Lease ModelPool::loaded(size_t index) const {
  const MutexLock lock(state_->mutex);
  const std::shared_ptr<State::Held>& held = state_->slots[index].held;
  return held == nullptr ? nullptr : state_->lease(held, false);
}

void ModelPool::stop() {
  std::deque<State::Waiting> waiting;
  {
    const MutexLock lock(state_->mutex);
    state_->is_stopping = true;
    state_->stops_work = true;
    waiting = std::exchange(state_->waiting, {});
  }
  state_->changed.notify_all();
  const std::string failure = kStopping;
  for (State::Waiting& each : waiting) tell(each.then, nullptr, failure);
}

}  // namespace lacuna
