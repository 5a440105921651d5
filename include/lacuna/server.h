// The server of `lacuna serve` inside a program, on its own port. The CMake target is
// lacuna::server.
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
  std::string model;  ///< as Session::load() takes it
  std::string name;   ///< name for the "model" field of clients; empty: `model`
};

/// Limits on the requests of clients. Further limits that protect the server (sizes of headers and bodies,
/// slow clients, unread replies) are fixed (docs/reference/server.md).
struct ServerLimits {
  int32_t max_queue = 256;          ///< requests of one model that wait, 0 to 65536; more get 503
  int32_t max_per_client = 0;       ///< requests per key or address; 0: 3/4 of all places; beyond: 429
  int32_t requests_per_minute = 0;  ///< POST requests of one key or address; 0: no limit; more get 429
  double request_seconds = 0;       ///< from a request's arrival to its end; later it fails; 0: no limit
  int32_t max_connections = 1024;   ///< open at the same time, 1 to 1048576
  int32_t max_connections_per_address = 512;  ///< connections from one IP address, of max_connections
};

/// Models, address, access and limits of a server.
struct ServerOptions {
  /// At least one. A single model is loaded at the start; several are loaded when they are asked for.
  std::vector<ServedModel> models;
  LoadOptions load;                ///< how each model is loaded; a guide requires a single model
  Options defaults;                ///< values of settings that a request does not give, by their names
  std::string host = "127.0.0.1";  ///< address to listen on
  uint16_t port = 8080;            ///< 0: any that is free
  /// Accepted keys; clients send one as Authorization: Bearer KEY or X-Api-Key: KEY. Empty: no key is
  /// required.
  std::vector<std::string> api_keys;
  bool insecure = false;  ///< serve other machines although no key is required
  std::vector<std::string>
      allowed_origins;  ///< pages that may send requests: "https://example.org"; "*" for all
  std::vector<std::string> allowed_hosts;  ///< names of this server in the Host header, without a key
  int64_t models_memory = 0;  ///< bytes that several loaded models may take, K/V included; 0: what is free
  double unload_seconds = 0;  ///< without a request, after which one of several is unloaded; 0: never
  bool page = true;           ///< whether a browser gets the page at "/"
  ServerLimits limits;        ///< limits on the requests of clients
  /// Called for each request when its reply has been written or its client has gone, with one JSON
  /// object (docs/guide/serve.md). Called on the connections' thread, so it must be quick. May be empty.
  std::function<void(std::string_view line)> log;
};

/// A running server. Its requests share forward passes, each with the text that it would get alone. It
/// installs no signal handlers and starts threads of its own.
class LACUNA_API Server {
 public:
  /// Listens, loads a single model, and returns when requests are answered. Throws Error if an option
  /// cannot be used, the address cannot be listened on, or a model cannot be loaded.
  static Server start(const ServerOptions& options);

  /// Stops without waiting for running requests.
  ~Server();
  Server(Server&&) noexcept;
  Server& operator=(Server&&) noexcept;

  /// The port that clients connect to.
  uint16_t port() const;

  /// Takes no new requests (GET /ready answers 503), lets those that run finish for up to `drain_seconds`,
  /// ends the others with an error, and closes all connections. Returns when that is done. Any thread; a
  /// second call, with a shorter time, shortens the first.
  void stop(double drain_seconds = 10);
  /// Waits until stop() is done. Any thread.
  void wait();

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lacuna
