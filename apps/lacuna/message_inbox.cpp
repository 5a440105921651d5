#include "message_inbox.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace lacuna {
namespace {

constexpr size_t kMaxWaiting = 256;  // messages read ahead; the rest stays in the pipe

/// Reads lines of standard input with read(2): a thread blocked on the FILE would hold its lock at exit.
class LineReader {
 public:
  /// The next line without its newline; empty at the end of the input. A line that is too long is truncated.
  std::optional<std::string> next() {
    std::string line;
    for (bool has_begun = false;; has_begun = true) {
      if (begin_ == end_ && !fill()) return has_begun && !line.empty() ? std::optional(line) : std::nullopt;
      const std::string_view rest(buffer_.data() + begin_, end_ - begin_);
      const size_t newline = rest.find('\n');
      const std::string_view part = rest.substr(0, newline);
      if (line.size() <= kMaxMessageBytes) line += part;
      begin_ += newline == rest.npos ? part.size() : part.size() + 1;
      if (newline != rest.npos) return line;
    }
  }

 private:
  bool fill() {
    ssize_t size = 0;
    do {
      size = ::read(STDIN_FILENO, buffer_.data(), buffer_.size());
    } while (size < 0 && errno == EINTR);
    begin_ = 0;
    end_ = size > 0 ? static_cast<size_t>(size) : 0;
    return size > 0;
  }

  std::array<char, 1 << 16> buffer_;
  size_t begin_ = 0, end_ = 0;
};

/// The id of a request; null if it has none.
nlohmann::json id_of(const nlohmann::json& message) {
  const auto id = message.is_object() ? message.find("id") : message.end();
  return message.is_object() && id != message.end() && (id->is_string() || id->is_number_integer())
             ? *id
             : nlohmann::json();
}

RpcMessage parse_line(const std::string& line) {
  if (line.size() > kMaxMessageBytes)
    return {{}, kInvalidRequest, fmt::format("the message has more than {} bytes", kMaxMessageBytes), {}};
  try {
    return {parse_json(line, "message", kMaxMessageValues), 0, {}, {}};
  } catch (const InputError& error) {
    return {{}, kParseError, error.what(), {}};
  }
}

/// The id that notifications/cancelled names; null for other messages.
nlohmann::json cancelled_id(const nlohmann::json& message) {
  if (!message.is_object() || message.value("method", nlohmann::json()) != "notifications/cancelled")
    return {};
  const auto params = message.find("params");
  if (params == message.end() || !params->is_object()) return {};
  return params->value("requestId", nlohmann::json());
}

}  // namespace

struct MessageInbox::State {
  struct Waiting {
    RpcMessage message;
    std::stop_source stop;
  };

  void read() {
    LineReader lines;
    while (const std::optional<std::string> line = lines.next()) {
      if (line->find_first_not_of(" \t\r") == std::string::npos) continue;
      RpcMessage message = parse_line(*line);
      if (const nlohmann::json id = cancelled_id(message.message); !id.is_null()) {
        cancel(id);
        continue;
      }
      add(std::move(message));
    }
    const std::lock_guard lock(mutex);
    has_ended = true;
    changed.notify_all();
  }

  void add(RpcMessage message) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return waiting.size() < kMaxWaiting; });
    Waiting added{std::move(message), {}};
    added.message.cancellation = added.stop.get_token();
    waiting.push_back(std::move(added));
    changed.notify_all();
  }

  void cancel(const nlohmann::json& id) {
    const std::lock_guard lock(mutex);
    if (current && id_of(current->message.message) == id) current->stop.request_stop();
    for (Waiting& each : waiting) {
      if (id_of(each.message.message) == id) each.stop.request_stop();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Waiting> waiting;
  std::optional<Waiting> current;
  bool has_ended = false;
};

MessageInbox::MessageInbox() : state_(std::make_shared<State>()) {
  std::thread([state = state_] { state->read(); }).detach();
}

MessageInbox::~MessageInbox() = default;

std::optional<RpcMessage> MessageInbox::take() {
  std::unique_lock lock(state_->mutex);
  for (;;) {
    state_->current.reset();
    state_->changed.wait(lock, [&] { return !state_->waiting.empty() || state_->has_ended; });
    if (state_->waiting.empty()) return {};
    state_->current = std::move(state_->waiting.front());
    state_->waiting.pop_front();
    state_->changed.notify_all();
    if (!state_->current->stop.stop_requested()) return state_->current->message;
  }
}

}  // namespace lacuna
