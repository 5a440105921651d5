#include "server/model_server.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace lacuna {

ModelServer::ModelServer(const std::string& host, uint16_t port, ServiceSettings settings,
                         const HttpLimits& limits, HttpLog log)
    : service_(std::move(settings)),
      http_(std::make_unique<HttpServer>(
          host, port,
          [this](const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
            service_.handle(request, reply);
          },
          limits, [this](const HttpRequest& head) { return service_.find_refusal(head); }, std::move(log))) {}

ModelServer::~ModelServer() {
  stop();
}

void ModelServer::start(std::vector<PoolModel> models, const PoolLimits& limits) {
  pool_ = std::make_unique<ModelPool>(std::move(models), limits);
  if (pool_->size() == 1) pool_->load(0);
  service_.start(*pool_);
}

void ModelServer::begin_drain() {
  service_.begin_drain();
  if (!pool_) return;
  pool_->stop();
  draining_ = pool_->loaded();
  for (const ModelPool::Loaded& each : draining_) each.lease->scheduler().drain();
}

bool ModelServer::is_idle() const {
  return std::all_of(draining_.begin(), draining_.end(),
                     [](const ModelPool::Loaded& each) { return each.lease->scheduler().is_idle(); });
}

void ModelServer::stop() {
  if (draining_.empty()) begin_drain();
  for (const ModelPool::Loaded& each : draining_) each.lease->scheduler().stop();
  http_->stop(std::chrono::seconds(1));
}

}  // namespace lacuna
