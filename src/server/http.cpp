#include "server/http.h"

namespace lacuna {

void HttpReply::send(Head head, std::string body) {
  {
    const std::lock_guard lock(mutex_);
    output_.has_head = true;
    output_.head = std::move(head);
    output_.data = std::move(body);
    output_.has_ended = true;
  }
  notify();
}

void HttpReply::begin_stream(std::string content_type) {
  {
    const std::lock_guard lock(mutex_);
    output_.has_head = true;
    output_.head = {200, std::move(content_type), {}, true};
  }
  notify();
}

void HttpReply::write(std::string_view data) {
  {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return;
    output_.data += data;
  }
  notify();
}

void HttpReply::end() {
  {
    const std::lock_guard lock(mutex_);
    output_.has_ended = true;
  }
  notify();
}

void HttpReply::when_closed(std::function<void()> closed) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_closed_) {
      closed_ = std::move(closed);
      return;
    }
  }
  closed();
}

void HttpReply::when_ready(std::function<void()> notify) {
  const std::lock_guard lock(mutex_);
  notify_ = std::move(notify);
}

HttpReply::Output HttpReply::take() {
  const std::lock_guard lock(mutex_);
  Output taken = output_;
  output_.data.clear();
  return taken;
}

size_t HttpReply::pending() const {
  const std::lock_guard lock(mutex_);
  return output_.data.size();
}

void HttpReply::close() {
  std::function<void()> closed;
  {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return;
    is_closed_ = true;
    if (!output_.has_ended) closed = std::move(closed_);
    closed_ = {};
    notify_ = {};
    output_.data.clear();
  }
  if (closed) closed();
}

void HttpReply::notify() {
  std::function<void()> notify;
  {
    const std::lock_guard lock(mutex_);
    notify = notify_;
  }
  if (notify) notify();
}

}  // namespace lacuna
