// The service behind the connections: who may ask, and which endpoint answers.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "engine/inference_session.h"
#include "server/access.h"
#include "server/endpoints.h"
#include "server/http.h"
#include "server/model_pool.h"
#include "server/service_settings.h"

namespace lacuna {

class Service {
 public:
  explicit Service(ServiceSettings settings);
  ~Service();

  /// From now on requests are answered; before that, all but files get 503. Once; the pool outlives the
  /// service's last call of handle().
  void start(ModelPool& pool);
  /// The same with one model that is loaded, and stays so. The session ends before the service, which hears
  /// of its requests, and after the last call of handle().
  void start(InferenceSession& session);

  /// From now on /health answers 503. Requests are still answered; the scheduler refuses new ones.
  void begin_drain() { is_draining_ = true; }

  /// Why a client may not send this request, from its headers alone; empty: it may.
  std::optional<HttpRefusal> find_refusal(const HttpRequest& head) const;

  /// Answers, now or later. Any thread; never throws.
  void handle(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply);

 private:
  void answer(const HttpRequest& request, ReplyTarget& reply_to);
  /// Whether it was a request that anyone may send at any time.
  bool answer_open(const HttpRequest& request, HttpReply& reply) const;

  ServiceSettings settings_;
  AccessControl access_;
  std::string description_;  // /openapi.json
  std::atomic<bool> is_draining_{false};
  std::unique_ptr<ModelPool> own_pool_;  // pool of start(session)
  std::unique_ptr<Endpoints> parts_;
  std::atomic<Endpoints*> running_{nullptr};
};

}  // namespace lacuna
