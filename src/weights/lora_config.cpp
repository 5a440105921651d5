#include "weights/lora_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/name_list.h"

namespace lacuna {
namespace {

using Json = nlohmann::json;

constexpr Range<int64_t> kRank{1, 1 << 16};
constexpr double kMaxAlpha = 1e6;
constexpr size_t kMaxPatterns = 10'000;

// Keys about an adapter's origin, its training or how a library runs it.
constexpr std::string_view kHarmless =
    "auto_mapping base_model_name_or_path corda_config eva_config fan_in_fan_out inference_mode "
    "init_lora_weights loftq_config lora_dropout lora_ga_config megatron_core modules_to_save "
    "peft_version qalora_group_size revision runtime_config task_type use_cache library_name "
    "transformers_version";

/// Whether a value switches nothing on.
bool is_off(const Json& value) {
  return value.is_null() || value == false || value == 0 ||
         ((value.is_array() || value.is_object()) && value.empty()) || value == "";
}

std::string shown_value(const Json& value) {
  std::string text = dump_json(value);
  constexpr size_t kLongest = 60;
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

/// Refuses initializations of the factors that also change the base model's weights.
void check_start(const JsonObject& json, const Json& value) {
  if (value.is_null() || value.is_boolean()) return;
  if (value == "gaussian" || value == "eva" || value == "orthogonal") return;
  throw InputError(
      "{}: \"init_lora_weights\" is {}; expected true, false, \"gaussian\", \"eva\" or \"orthogonal\": "
      "others change the base weights too, and PEFT converts such an adapter when it saves it with "
      "path_initial_model_for_weight_conversion",
      json.file(), shown_value(value));
}

/// The number after the last ".LIST." of the path; with an empty LIST, after any one word.
std::optional<int64_t> number_behind(const std::string& module, const std::string& list) {
  for (size_t end = module.rfind('.'); end != module.npos && end > 0; end = module.rfind('.', end - 1)) {
    const size_t dot = module.rfind('.', end - 1);
    if (dot == module.npos || dot == 0) return {};
    const std::string digits = module.substr(dot + 1, end - dot - 1);
    const size_t before = module.rfind('.', dot - 1);
    const bool is_number =
        !digits.empty() && digits.size() < 10 && digits.find_first_not_of("0123456789") == digits.npos;
    if (before == module.npos || !is_number) continue;
    if (list.empty() || module.substr(before + 1, dot - before - 1) == list) return std::stoll(digits);
  }
  return {};
}

/// A JSON object with access to keys whose values may have several types.
struct MixedObject : JsonObject {
  MixedObject(const Json& object, const std::string& file) : JsonObject(object, file), json(object) {}
  bool is_text(const char* key) const { return json.contains(key) && json[key].is_string(); }

  const Json& json;
};

/// Reads "rank_pattern" or "alpha_pattern".
///   order  the same file, parsed with the order of keys
std::vector<LoraPatternValue> read_patterns(const MixedObject& json, const nlohmann::ordered_json& order,
                                            const char* key) {
  std::vector<LoraPatternValue> patterns;
  if (!json.has(key)) return patterns;
  const JsonObject object = json.object(key);
  const bool is_rank = std::string_view(key) == "rank_pattern";
  for (const auto& item : order.at(key).items()) {
    const std::string& name = item.key();
    // PEFT's rule: the pattern matches the whole name or its end after a dot.
    std::optional<NamePattern> pattern = NamePattern::parse(fmt::format("(.*\\.)?({})", name));
    if (!pattern || patterns.size() == kMaxPatterns)
      object.refuse(name, "a name of modules, or a plain regular expression, as the key");
    const double value = is_rank ? static_cast<double>(object.integer(name, kRank))
                                 : double{object.number(name, {-kMaxAlpha, kMaxAlpha})};
    patterns.push_back({name, *std::move(pattern), value});
  }
  return patterns;
}

std::optional<LoraTargets> read_targets(const MixedObject& json, const char* key) {
  if (!json.has(key)) return {};
  LoraTargets targets;
  if (!json.is_text(key)) {
    targets.names = json.texts(key);
    return targets;
  }
  targets.text = json.text(key);
  if (targets.text == "all-linear") return {};
  targets.pattern = NamePattern::parse(targets.text);
  if (!targets.pattern) json.refuse(key, "a list of names, \"all-linear\" or a plain regular expression");
  return targets;
}

void check_keys(const MixedObject& json) {
  if (json.text("peft_type", "") != "LORA") json.refuse("peft_type", "\"LORA\"");
  const std::string bias = json.text("bias", "none");
  if (bias != "none" && bias != "all" && bias != "lora_only")
    json.refuse("bias", "\"none\", \"all\" or \"lora_only\"");
  if (json.json.contains("init_lora_weights")) check_start(json, json.json["init_lora_weights"]);
  json.flag("lora_bias", false);
  json.has("layers_pattern");
  for (const JsonObject::Unread& unread : json.unread()) {
    const std::string_view name = std::string_view(unread.path).substr(0, unread.path.find('.'));
    if (has_name(kHarmless, name)) continue;
    if (name.starts_with("unsloth") || name.starts_with('_')) continue;
    const auto value = json.json.find(std::string(name));
    if (value == json.json.end() || is_off(*value)) continue;
    throw InputError(
        "{}: \"{}\" is {}; expected none: it may change what the adapter computes in a way that is not known "
        "here",
        json.file(), name, shown_value(*value));
  }
}

}  // namespace

LoraConfig LoraConfig::read(const std::filesystem::path& path) {
  const MappedFile file = MappedFile::open(path);
  return parse(file.text(), path.string());
}

LoraConfig LoraConfig::parse(std::string_view text, const std::string& file) {
  const Json parsed = parse_json(text, file);
  if (!parsed.is_object()) throw InputError("{}: is not a JSON object", file);
  MixedObject json(parsed, file);
  json.track_reads();
  LoraConfig config;
  config.file_ = file;
  config.rank_ = json.integer("r", kRank);
  config.alpha_ = json.number("lora_alpha", {-kMaxAlpha, kMaxAlpha});
  config.use_rslora_ = json.flag("use_rslora", false);
  config.use_dora = json.flag("use_dora", false);
  config.keeps_tied = json.flag("ensure_weight_tying", false);
  const nlohmann::ordered_json order = parse_ordered_json(text, file);
  config.ranks_ = read_patterns(json, order, "rank_pattern");
  config.alphas_ = read_patterns(json, order, "alpha_pattern");
  config.targets_ = read_targets(json, "target_modules");
  config.excluded_ = read_targets(json, "exclude_modules");
  config.layers_ = json.one_or_more_integers("layers_to_transform", {0, 1 << 20});
  if (json.is_text("layers_pattern")) {
    config.layer_lists_.push_back(json.text("layers_pattern"));
  } else if (json.has("layers_pattern")) {
    config.layer_lists_ = json.texts("layers_pattern");
  }
  check_keys(json);
  return config;
}

bool LoraConfig::matches(const NamePattern& pattern, const std::string& text,
                         const std::string& module) const {
  const std::optional<bool> is_match = pattern.matches(module);
  if (is_match) return *is_match;
  throw InputError("{}: the expression {} takes too long for the module {}", file_, in_quotes(text),
                   in_quotes(module));
}

const LoraPatternValue* LoraConfig::find(const std::vector<LoraPatternValue>& patterns,
                                         const std::string& module) const {
  const auto found = std::ranges::find_if(
      patterns, [&](const LoraPatternValue& each) { return matches(each.pattern, each.key, module); });
  return found == patterns.end() ? nullptr : &*found;
}

int64_t LoraConfig::rank_of(const std::string& module) const {
  const LoraPatternValue* own = find(ranks_, module);
  return own == nullptr ? rank_ : static_cast<int64_t>(own->value);
}

float LoraConfig::scaling_of(const std::string& module) const {
  const LoraPatternValue* own = find(alphas_, module);
  const double alpha = own == nullptr ? alpha_ : own->value;
  const auto rank = static_cast<double>(rank_of(module));
  return static_cast<float>(alpha / (use_rslora_ ? std::sqrt(rank) : rank));
}

bool LoraConfig::fits(const LoraTargets& targets, const std::string& module) const {
  if (targets.pattern) return matches(*targets.pattern, targets.text, module);
  return std::ranges::any_of(
      targets.names, [&](const std::string& name) { return module == name || module.ends_with("." + name); });
}

std::optional<int64_t> LoraConfig::layer_of(const std::string& module) const {
  if (layer_lists_.empty()) return number_behind(module, "");
  for (const std::string& list : layer_lists_) {
    if (const std::optional<int64_t> layer = number_behind(module, list)) return layer;
  }
  return {};
}

void LoraConfig::expect_targeted(const std::string& module, std::string_view tensor) const {
  const char* key = nullptr;
  if (targets_ && !fits(*targets_, module)) key = "target_modules";
  if (excluded_ && fits(*excluded_, module)) key = "exclude_modules";
  if (!layers_.empty()) {
    const std::optional<int64_t> layer = layer_of(module);
    if (!layer || std::ranges::find(layers_, *layer) == layers_.end()) key = "layers_to_transform";
  }
  if (key == nullptr) return;
  throw InputError("{}: \"{}\" leaves out the module {}, of which tensor {} is; expected both to agree",
                   file_, key, in_quotes(module), in_quotes(tensor));
}

}  // namespace lacuna
