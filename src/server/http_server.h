// HTTP/1.1 server: connections on one thread, handlers on a few others
// (docs/inside/decisions/0009-boost-beast.md).
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

/// Upper bound of the memory for parsing a body, in bytes per byte of the body: tokenizing a long text takes
/// 28
/// (`/tokenize`, 4 MiB), JSON values of empty lists and texts take 32.
inline constexpr int64_t kMemoryPerBodyByte = 32;

struct HttpLimits {
  size_t connections = 1024;         ///< a further one replaces the one that has waited longest for a request
  uint32_t header_bytes = 16 << 10;  ///< limit on start line and headers
  uint64_t body_bytes = 4 << 20;     ///< limit on a body; more get 413
  size_t connections_per_address = 512;       ///< the same limit per IP address
  size_t all_body_bytes = 256 << 20;          ///< bodies being read or answered, together; more get 503
  size_t body_bytes_per_address = 128 << 20;  ///< the same per IP address; more get 503
  /// Paths that are answered on the network thread, before all waiting requests, except POST. Must be quick.
  std::vector<std::string> probes = {"/health", "/v1/health", "/ready", "/live"};
  size_t early_bytes = 64 << 10;            ///< bytes that a client may send before it has the reply
  size_t stream_bytes = 4 << 20;            ///< unread bytes of a stream; more close the connection
  size_t all_reply_bytes = 256 << 20;       ///< unread bytes of all replies; more get 503, or close streams
  std::chrono::seconds header_seconds{20};  ///< from the connection, or the last reply, to the last header
  std::chrono::seconds body_seconds{60};    ///< for the whole body
  std::chrono::seconds write_seconds{60};   ///< time limit of each write
  /// Time limit of a handler's work, from the end of the request; 0: no limit.
  std::chrono::milliseconds work_time{0};
  HandlerLimits handlers = {};  ///< threads on which POST requests are handled
  /// Returns the free memory; empty: the system's value. Requests that need more get 503.
  std::function<int64_t()> free_memory = {};
  std::chrono::milliseconds ping_every{15000};  ///< silence after which an event stream gets a comment
};

/// Converts the seconds of --request-timeout to HttpLimits::work_time.
inline std::chrono::milliseconds work_time(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

/// Handlers run on several threads at once and may reply later. Each runs under a Budget with its reply's
/// work_limits(). Long work must call spend_steps(): otherwise stop() and other requests wait for it.
/// Requests other than POST have their own thread, so that /metrics never waits for a body that is being
/// parsed.
using HttpHandler = std::function<void(const HttpRequest&, const std::shared_ptr<HttpReply>&)>;

/// Called with the head of a request before its long body is read; returns an error reply to refuse it. Runs
/// on the network thread, so it must be quick.
using HttpGate = std::function<std::optional<HttpRefusal>(const HttpRequest&)>;

/// Called for each request when its reply has been written or its client has disconnected. Runs on the
/// network thread, so it must be quick.
using HttpLog = std::function<void(const RequestRecord&)>;

/// Serves from construction to stop(). Every reply has an X-Request-Id: the request's if it is 1 to 128
/// letters, digits and -_.:/+=@, otherwise a generated one. A client that closes its side, even only for
/// writing, counts as disconnected. Requests that are too long or not HTTP get a reply with error_json(), and
/// the connection is closed. Connections of clients that are too slow, or send too much before their reply,
/// are closed without a reply. A request needs one Host header (HTTP/1.1); a Transfer-Encoding other than
/// "chunked" is refused. If there are too many connections, or no free file descriptor, a new connection
/// replaces the one that has waited longest for a whole request. If all wait for replies, the new one is
/// closed. A few spare connections (one per 16 connections, at most 16) remain for probes.
class HttpServer {
 public:
  /// Throws InputError if the address cannot be listened on.
  ///   port  0: any free port
  HttpServer(const std::string& host, uint16_t port, HttpHandler handler, const HttpLimits& limits = {},
             HttpGate gate = {}, HttpLog log = {});
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;
  /// HttpLimits::connections, or fewer if the limit on open files requires it.
  size_t max_connections() const;

  /// Stops accepting connections, ends the work of handlers through HttpReply::work_limits(), waits up to
  /// `flush` for replies to be written, and closes all connections. Afterwards no handler runs, and writes to
  /// replies are dropped. The destructor calls it.
  void stop(std::chrono::milliseconds flush = {});

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace lacuna
