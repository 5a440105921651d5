// Connections: HTTP/1.1 on one thread, handlers on a few others (docs/decisions/0009-boost-beast.md).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "server/http.h"

namespace lacuna {

struct HttpLimits {
  size_t connections = 1024;             ///< more are closed as they come
  uint32_t header_bytes = 16 << 10;      ///< start line and all headers
  uint64_t body_bytes = 4 << 20;         ///< more: 413
  size_t connections_per_address = 512;  ///< more from one IP address are closed as they come
  size_t all_body_bytes = 256 << 20;     ///< of all requests that are read or answered; more: 503
  size_t stream_bytes = 4 << 20;         ///< of a stream that its client does not read; more: closed
  size_t all_reply_bytes = 256 << 20;  ///< of all replies that wait to be read; more: 503, streams are closed
  std::chrono::seconds header_seconds{20};  ///< from the connection, or the last reply, to the last header
  std::chrono::seconds body_seconds{60};    ///< for the whole body
  std::chrono::seconds write_seconds{60};   ///< for each write to take
  std::chrono::milliseconds ping_every{15000};  ///< of silence in a stream: an SSE comment
};

/// Handlers may run on several threads at once and reply whenever they are ready. Requests other than POST
/// have a thread of their own, so that /health never waits for a body that is being parsed.
using HttpHandler = std::function<void(const HttpRequest&, const std::shared_ptr<HttpReply>&)>;

/// Serves from construction to stop(). A client that closes its side, even if only for writing, has gone.
/// What is too long or no HTTP gets a reply with error_json(), and the connection is closed; so is that of a
/// client that is too slow, without a word. A request needs one Host header (HTTP/1.1), and a
/// Transfer-Encoding other than "chunked" is refused.
class HttpServer {
 public:
  ///   port  0: any that is free
  /// Throws InputError where the address cannot be listened on.
  HttpServer(const std::string& host, uint16_t port, HttpHandler handler, const HttpLimits& limits = {});
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;

  /// Accepts no more connections, waits up to `flush` for replies to be written, and closes all others. After
  /// it has returned, no handler runs and replies may be used but go nowhere. The destructor does so, too.
  void stop(std::chrono::milliseconds flush = {});

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace lacuna
