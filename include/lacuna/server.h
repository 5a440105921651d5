// The server of `lacuna serve`, embedded in a program. The CMake target is lacuna::server.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lacuna/error.h"
#include "lacuna/export.h"
#include "lacuna/session.h"
#include "lacuna/types.h"

namespace lacuna {

/// A model of a server.
struct ServedModel {
  std::string model;  ///< first argument of Session::load()
  std::string name;   ///< name for the "model" field of clients; empty: `model`
};

/// Limits on the requests of clients. Further limits that protect the server (sizes of headers and bodies,
/// slow clients, unread replies) are fixed (docs/reference/server.md).
struct ServerLimits {
  int32_t max_queue = 256;          ///< waiting requests per model, 0 to 65536; more get 503
  int32_t max_per_client = 0;       ///< requests per key or address; 0: 3/4 of all places; more get 429
  int32_t requests_per_minute = 0;  ///< POST requests per key or address; 0: no limit; more get 429
  double request_seconds = 0;       ///< time limit of a request, from its arrival; 0: no limit
  int32_t max_connections = 1024;   ///< open at the same time, 1 to 1048576
  int32_t max_connections_per_address = 512;  ///< limit on connections from one IP address
};

/// Models, address, access and limits of a server.
struct ServerOptions {
  /// At least one. A single model is loaded at the start; several are loaded on their first requests.
  std::vector<ServedModel> models;
  LoadOptions load;                ///< how each model is loaded; a guide requires a single model
  Options defaults;                ///< settings by name, for requests that do not give them
  std::string host = "127.0.0.1";  ///< address to listen on
  uint16_t port = 8080;            ///< 0: any free port
  /// Accepted keys; clients send one as Authorization: Bearer KEY or X-Api-Key: KEY. Empty: no key is
  /// required.
  std::vector<std::string> api_keys;
  bool insecure = false;  ///< allow a `host` that other machines can reach without requiring a key
  std::vector<std::string>
      allowed_origins;  ///< pages that may send requests: "https://example.org"; "*" for all
  std::vector<std::string> allowed_hosts;  ///< names accepted in the Host header if no key is required
  int64_t models_memory = 0;  ///< limit on the bytes of several loaded models with K/V; 0: free memory
  double unload_seconds = 0;  ///< idle time after which one of several models is unloaded; 0: never
  bool page = true;           ///< whether a browser gets the page at "/"
  ServerLimits limits;        ///< limits on the requests of clients
  /// Called with one JSON object (docs/guide/serve.md) per request, once its reply is written or its client
  /// has disconnected. Called on the network thread, so it must be quick. May be empty.
  std::function<void(std::string_view line)> log;
};

/// A running server. Requests share forward passes; sharing does not change their texts. It installs no
/// signal handlers and starts threads of its own.
class LACUNA_API Server {
 public:
  /// Listens, loads the model if there is only one, and returns when the server is ready. Throws Error if an
  /// option cannot be used, the address cannot be listened on, or a model cannot be loaded.
  static Server start(const ServerOptions& options);

  /// Stops without waiting for running requests.
  ~Server();
  Server(Server&&) noexcept;
  Server& operator=(Server&&) noexcept;

  /// The port that clients connect to.
  uint16_t port() const;

  /// Refuses new requests (GET /ready answers 503), lets running ones finish for up to `drain_seconds`, ends
  /// the others with an error, and closes all connections. Returns when that is done. Thread-safe; a second
  /// call with a shorter time shortens the first.
  void stop(double drain_seconds = 10);
  /// Waits until stop() is done. Thread-safe.
  void wait();

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lacuna
