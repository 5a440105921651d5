// The whole server: HTTP server, service and model pool, with their shutdown order.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/http_server.h"
#include "server/model_pool.h"
#include "server/service.h"

namespace lacuna {

class ModelServer {
 public:
  /// Listens. Until start(), requests other than for static files get 503. Throws InputError if the address
  /// cannot be listened on.
  ///   port  0: any free port     log  empty: no log
  ModelServer(const std::string& host, uint16_t port, ServiceSettings settings, const HttpLimits& limits,
              HttpLog log);
  /// Stops.
  ~ModelServer();
  ModelServer(const ModelServer&) = delete;
  ModelServer& operator=(const ModelServer&) = delete;

  /// Starts answering requests; loads a single model first. Call it once. Throws InputError.
  void start(std::vector<PoolModel> models, const PoolLimits& limits);

  uint16_t port() const { return http_->port(); }
  size_t max_connections() const { return http_->max_connections(); }

  /// Refuses new requests, lets running ones finish, and stops loading models. Call it once, before stop().
  void begin_drain();
  /// Whether no request runs or waits, after begin_drain().
  bool is_idle() const;
  /// Ends the remaining requests with an error, waits up to a second for replies to be written, and closes
  /// all connections.
  void stop();

 private:
  Service service_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<ModelPool> pool_;
  std::vector<ModelPool::Loaded> draining_;
};

}  // namespace lacuna
