// The endpoints. docs/reference/server.md says what each takes and gives.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/inference_session.h"
#include "options/options.h"
#include "server/access.h"
#include "server/http.h"

namespace lacuna {

/// A file that the server gives to anyone, by its path: a part of the page at "/".
struct StaticFile {
  std::string_view content_type;
  std::string_view bytes;
};

/// By path ("/", "/app.js"). Nothing else is ever read for a client, so there is no path to leave a folder
/// by.
using StaticFiles = std::map<std::string, StaticFile, std::less<>>;

struct ServiceSettings {
  std::string name;            ///< of the model, as clients see it
  std::string fingerprint;     ///< of the program
  AccessRules access;          ///< keys, allowed sites and rates
  GenerationOptions defaults;  ///< of settings that a request does not give
  StaticFiles files;
};

class Service {
 public:
  explicit Service(ServiceSettings settings);
  ~Service();

  /// From now on requests are answered; before that, all but files get 503. Once; the session
  /// ends before the service, which hears of its requests, and after the last call of handle().
  void start(InferenceSession& session);

  /// From now on /health answers 503. Requests are still answered; the scheduler refuses new ones.
  void begin_drain() { is_draining_ = true; }

  /// Why a client may not send this request, from its head alone; none: it may.
  std::optional<HttpRefusal> find_refusal(const HttpRequest& head) const;

  /// Answers, now or later. Any thread; never throws.
  void handle(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply);

 private:
  class Running;

  void answer(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply);

  ServiceSettings settings_;
  AccessControl access_;
  std::atomic<bool> is_draining_{false};
  std::unique_ptr<Running> parts_;
  std::atomic<Running*> running_{nullptr};
};

}  // namespace lacuna
