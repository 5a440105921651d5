#include "server/service.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "base/json.h"
#include "server/api_error.h"
#include "server/openapi.h"

namespace lacuna {
namespace {

/// Throws ApiError 415 for a compressed body.
void expect_plain_body(const HttpRequest& request) {
  if (request.content_encoding.empty() || request.content_encoding == "identity") return;
  throw ApiError(415, fmt::format("Content-Encoding is {}; expected a body that is not compressed",
                                  in_quotes(request.content_encoding)));
}

}  // namespace

Service::Service(ServiceSettings settings)
    : settings_(std::move(settings)),
      access_(settings_.access),
      description_(describe_api(Endpoints::list(), settings_.version)) {}

Service::~Service() = default;

void Service::start(ModelPool& pool) {
  parts_ = std::make_unique<Endpoints>(settings_, pool);
  running_ = parts_.get();
}

void Service::start(InferenceSession& session) {
  PoolModel model{settings_.name, session.shared_opened(), 0, [&session] {
                    return std::shared_ptr<InferenceSession>(&session, [](InferenceSession*) {});
                  }};
  own_pool_ = std::make_unique<ModelPool>(std::vector<PoolModel>{std::move(model)}, PoolLimits());
  own_pool_->load(0);
  start(*own_pool_);
}

std::optional<HttpRefusal> Service::find_refusal(const HttpRequest& head) const {
  try {
    access_.check_site(head);
    access_.identify(head);
    expect_plain_body(head);
    return {};
  } catch (const ApiError& error) {
    return HttpRefusal{error.status(), error.what()};
  }
}

void Service::handle(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
  ReplyTarget reply_to{"", request.id, reply};
  try {
    answer(request, reply_to);
    return;
  } catch (...) {
    const Failure failure = describe_failure(std::current_exception());
    const ErrorFormat error = Endpoints::error_of(request.path);
    if (Endpoints* running = running_) {
      running->refuse(error, reply_to, failure);
    } else {
      reply->send({failure.status, "application/json"},
                  dump_json(error(failure.status, failure.sentence, failure.field, request.id)));
    }
  }
}

bool Service::answer_open(const HttpRequest& request, HttpReply& reply) const {
  if (request.method == "OPTIONS") {  // CORS preflight request
    HttpReply::Head head{204, "text/plain"};
    head.allow_headers = admit_headers(request.wanted_headers);
    reply.send(std::move(head), "");
    return true;
  }
  if (request.method != "GET") return false;
  if (const auto file = settings_.files.find(request.path); file != settings_.files.end()) {
    reply.send({200, std::string(file->second.content_type)}, std::string(file->second.bytes));
    return true;
  }
  if (request.path == "/openapi.json") {
    reply.send({200, "application/json"}, description_);
    return true;
  }
  const Endpoints* running = running_;
  const bool asks_for_health =
      request.path == "/health" || request.path == "/v1/health" || request.path == "/ready";
  if (request.path != "/live" && !asks_for_health) return false;
  const std::optional<PoolFailure> failure = running == nullptr ? std::nullopt : running->failure();
  if (request.path == "/live") {
    if (failure && failure->is_final) throw ApiError(503, failure->sentence);  // needs a restart
    reply.send({200, "application/json"}, R"({"status":"alive"})");
    return true;
  }
  if (is_draining_) throw ApiError(503, "the server is stopping");
  if (running == nullptr) throw ApiError(503, "the model is being loaded");
  if (failure) throw ApiError(503, failure->sentence);
  reply.send({200, "application/json"}, R"({"status":"ok"})");
  return true;
}

void Service::answer(const HttpRequest& request, ReplyTarget& reply_to) {
  reply_to.reply->allow_origin(access_.allow_origin(request));
  access_.check_site(request);
  if (answer_open(request, *reply_to.reply)) return;
  reply_to.client = access_.identify(request);
  Endpoints* running = running_;
  if (running == nullptr) throw ApiError(503, "the model is being loaded");
  if (request.method != "GET") access_.count(reply_to.client);
  expect_plain_body(request);
  std::string allow;
  const Endpoint* endpoint = Endpoints::find(request.method, request.path, allow);
  if (endpoint != nullptr) return running->answer(*endpoint, request, reply_to);
  if (allow.empty()) throw ApiError(404, fmt::format("there is nothing at {}", in_quotes(request.path)));
  reply_to.reply->send({405, "application/json", allow},
                       dump_json(Endpoints::error_of(request.path)(
                           405, fmt::format("{} takes {} alone", request.path, allow), "", request.id)));
}

}  // namespace lacuna
