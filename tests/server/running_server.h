// A service on a small model, called without a network.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine/inference_session.h"
#include "server/service.h"

namespace lacuna {

inline std::filesystem::path zoo_folder(const std::string& name) {
  return std::filesystem::path(LACUNA_SOURCE_DIR) / "models" / name;
}

/// One request on its way.
class Call {
 public:
  Call(Service& service, HttpRequest request) {
    reply_->when_ready([state = state_] {
      const std::lock_guard lock(state->mutex);
      ++state->news;
      state->changed.notify_all();
    });
    service.handle(request, reply_);
  }

  /// Takes what comes until `stops` is true of it all, or the reply has ended.
  template <typename Stops>
  void read_until(const Stops& stops) {
    for (;;) {
      int seen = 0;
      {
        const std::lock_guard lock(state_->mutex);
        seen = state_->news;
      }
      HttpReply::Output output = reply_->take();
      if (output.has_head) head_ = output.head;
      ignored_ = output.ignored;
      body_ += output.data;
      if (output.has_ended || stops(body_)) return;
      std::unique_lock lock(state_->mutex);
      state_->changed.wait(lock, [&] { return state_->news > seen; });
    }
  }

  std::string body() {
    read_until([](const std::string&) { return false; });
    return body_;
  }
  nlohmann::json json() { return nlohmann::json::parse(body()); }
  int status() {
    body();
    return head_.status;
  }
  const HttpReply::Head& head() const { return head_; }
  /// The value of X-Lacuna-Ignored.
  std::string ignored() {
    body();
    return ignored_;
  }
  void hang_up() { reply_->close(); }

  /// The data of a stream's events, "[DONE]" left out.
  std::vector<nlohmann::json> chunks() {
    const std::string all = body();
    std::vector<nlohmann::json> result;
    for (size_t begin = 0; begin < all.size();) {
      const size_t end = all.find("\n\n", begin);
      const std::string event = all.substr(begin, end - begin);
      const size_t data = event.find("data: {");  // after "event: NAME" in some APIs
      if (data != std::string::npos) result.push_back(nlohmann::json::parse(event.substr(data + 6)));
      if (end == std::string::npos) break;
      begin = end + 2;
    }
    return result;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    int news = 0;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::shared_ptr<HttpReply> reply_ = std::make_shared<HttpReply>();
  HttpReply::Head head_;
  std::string ignored_;
  std::string body_;
};

/// Everything behind the connections.
class RunningServer {
 public:
  explicit RunningServer(const std::string& model, SchedulerLimits limits = {}, ServiceSettings settings = {})
      : service_([&] {
          settings.name = model;
          settings.version = "test";
          return std::move(settings);
        }()),
        session_(load(model, limits)) {
    service_.start(*session_);
  }

  Service& service() { return service_; }
  Scheduler& scheduler() { return session_->scheduler(); }
  const Tokenizer& tokenizer() const { return *session_->opened().tokenizer(); }
  const ModelConfig& config() const { return session_->opened().config(); }

  Call post(const std::string& path, const nlohmann::json& body) { return post_text(path, body.dump()); }
  Call post_text(const std::string& path, const std::string& body) {
    return Call(service_, {"POST", path, "", body});
  }
  Call get(const std::string& path) { return Call(service_, {"GET", path, "", ""}); }

 private:
  static std::unique_ptr<InferenceSession> load(const std::string& model, const SchedulerLimits& limits) {
    SessionOptions options;
    options.formats = DType::kF32;
    options.threads = 1;
    options.limits = limits;
    return InferenceSession::load(
        std::make_shared<OpenedModel>(model, find_model(zoo_folder(model).string())), options);
  }

  Service service_;
  std::unique_ptr<InferenceSession> session_;  // its requests tell the service until it ends
};

}  // namespace lacuna
