#include "options/tuning_paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <type_traits>

#include "base/error.h"
#include "options/assign.h"
#include "options/names.h"

namespace lacuna {
namespace {

using Level = std::vector<TuningSetting>;

/// Levels that differ in one option.
TuningPath path_over(std::string name, std::string method, const Level& common, std::string_view option,
                     std::initializer_list<std::string_view> values) {
  TuningPath path{std::move(name), std::move(method), {}};
  for (const std::string_view value : values) {
    Level level = common;
    level.push_back({std::string(option), std::string(value)});
    path.levels.push_back(std::move(level));
  }
  return path;
}

/// A cache whose full recomputations become rarer; the last level never recomputes.
TuningPath refresh_path(const std::string& cache, std::initializer_list<std::string_view> intervals,
                        std::string_view never) {
  TuningPath path = path_over("cache " + cache, "cache", {{"cache", cache}}, "refresh", intervals);
  path.levels.push_back({{"cache", cache}});
  if (!never.empty()) path.levels.back().push_back({"refresh", std::string(never)});
  return path;
}

/// Fractions of the baseline's steps.
TuningPath steps_path(int32_t steps) {
  TuningPath path{"steps", "steps", {}};
  for (const int32_t divisor : {2, 4, 8}) {
    if (steps % divisor == 0) path.levels.push_back({{"steps", std::to_string(steps / divisor)}});
  }
  return path;
}

TuningPath lock_path() {
  return path_over(
      "lock", "lock", {}, "lock",
      {"eps=1e-4,gate=20", "eps=5e-4,gate=20", "eps=5e-3,gate=20", "eps=5e-2,gate=20", "eps=5e-2,gate=50"});
}

void add_sparse_paths(std::vector<TuningPath>& paths) {
  for (const char* const method : {"mage", "quest", "sparsed", "losa"}) {
    TuningPath path{fmt::format("sparse {}", method), "sparse", {}};
    for (const int32_t budget : {2048, 1024, 512, 256, 128, 64}) {
      path.levels.push_back({{"sparse", fmt::format("{}={}", method, budget)}});
    }
    paths.push_back(std::move(path));
  }
  paths.push_back(path_over("sparse flashblock", "sparse", {}, "sparse", {"flashblock=2", "flashblock=3"}));
}

void add_guide_paths(std::vector<TuningPath>& paths) {
  for (const char* const cache : {"none", "free"}) {
    TuningPath path =
        path_over(fmt::format("guide, cache {}", cache), "guide", {{"cache", cache}}, "guide-match",
                  {"exact", "relative=0.9", "relative=0.7", "relative=0.5", "relative=0.3"});
    path.uses_guide = true;
    paths.push_back(std::move(path));
  }
}

std::vector<TuningPath> masked_paths(const ModelConfig& config, const GenerationOptions& asked,
                                     bool has_guide) {
  std::vector<TuningPath> paths;
  paths.push_back({"eos-exit", "eos-exit", {{{"eos-exit", ""}}}});
  paths.push_back(path_over("unmask threshold", "unmask", {}, "unmask",
                            {"threshold=0.99", "threshold=0.95", "threshold=0.9", "threshold=0.8",
                             "threshold=0.7", "threshold=0.5"}));
  paths.push_back(path_over("unmask factor", "unmask", {}, "unmask",
                            {"factor=0.1", "factor=0.25", "factor=0.5", "factor=1", "factor=2"}));
  // Few settings of each, or tuning would take twice as long.
  paths.push_back(
      path_over("unmask local-leap", "unmask", {}, "unmask", {"local-leap=0.95,relaxed=0.85", "local-leap"}));
  paths.push_back(path_over("unmask eb", "unmask", {}, "unmask", {"eb=0.001", "eb=0.1"}));
  paths.push_back(
      path_over("unmask streaming", "unmask", {}, "unmask", {"streaming", "streaming,alpha=0.6"}));
  paths.push_back(path_over("unmask credit", "unmask", {}, "unmask", {"credit=0.95", "credit"}));
  paths.push_back(path_over("unmask klass", "unmask", {}, "unmask", {"klass"}));
  if (!config.shifted_logits) paths.push_back(path_over("unmask wino", "unmask", {}, "unmask", {"wino"}));
  paths.push_back(path_over("unmask slow-fast", "unmask", {}, "unmask", {"slow-fast"}));
  paths.push_back(path_over("unmask dsb", "unmask", {}, "unmask", {"dsb=0.95", "dsb"}));
  paths.push_back(path_over("unmask adablock", "unmask", {}, "unmask", {"adablock=0.95", "adablock"}));
  paths.push_back(path_over("unmask d3llm", "unmask", {}, "unmask", {"d3llm=0.1", "d3llm"}));
  paths.push_back(path_over("unmask prophet", "unmask", {}, "unmask", {"prophet"}));
  paths.push_back(path_over("unmask saber", "unmask", {}, "unmask", {"saber"}));
  if (asked.gen_length) paths.push_back(steps_path(*asked.gen_length));
  paths.push_back(refresh_path("prefix", {"4", "8", "16"}, ""));
  paths.push_back(refresh_path("dual", {"4", "8", "16"}, ""));
  paths.push_back(
      path_over("cache dkv", "cache", {{"cache", "dkv"}}, "refresh", {"2", "4", "8", "16", "32"}));
  paths.push_back(
      path_over("cache free", "cache", {{"cache", "free"}}, "cache-block", {"64", "32", "16", "8", "4"}));
  paths.push_back(path_over("cache delayed", "cache", {}, "cache", {"delayed=4", "delayed=2", "delayed=1"}));
  paths.push_back(path_over("cache sparse-dllm", "cache", {}, "cache",
                            {"sparse-dllm=0.9", "sparse-dllm=0.7", "sparse-dllm"}));
  paths.push_back(path_over("cache dllm-cache", "cache", {}, "cache",
                            {"dllm-cache=0.5,answer=2", "dllm-cache=0.5,answer=4", "dllm-cache"}));
  paths.push_back(
      path_over("cache d2cache", "cache", {}, "cache", {"d2cache=32,rollout=0.3", "d2cache", "d2cache=8"}));
  paths.push_back(path_over("prompt-block", "prompt-block", {}, "prompt-block", {"128", "64", "32", "16"}));
  if (asked.block_length) {
    paths.push_back(path_over("suffix", "suffix", {}, "suffix", {"128", "64", "32"}));
    paths.push_back(
        path_over("suffix-dropout", "suffix", {{"suffix-dropout", "on"}}, "suffix", {"128", "64"}));
  }
  paths.push_back(lock_path());
  if (has_guide) add_guide_paths(paths);
  std::erase_if(paths, [](const TuningPath& path) { return path.levels.empty(); });
  return paths;
}

std::vector<TuningPath> block_paths(const ModelConfig& config, bool has_guide) {
  std::vector<TuningPath> paths;
  if (config.causal_context) {  // the baseline's text is that of the causal mode
    paths.push_back(
        path_over("unmask threshold", "unmask", {{"accept", "all"}}, "unmask",
                  {"threshold=0.99", "threshold=0.95", "threshold=0.9", "threshold=0.8", "threshold=0.7"}));
    return paths;
  }
  paths.push_back(path_over(
      "unmask dynamic", "unmask", {}, "unmask",
      {"dynamic=0.99", "dynamic=0.95", "dynamic=0.9", "dynamic=0.8", "dynamic=0.7", "dynamic=0.5"}));
  if (config.delete_id >= 0) return paths;
  if (config.whole_prompt || !config.shifted_logits) {
    paths.push_back(path_over("pipeline", "unmask", {{"unmask", "dynamic=0.9"}}, "pipeline",
                              {"add=0.9", "add=0.5", "add=0.1"}));
  }
  if (config.whole_prompt) return paths;
  if (config.family == "llada2") {  // only DMax's checkpoints were trained for it, and no key names them
    paths.push_back(path_over("unmask soft", "unmask", {}, "unmask", {"soft=0.95", "soft=0.65", "soft"}));
  }
  paths.push_back(path_over("unmask factor", "unmask", {}, "unmask",
                            {"factor=0.1", "factor=0.25", "factor=0.5", "factor=1", "factor=2"}));
  if (!config.shifted_logits && config.num_layers > 2)
    paths.push_back(path_over("focus", "focus", {}, "focus", {"4", "2", "1.5"}));
  if (has_guide) {
    paths.push_back(
        path_over("guide", "guide", {}, "unmask", {"low-confidence", "dynamic=0.9", "dynamic=0.7"}));
    paths.back().uses_guide = true;
  }
  if (config.sub_block_length > 0) paths.push_back({"cache block", "cache", {{{"cache", "block"}}}});
  paths.push_back(lock_path());
  add_sparse_paths(paths);
  return paths;
}

std::vector<TuningPath> uniform_paths(const ModelConfig& config, const GenerationOptions& asked) {
  std::vector<TuningPath> paths;
  if (config.denoises_whole_canvas()) {
    paths.push_back(steps_path(static_cast<int32_t>(config.noise->whole_canvas->steps)));
    paths.push_back(refresh_path("uniform", {"2", "4", "8"}, "0"));
    return paths;
  }
  TuningPath tokens{"tokens-per-step", "tokens-per-step", {}};
  const int32_t usual = config.default_tokens_per_step > 0 ? config.default_tokens_per_step : 3;
  for (const int32_t factor : {2, 3, 4, 6}) {
    tokens.levels.push_back({{"tokens-per-step", std::to_string(usual * factor)}});
  }
  paths.push_back(std::move(tokens));
  // A lower threshold changes more tokens in a step.
  if (!asked.tokens_per_step) {
    paths.push_back(path_over("sampler threshold", "tokens-per-step", {}, "sampler",
                              {"threshold=0.99", "threshold=0.95", "threshold=0.9", "threshold=0.8",
                               "threshold=0.7", "threshold=0.5"}));
  }
  paths.push_back({"cache prefix", "cache", {{{"cache", "prefix"}}}});
  paths.push_back(refresh_path("uniform", {"2", "4", "8"}, "0"));
  paths.push_back(path_over(
      "cache uniform, boundary", "cache", {{"cache", "uniform"}, {"refresh", "0"}}, "boundary",
      {"blocks=4,full-every=2", "blocks=2,full-every=2", "blocks=2,full-every=4", "blocks=2,full-every=8"}));
  paths.push_back(path_over("cache uniform, drift", "cache", {{"cache", "uniform"}}, "drift",
                            {"tau=0.003", "tau=0.01", "tau=0.03", "tau=0.1"}));
  return paths;
}

std::vector<TuningPath> slot_paths() {
  std::vector<TuningPath> paths;
  paths.push_back(path_over("token-threshold", "token-threshold", {}, "token-threshold",
                            {"0.99", "0.95", "0.9", "0.8", "0.6"}));
  paths.push_back({"accept exact", "token-threshold", {{{"accept", "exact"}}}});
  // Only below the default: higher thresholds write slots one at a time in another order, no more cautiously.
  paths.push_back(path_over("slot-threshold", "slot-threshold", {}, "slot-threshold", {"0.8", "0.6", "0.4"}));
  paths.push_back({"fill", "fill", {{{"fill", "side-by-side"}}}});
  return paths;
}

std::vector<TuningPath> canvas_paths(const ModelConfig& config) {
  std::vector<TuningPath> paths = {steps_path(static_cast<int32_t>(config.canvas->steps))};
  if (config.canvas->ancestral) return paths;
  TuningPath bound{"unmask entropy-bounded", "unmask", {}};
  TuningPath stop{"stop-entropy", "stop-entropy", {}};
  for (const double factor : {1.5, 2.0, 4.0, 8.0}) {
    const double accepted = static_cast<double>(config.canvas->entropy_bound) * factor;
    const double stopped = static_cast<double>(config.canvas->stop_entropy) * factor;
    bound.levels.push_back({{"unmask", fmt::format("entropy-bounded={:.4g}", accepted)}});
    stop.levels.push_back({{"stop-entropy", fmt::format("{:.4g}", stopped)}});
  }
  paths.push_back(std::move(bound));
  paths.push_back(std::move(stop));
  return paths;
}

std::vector<TuningPath> family_paths(const ModelConfig& config, const GenerationOptions& asked,
                                     bool has_guide) {
  switch (config.paradigm()) {
    case Paradigm::kCausal:
      return {};
    case Paradigm::kSlots:
      return slot_paths();
    case Paradigm::kMasked:
      return masked_paths(config, asked, has_guide);
    case Paradigm::kBlocks:
      return block_paths(config, has_guide);
    case Paradigm::kCanvases:
      return canvas_paths(config);
    case Paradigm::kUniform:
      break;
  }
  return uniform_paths(config, asked);
}

template <typename Takes>
std::vector<TuningSetting> collect_settings(std::span<const TuningPath> paths,
                                            std::span<const int32_t> levels, Takes&& takes) {
  expects(paths.size() == levels.size(), "settings_of: a level for each path");
  std::vector<TuningSetting> settings;
  for (size_t i = 0; i < paths.size(); ++i) {
    if (levels[i] == 0 || !takes(paths[i])) continue;
    for (const TuningSetting& setting : paths[i].levels.at(static_cast<size_t>(levels[i]) - 1)) {
      if (std::ranges::find(settings, setting) == settings.end()) settings.push_back(setting);
    }
  }
  return settings;
}

}  // namespace

std::vector<TuningPath> tuning_paths(const ModelConfig& config, const GenerationOptions& asked,
                                     bool has_guide) {
  std::vector<TuningPath> paths = family_paths(config, asked, has_guide);
  std::erase_if(paths, [&](const TuningPath& path) {
    return std::ranges::any_of(path.levels, [&](const Level& level) {
      return std::ranges::any_of(level,
                                 [&](const TuningSetting& setting) { return is_given(asked, setting.name); });
    });
  });
  return paths;
}

std::vector<std::string> methods_of(std::span<const TuningPath> paths) {
  std::vector<std::string> methods;
  for (const TuningPath& path : paths) {
    if (std::ranges::find(methods, path.method) == methods.end()) methods.push_back(path.method);
  }
  return methods;
}

GenerationOptions baseline_options(const ModelConfig& config, const GenerationOptions& asked) {
  GenerationOptions options = asked;
  const auto set = [&](const char* name, const char* value) { set_if_unset(options, name, value); };
  if (config.paradigm() == Paradigm::kBlocks) {
    if (config.causal_context) {
      set("accept", "exact");
    } else if (config.delete_id < 0 && options.pipeline.value_or("none") == "none") {
      set("unmask", "low-confidence");
    }
  } else if (config.paradigm() == Paradigm::kSlots) {
    if (options.accept.value_or("threshold") != "exact") set("token-threshold", "1");
  } else if (config.drafts_see_each_other) {
    set("block-length", "1");
  }
  return options;
}

GenerationOptions without_accelerations(GenerationOptions options) {
  constexpr std::string_view kAccelerations[] = {"preset",          "steps",
                                                 "eos-exit",        "cache",
                                                 "refresh",         "cache-block",
                                                 "suffix",          "lock",
                                                 "guide-match",     "guide-fallback",
                                                 "guide-block",     "fill",
                                                 "prompt-block",    "kv",
                                                 "slot-threshold",  "token-threshold",
                                                 "tokens-per-step", "boundary",
                                                 "drift",           "delimiter",
                                                 "stop-entropy",    "sparse",
                                                 "sparse-commit",   "sparse-after",
                                                 "pipeline",        "suffix-dropout",
                                                 "drafts"};
  // Other rules choose one token at a time: they are samplers.
  constexpr std::string_view kFastRules[] = {
      "threshold", "factor", "dynamic",  "entropy-bounded", "klass", "local-leap",
      "wino",      "saber",  "credit",   "prophet",         "eb",    "streaming",
      "slow-fast", "dsb",    "adablock", "d3llm",           "soft"};
  const bool is_fast_rule =
      options.unmask && std::any_of(std::begin(kFastRules), std::end(kFastRules),
                                    [&](std::string_view rule) { return options.unmask->starts_with(rule); });
  if (is_fast_rule) options.unmask.reset();
  if (options.sampler && options.sampler->starts_with("threshold")) options.sampler.reset();
  if (options.accept != "exact") options.accept.reset();
  visit_options(options, [&](const Setting& setting, auto& field) {
    const auto found = std::find(std::begin(kAccelerations), std::end(kAccelerations), setting.name);
    if (found != std::end(kAccelerations)) field = {};
  });
  return options;
}

std::optional<GenerationOptions> tuned_options(const ModelConfig& config, const GenerationOptions& asked,
                                               std::span<const TuningPath> paths,
                                               std::span<const int32_t> levels) {
  expects(paths.size() == levels.size(), "tuned_options: a level for each path");
  std::vector<TuningSetting> chosen;
  std::vector<std::string_view> methods;
  bool is_guided = false;
  for (size_t i = 0; i < paths.size(); ++i) {
    if (levels[i] == 0) continue;
    const TuningPath& path = paths[i];
    if (std::ranges::find(methods, path.method) != methods.end()) return {};
    methods.push_back(path.method);
    if (path.is_of_loading) continue;
    is_guided = is_guided || path.uses_guide;
    for (const TuningSetting& setting : path.levels.at(static_cast<size_t>(levels[i]) - 1)) {
      const auto same =
          std::ranges::find_if(chosen, [&](const TuningSetting& each) { return each.name == setting.name; });
      if (same != chosen.end() && same->value != setting.value) return {};
      chosen.push_back(setting);
    }
  }
  const auto excludes_guide = [](std::string_view method) { return method == "unmask" || method == "steps"; };
  if (is_guided && std::ranges::any_of(methods, excludes_guide)) return {};
  GenerationOptions options = asked;
  for (const TuningSetting& setting : chosen) set_if_unset(options, setting.name, setting.value);
  return baseline_options(config, options);
}

std::vector<TuningSetting> settings_of(std::span<const TuningPath> paths, std::span<const int32_t> levels) {
  return collect_settings(paths, levels, [](const TuningPath&) { return true; });
}

std::vector<TuningSetting> loading_of(std::span<const TuningPath> paths, std::span<const int32_t> levels) {
  return collect_settings(paths, levels, [](const TuningPath& path) { return path.is_of_loading; });
}

std::string describe(std::span<const TuningSetting> settings) {
  std::string text;
  for (const TuningSetting& setting : settings) {
    if (!text.empty()) text += ' ';
    text += "--" + setting.name;
    if (!setting.value.empty()) text += ' ' + setting.value;
  }
  return text;
}

}  // namespace lacuna
