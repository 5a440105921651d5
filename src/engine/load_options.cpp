#include "engine/load_options.h"

#include <cstdint>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "engine/preset_use.h"
#include "engine/weight_options.h"

namespace lacuna {
namespace {

void check(const LoadOptions& options) {
  const auto expect = [](bool holds, std::string_view field, int64_t value, std::string_view expected) {
    if (!holds) throw InputError("{} is {}; expected {}", field, value, expected);
  };
  expect(options.threads >= 0 && options.threads <= 1024, "threads", options.threads, "0 to 1024");
  expect(options.max_running >= 1 && options.max_running <= 4096, "max_running", options.max_running,
         "1 to 4096");
  expect(options.memory >= 1, "memory", options.memory, "at least 1");
}

DeviceName device_of(const LoadOptions& options) {
  return device_named(options.device, "device");
}

FormatNames format_names(const LoadOptions& options) {
  const bool is_cpu = device_of(options).kind == DeviceName::Kind::kCpu;
  return {options.dtype,    options.weights,     options.head_weights,
          options.kv_cache, options.activations, is_cpu};
}

}  // namespace

std::shared_ptr<OpenedModel> open_model(const std::string& model, const LoadOptions& options) {
  check(options);
  ModelSource source = find_model(model);
  use_adapters(source, options.lora, "lora");
  auto opened = std::make_shared<OpenedModel>(model, std::move(source));
  if (!options.guide.empty()) opened->use_guide(options.guide);
  return opened;
}

SessionOptions session_options(const OpenedModel& opened, const LoadOptions& options) {
  SessionOptions chosen;
  chosen.formats = weight_formats(format_names(options), opened.source());
  if (opened.guide() != nullptr) {
    chosen.guide_formats = weight_formats(format_names(options), opened.guide()->source);
  }
  chosen.device = device_of(options);
  chosen.threads = options.threads;
  chosen.random_seed = options.random_seed;
  chosen.limits.max_running = options.max_running;
  chosen.limits.memory = options.memory;
  if (options.progress) {
    chosen.progress = [told = options.progress](const std::string&, int64_t done, int64_t total) {
      told(done, total);
    };
  }
  return chosen;
}

GenerationOptions resolve_run(const OpenedModel& opened, LoadOptions& options,
                              const GenerationOptions& generation) {
  const ResolvedRun run =
      resolve_run(opened.source(), opened.name(), opened.guide(), format_names(options), generation);
  options.weights = run.formats.weights;
  options.kv_cache = run.formats.kv_cache;
  const WeightFormats formats = session_options(opened, options).formats;
  return resolve_options(opened, &formats, generation);
}

std::unique_ptr<InferenceSession> load_session(std::shared_ptr<const OpenedModel> opened,
                                               const LoadOptions& options, const SchedulerLimits& limits) {
  SessionOptions chosen = session_options(*opened, options);
  chosen.limits = limits;
  if (!options.ignore_memory) check_memory(opened->name(), opened->source(), chosen.formats);
  return InferenceSession::load(std::move(opened), chosen);
}

}  // namespace lacuna
