// The service behind the HTTP server: checks access and calls the endpoint.
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

  /// Starts answering requests; before, requests other than for static files get 503. Call it once. The pool
  /// must outlive the last call of handle().
  void start(ModelPool& pool);
  /// Starts with one loaded model. The session must be destroyed after the last call of handle() and before
  /// the service, which its requests' listeners use.
  void start(InferenceSession& session);

  /// Makes /health answer 503. Refusing new requests is left to the scheduler.
  void begin_drain() { is_draining_ = true; }

  /// Checks access from the headers alone; returns the error reply, or nothing if access is granted.
  std::optional<HttpRefusal> find_refusal(const HttpRequest& head) const;

  /// Answers, possibly after it returns. Thread-safe; never throws.
  void handle(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply);

 private:
  void answer(const HttpRequest& request, ReplyTarget& reply_to);
  /// Answers a request that needs neither key nor model; returns false for other requests.
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
