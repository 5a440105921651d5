// A request and its reply, apart from any connection: what endpoints see, and what tests give them.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lacuna {

struct HttpRequest {
  std::string method;         ///< "GET", "POST", ...
  std::string path;           ///< without the query, as sent (nothing decoded)
  std::string authorization;  ///< header; empty: none
  std::string body;
};

/// What goes back. Whoever answers calls send(), or begin_stream(), write() any number of times and end();
/// the connection takes what there is. Any thread may call anything.
class HttpReply {
 public:
  struct Head {
    int status = 200;
    std::string content_type;
    std::string allow = {};  ///< of 405: the method that is
    bool is_stream = false;
  };
  /// What the connection has to write next.
  struct Output {
    bool has_head = false;  ///< the head was given; it stays so
    Head head;
    std::string data;  ///< that was not taken yet
    bool has_ended = false;
  };

  void send(Head head, std::string body);
  void begin_stream(std::string content_type);
  void write(std::string_view data);
  void end();

  /// Calls `closed` once if the client goes away before end(), at once if it has gone. The call comes from
  /// the connection's thread and must be quick.
  void when_closed(std::function<void()> closed);

  // For the connection:

  /// `notify` is called whenever there is something to take, from the thread that gave it.
  void when_ready(std::function<void()> notify);
  Output take();
  /// Bytes that were not taken yet.
  size_t pending() const;
  /// The client has gone.
  void close();

 private:
  void notify();

  mutable std::mutex mutex_;
  Output output_;
  std::function<void()> notify_;
  std::function<void()> closed_;
  bool is_closed_ = false;
};

}  // namespace lacuna
