#include "engine/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/communicator.h"

namespace lacuna {

Scheduler::Scheduler(std::shared_ptr<const BackendModel> model, std::shared_ptr<const BackendModel> guide,
                     const SchedulerLimits& limits)
    : limits_(limits), engine_(std::move(model), limits.max_running, std::move(guide)) {
  if (limits_.max_per_client == 0) {
    const int64_t places = int64_t{limits_.max_running} + limits_.max_queue;
    limits_.max_per_client = static_cast<int32_t>(std::max<int64_t>(places * 3 / 4, 1));
  }
  engine_.limit_memory(limits.memory);
  engine_.limit_rows(limits.pass_rows);
  if (limits.prefix_memory >= 0) engine_.share_prefixes(limits.prefix_memory);
  engine_.when_failed([this](size_t number, const std::string& sentence) { fail_one(number, sentence); });
  thread_ = std::thread([this] { work(); });
}

Scheduler::~Scheduler() {
  end_thread();
}

void Scheduler::end_thread() {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    is_draining_ = true;
    is_stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Scheduler::drain() {
  const MutexLock lock(mutex_);
  is_draining_ = true;
}

void Scheduler::stop() {
  end_thread();
  std::map<uint64_t, Request> left;
  {
    const MutexLock lock(mutex_);
    left = std::exchange(requests_, {});
  }
  for (const auto& [id, request] : left) {
    if (!request.is_cancelled)
      request.listener->failed("the server was stopped before the answer was complete");
  }
}

bool Scheduler::is_idle() const {
  const MutexLock lock(mutex_);
  return requests_.empty();
}

std::string Scheduler::failure() const {
  const MutexLock lock(mutex_);
  return failure_;
}

std::vector<uint64_t> Scheduler::submit(std::vector<Job> jobs, const std::string& client) {
  using Reason = SchedulingError::Reason;
  for (const Job& job : jobs) {
    const int64_t needed = engine_.memory_for(*job.decoder);
    if (needed <= limits_.memory) continue;
    throw SchedulingError(Reason::kTooLarge,
                          fmt::format("the canvas needs {} MiB of keys and values; this server has {} MiB",
                                      needed >> 20, limits_.memory >> 20));
  }
  std::vector<uint64_t> ids;
  {
    const MutexLock lock(mutex_);
    if (!failure_.empty()) throw SchedulingError(Reason::kBroken, failure_);
    if (is_draining_) throw SchedulingError(Reason::kStopping, "the server is stopping");
    const auto is_own = [&](const auto& entry) { return !client.empty() && entry.second.client == client; };
    const auto num_own = std::count_if(requests_.begin(), requests_.end(), is_own);
    if (!client.empty() && num_own + static_cast<int64_t>(jobs.size()) > limits_.max_per_client) {
      throw SchedulingError(Reason::kTooManyFromClient,
                            fmt::format("{} requests of this client are running or waiting and {} more came; "
                                        "expected at most {} in all",
                                        num_own, jobs.size(), limits_.max_per_client));
    }
    const size_t most = static_cast<size_t>(limits_.max_running) + static_cast<size_t>(limits_.max_queue);
    if (requests_.size() + jobs.size() > most) {
      throw SchedulingError(
          Reason::kQueueFull,
          fmt::format("{} requests are running or waiting; expected at most {}", requests_.size(), most));
    }
    for (Job& job : jobs) {
      Request& request = requests_[num_submitted_];
      request.client = client;
      request.state.id = num_submitted_;
      request.state.prompt_tokens = job.decoder->prompt_length();
      request.state.canvas_tokens = static_cast<int32_t>(job.decoder->canvas().size());
      request.decoder = std::move(job.decoder);
      request.listener = std::move(job.listener);
      ids.push_back(num_submitted_++);
    }
    has_orders_ = true;
  }
  wake_.notify_one();
  return ids;
}

bool Scheduler::submit_idle(IdleJob job) {
  {
    const MutexLock lock(mutex_);
    if (is_draining_ || idle_jobs_.size() >= kMostIdleJobs) return false;
    idle_jobs_.push_back(std::move(job));
  }
  wake_.notify_one();
  return true;
}

void Scheduler::cancel(const std::vector<uint64_t>& ids) {
  {
    const MutexLock lock(mutex_);
    for (const uint64_t id : ids) {
      const auto found = requests_.find(id);
      if (found == requests_.end()) continue;
      found->second.is_cancelled = true;
      has_orders_ = true;
    }
  }
  wake_.notify_one();
}

Scheduler::Totals Scheduler::totals() const {
  const MutexLock lock(mutex_);
  return {requests_.size() - num_running_, num_running_, memory_, prefix_memory_};
}

std::vector<RequestState> Scheduler::states() const {
  const MutexLock lock(mutex_);
  std::vector<RequestState> states;
  for (const auto& [id, request] : requests_) {
    states.push_back(request.state);
    states.back().seconds = request.clock.seconds();
  }
  return states;
}

void Scheduler::work() {
  while (take_orders()) {
    try {
      engine_.step([this](const StepEvent& event) { observe(event); });
    } catch (const RankError& error) {
      break_off(fmt::format("{}, so the model computes nothing more; restart the server", error.what()));
    } catch (const std::exception& error) {
      // Nobody knows whose fault it is: all who took part are told, and others continue.
      fail_all(error.what());
    }
    finish_ended();
    fail_late();
  }
}

bool Scheduler::take_orders() {
  bool is_idle = false;
  {
    const MutexLock lock(mutex_);
    while (!is_stopping_ && !has_work()) wake_.wait(mutex_);
    if (is_stopping_) return false;
    is_idle = !has_orders_ && requests_.empty();
    if (has_orders_) follow_orders();
  }
  if (is_idle) start_idle_job();
  return true;
}

bool Scheduler::has_work() const {
  const bool has_idle_work = !is_draining_ && (idle_job_ || !idle_jobs_.empty());
  return has_orders_ || !requests_.empty() || has_idle_work;
}

void Scheduler::follow_orders() {
  if (idle_job_) put_idle_job_back();
  has_orders_ = false;
  for (auto it = requests_.begin(); it != requests_.end();) {
    Request& request = it->second;
    if (request.is_cancelled) {
      if (request.is_added) {
        engine_.remove(request.number);
        ids_by_number_.erase(request.number);
      }
      it = requests_.erase(it);
      continue;
    }
    if (!request.is_added) {
      request.number = engine_.add(std::move(request.decoder));
      request.is_added = true;
      ids_by_number_[request.number] = it->first;
    }
    ++it;
  }
}

void Scheduler::start_idle_job() {
  if (idle_job_) return;
  RunningIdleJob next;
  {
    const MutexLock lock(mutex_);
    if (idle_jobs_.empty()) return;
    next.job = std::move(idle_jobs_.front());
    idle_jobs_.pop_front();
  }
  try {
    std::unique_ptr<Decoder> decoder = next.job.make();
    if (engine_.memory_for(*decoder) > limits_.memory) {
      throw std::runtime_error("the canvas needs more keys and values than this server has room for");
    }
    next.number = engine_.add(std::move(decoder));
  } catch (const std::exception& error) {
    next.job.listener->failed(error.what());
    return;
  }
  idle_job_ = std::move(next);
}

void Scheduler::put_idle_job_back() {
  engine_.remove(idle_job_->number);
  idle_jobs_.push_front(std::move(idle_job_->job));
  idle_job_.reset();
}

void Scheduler::observe_idle_job(const StepEvent& event) {
  if (!std::exchange(idle_job_->has_started, true)) idle_job_->job.listener->started(event.decoder, 0);
  if (!idle_job_->job.listener->stepped(event)) idle_job_->has_ended = true;
}

void Scheduler::finish_idle_job() {
  const size_t number = idle_job_->number;
  if (!idle_job_->has_ended && !engine_.decoder(number).done()) return;
  idle_job_->job.listener->finished(engine_.decoder(number), engine_.statistics(number));
  engine_.remove(number);
  idle_job_.reset();
}

void Scheduler::fail_idle_job(const std::string& sentence) {
  engine_.remove(idle_job_->number);
  idle_job_->job.listener->failed(sentence);
  idle_job_.reset();
}

void Scheduler::observe(const StepEvent& event) {
  if (idle_job_ && idle_job_->number == event.request) return observe_idle_job(event);
  const uint64_t id = ids_by_number_.at(event.request);
  std::shared_ptr<RequestListener> listener;
  bool is_first = false;
  double seconds = 0;
  {
    const MutexLock lock(mutex_);
    Request& request = requests_.at(id);
    if (request.is_cancelled) return;
    listener = request.listener;
    is_first = !std::exchange(request.state.is_running, true);
    request.state.statistics = event.statistics;
    request.state.canvas_tokens = static_cast<int32_t>(event.decoder.canvas().size());
    request.state.final_tokens = event.decoder.num_final();
    seconds = request.clock.seconds();
  }
  if (is_first) listener->started(event.decoder, std::max(0.0, seconds - event.pass_seconds));
  if (listener->stepped(event)) return;
  const MutexLock lock(mutex_);
  requests_.at(id).has_ended = true;
}

void Scheduler::finish_ended() {
  std::vector<std::pair<size_t, std::shared_ptr<RequestListener>>> ended;
  {
    const MutexLock lock(mutex_);
    for (auto it = requests_.begin(); it != requests_.end();) {
      Request& request = it->second;
      const bool is_over = request.is_added && !request.is_cancelled &&
                           (request.has_ended || engine_.decoder(request.number).done());
      if (!is_over) {
        ++it;
        continue;
      }
      ended.emplace_back(request.number, std::move(request.listener));
      it = requests_.erase(it);
    }
  }
  for (const auto& [number, listener] : ended) {
    listener->finished(engine_.decoder(number), engine_.statistics(number));
    engine_.remove(number);
    ids_by_number_.erase(number);
  }
  if (idle_job_) finish_idle_job();
  const MutexLock lock(mutex_);
  memory_ = engine_.memory_in_use();
  prefix_memory_ = engine_.prefix_bytes();
  num_running_ = std::min(engine_.num_running(), requests_.size());
}

void Scheduler::fail_one(size_t number, const std::string& sentence) {
  if (idle_job_ && idle_job_->number == number) return fail_idle_job(sentence);
  const uint64_t id = ids_by_number_.at(number);
  ids_by_number_.erase(number);
  engine_.remove(number);
  std::shared_ptr<RequestListener> listener;
  {
    const MutexLock lock(mutex_);
    const auto found = requests_.find(id);
    if (!found->second.is_cancelled) listener = std::move(found->second.listener);
    requests_.erase(found);
  }
  if (listener) listener->failed(sentence);
}

void Scheduler::fail_late() {
  if (limits_.request_seconds <= 0) return;
  std::vector<std::shared_ptr<RequestListener>> failed;
  {
    const MutexLock lock(mutex_);
    for (auto it = requests_.begin(); it != requests_.end();) {
      Request& request = it->second;
      if (request.is_cancelled || request.clock.seconds() < limits_.request_seconds) {
        ++it;
        continue;
      }
      if (request.is_added) {
        engine_.remove(request.number);
        ids_by_number_.erase(request.number);
      }
      failed.push_back(std::move(request.listener));
      it = requests_.erase(it);
    }
  }
  for (const auto& listener : failed) {
    listener->failed(fmt::format("the request took longer than the {} s that this server gives one",
                                 limits_.request_seconds));
  }
}

void Scheduler::break_off(const std::string& sentence) {
  {
    const MutexLock lock(mutex_);
    failure_ = sentence;
  }
  fail_all(sentence);
}

void Scheduler::fail_all(const std::string& sentence) {
  if (idle_job_) fail_idle_job(sentence);
  std::vector<std::shared_ptr<RequestListener>> failed;
  {
    const MutexLock lock(mutex_);
    for (auto it = requests_.begin(); it != requests_.end();) {
      Request& request = it->second;
      if (!request.is_added) {
        ++it;
        continue;
      }
      engine_.remove(request.number);
      ids_by_number_.erase(request.number);
      if (!request.is_cancelled) failed.push_back(std::move(request.listener));
      it = requests_.erase(it);
    }
  }
  for (const auto& listener : failed) listener->failed(sentence);
}

}  // namespace lacuna
