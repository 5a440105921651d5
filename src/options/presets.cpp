#include "options/presets.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "model/families.h"
#include "options/assign.h"
#include "options/choose.h"
#include "options/names.h"
#include "options/parse_policies.h"

namespace lacuna {
namespace {

using Settings = std::span<const PresetSetting>;

constexpr std::array<Preset, 3> presets(Settings exact, Settings balanced, Settings fast) {
  return {{{"exact", exact}, {"balanced", balanced}, {"fast", fast}}};
}

/// Whether the rule that was asked for masks again what it has written.
bool masks_again(const GenerationOptions& asked) {
  if (!asked.unmask) return false;
  try {
    return parse_unmask(*asked.unmask, EvenSplit{}).policy.traits().remasks;
  } catch (const SettingError&) {
    return false;  // where it is used, it is refused
  }
}

/// Whether what was asked for rules out that a preset's setting is added.
bool gives_way(std::string_view setting, const ModelConfig& config, const GenerationOptions& asked) {
  if (config.fills_canvas()) {
    if (setting == "cache") return masks_again(asked);
    return setting == "unmask" && (asked.steps || asked.eps || asked.alg_temp);  // they choose a schedule
  }
  const bool has_other_cache = asked.cache && *asked.cache != "uniform";
  if (setting == "refresh") return has_other_cache || asked.drift;
  return setting == "boundary" && has_other_cache;
}

}  // namespace

std::span<const Preset> presets_of(const ModelConfig& config) {
  static constexpr PresetSetting kEosExit[] = {{"eos-exit", ""}};
  static constexpr PresetSetting kThreshold[] = {
      {"cache", "dkv"}, {"unmask", "threshold=0.9"}, {"eos-exit", ""}};
  static constexpr PresetSetting kOneByOne[] = {{"unmask", "low-confidence"}};
  static constexpr PresetSetting kDynamic[] = {{"unmask", "dynamic=0.9"}};
  static constexpr PresetSetting kAcceptExactly[] = {{"accept", "exact"}};
  static constexpr PresetSetting kUniformCache[] = {{"cache", "uniform"}};
  static constexpr PresetSetting kBoundary[] = {
      {"cache", "uniform"}, {"refresh", "0"}, {"boundary", "blocks=2,full-every=4"}};
  static constexpr PresetSetting kFewerSteps[] = {{"steps", "64"}};  // Sumi's model card
  static constexpr PresetSetting kFewerStepsAndRows[] = {{"steps", "64"}, {"cache", "uniform"}};

  static constexpr auto kDefaults = presets({}, {}, {});
  static constexpr auto kMasked = presets(kEosExit, kThreshold, kThreshold);
  static constexpr auto kSlots = presets({}, {}, {});  // everything quicker is wrong where parts depend
  static constexpr auto kBlocks = presets(kOneByOne, kDynamic, kDynamic);
  static constexpr auto kSeeded = presets(kAcceptExactly, {}, {});
  static constexpr auto kNoise = presets({}, kUniformCache, kBoundary);
  static constexpr auto kWholeCanvas = presets({}, kFewerSteps, kFewerStepsAndRows);

  switch (config.paradigm()) {
    case Paradigm::kCausal:
    case Paradigm::kCanvases:
      return kDefaults;
    case Paradigm::kSlots:
      return kSlots;
    case Paradigm::kMasked:
      return config.expand_id >= 0 ? kDefaults : kMasked;
    case Paradigm::kBlocks:
      if (config.causal_context) return kSeeded;
      return config.delete_id >= 0 ? kDefaults : kBlocks;
    case Paradigm::kUniform:
      break;
  }
  return config.denoises_whole_canvas() ? kWholeCanvas : kNoise;
}

std::string describe(const Preset& preset) {
  if (preset.settings.empty()) return "the defaults";
  std::string text;
  for (const PresetSetting& setting : preset.settings) {
    if (!text.empty()) text += ' ';
    text.append("--").append(setting.name);
    if (!setting.value.empty()) text.append(" ").append(setting.value);
  }
  return text;
}

Strategy strategy_of(const ModelConfig& config, const Preset& preset) {
  GenerationOptions options;
  options.preset = std::string(preset.name);
  return choose_strategy(config, options);
}

GenerationOptions with_preset(const ModelConfig& config, GenerationOptions options) {
  if (!options.preset) return options;
  const GenerationOptions asked = options;
  const std::string& name = *asked.preset;
  options.preset.reset();
  const std::span<const Preset> known = presets_of(config);
  const auto preset =
      std::find_if(known.begin(), known.end(), [&](const Preset& each) { return each.name == name; });
  if (preset == known.end()) {
    refuse_setting(
        "preset", name,
        "`preset` is {}; expected exact, balanced or fast, or the name of a preset that lacuna tune saved",
        in_quotes(name));
  }
  for (const PresetSetting& setting : preset->settings) {
    if (gives_way(setting.name, config, asked)) continue;
    set_if_unset(options, setting.name, setting.value);
  }
  return options;
}

GenerationOptions with_defaults(const ModelConfig& config, GenerationOptions options, bool has_guide) {
  options = with_preset(config, std::move(options));
  const Paradigm paradigm = config.paradigm();
  if (paradigm == Paradigm::kUniform) {
    if (!options.sampler) options.sampler = config.denoises_whole_canvas() ? "ancestral" : "adaptive";
    const bool is_adaptive = *options.sampler == "adaptive";
    if (is_adaptive && config.default_tokens_per_step > 0 && !options.tokens_per_step)
      options.tokens_per_step = config.default_tokens_per_step;
  }
  if (config.causal_context && !options.unmask) {
    const bool drafts_at_once = options.accept.value_or("all") == "exact" && !options.steps;
    if (drafts_at_once) options.steps = 1;
    if (options.steps) options.unmask = "low-confidence";
  }
  const bool is_masked = paradigm == Paradigm::kMasked && !has_guide;
  const std::optional<CanvasGrowth> growth =
      is_masked ? choose_growth(config, options) : std::optional<CanvasGrowth>();
  if (growth && std::holds_alternative<TokenGrowth>(*growth)) {  // as published
    options.temperature = options.temperature.value_or(0.2);
    options.top_p = options.top_p.value_or(0.9);
  }
  const bool unmasks = paradigm == Paradigm::kBlocks || is_masked;
  if (!unmasks || options.unmask) return options;
  if (growth) {
    const std::string_view own = config.default_unmask;
    const bool suits = own.starts_with("threshold") || own.starts_with("factor");
    if (std::holds_alternative<TokenGrowth>(*growth)) {
      options.unmask = "entropy";
    } else if (!suits) {
      options.unmask = "threshold=0.9";
    }
    if (options.unmask) return options;
  }
  const bool chooses_schedule = options.steps || options.eps || options.alg_temp;
  if (config.default_unmask.empty() || chooses_schedule) {
    const bool edits = paradigm == Paradigm::kBlocks && config.delete_id >= 0;
    options.unmask = edits ? "dynamic=0.5" : std::string(family_entry(config.family).default_unmask);
    return options;
  }
  try {
    parse_unmask(config.default_unmask, EvenSplit{});
  } catch (const SettingError& error) {
    Problem problem = error.problem();
    problem.sentence = "generation_config.json: \"lacuna.unmask\": " + problem.sentence;
    throw SettingError(problem, flag_name);
  }
  options.unmask = config.default_unmask;
  return options;
}

}  // namespace lacuna
