#include "engine/preset_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/tuned_formats.h"
#include "lacuna/version.h"
#include "model/adapters.h"
#include "model/fingerprint.h"
#include "options/names.h"
#include "weights/weight_format.h"

namespace lacuna {
namespace {

void check_guide(const GuideSource* guide, const SavedPreset& preset) {
  if (preset.guide.empty()) {
    if (guide == nullptr) return;
    refuse_setting("guide", guide->model, "`guide` has no effect here: `preset` {} was tuned without one",
                   preset.name);
  }
  if (guide == nullptr) {
    refuse_setting("preset", preset.name, "`preset` {} was tuned with a guide; expected `guide` {}",
                   preset.name, preset.guide);
  }
  if (model_hash(guide->source, guide->model) == preset.guide_hash) return;
  refuse_setting("guide", guide->model,
                 "`guide` {} is not the guide that `preset` {} was tuned with; expected the files of {}",
                 guide->model, preset.name, preset.guide);
}

std::vector<std::string> warnings_of(const SavedPreset& preset, const WeightFormats& formats,
                                     const GenerationOptions& given) {
  std::vector<std::string> warnings;
  const auto add = [&](const std::string& difference) {
    warnings.push_back(
        fmt::format("preset {}: {}; its promise was made without that", preset.name, difference));
  };
  if (preset.certificate.version != LACUNA_VERSION) {
    add(fmt::format("it was tuned with Lacuna {}, this is {}", preset.certificate.version, LACUNA_VERSION));
  }
  if (preset_formats(formats) != preset.formats) {
    const PresetFormats& tuned = preset.formats;
    add(fmt::format(
        "weights, K/V or activations have other formats than the tuned dtype {}, weights {}, head {}, "
        "K/V {}, activations {}",
        tuned.dtype, tuned.weights, tuned.head_weights, tuned.kv_cache, tuned.activations));
  }
  for (const std::string& name : overridden_settings(preset, given)) {
    add(fmt::format("--{} is given", name));
  }
  return warnings;
}

/// Loads the saved preset that the options name and checks its model and guide; empty if none is named.
std::optional<SavedPreset> preset_for(const ModelSource& source, const std::string& name,
                                      const GuideSource* guide, const GenerationOptions& options) {
  if (!options.preset) return {};
  std::optional<SavedPreset> preset = load_saved_preset(*options.preset);
  if (!preset) return {};
  if (model_hash(source, name) != preset->model_hash) {
    refuse_setting(
        "preset", preset->name,
        "`preset` {} was tuned for other files than those of {}; expected the model {} as it was then",
        preset->name, name, preset->model);
  }
  check_guide(guide, *preset);
  return preset;
}

void check_loading(const WeightFormats& formats, const SavedPreset& preset) {
  if (preset.loading.empty() || preset_formats(formats) == preset.formats) return;
  std::string wanted;
  for (const TuningSetting& setting : preset.loading) {
    wanted += fmt::format("{}`{}` {}", wanted.empty() ? "" : ", ",
                          setting.name == "kv-cache" ? "kv_cache" : setting.name, setting.value);
  }
  refuse_setting(
      "preset", preset.name,
      "`preset` {} was tuned with other formats than the model's; expected a model that is loaded with {}",
      preset.name, wanted);
}

}  // namespace

std::string model_hash(const ModelSource& source, const std::string& name) {
  if (!source.folder.empty()) return fingerprint_of(source.folder, source.config.adapters);
  Fnv1a hash;
  hash.add_piece(name);
  return hash.text();
}

PresetFormats preset_formats(const WeightFormats& formats) {
  const auto text = [](const std::optional<WeightFormat>& format) {
    return format ? describe(*format) : std::string("as stored");
  };
  const std::string dtype(name_of(formats.dtype));
  return {dtype, text(formats.layers), text(formats.embedding), formats.kv_int8 ? "int8" : dtype,
          formats.int8_activations ? "int8" : "auto"};
}

ResolvedRun resolve_run(const ModelSource& source, const std::string& name, const GuideSource* guide,
                        const FormatNames& formats, const GenerationOptions& options) {
  const std::optional<SavedPreset> preset = preset_for(source, name, guide, options);
  if (!preset) return {formats, options, {}};
  FormatNames tuned = with_formats(formats, preset->loading);
  const WeightFormats loaded = weight_formats(tuned, source);
  return {std::move(tuned), with_saved_preset(*preset, options), warnings_of(*preset, loaded, options)};
}

GenerationOptions resolve_options(const OpenedModel& opened, const WeightFormats* formats,
                                  const GenerationOptions& options) {
  const std::optional<SavedPreset> preset =
      preset_for(opened.source(), opened.name(), opened.guide(), options);
  if (!preset) return options;
  if (formats != nullptr) check_loading(*formats, *preset);
  return with_saved_preset(*preset, options);
}

std::vector<SavedPreset> saved_presets_of(const ModelSource& source, const std::string& name) {
  std::vector<SavedPreset> presets = saved_presets();
  if (presets.empty()) return presets;
  const std::string hash = model_hash(source, name);
  std::erase_if(presets, [&](const SavedPreset& preset) { return preset.model_hash != hash; });
  return presets;
}

}  // namespace lacuna
