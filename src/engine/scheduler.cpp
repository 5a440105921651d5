#include "engine/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include "base/communicator.h"
#include "base/error.h"
#include "base/exception_text.h"

namespace lacuna {
namespace {

/// Calls listener.failed(), and listener.lost() if that throws.
void tell_failure(RequestListener& listener, const char* sentence) noexcept {
  try {
    listener.failed(sentence);
  } catch (...) {
    listener.lost(std::current_exception());
  }
}

void tell_failure(RequestListener& listener, const std::exception_ptr& error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    tell_failure(listener, text_of(known));
  } catch (...) {
    tell_failure(listener, "the request failed");
  }
}

constexpr const char* kStopped = "the server was stopped before the answer was complete";
constexpr std::string_view kBroken = ", so the model computes nothing more";

std::string tell_broken(std::string_view cause) {
  return fmt::format("{}{}", cause, kBroken);
}

}  // namespace

Scheduler::Scheduler(std::shared_ptr<const BackendModel> model, std::shared_ptr<const BackendModel> guide,
                     const SchedulerLimits& limits)
    : limits_(limits), engine_(std::move(model), limits.max_running, std::move(guide)) {
  if (limits_.max_per_client == 0) {
    const int64_t places = int64_t{limits_.max_running} + limits_.max_queue;
    limits_.max_per_client = static_cast<int32_t>(std::max<int64_t>(places * 3 / 4, 1));
  }
  engine_.limit_memory(limits.memory);
  limits_.memory = engine_.memory_limit();
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
    stops_idle_work_ = true;
    for (const auto& [id, request] : requests_) *request.stop = true;
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
    if (!request.is_cancelled) tell_failure(*request.listener, kStopped);
  }
}

bool Scheduler::is_idle() const {
  const MutexLock lock(mutex_);
  return requests_.empty();
}

std::string Scheduler::failure() const {
  {
    const MutexLock lock(mutex_);
    if (!failure_.empty()) return failure_;
  }
  const std::string cause = engine_.failure();
  return cause.empty() ? "" : tell_broken(cause);
}

bool Scheduler::has_memory_for(const Decoder& decoder) const {
  return engine_.memory_for(decoder) <= limits_.memory;
}

std::vector<uint64_t> Scheduler::submit(std::vector<Job> jobs, const std::string& client) {
  using Reason = SchedulingError::Reason;
  for (const Job& job : jobs) {
    engine_.check(*job.decoder);
    const int64_t needed = engine_.memory_for(*job.decoder);
    if (needed <= limits_.memory) continue;
    throw SchedulingError(Reason::kTooLarge,
                          fmt::format("the canvas needs {} MiB of keys and values; this server has {} MiB",
                                      needed >> 20, limits_.memory >> 20));
  }
  if (const std::string broken = failure(); !broken.empty()) throw SchedulingError(Reason::kBroken, broken);
  std::vector<uint64_t> ids;
  {
    const MutexLock lock(mutex_);
    if (is_draining_) throw SchedulingError(Reason::kStopping, "the server is stopping");
    const auto is_own = [&](const auto& entry) { return !client.empty() && entry.second.client == client; };
    const auto num_own = std::ranges::count_if(requests_, is_own);
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
    // Prepares all requests first: once the first is in requests_, nothing may throw.
    std::map<uint64_t, Request> taken;
    for (Job& job : jobs) {
      const uint64_t id = num_submitted_ + ids.size();
      Request& request = taken[id];
      request.client = client;
      request.state.id = id;
      request.state.prompt_tokens = job.decoder->prompt_length();
      request.state.canvas_tokens = static_cast<int32_t>(job.decoder->canvas().size());
      request.planned_rows = engine_.planned_rows(*job.decoder);
      request.planned_tokens = std::max(1, job.decoder->num_cells() - job.decoder->prompt_length());
      request.decoder = std::move(job.decoder);
      request.listener = std::move(job.listener);
      ids.push_back(id);
    }
    requests_.merge(taken);
    num_submitted_ += ids.size();
    has_changes_ = true;
  }
  wake_.notify_one();
  return ids;
}

bool Scheduler::submit_idle(IdleJob job) {
  {
    const MutexLock lock(mutex_);
    if (is_draining_ || idle_jobs_.size() >= kMaxIdleJobs) return false;
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
      *found->second.stop = true;
      has_changes_ = true;
    }
  }
  wake_.notify_one();
}

Scheduler::Totals Scheduler::totals() const {
  const int64_t pages = engine_.pages_of(limits_.memory);
  const MutexLock lock(mutex_);
  int64_t rows = 0;
  for (const auto& [id, request] : requests_) {
    const int64_t left = std::max(0, request.planned_tokens - request.state.final_tokens);
    rows += request.planned_rows * left / request.planned_tokens;
  }
  return {requests_.size() - num_running_, num_running_, memory_, prefix_memory_, rows, pages};
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
  while (apply_changes()) {
    try {
      engine_.step([this](const StepEvent& event) { observe(event); });
    } catch (const RankError& error) {
      fail_permanently(error.what(), kBroken);
    } catch (const DeviceError& error) {
      fail_permanently(error.what(), "");
    } catch (const std::exception& error) {
      // The error belongs to no single request: fails all in the engine; waiting requests continue.
      fail_all(text_of(error));
    }
    finish_ended();
    fail_late();
  }
}

bool Scheduler::apply_changes() {
  bool is_idle = false;
  std::map<uint64_t, Request> refused;
  {
    const MutexLock lock(mutex_);
    while (!is_stopping_ && !has_work()) wake_.wait(mutex_);
    if (is_stopping_) return false;
    is_idle = !has_changes_ && requests_.empty();
    if (has_changes_) refused = update_engine();
  }
  if (is_idle) start_idle_job();
  for (auto& [id, request] : refused) tell_failure(*request.listener, request.error);
  return true;
}

bool Scheduler::has_work() const {
  const bool has_idle_work = !is_draining_ && (idle_job_ || !idle_jobs_.empty());
  return has_changes_ || !requests_.empty() || has_idle_work;
}

std::map<uint64_t, Scheduler::Request> Scheduler::update_engine() {
  if (idle_job_) put_idle_job_back();
  has_changes_ = false;
  std::map<uint64_t, Request> refused;
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
    try {
      if (!request.is_added) {
        request.number = engine_.add(std::move(request.decoder), work_limits(request));
        request.is_added = true;
        ids_by_number_[request.number] = it->first;
      }
      ++it;
    } catch (...) {
      request.error = std::current_exception();
      if (request.is_added) engine_.discard(request.number);
      refused.insert(requests_.extract(it++));
    }
  }
  return refused;
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
    next.number = engine_.add(std::move(decoder), {.stop = &stops_idle_work_});
  } catch (const std::exception& error) {
    return tell_failure(*next.job.listener, text_of(error));
  }
  idle_job_ = std::move(next);
}

void Scheduler::put_idle_job_back() {
  engine_.discard(idle_job_->number);
  try {
    idle_jobs_.push_front(std::move(idle_job_->job));
  } catch (const std::bad_alloc&) {  // the job is dropped
  }
  idle_job_.reset();
}

void Scheduler::observe_idle_job(const StepEvent& event) {
  try {
    if (!std::exchange(idle_job_->has_started, true)) idle_job_->job.listener->started(event.decoder, 0);
    if (!idle_job_->job.listener->stepped(event)) idle_job_->has_ended = true;
  } catch (...) {
    idle_job_->error = std::current_exception();
  }
}

void Scheduler::finish_idle_job() {
  const size_t number = idle_job_->number;
  RequestListener& listener = *idle_job_->job.listener;
  if (!idle_job_->error && !idle_job_->has_ended && !engine_.decoder(number).done()) return;
  try {
    if (!idle_job_->error) listener.finished(engine_.decoder(number), engine_.statistics(number));
  } catch (...) {
    idle_job_->error = std::current_exception();
  }
  if (idle_job_->error) tell_failure(listener, idle_job_->error);
  engine_.discard(number);
  idle_job_.reset();
}

void Scheduler::fail_idle_job(const char* sentence) {
  engine_.discard(idle_job_->number);
  tell_failure(*idle_job_->job.listener, sentence);
  idle_job_.reset();
}

void Scheduler::observe(const StepEvent& event) {
  if (idle_job_ && idle_job_->number == event.request) return observe_idle_job(event);
  const uint64_t id = ids_by_number_.at(event.request);
  try {
    observe_request(id, event);
  } catch (...) {  // other requests of the pass continue
    const MutexLock lock(mutex_);
    requests_.at(id).error = std::current_exception();
  }
}

void Scheduler::observe_request(uint64_t id, const StepEvent& event) {
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

template <typename Chosen>
Scheduler::RequestNode Scheduler::take_first(const Chosen& chosen) {
  const MutexLock lock(mutex_);
  const auto found = std::ranges::find_if(requests_, [&](const auto& entry) { return chosen(entry.second); });
  return found == requests_.end() ? RequestNode() : requests_.extract(found);
}

void Scheduler::discard(const Request& request) noexcept {
  if (!request.is_added) return;
  engine_.discard(request.number);
  ids_by_number_.erase(request.number);
}

void Scheduler::finish_ended() {
  const auto is_over = [this](const Request& request) {
    return request.is_added && !request.is_cancelled &&
           (request.error || request.has_ended || engine_.decoder(request.number).done());
  };
  while (RequestNode node = take_first(is_over)) finish(node.mapped());
  if (idle_job_) finish_idle_job();
  update_totals();
}

void Scheduler::finish(Request& request) {
  try {
    if (!request.error) {
      request.listener->finished(engine_.decoder(request.number), engine_.statistics(request.number));
      engine_.remove(request.number);
      ids_by_number_.erase(request.number);
      return;
    }
  } catch (...) {
    request.error = std::current_exception();
  }
  tell_failure(*request.listener, request.error);
  discard(request);
}

void Scheduler::update_totals() {
  std::optional<int64_t> memory;
  try {
    memory = engine_.memory_in_use();
  } catch (const std::bad_alloc&) {  // measured again after the next pass
  }
  const MutexLock lock(mutex_);
  if (memory) memory_ = *memory;
  prefix_memory_ = engine_.prefix_bytes();
  num_running_ = std::min(engine_.num_running(), requests_.size());
}

void Scheduler::fail_one(size_t number, const std::string& sentence) {
  if (idle_job_ && idle_job_->number == number) return fail_idle_job(sentence.c_str());
  const auto is_it = [&](const Request& request) { return request.is_added && request.number == number; };
  const RequestNode node = take_first(is_it);
  const Request& request = node.mapped();
  discard(request);
  if (request.is_cancelled) return;
  // `sentence` only says that the constraint's work was stopped.
  if (*request.stop) return tell_failure(*request.listener, kStopped);
  tell_failure(*request.listener, is_late(request) ? late_sentence().c_str() : sentence.c_str());
}

bool Scheduler::is_late(const Request& request) const {
  return limits_.request_seconds > 0 && request.clock.seconds() >= limits_.request_seconds;
}

std::string Scheduler::late_sentence() const {
  return fmt::format("the request took longer than the {} s that this server gives one",
                     limits_.request_seconds);
}

Budget::Limits Scheduler::work_limits(const Request& request) const {
  Budget::Limits limits{.stop = request.stop.get()};
  if (limits_.request_seconds > 0) {
    const std::chrono::duration<double> left(limits_.request_seconds - request.clock.seconds());
    limits.deadline = std::chrono::steady_clock::now() +
                      std::chrono::duration_cast<std::chrono::steady_clock::duration>(left);
  }
  return limits;
}

void Scheduler::fail_late() {
  const auto is_over = [this](const Request& request) { return !request.is_cancelled && is_late(request); };
  while (const RequestNode node = take_first(is_over)) {
    discard(node.mapped());
    try {
      node.mapped().listener->failed(late_sentence());
    } catch (...) {
      node.mapped().listener->lost(std::current_exception());
    }
  }
}

void Scheduler::fail_permanently(std::string_view cause, std::string_view consequence) {
  std::string sentence = "a device ended";  // short enough to need no allocation
  std::string kept = sentence;
  try {
    kept = fmt::format("{}{}", cause, consequence);
    sentence = kept;
  } catch (const std::bad_alloc&) {
  }
  {
    const MutexLock lock(mutex_);
    failure_ = std::move(kept);
  }
  fail_all(sentence.c_str());
}

void Scheduler::fail_all(const char* sentence) {
  if (idle_job_) fail_idle_job(sentence);
  while (const RequestNode node = take_first([](const Request& request) { return request.is_added; })) {
    discard(node.mapped());
    if (!node.mapped().is_cancelled) tell_failure(*node.mapped().listener, sentence);
  }
}

}  // namespace lacuna
