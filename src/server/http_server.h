// Connections: HTTP/1.1 on one thread, handlers on a few others (docs/inside/decisions/0009-boost-beast.md).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/handler_pool.h"
#include "server/http.h"

namespace lacuna {

/// Bytes of memory that reading a body takes for each of its bytes, at most: a long text that becomes tokens
/// takes 28 (`/tokenize`, 4 MiB), empty lists and texts in JSON take 32 as values.
inline constexpr int64_t kMemoryPerBodyByte = 32;

struct HttpLimits {
  size_t connections = 1024;  ///< one more takes the place of the one that has sent nothing whole for longest
  uint32_t header_bytes = 16 << 10;           ///< start line and all headers
  uint64_t body_bytes = 4 << 20;              ///< more: 413
  size_t connections_per_address = 512;       ///< likewise, among those of one IP address
  size_t all_body_bytes = 256 << 20;          ///< bytes of all requests being read or answered; beyond: 503
  size_t body_bytes_per_address = 128 << 20;  ///< bytes of all requests of one IP address; beyond: 503
  /// GET of these is answered on the connections' thread, before all that waits for a handler. Must be quick.
  std::vector<std::string> probes = {"/health", "/v1/health", "/ready", "/live"};
  size_t early_bytes = 64 << 10;  ///< bytes that a client may send after a request before it has the reply
  size_t stream_bytes = 4 << 20;  ///< unread bytes of one stream; beyond: the connection is closed
  size_t all_reply_bytes = 256 << 20;  ///< unread bytes of all replies; beyond: 503, and streams are closed
  std::chrono::seconds header_seconds{20};  ///< from the connection, or the last reply, to the last header
  std::chrono::seconds body_seconds{60};    ///< for the whole body
  std::chrono::seconds write_seconds{60};   ///< for each write to take
  /// From the whole request to the end of its handler's work; 0: no limit.
  std::chrono::milliseconds work_time{0};
  HandlerLimits handlers = {};  ///< threads on which POST requests are handled
  /// Memory that the process may still take; empty: what the system says. Requests that need more get 503.
  std::function<int64_t()> free_memory = {};
  std::chrono::milliseconds ping_every{15000};  ///< silence after which an event stream gets a comment
};

/// Seconds, as --request-timeout has them, as HttpLimits::work_time.
inline std::chrono::milliseconds work_time(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

/// Handlers may run on several threads at once and reply whenever they are ready. Each has a Budget of its
/// reply's work_limits() around it; long work spends from it (spend_steps), or stop() would wait for it, and
/// other requests, too. Requests other than POST have a thread of their own, so that /metrics never waits for
/// a body that is being parsed.
using HttpHandler = std::function<void(const HttpRequest&, const std::shared_ptr<HttpReply>&)>;

/// Asked with the head of a request whose body is long, before the body is read: who may not send it is
/// refused. On the connections' thread; must be quick.
using HttpGate = std::function<std::optional<HttpRefusal>(const HttpRequest&)>;

/// Told of each request when its reply has been written or its client has gone. On the connections' thread;
/// must be quick.
using HttpLog = std::function<void(const RequestRecord&)>;

/// Serves from construction to stop(). Every reply has an X-Request-Id: the request's, where that is 1 to 128
/// letters, digits and -_.:/+=@, else a generated one. A client that closes its side, even if only for
/// writing, has gone. What is too long or no HTTP gets a reply with error_json(), and the connection is
/// closed; so is that of a client that is too slow, or that sends much before it has its reply, without a
/// word. A request needs one Host header (HTTP/1.1), and a Transfer-Encoding other than "chunked" is refused.
/// Where there are too many connections, or the process may open no more files, a new one takes the place of
/// the one that has waited longest for a whole request. Where all wait for replies, it is closed, but for a
/// few (one for each 16 connections, at most 16) that may ask probes alone.
class HttpServer {
 public:
  ///   port  0: any that is free
  /// Throws InputError where the address cannot be listened on.
  HttpServer(const std::string& host, uint16_t port, HttpHandler handler, const HttpLimits& limits = {},
             HttpGate gate = {}, HttpLog log = {});
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;
  /// HttpLimits::connections, or fewer where the process may not open as many files.
  size_t max_connections() const;

  /// Accepts no more connections, ends the work of handlers that look at HttpReply::work_limits(), waits up
  /// to `flush` for replies to be written, and closes all others. After it has returned, no handler runs and
  /// replies may be used but go nowhere. The destructor does so, too.
  void stop(std::chrono::milliseconds flush = {});

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace lacuna
