#include "options/presets.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "options/assign.h"
#include "options/names.h"
#include "options/parse_policies.h"

namespace lacuna {
namespace {

using Settings = std::span<const PresetSetting>;

constexpr std::array<Preset, 3> presets(Settings exact, Settings balanced, Settings fast) {
  return {{{"exact", exact}, {"balanced", balanced}, {"fast", fast}}};
}

/// Whether the requested unmask rule remasks.
bool masks_again(const GenerationOptions& asked) {
  if (!asked.unmask) return false;
  try {
    return parse_unmask(*asked.unmask, EvenSplit{}).policy.traits().remasks;
  } catch (const SettingError&) {
    return false;  // it is refused where it is used
  }
}

/// Whether the given options rule out a preset's setting.
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
  static constexpr auto kSlots = presets({}, {}, {});  // faster settings lose accuracy
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

GenerationOptions with_preset(const ModelConfig& config, GenerationOptions options) {
  if (!options.preset) return options;
  const GenerationOptions asked = options;
  const std::string& name = *asked.preset;
  options.preset.reset();
  const std::span<const Preset> known = presets_of(config);
  const auto preset = std::ranges::find_if(known, [&](const Preset& each) { return each.name == name; });
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

}  // namespace lacuna
