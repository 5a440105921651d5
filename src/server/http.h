// A request and its reply, independent of connections, for endpoints and their tests.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/budget.h"
#include "base/mutex.h"
#include "server/memory_guard.h"

namespace lacuna {

struct HttpRequest {
  std::string method;         ///< "GET", "POST", ...
  std::string path;           ///< path as sent, without the query, not decoded
  std::string authorization;  ///< Authorization header; empty: none
  std::string body;
  std::string host = {};              ///< Host header; empty: none
  std::string origin = {};            ///< Origin header; empty: none
  std::string address = {};           ///< the client's IP address
  std::string content_encoding = {};  ///< Content-Encoding header; empty: none
  std::string api_key = {};           ///< X-Api-Key header; empty: none
  std::string wanted_headers = {};    ///< Access-Control-Request-Headers header; empty: none
  std::string query = {};             ///< query string without "?", as sent
  std::string id = {};                ///< request id, sent back as X-Request-Id
};

/// Log record of a generated answer.
struct AnswerRecord {
  std::string model;
  int32_t prompt_tokens = 0;
  int32_t answer_tokens = 0;
};

/// Log record of one request.
struct RequestRecord {
  std::string id, address;
  std::string method, path;  ///< empty: the head could not be parsed
  int status = 0;            ///< HTTP status; 499: the client disconnected before the reply began
  double seconds = 0;        ///< from the end of the request to the reply's last byte
  bool is_whole = true;      ///< whether the whole reply was written
  std::string ignored = {};  ///< ignored fields of the request; empty: none
  std::optional<AnswerRecord> answer = {};
};

/// An error reply sent instead of calling the handler.
struct HttpRefusal {
  int status = 400;
  std::string sentence;
};

/// Limit on the unread bytes of all replies together. Thread-safe.
class ReplyBudget {
 public:
  ///   memory  must also have space for longer texts; null: not checked
  explicit ReplyBudget(size_t limit, std::shared_ptr<MemoryGuard> memory = nullptr)
      : limit_(limit), memory_(std::move(memory)) {}

  /// Reserves bytes if they fit; returns whether they do.
  bool reserve(size_t bytes) {
    // Short texts, such as events and errors, may use MemoryGuard::kReserve.
    const bool has_memory =
        bytes <= kShort || memory_ == nullptr || memory_->has(static_cast<int64_t>(bytes));
    if (used_.fetch_add(bytes) + bytes <= limit_ && has_memory) return true;
    used_ -= bytes;
    return false;
  }
  void release(size_t bytes) { used_ -= bytes; }
  size_t used() const { return used_; }

 private:
  static constexpr size_t kShort = 4096;

  size_t limit_;
  std::shared_ptr<MemoryGuard> memory_;
  std::atomic<size_t> used_{0};
};

/// Content type of server-sent events, which may contain comments.
inline constexpr std::string_view kServerSentEvents = "text/event-stream";

/// The reply to a request. The handler calls send(), or begin_stream(), write() any number of times and
/// end(); the connection calls take() for the bytes so far. Thread-safe.
///
/// A stream overflows, and its connection is closed, if its unread bytes exceed `stream_bytes` or the budget
/// of all replies. A whole reply that exceeds the budget becomes status 503. Data after the end is dropped.
class HttpReply {
 public:
  HttpReply() = default;
  HttpReply(std::shared_ptr<ReplyBudget> budget, size_t stream_bytes)
      : budget_(std::move(budget)), stream_bytes_(stream_bytes) {}
  ~HttpReply();
  HttpReply(const HttpReply&) = delete;
  HttpReply& operator=(const HttpReply&) = delete;

  struct Head {
    int status = 200;
    std::string content_type;
    std::string allow = {};  ///< for 405: the allowed method
    bool is_stream = false;
    std::string allow_headers = {};  ///< for 204: the value of Access-Control-Allow-Headers
  };
  /// The bytes that the connection has to write next.
  struct Output {
    bool has_head = false;  ///< `head` is set; stays true
    Head head;
    std::string data;  ///< bytes that the connection has not taken yet
    bool has_ended = false;
    bool has_overflowed = false;  ///< the reply was cut off: a slow client, or abandon()
    std::string allow_origin;     ///< the value of Access-Control-Allow-Origin; empty: none
    std::string weights;          ///< the value of X-Lacuna-Weights; empty: none
    std::string ignored;          ///< the value of X-Lacuna-Ignored; empty: none
  };

  /// Sets the value of Access-Control-Allow-Origin. Before send() and begin_stream().
  void allow_origin(std::string origin);

  /// Sets the value of X-Lacuna-Weights. Before send() and begin_stream().
  void name_weights(std::string version);

  /// Sets the value of X-Lacuna-Ignored and of the log: printable ASCII. Before send() and begin_stream().
  void name_ignored(std::string names);

  /// Sets the log's record of the answer. Call it before the last byte.
  void record(AnswerRecord answer);

  /// Sends a whole reply. If a stream has begun, closes the connection instead, so that the client does not
  /// take an error for the stream's end.
  void send(Head head, std::string body);
  void begin_stream(std::string content_type);
  void write(std::string_view data);
  void end();
  /// Cuts the reply off: the connection is closed.
  void abandon() noexcept;

  /// Limits that end the work for this reply when the client disconnects, the server stops or the deadline
  /// passes. The reply must outlive the Budget.
  Budget::Limits work_limits() const { return {.deadline = work_deadline_, .stop = &is_unwanted_}; }
  /// Call it before the handler has the reply.
  void set_work_deadline(std::chrono::steady_clock::time_point deadline) { work_deadline_ = deadline; }
  /// Sets the function that runs the work of work_later(). Call it before the handler has the reply.
  void set_worker(std::function<void(std::function<void()>)> worker) { worker_ = std::move(worker); }
  /// Ends the work; the handler can still send an error.
  void stop_work() { is_unwanted_ = true; }

  /// Runs more work for the reply: on a thread of the set_worker() pool, otherwise at once. If too many
  /// requests wait, the reply becomes 503. The work must not throw.
  void work_later(std::function<void()> work);

  /// Calls `closed` once if the client disconnects before end(), at once if it already has. Called on the
  /// network thread, so it must be quick.
  void when_closed(std::function<void()> closed);

  // For the connection:

  /// Sets the function that is called when take() has new data, from the thread that wrote it. It must not
  /// call the reply, and is never called after close() has returned. Its exceptions are dropped, so the
  /// connection should also poll.
  void when_ready(std::function<void()> notify);
  Output take();
  /// Number of bytes that were not taken yet.
  size_t pending() const;
  /// Whether the reply was cut off.
  bool has_overflowed() const;
  /// Called when the client has disconnected: ends the work and frees waiting bytes.
  void close();
  bool is_closed() const;
  std::optional<AnswerRecord> answer_record() const;

 private:
  void release() LACUNA_REQUIRES(mutex_);
  void notify() noexcept LACUNA_REQUIRES(mutex_);
  void overflow() LACUNA_REQUIRES(mutex_);

  mutable Mutex mutex_;
  Output output_ LACUNA_GUARDED_BY(mutex_);
  std::function<void()> notify_ LACUNA_GUARDED_BY(mutex_);
  std::function<void()> closed_ LACUNA_GUARDED_BY(mutex_);
  std::optional<AnswerRecord> answer_ LACUNA_GUARDED_BY(mutex_);
  bool is_closed_ LACUNA_GUARDED_BY(mutex_) = false;
  std::function<void(std::function<void()>)> worker_;  // set once, before the handler has the reply
  std::atomic<bool> is_unwanted_{false};
  std::chrono::steady_clock::time_point work_deadline_ = std::chrono::steady_clock::time_point::max();
  std::shared_ptr<ReplyBudget> budget_;
  size_t stream_bytes_ = SIZE_MAX;
  /// Reserved bytes of the budget: waiting bytes and those that take() returned last.
  size_t reserved_ LACUNA_GUARDED_BY(mutex_) = 0;
};

}  // namespace lacuna
