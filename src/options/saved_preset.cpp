#include "options/saved_preset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <system_error>
#include <type_traits>

#include "base/error.h"
#include "base/json.h"
#include "base/read_file.h"
#include "base/written_file.h"
#include "options/assign.h"

namespace lacuna {
namespace {

constexpr std::string_view kPresetFormat = "lacuna-preset";
constexpr int kPresetVersion = 1;
constexpr size_t kMaxPresetValues = 1000;
constexpr size_t kLongestPresetText = 4096;
constexpr std::string_view kLosses[] = {"changed-answer", "wrong-answer", "token", "kl", "judge"};

bool is_hash(std::string_view text) {
  return text.size() == 16 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string read_text(const JsonObject& object, std::string_view key,
                      std::optional<std::string> fallback = {}) {
  std::string text = object.text(key, std::move(fallback));
  if (text.size() > kLongestPresetText)
    object.refuse(key, fmt::format("at most {} bytes", kLongestPresetText));
  return text;
}

std::string read_hash(const JsonObject& object, std::string_view key) {
  std::string text = read_text(object, key);
  if (!is_hash(text)) object.refuse(key, "16 hexadecimal digits");
  return text;
}

/// A number in double precision, which JsonObject::number() does not keep.
double read_number(const JsonObject& object, const nlohmann::json& json, std::string_view key, double first,
                   double last) {
  const auto value = json.find(std::string(key));
  if (value == json.end() || !value->is_number()) object.refuse(key, "a number");
  const double number = value->get<double>();
  if (!(number >= first && number <= last)) object.refuse(key, fmt::format("{} to {}", first, last));
  return number;
}

/// Reads settings in the order of the file.
std::vector<TuningSetting> read_settings(const nlohmann::ordered_json& json, const std::string& file,
                                         std::string_view key) {
  const auto list = json.find(std::string(key));
  if (list == json.end() || !list->is_object()) {
    throw InputError("{}: \"{}\" is missing or no object; expected settings by name", file, key);
  }
  std::vector<TuningSetting> settings;
  GenerationOptions checked;  // checks that each is a setting with a value of the right type
  for (const auto& [name, value] : list->items()) {
    if (!value.is_string() || name == "preset") {
      throw InputError("{}: \"{}\" of \"{}\" is not a setting as a text", file, name, key);
    }
    settings.push_back({name, value.get<std::string>()});
    try {
      set_if_unset(checked, name, settings.back().value);
    } catch (const InputError& error) {
      throw InputError("{}: \"{}\": {}", file, key, error.what());
    }
  }
  return settings;
}

/// Formats that were tuned. Loading the model checks their values.
std::vector<TuningSetting> read_loading(const JsonObject& object) {
  const JsonObject found = object.object("loading");
  std::vector<TuningSetting> loading;
  for (const char* const name : {"weights", "kv-cache"}) {
    std::string value = read_text(found, name, "");
    if (!value.empty()) loading.push_back({name, std::move(value)});
  }
  return loading;
}

PresetFormats read_formats(const JsonObject& object, std::string_view key) {
  const JsonObject formats = object.object(key);
  return {read_text(formats, "dtype"), read_text(formats, "weights"), read_text(formats, "head_weights"),
          read_text(formats, "kv_cache"), read_text(formats, "activations")};
}

nlohmann::ordered_json formats_json(const PresetFormats& formats) {
  return {{"dtype", formats.dtype},
          {"weights", formats.weights},
          {"head_weights", formats.head_weights},
          {"kv_cache", formats.kv_cache},
          {"activations", formats.activations}};
}

nlohmann::ordered_json settings_json(const std::vector<TuningSetting>& settings) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const TuningSetting& setting : settings) json[setting.name] = setting.value;
  return json;
}

Certificate read_certificate(const nlohmann::json& json, const std::string& file) {
  const auto found = json.find("certificate");
  if (found == json.end() || !found->is_object()) {
    throw InputError("{}: \"certificate\" is missing or no object", file);
  }
  const JsonObject object(*found, file, "certificate.");
  const auto number = [&](std::string_view key, double first, double last) {
    return read_number(object, *found, key, first, last);
  };
  Certificate certificate;
  certificate.loss = read_text(object, "loss");
  if (std::find(std::begin(kLosses), std::end(kLosses), certificate.loss) == std::end(kLosses)) {
    object.refuse("loss", "changed-answer, wrong-answer, token, kl or judge");
  }
  constexpr double kTiny = 1e-12;
  certificate.risk = number("risk", kTiny, 1 - kTiny);
  certificate.confidence = number("confidence", kTiny, 1 - kTiny);
  certificate.bound = number("bound", 0, 1);
  certificate.prompts = object.integer("prompts", {1, 10'000'000});
  certificate.losses = number("losses", 0, static_cast<double>(certificate.prompts));
  certificate.prompts_name = read_text(object, "prompts_name");
  certificate.prompts_hash = read_hash(object, "prompts_hash");
  certificate.peak_flops = number("peak_flops", 1, 1e30);
  certificate.peak_bandwidth = number("peak_bandwidth", 1, 1e30);
  certificate.predicted_ratio = number("predicted_ratio", 0, 1e9);
  certificate.flops_ratio = number("flops_ratio", 0, 1e9);
  certificate.rows_ratio = number("rows_ratio", 0, 1e9);
  certificate.seconds_ratio = number("seconds_ratio", 0, 1e9);
  certificate.date = read_text(object, "date");
  certificate.version = read_text(object, "version");
  return certificate;
}

std::filesystem::path file_of(std::string_view name) {
  return presets_folder() / fmt::format("{}.json", name);
}

std::string value_text(const std::vector<TuningSetting>& settings, std::string_view name) {
  const auto found =
      std::ranges::find_if(settings, [&](const TuningSetting& setting) { return setting.name == name; });
  return found == settings.end() ? std::string() : found->value;
}

bool sets(const std::vector<TuningSetting>& settings, std::string_view name) {
  return std::ranges::any_of(settings, [&](const TuningSetting& setting) { return setting.name == name; });
}

}  // namespace

bool is_family_preset(std::string_view name) {
  return name == "exact" || name == "balanced" || name == "fast";
}

bool is_preset_name(std::string_view name) {
  constexpr std::string_view kFirst = "abcdefghijklmnopqrstuvwxyz0123456789";
  if (name.empty() || name.size() > 64 || is_family_preset(name)) return false;
  return kFirst.find(name.front()) != std::string_view::npos &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789._-") == std::string_view::npos;
}

std::filesystem::path presets_folder() {
  const auto folder = [](const char* variable) {
    const char* const value = std::getenv(variable);
    return std::filesystem::path(value == nullptr ? "" : value);
  };
  const std::filesystem::path config = folder("XDG_CONFIG_HOME");
  if (config.is_absolute()) return config / "lacuna" / "presets";
  const std::filesystem::path home = folder("HOME");
  return home.is_absolute() ? home / ".config" / "lacuna" / "presets" : std::filesystem::path();
}

nlohmann::ordered_json to_json(const SavedPreset& preset) {
  const Certificate& of = preset.certificate;
  const nlohmann::ordered_json certificate{{"loss", of.loss},
                                           {"risk", of.risk},
                                           {"confidence", of.confidence},
                                           {"bound", of.bound},
                                           {"prompts", of.prompts},
                                           {"losses", of.losses},
                                           {"prompts_name", of.prompts_name},
                                           {"prompts_hash", of.prompts_hash},
                                           {"peak_flops", of.peak_flops},
                                           {"peak_bandwidth", of.peak_bandwidth},
                                           {"predicted_ratio", of.predicted_ratio},
                                           {"flops_ratio", of.flops_ratio},
                                           {"rows_ratio", of.rows_ratio},
                                           {"seconds_ratio", of.seconds_ratio},
                                           {"date", of.date},
                                           {"version", of.version}};
  return {{"format", kPresetFormat},
          {"version", kPresetVersion},
          {"name", preset.name},
          {"settings", settings_json(preset.settings)},
          {"loading", settings_json(preset.loading)},
          {"tested_with", settings_json(preset.tested_with)},
          {"model", preset.model},
          {"model_hash", preset.model_hash},
          {"guide", preset.guide},
          {"guide_hash", preset.guide_hash},
          {"formats", formats_json(preset.formats)},
          {"baseline_formats", formats_json(preset.baseline_formats)},
          {"certificate", certificate}};
}

SavedPreset parse_saved_preset(std::string_view text, const std::string& file) {
  if (text.size() > kMaxPresetBytes) throw InputError("{}: is larger than {} bytes", file, kMaxPresetBytes);
  const nlohmann::json json = parse_json(text, file, kMaxPresetValues);
  const JsonObject object(json, file);
  if (object.text("format", "") != kPresetFormat) {
    throw InputError("{}: is not a saved preset; expected the file that lacuna tune --save writes", file);
  }
  object.integer("version", {kPresetVersion, kPresetVersion});
  SavedPreset preset;
  preset.name = read_text(object, "name");
  if (!is_preset_name(preset.name))
    object.refuse("name", "lower-case letters, digits, \".\", \"_\" and \"-\"");
  const nlohmann::ordered_json ordered = parse_ordered_json(text, file, kMaxPresetValues);
  preset.settings = read_settings(ordered, file, "settings");
  preset.loading = read_loading(object);
  preset.tested_with = read_settings(ordered, file, "tested_with");
  preset.model = read_text(object, "model");
  preset.model_hash = read_hash(object, "model_hash");
  preset.guide = read_text(object, "guide", "");
  if (!preset.guide.empty()) preset.guide_hash = read_hash(object, "guide_hash");
  preset.formats = read_formats(object, "formats");
  preset.baseline_formats = read_formats(object, "baseline_formats");
  preset.certificate = read_certificate(json, file);
  return preset;
}

std::optional<SavedPreset> load_saved_preset(std::string_view name) {
  if (!is_preset_name(name) || presets_folder().empty()) return {};
  const std::filesystem::path path = file_of(name);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  SavedPreset preset = parse_saved_preset(read_whole_file(path, kMaxPresetBytes), path.string());
  if (preset.name != name) {
    throw InputError("{}: \"name\" is \"{}\"; expected the name of the file", path.string(), preset.name);
  }
  return preset;
}

std::vector<SavedPreset> saved_presets() {
  std::vector<SavedPreset> presets;
  std::error_code ignored;
  if (presets_folder().empty()) return presets;
  for (auto entry = std::filesystem::directory_iterator(presets_folder(), ignored);
       entry != std::filesystem::directory_iterator() && presets.size() < kMaxSavedPresets;
       entry.increment(ignored)) {
    if (entry->path().extension() != ".json") continue;
    try {
      if (auto preset = load_saved_preset(entry->path().stem().string()))
        presets.push_back(*std::move(preset));
    } catch (const InputError&) {  // --preset reports the error
    }
  }
  std::ranges::sort(presets, [](const SavedPreset& a, const SavedPreset& b) { return a.name < b.name; });
  return presets;
}

std::filesystem::path save_preset(const SavedPreset& preset) {
  expects(is_preset_name(preset.name), "save_preset: the name is one that is_preset_name() takes");
  if (presets_folder().empty()) {
    throw InputError("HOME and XDG_CONFIG_HOME are not set; expected a folder for presets");
  }
  std::error_code error;
  std::filesystem::create_directories(presets_folder(), error);
  std::filesystem::path path = file_of(preset.name);
  write_whole_file(path, dump_json(to_json(preset), 2) + '\n');
  return path;
}

std::vector<TuningSetting> given_settings(const GenerationOptions& options) {
  std::vector<TuningSetting> settings;
  visit_options(options, [&](const Setting& setting, const auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    const auto add = [&](std::string value) {
      settings.push_back({std::string(setting.name), std::move(value)});
    };
    if constexpr (std::is_same_v<Field, bool>) {
      if (field) add("");
    } else if constexpr (std::is_same_v<Field, std::vector<std::string>>) {
      if (!field.empty()) add(fmt::format("{}", fmt::join(field, "\n")));
    } else if constexpr (std::is_same_v<Field, AnswerLength>) {
      if (field) add(std::to_string(*field));
      if (field.is_auto) add("auto");
    } else {
      if (field) add(fmt::format("{}", *field));
    }
  });
  return settings;
}

std::vector<TuningSetting> all_settings(const SavedPreset& preset) {
  std::vector<TuningSetting> settings = preset.settings;
  settings.insert(settings.end(), preset.loading.begin(), preset.loading.end());
  return settings;
}

GenerationOptions with_saved_preset(const SavedPreset& preset, GenerationOptions options) {
  options.preset.reset();
  for (const auto* const settings : {&preset.settings, &preset.tested_with}) {
    for (const TuningSetting& setting : *settings) set_if_unset(options, setting.name, setting.value);
  }
  return options;
}

std::vector<std::string> overridden_settings(const SavedPreset& preset, const GenerationOptions& given) {
  constexpr std::string_view kHarmless[] = {"preset", "seed"};
  std::vector<std::string> names;
  for (const TuningSetting& setting : given_settings(given)) {
    if (std::find(std::begin(kHarmless), std::end(kHarmless), setting.name) != std::end(kHarmless)) continue;
    const auto& own = sets(preset.settings, setting.name) ? preset.settings : preset.tested_with;
    const bool is_same = sets(own, setting.name) && value_text(own, setting.name) == setting.value;
    if (!is_same) names.push_back(setting.name);
  }
  return names;
}

}  // namespace lacuna
