#include "server/handler_pool.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "server/api_error.h"

namespace lacuna {
namespace {

/// Interval at which a waiting job checks whether it is still wanted.
constexpr std::chrono::milliseconds kBetweenChecks{20};

/// Iterator to the newest element of the client with the most elements.
template <typename All, typename ClientOf>
auto one_too_many(All& all, ClientOf client_of) {
  std::map<std::string, int> counts;
  int most = 0;
  for (const auto& each : all) most = std::max(most, ++counts[client_of(each)]);
  auto found = std::prev(all.end());
  while (counts[client_of(*found)] != most) --found;
  return found;
}

}  // namespace

/// A job on its thread.
class HandlerPool::Running final : public Budget::Observer {
 public:
  Running(HandlerPool& pool, const Job& job) : client(job.client), pool_(pool), bytes_(job.bytes) {}

  void looked(const Budget& budget) override {
    if (!pool_.memory_->has(0, bytes_))
      throw ApiError(503, "the server has no memory for this request now; try again later");
    if (may_continue_ || ++num_looks_ <= pool_.limits_.long_checks) return;
    pool_.wait_for_turn(*this, budget);
    may_continue_ = true;
  }

  const std::string& client;  // client of the job
  // Guarded by the pool's mutex:
  bool is_long = false;     // counts as one of the running long jobs
  bool is_refused = false;  // its place was given to another job

 private:
  HandlerPool& pool_;
  const int64_t bytes_;  // bytes reserved for the job
  int num_looks_ = 0;
  bool may_continue_ = false;
};

HandlerPool::HandlerPool(const HandlerLimits& limits, std::shared_ptr<MemoryGuard> memory)
    : limits_(limits), memory_(std::move(memory)) {
  expects(limits.threads > limits.long_jobs + limits.waiting_long_jobs,
          "HandlerPool: expected a thread for jobs that are not long");
  try {
    for (int i = 0; i < limits.threads; ++i) threads_.emplace_back([this] { work(); });
  } catch (...) {
    stop();
    throw;
  }
}

HandlerPool::~HandlerPool() {
  stop();
}

void HandlerPool::forget(const std::string& client) {
  const auto found = clients_.find(client);
  if (--found->second.jobs == 0) clients_.erase(found);
}

void HandlerPool::add(Job job) {
  std::optional<Job> refused;
  {
    const MutexLock lock(mutex_);
    if (is_stopping_) {
      refused = std::move(job);
    } else {
      waiting_.reserve(waiting_.size() + 1);  // allocates first, so that nothing below can fail
      ++clients_[job.client].jobs;
      waiting_.push_back(std::move(job));
      if (waiting_.size() > limits_.waiting_jobs) {
        const auto found = one_too_many(
            waiting_, [](const Job& each) -> auto& { return each.client; });
        refused = std::move(*found);
        waiting_.erase(found);
        forget(refused->client);
      }
    }
  }
  changed_.notify_all();
  if (refused) refused->refuse();
}

size_t HandlerPool::num_waiting_long() const {
  const MutexLock lock(mutex_);
  return waiting_long_.size();
}

void HandlerPool::stop() {
  std::vector<Job> dropped;  // freed without the lock
  {
    const MutexLock lock(mutex_);
    is_stopping_ = true;
    dropped = std::exchange(waiting_, {});
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void HandlerPool::work() {
  const MutexLock lock(mutex_);
  for (;;) {
    while (waiting_.empty() && !is_stopping_) changed_.wait(mutex_);
    if (is_stopping_) return;
    const auto* const clients = &clients_;  // clang does not see within lambdas that the mutex is held
    const auto next = std::ranges::min_element(waiting_, [&](const Job& a, const Job& b) {
      const Client& of_a = clients->at(a.client);
      const Client& of_b = clients->at(b.client);
      return std::tie(of_a.running, of_a.turn) < std::tie(of_b.running, of_b.turn);
    });
    Job job = std::move(*next);
    waiting_.erase(next);
    Running running(*this, job);
    begin(running);
    mutex_.unlock();
    memory_->reserve(job.bytes);
    try {
      if (job.bytes == 0 || memory_->has(0)) {
        job.run(running);
      } else {
        job.refuse();
      }
    } catch (const std::exception&) {  // dropping the job's functions abandons its reply
    }
    job.run = {};
    job.refuse = {};
    memory_->release(job.bytes);
    mutex_.lock();
    end(running);
  }
}

void HandlerPool::begin(const Running& running) {
  Client& client = clients_[running.client];
  ++client.running;
  client.turn = ++num_turns_;
}

void HandlerPool::end(const Running& running) {
  Client& client = clients_[running.client];
  --client.running;
  if (running.is_long) {
    --client.long_running;
    --num_long_;
    resume_long_jobs();
  }
  forget(running.client);
}

void HandlerPool::resume_long_jobs() {
  const auto* const clients = &clients_;  // clang does not see within lambdas that the mutex is held
  while (num_long_ < limits_.long_jobs && !waiting_long_.empty()) {
    const auto next = std::ranges::min_element(waiting_long_, [&](const Running* a, const Running* b) {
      const Client& of_a = clients->at(a->client);
      const Client& of_b = clients->at(b->client);
      return std::tie(of_a.long_running, of_a.long_turn) < std::tie(of_b.long_running, of_b.long_turn);
    });
    Client& client = clients_[(*next)->client];
    ++client.long_running;
    client.long_turn = ++num_turns_;
    ++num_long_;
    (*next)->is_long = true;
    waiting_long_.erase(next);
  }
  changed_.notify_all();
}

/// Waits until the job may continue as a long one. Throws WorkCancelled if the budget ends it, ApiError if it
/// is refused.
void HandlerPool::wait_for_turn(Running& running, const Budget& budget) {
  const MutexLock lock(mutex_);
  running.is_refused = false;  // the job may have caught the earlier exception
  waiting_long_.push_back(&running);
  try {
    resume_long_jobs();
    if (waiting_long_.size() > static_cast<size_t>(limits_.waiting_long_jobs)) {
      const auto found = one_too_many(
          waiting_long_, [](const Running* each) -> auto& { return each->client; });
      (*found)->is_refused = true;
      waiting_long_.erase(found);
      changed_.notify_all();
    }
  } catch (...) {  // no memory for one_too_many()
    std::erase(waiting_long_, &running);
    throw;
  }
  while (!running.is_long) {
    if (running.is_refused)
      throw ApiError(503, "too many requests that take much work wait already; try again later");
    changed_.wait_for(mutex_, kBetweenChecks);
    mutex_.unlock();
    std::exception_ptr unwanted;
    try {
      budget.check_wanted();
    } catch (const WorkCancelled&) {
      unwanted = std::current_exception();
    }
    mutex_.lock();
    if (!unwanted) continue;
    std::erase(waiting_long_, &running);
    std::rethrow_exception(unwanted);
  }
}

}  // namespace lacuna
