// Services on random models so small that a request takes milliseconds.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/inference_session.h"
#include "model/tiny_configs.h"
#include "server/running_server.h"
#include "server/service.h"
#include "tiny_tokens.h"

namespace fuzz {

inline constexpr int64_t kTinyContext = 640;

/// The configs of one model of each paradigm, with the ids of tiny_tokenizer().
inline std::vector<lacuna::ModelConfig> tiny_text_configs() {
  const std::vector<lacuna::ModelConfig> base = lacuna::tiny_configs();
  std::vector<lacuna::ModelConfig> configs = {base[0],
                                              base[4],
                                              base[6],
                                              lacuna::tiny_block_config(8),
                                              lacuna::tiny_refusion_config(),
                                              lacuna::tiny_gidd_config(1),
                                              lacuna::tiny_sumi_config(64),
                                              lacuna::tiny_nemotron_config(),
                                              lacuna::tiny_canvas_config()};
  for (lacuna::ModelConfig& config : configs) {
    config.vocab_size = kFirstSpecial + static_cast<int64_t>(kSpecials.size()) + 3;
    config.max_positions = kTinyContext;
    if (config.mask_id >= 0) config.mask_id = special_id(0);
    config.eos_id = special_id(1);
    config.end_ids = {special_id(1), special_id(3)};
    if (config.bos_id >= 0) config.bos_id = special_id(4);
    if (config.canvas) config.canvas->image_id = special_id(13);
  }
  return configs;
}

/// Everything behind the connections.
class TinyServer {
 public:
  explicit TinyServer(const lacuna::ModelConfig& config) : service_(settings()), session_(load(config)) {
    service_.start(*session_);
  }

  lacuna::Service& service() { return service_; }

 private:
  static lacuna::ServiceSettings settings() {
    lacuna::ServiceSettings settings;
    settings.name = "tiny";
    settings.version = "fuzz";
    return settings;
  }

  static std::unique_ptr<lacuna::InferenceSession> load(const lacuna::ModelConfig& config) {
    lacuna::SessionOptions options;
    options.formats = lacuna::DType::kF32;
    options.threads = 1;
    options.limits.memory = int64_t{1} << 24;
    options.limits.max_running = 4;
    options.limits.request_seconds = 3;  // bounds the work of one input
    lacuna::ModelSource source;
    source.config = config;
    return lacuna::InferenceSession::load(
        std::make_shared<lacuna::OpenedModel>("tiny", std::move(source), tiny_tokenizer(),
                                              lacuna::ChatTemplate::built_in("chatml").value()),
        options);
  }

  lacuna::Service service_;
  std::unique_ptr<lacuna::InferenceSession> session_;  // its requests tell the service until it ends
};

}  // namespace fuzz
