#include "server/http.h"

#include <algorithm>
#include <utility>

#include "server/api_error.h"

namespace lacuna {

HttpReply::~HttpReply() {
  release();
}

void HttpReply::name_weights(std::string version) {
  const MutexLock lock(mutex_);
  output_.weights = std::move(version);
}

void HttpReply::name_ignored(std::string names) {
  const MutexLock lock(mutex_);
  output_.ignored = std::move(names);
}

void HttpReply::allow_origin(std::string origin) {
  const MutexLock lock(mutex_);
  output_.allow_origin = std::move(origin);
}

void HttpReply::record(AnswerRecord answer) {
  const MutexLock lock(mutex_);
  answer_ = std::move(answer);
}

std::optional<AnswerRecord> HttpReply::answer_record() const {
  const MutexLock lock(mutex_);
  return answer_;
}

void HttpReply::work_later(std::function<void()> work) {
  if (worker_) {
    worker_(std::move(work));
  } else {
    const Budget budget("the request", work_limits());
    work();
  }
}

void HttpReply::send(Head head, std::string body) {
  std::function<void()> closed;  // destroyed after the lock is released
  const MutexLock lock(mutex_);
  if (is_closed_ || output_.has_ended || output_.has_overflowed) return;
  if (output_.has_head) return overflow();
  closed = std::exchange(closed_, {});
  if (budget_ && !budget_->reserve(body.size())) {
    head = {503, "application/json"};
    body = error_json(503, "too much waits for clients that do not read; try again later").dump();
  } else {
    reserved_ += body.size();
  }
  output_.has_head = true;
  output_.head = std::move(head);
  output_.data = std::move(body);
  output_.has_ended = true;
  notify();
}

void HttpReply::begin_stream(std::string content_type) {
  const MutexLock lock(mutex_);
  if (output_.has_ended) return;
  output_.has_head = true;
  output_.head = {200, std::move(content_type), {}, true};
  notify();
}

void HttpReply::write(std::string_view data) {
  const MutexLock lock(mutex_);
  if (is_closed_ || output_.has_ended || output_.has_overflowed) return;
  if (output_.data.size() + data.size() > stream_bytes_) return overflow();
  output_.data.reserve(output_.data.size() + data.size());
  if (budget_ != nullptr && !budget_->reserve(data.size())) return overflow();
  reserved_ += data.size();
  output_.data += data;
  notify();
}

void HttpReply::overflow() {
  output_.has_overflowed = true;
  output_.data = {};
  notify();
}

void HttpReply::abandon() noexcept {
  const MutexLock lock(mutex_);
  if (!output_.has_ended) overflow();
}

void HttpReply::end() {
  std::function<void()> closed;  // destroyed after the lock is released
  const MutexLock lock(mutex_);
  closed = std::exchange(closed_, {});
  output_.has_ended = true;
  notify();
}

void HttpReply::when_closed(std::function<void()> closed) {
  {
    const MutexLock lock(mutex_);
    if (!is_closed_) {
      if (!output_.has_ended) closed_ = std::move(closed);
      return;
    }
  }
  closed();
}

void HttpReply::when_ready(std::function<void()> notify) {
  const MutexLock lock(mutex_);
  notify_ = std::move(notify);
}

HttpReply::Output HttpReply::take() {
  const MutexLock lock(mutex_);
  // Bytes of the previous take() have been written; the bytes returned now stay reserved until the next
  // take().
  const size_t waiting = std::min(reserved_, output_.data.size());
  if (budget_) budget_->release(reserved_ - waiting);
  reserved_ = waiting;
  std::string data = std::exchange(output_.data, {});
  Output taken = output_;
  taken.data = std::move(data);
  return taken;
}

size_t HttpReply::pending() const {
  const MutexLock lock(mutex_);
  return output_.data.size();
}

bool HttpReply::has_overflowed() const {
  const MutexLock lock(mutex_);
  return output_.has_overflowed;
}

void HttpReply::close() {
  std::function<void()> closed;
  stop_work();
  {
    const MutexLock lock(mutex_);
    if (is_closed_) return;
    is_closed_ = true;
    if (!output_.has_ended) closed = std::move(closed_);
    closed_ = {};
    notify_ = {};
    output_.data = {};
    release();
  }
  if (closed) closed();
}

bool HttpReply::is_closed() const {
  const MutexLock lock(mutex_);
  return is_closed_;
}

void HttpReply::release() {
  if (budget_) budget_->release(reserved_);
  reserved_ = 0;
}

void HttpReply::notify() noexcept {
  try {
    if (notify_) notify_();
  } catch (const std::exception&) {  // the connection also polls
  }
}

}  // namespace lacuna
