// A request and its reply, apart from any connection: what endpoints see, and what tests give them.
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
#include <vector>

#include "base/budget.h"
#include "base/mutex.h"
#include "server/memory_guard.h"

namespace lacuna {

struct HttpRequest {
  std::string method;         ///< "GET", "POST", ...
  std::string path;           ///< without the query, as sent (nothing decoded)
  std::string authorization;  ///< header; empty: none
  std::string body;
  std::string host = {};              ///< header; empty: none
  std::string origin = {};            ///< header; empty: none
  std::string address = {};           ///< the client's IP address
  std::string content_encoding = {};  ///< header; empty: none
  std::string api_key = {};           ///< X-Api-Key header; empty: none
  std::string wanted_headers = {};    ///< Access-Control-Request-Headers header; empty: none
  std::string query = {};             ///< query string without "?", as sent
  std::string id = {};                ///< request id, sent back as X-Request-Id
};

/// The log's record of an answer of a generating endpoint.
struct AnswerRecord {
  std::string model;
  int32_t prompt_tokens = 0;
  int32_t answer_tokens = 0;
};

/// One request and how it ended, for the log.
struct RequestRecord {
  std::string id, address;
  std::string method, path;  ///< empty: the head could not be read
  int status = 0;            ///< status of the reply; 499: the client closed the connection before it began
  double seconds = 0;        ///< from the whole request to the reply's last byte
  bool is_whole = true;      ///< whether all of the reply was written
  std::string ignored = {};  ///< what was left out of the request; empty: nothing
  std::optional<AnswerRecord> answer = {};
};

/// A reply in the place of the handler's.
struct HttpRefusal {
  int status = 400;
  std::string sentence;
};

/// Bytes that all replies together may hold until their clients read them. Thread-safe.
class ReplyBudget {
 public:
  ///   memory  asked, too; null: the limit alone counts
  explicit ReplyBudget(size_t limit, std::shared_ptr<MemoryGuard> memory = nullptr)
      : limit_(limit), memory_(std::move(memory)) {}

  /// Whether this many more bytes fit; if so, they count.
  bool reserve(size_t bytes) {
    // Short texts, such as events and errors, take what the guard keeps back.
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

/// Content type of a stream that may hold comments.
inline constexpr std::string_view kServerSentEvents = "text/event-stream";

/// The reply to a request. The handler calls send(), or begin_stream(), write() any number of times and
/// end(); the connection takes what there is. Any thread may call anything.
///
/// A stream whose client lets more than `stream_bytes` wait, or that does not fit the budget of all replies,
/// overflows: the connection is closed. A whole reply that does not fit becomes status 503. What comes after
/// the end of a reply is dropped.
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
    bool has_head = false;  ///< the head was given; it stays so
    Head head;
    std::string data;  ///< bytes that the connection has not taken yet
    bool has_ended = false;
    bool has_overflowed = false;  ///< the client reads too slowly, or abandon(): nothing more will come
    std::string allow_origin;     ///< the value of Access-Control-Allow-Origin; empty: none
    std::string weights;          ///< the value of X-Lacuna-Weights; empty: none
    std::string ignored;          ///< the value of X-Lacuna-Ignored; empty: none
  };

  /// Sets the value of Access-Control-Allow-Origin. Before send() and begin_stream().
  void allow_origin(std::string origin);

  /// Sets the value of X-Lacuna-Weights. Before send() and begin_stream().
  void name_weights(std::string version);

  /// Sets the value of X-Lacuna-Ignored, printable ASCII, which the log has, too. Before send() and
  /// begin_stream().
  void name_ignored(std::string names);

  /// Sets the log's record of the answer. Call it before the last byte.
  void record(AnswerRecord answer);

  /// Closes the connection of a stream that has begun: its client must not take an error for its end.
  void send(Head head, std::string body);
  void begin_stream(std::string content_type);
  void write(std::string_view data);
  void end();
  /// Nothing more can be said: the connection is closed.
  void abandon() noexcept;

  /// The work for this reply ends where its client goes away, where the server stops, and at the deadline:
  /// limits of a Budget that the reply outlives.
  Budget::Limits work_limits() const { return {.deadline = work_deadline_, .stop = &is_unwanted_}; }
  /// Before the handler has the reply.
  void set_work_deadline(std::chrono::steady_clock::time_point deadline) { work_deadline_ = deadline; }
  /// Where work_later() works. Before the handler has the reply.
  void set_worker(std::function<void(std::function<void()>)> worker) { worker_ = std::move(worker); }
  /// Ends the work, whose handler can still say so to the client.
  void stop_work() { is_unwanted_ = true; }

  /// Does more work for the reply on one of the threads for that, where the connection has such, else at
  /// once. Where too many requests wait the reply becomes 503. The work may throw nothing.
  void work_later(std::function<void()> work);

  /// Calls `closed` once if the client goes away before end(), at once if it has gone. The call comes from
  /// the connection's thread and must be quick.
  void when_closed(std::function<void()> closed);

  // For the connection:

  /// `notify` is called whenever there is something to take, from the thread that gave it. It must not call
  /// the reply. After close() has returned it is never called again. What it throws is dropped: who takes
  /// should look now and then.
  void when_ready(std::function<void()> notify);
  Output take();
  /// Bytes that were not taken yet.
  size_t pending() const;
  /// Nothing more will come, whatever was taken.
  bool has_overflowed() const;
  /// The client has gone.
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
  std::function<void(std::function<void()>)> worker_;  // set once, before others have the reply
  std::atomic<bool> is_unwanted_{false};
  std::chrono::steady_clock::time_point work_deadline_ = std::chrono::steady_clock::time_point::max();
  std::shared_ptr<ReplyBudget> budget_;
  size_t stream_bytes_ = SIZE_MAX;
  /// Bytes of the budget: those that wait, and those that were taken last.
  size_t reserved_ LACUNA_GUARDED_BY(mutex_) = 0;
};

}  // namespace lacuna
