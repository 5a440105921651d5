// A whole server: models behind a service behind connections, and how they stop in order.
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
  /// Listens. Until start(), requests for all but files get 503. Throws InputError if the address cannot be
  /// listened on.
  ///   port  0: any that is free     log  empty: nobody is told of requests
  ModelServer(const std::string& host, uint16_t port, ServiceSettings settings, const HttpLimits& limits,
              HttpLog log);
  /// Stops.
  ~ModelServer();
  ModelServer(const ModelServer&) = delete;
  ModelServer& operator=(const ModelServer&) = delete;

  /// Answers requests from now on. A single model is loaded first. Once. Throws InputError.
  void start(std::vector<PoolModel> models, const PoolLimits& limits);

  uint16_t port() const { return http_->port(); }
  size_t max_connections() const { return http_->max_connections(); }

  /// Requests that run may finish and new ones are refused; loads nothing more. Before stop(); once.
  void begin_drain();
  /// Whether no request runs or waits, after begin_drain().
  bool is_idle() const;
  /// Ends the requests that are left with an error, lets replies be written for a second, and closes all
  /// connections.
  void stop();

 private:
  Service service_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<ModelPool> pool_;
  std::vector<ModelPool::Loaded> draining_;
};

}  // namespace lacuna
