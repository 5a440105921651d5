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
  size_t connections = 1024;                ///< more are closed as they come
  uint32_t header_bytes = 16 << 10;         ///< start line and all headers
  uint64_t body_bytes = 4 << 20;            ///< more: 413
  size_t pending_bytes = 64 << 20;          ///< of a reply that its client does not read; more: closed
  std::chrono::seconds header_seconds{20};  ///< from the connection, or the last reply, to the last header
  std::chrono::seconds body_seconds{60};    ///< for the whole body
  std::chrono::seconds write_seconds{60};   ///< for each write to take
  std::chrono::milliseconds ping_every{15000};  ///< of silence in a stream: an SSE comment
};

/// Handlers may run on several threads at once, must not block for long, and reply whenever they are ready.
using HttpHandler = std::function<void(const HttpRequest&, const std::shared_ptr<HttpReply>&)>;

/// Serves from construction to destruction. A client that closes its side, even if only for writing, has
/// gone. What is too long or no HTTP gets a reply with error_json(), and the connection is closed; so is that
/// of a client that is too slow, without a word.
class HttpServer {
 public:
  ///   port  0: any that is free
  /// Throws InputError where the address cannot be listened on.
  HttpServer(const std::string& host, uint16_t port, HttpHandler handler, const HttpLimits& limits = {});
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace lacuna
