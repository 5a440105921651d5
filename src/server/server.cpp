// Implements the public server API: options, models, shutdown.
#include "lacuna/server.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/mutex.h"
#include "engine/load_options.h"
#include "engine/preset_use.h"
#include "engine/weight_options.h"
#include "lacuna/version.h"
#include "options/assign.h"
#include "options/choose.h"
#include "options/names.h"
#include "server/model_server.h"
#include "server/page/page.h"
#include "server/request_log.h"

namespace lacuna {
namespace {

/// Throws InputError for a value out of range.
///   field  name of the option in lacuna/server.h
template <typename T>
void expect_within(std::string_view field, T value, T least, T most) {
  if (value >= least && value <= most) return;
  throw InputError("{} is {}; expected {} to {}", field, value, least, most);
}

void check(const ServerOptions& options) {
  if (options.models.empty()) throw InputError("models is empty; expected at least one model");
  std::set<std::string_view> names;
  for (const ServedModel& each : options.models) {
    const std::string_view name = each.name.empty() ? each.model : each.name;
    if (!names.insert(name).second) {
      throw InputError("models has two models {}; expected different names", name);
    }
  }
  if (options.models.size() > 1 && !options.load.guide.empty()) {
    throw InputError("load.guide has no effect with {} models; it requires a single one",
                     options.models.size());
  }
  constexpr int32_t kMany = 65536;
  constexpr double kLong = 1e9;
  const ServerLimits& limits = options.limits;
  expect_within("limits.max_queue", limits.max_queue, 0, kMany);
  expect_within("limits.max_per_client", limits.max_per_client, 0, 2 * kMany);
  expect_within("limits.requests_per_minute", limits.requests_per_minute, 0, INT32_MAX);
  expect_within("limits.request_seconds", limits.request_seconds, 0.0, kLong);
  expect_within("limits.max_connections", limits.max_connections, 1, 1 << 20);
  expect_within("limits.max_connections_per_address", limits.max_connections_per_address, 1, 1 << 20);
  expect_within("unload_seconds", options.unload_seconds, 0.0, kLong);
  expect_within("models_memory", options.models_memory, int64_t{0}, INT64_MAX);
}

AccessRules access_rules(const ServerOptions& options) {
  const std::vector<std::string>& keys = options.api_keys;
  if (std::find(keys.begin(), keys.end(), "") != keys.end()) {
    throw InputError("api_keys has an empty key; expected keys, or an empty list");
  }
  if (keys.empty() && !options.insecure && !is_loopback(options.host)) {
    throw InputError(
        "host {} lets other machines ask, and no key is required; expected api_keys, or insecure = true",
        options.host);
  }
  AccessRules rules{keys, options.allowed_origins, options.allowed_hosts, options.limits.requests_per_minute};
  rules.allowed_hosts.push_back(options.host);
  return rules;
}

SchedulerLimits scheduler_limits(const ServerOptions& options) {
  SchedulerLimits limits;
  limits.max_running = options.load.max_running;
  limits.max_queue = options.limits.max_queue;
  limits.memory = options.load.memory;
  limits.prefix_memory = limits.memory / 4;
  limits.max_per_client = options.limits.max_per_client;
  limits.request_seconds = options.limits.request_seconds;
  return limits;
}

/// Bytes that a loaded model takes. Throws InputError if they exceed `budget`.
int64_t model_bytes(const OpenedModel& opened, const ServerOptions& options, int64_t budget) {
  const SessionOptions chosen = session_options(opened, options.load);
  const RunMemory run = predict_run_memory(opened.source(), chosen.formats, 1024);
  const int64_t bytes = run.weights + run.buffers + chosen.limits.memory;
  if (bytes > budget && !options.load.ignore_memory) {
    throw InputError("{} needs {}, K/V included; models_memory allows {}", opened.name(), human_bytes(bytes),
                     human_bytes(budget));
  }
  return std::min(bytes, budget);
}

struct OpenedModels {
  std::vector<PoolModel> models;
  PoolLimits limits;
  GenerationOptions defaults;
};

/// Opens the models and checks the options, before weights are read.
OpenedModels open_models(const ServerOptions& options) {
  OpenedModels served;
  const bool is_alone = options.models.size() == 1;
  served.defaults = generation_options(options.defaults);
  served.limits.idle_seconds = options.unload_seconds;
  served.limits.max_waiting = static_cast<size_t>(options.limits.max_queue);
  if (!is_alone) {
    served.limits.bytes = options.models_memory > 0 ? options.models_memory : available_memory().bytes;
  }
  for (const ServedModel& each : options.models) {
    LoadOptions load = options.load;
    const std::shared_ptr<const OpenedModel> opened = open_model(each.model, load);
    if (is_alone) served.defaults = resolve_run(*opened, load, served.defaults);
    if (opened->guide() == nullptr) check_options(opened->config(), served.defaults);
    PoolModel model{each.name.empty() ? each.model : each.name, opened};
    model.limits = scheduler_limits(options);
    if (!is_alone) model.bytes = model_bytes(*opened, options, served.limits.bytes);
    model.load = [opened, load, limits = model.limits] {
      return in_plain_names([&] { return std::shared_ptr(load_session(opened, load, limits)); });
    };
    served.models.push_back(std::move(model));
  }
  return served;
}

HttpLog log_of(const ServerOptions& options) {
  if (!options.log) return {};
  return [told = options.log](const RequestRecord& record) {
    told(log_line(record, LogFormat::kJson, std::chrono::system_clock::now()));
  };
}

}  // namespace

class Server::Impl {
 public:
  Impl(const ServerOptions& options, OpenedModels served)
      : server_(options.host, options.port, settings_of(options, served.defaults), http_limits(options),
                log_of(options)) {
    server_.start(std::move(served.models), served.limits);
  }
  ~Impl() { stop(0); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  uint16_t port() const { return server_.port(); }

  void stop(double drain_seconds) {
    const MutexLock lock(mutex_);
    drain_seconds_ = std::min(drain_seconds_, std::clamp(drain_seconds, 0.0, 1e9));
    changed_.notify_all();
    if (is_stopping_) {
      while (!has_stopped_) changed_.wait(mutex_);
      return;
    }
    is_stopping_ = true;
    server_.begin_drain();
    const Stopwatch clock;
    constexpr std::chrono::milliseconds kPoll{20};
    while (!server_.is_idle() && clock.seconds() < drain_seconds_) changed_.wait_for(mutex_, kPoll);
    mutex_.unlock();
    server_.stop();
    mutex_.lock();
    has_stopped_ = true;
    changed_.notify_all();
  }

  void wait() {
    const MutexLock lock(mutex_);
    while (!has_stopped_) changed_.wait(mutex_);
  }

 private:
  static ServiceSettings settings_of(const ServerOptions& options, const GenerationOptions& defaults) {
    ServiceSettings settings;
    settings.version = LACUNA_VERSION;
    settings.access = access_rules(options);
    settings.defaults = defaults;
    if (options.page) settings.files = page_files();
    return settings;
  }
  static HttpLimits http_limits(const ServerOptions& options) {
    HttpLimits limits;
    limits.connections = static_cast<size_t>(options.limits.max_connections);
    limits.connections_per_address = static_cast<size_t>(options.limits.max_connections_per_address);
    limits.work_time = work_time(options.limits.request_seconds);
    return limits;
  }

  ModelServer server_;
  Mutex mutex_;
  Condition changed_;
  double drain_seconds_ LACUNA_GUARDED_BY(mutex_) = 1e9;  // shortest requested time
  bool is_stopping_ LACUNA_GUARDED_BY(mutex_) = false;
  bool has_stopped_ LACUNA_GUARDED_BY(mutex_) = false;
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;
Server::Server(Server&&) noexcept = default;
Server& Server::operator=(Server&&) noexcept = default;

Server Server::start(const ServerOptions& options) {
  return in_plain_names([&] {
    check(options);
    return Server(std::make_unique<Impl>(options, open_models(options)));
  });
}

uint16_t Server::port() const {
  return impl_->port();
}

void Server::stop(double drain_seconds) {
  impl_->stop(drain_seconds);
}

void Server::wait() {
  impl_->wait();
}

}  // namespace lacuna
