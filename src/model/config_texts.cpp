#include "model/config_texts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "model/config_keys.h"
#include "model/config_tokens.h"
#include "model/families.h"
#include "model/family_parts.h"
#include "weights/panel_tensors.h"
#include "weights/published_quantization.h"

namespace lacuna {
namespace {

namespace fs = std::filesystem;

/// Range of RoPE frequency divisors.
constexpr Range<double> kDivisor{1e-6, 1e6};

std::string supported_architectures() {
  std::vector<std::string_view> names;
  for (const FamilyEntry& entry : families()) names.push_back(entry.architecture);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Reason why a known architecture is not supported; empty for others.
std::string_view why_unsupported(std::string_view architecture) {
  constexpr std::pair<std::string_view, std::string_view> kReasons[] = {
      {"WeDLMForCausalLM", "WeDLM, whose sliding window over causal slots is missing here"},
      {"DiffEncoderModel", "Nemotron-Diffusion-Research, whose sampler is missing here"},
      {"PanguEmbeddedForCausalLM",
       "openPangu-R-7B-Diffusion, whose blocks behind a causal context, in which a row predicts the next "
       "position, are missing here"},
      {"Lfm2BidirectionalForMaskedLM",
       "LFM2.5-Encoder, whose short convolutions in both directions are missing here"},
      {"NemotronHTwoTowerForCausalLM",
       "Nemotron TwoTower, whose Mamba-2 layers and second tower are missing here"},
      {"SteerlingForCausalLM", "Steerling, whose layers of concepts before the head are missing here"},
      {"TridaForDLM", "Trida, of which neither config.json nor the forward pass has been seen"},
  };
  const auto* const found = std::find_if(std::begin(kReasons), std::end(kReasons),
                                         [&](const auto& each) { return each.first == architecture; });
  return found != std::end(kReasons) ? found->second : std::string_view();
}

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// The family of a "model_type", for files without "architectures", as the transformers library writes for
/// models made from a config or a GGUF file. Of several families, prefers the one with the library's class.
/// Null if no family matches, or several do.
const FamilyEntry* family_of_type(const JsonObject& json) {
  const std::string type = lower_case(json.text("model_type", ""));
  const auto only = [&](bool of_library) -> const FamilyEntry* {
    const FamilyEntry* found = nullptr;
    for (const FamilyEntry& entry : families()) {
      const auto& types = entry.model_types;
      if ((of_library && !entry.is_library_class) || std::ranges::find(types, type) == types.end()) continue;
      if (found != nullptr) return nullptr;
      found = &entry;
    }
    return found;
  };
  const FamilyEntry* const found = only(/*of_library=*/false);
  return found != nullptr ? found : only(/*of_library=*/true);
}

const FamilyEntry& find_family(const JsonObject& json) {
  const bool is_given = json.has("architectures");
  const std::vector<std::string> names = is_given ? json.texts("architectures") : std::vector<std::string>();
  if (names.size() == 1) {
    for (const FamilyEntry& entry : families()) {
      if (entry.architecture == names.front()) return entry;
    }
  }
  if (names.empty()) {
    if (const FamilyEntry* const family = family_of_type(json)) return *family;
  }
  const std::string_view reason = names.empty() ? "" : why_unsupported(names.front());
  throw InputError("{}: \"architectures\" is [{}]{}{}; expected one of {}", json.file(),
                   names.empty() ? "" : in_quotes(names.front()) + (names.size() > 1 ? ", ..." : ""),
                   reason.empty() ? "" : ": ", reason, supported_architectures());
}

/// "model_type" is optional, but must not contradict the architecture.
void check_model_type(const JsonObject& json, const FamilyEntry& family) {
  const std::string type = lower_case(json.text("model_type", ""));
  const auto& known = family.model_types;
  if (type.empty() || std::ranges::find(known, type) != known.end()) return;
  json.refuse("model_type", fmt::format("\"{}\", as \"architectures\" says", fmt::join(known, "\" or \"")));
}

///   kv_key  config.json's key of num_kv_heads
void check_heads(int64_t num_heads, int64_t num_kv_heads, std::string_view kv_key, int64_t head_dim,
                 const JsonObject& json) {
  if (head_dim * num_heads > kWidth.last) {
    throw InputError("{}: {} heads of width {}; expected at most {} together", json.file(), num_heads,
                     head_dim, kWidth.last);
  }
  if (head_dim % 2 != 0) {
    throw InputError("{}: heads have width {} (\"head_dim\"); expected an even width, as RoPE turns pairs",
                     json.file(), head_dim);
  }
  if (num_heads % num_kv_heads != 0) {
    throw InputError("{}: \"{}\" is {}; expected a divisor of the number of heads, {}", json.file(), kv_key,
                     num_kv_heads, num_heads);
  }
}

/// Reads "rope_freqs", Lacuna's own key for the GGUF tensor rope_freqs.weight.
void read_rope_divisors(const nlohmann::json& json, const std::string& file, ModelConfig& config) {
  constexpr const char* kKey = "rope_freqs";
  if (!json.contains(kKey)) return;
  for (const nlohmann::json& value : json[kKey]) {
    const float divisor = value.is_number() ? value.get<float>() : 0;
    if (!(divisor >= kDivisor.first && divisor <= kDivisor.last)) break;
    config.rope.divisors.push_back(divisor);
  }
  if (std::ssize(config.rope.divisors) == config.rotary_dim / 2 &&
      json[kKey].size() == config.rope.divisors.size())
    return;
  throw InputError("{}: \"{}\" has {} values; expected {} numbers from {} to {}", file, kKey,
                   json[kKey].size(), config.rotary_dim / 2, kDivisor.first, kDivisor.last);
}

void check_sizes(const ModelConfig& config, const JsonObject& json) {
  const std::string& file = json.file();
  constexpr std::string_view kKvHeads = "num_key_value_heads";
  const std::string_view all = json.has("n_kv_heads") ? "n_kv_heads" : kKvHeads;  // LLaDA's
  check_heads(config.num_heads, config.num_kv_heads, config.sliding ? "num_global_key_value_heads" : all,
              config.head_dim, json);
  if (config.sliding)
    check_heads(config.num_heads, config.sliding->num_kv_heads, kKvHeads, config.sliding->head_dim, json);
  if (config.rotary_dim < 2 || config.rotary_dim > config.head_dim || config.rotary_dim % 2 != 0) {
    throw InputError(
        "{}: RoPE turns {} of {} dimensions (\"head_dim\"); expected an even number from 2 to {}", file,
        config.rotary_dim, config.head_dim, config.head_dim);
  }
  if (config.block_length > config.max_positions) {
    throw InputError(
        "{}: blocks have {} positions and \"max_position_embeddings\" is {}; expected blocks that fit", file,
        config.block_length, config.max_positions);
  }
  if (config.ffn_dim > kWidth.last) {
    throw InputError("{}: feed-forward layers have width {}; expected at most {}", file, config.ffn_dim,
                     kWidth.last);
  }
  if (config.moe.shared_ffn_dim > kWidth.last) {
    throw InputError("{}: shared experts have width {}; expected at most {}", file, config.moe.shared_ffn_dim,
                     kWidth.last);
  }
}

void add_eos_ids(const JsonObject& json, ModelConfig& config) {
  for (const int64_t id : json.one_or_more_integers("eos_token_id", {-1, config.vocab_size - 1})) {
    if (id < 0) continue;
    if (config.eos_id < 0) config.eos_id = static_cast<TokenId>(id);
    config.end_ids.push_back(static_cast<TokenId>(id));
  }
}

/// Reads Lacuna's decoding settings. Others in generation_config.json are ignored: in published checkpoints
/// they are a class's defaults (Dream's --unmask differs from its model card), or those of the autoregressive
/// base model.
void read_decoding_defaults(const JsonObject& generation, ModelConfig& config) {
  if (!generation.has("lacuna")) return;
  const JsonObject own = generation.object("lacuna");
  for (const std::string& key : own.keys()) {
    if (key != "unmask" && key != "tokens_per_step") own.refuse(key, "unmask or tokens_per_step");
  }
  constexpr size_t kLongestRule = 64;
  config.default_unmask = own.text("unmask", "");
  if (config.default_unmask.size() > kLongestRule) own.refuse("unmask", "the name of a rule");
  if (own.has("tokens_per_step")) {
    config.default_tokens_per_step = static_cast<int32_t>(own.integer("tokens_per_step", {1, 1 << 20}));
  }
}

/// Reads the published settings of a model with canvases.
void read_canvas_settings(const JsonObject& generation, ModelConfig& config) {
  if (!config.canvas || config.canvas->ancestral) return;
  CanvasConfig& canvas = *config.canvas;
  constexpr Range<int64_t> kCount{1, 1 << 20};
  constexpr Range<double> kTemperature{1e-3, 1e3};
  constexpr Range<double> kNats{0, 1e6};
  canvas.steps = generation.integer("max_denoising_steps", kCount, canvas.steps);
  canvas.first_temperature = generation.number("t_max", kTemperature, canvas.first_temperature);
  canvas.last_temperature = generation.number("t_min", kTemperature, canvas.last_temperature);
  canvas.stable_steps = generation.integer("stability_threshold", {0, kCount.last}, canvas.stable_steps);
  canvas.stop_entropy = generation.number("confidence_threshold", kNats, canvas.stop_entropy);
  if (!generation.has("sampler_config")) return;
  const JsonObject sampler = generation.object("sampler_config");
  sampler.expect("_cls_name", "EntropyBoundSamplerConfig");
  canvas.entropy_bound = sampler.number("entropy_bound", kNats, canvas.entropy_bound);
}

/// Reads the published settings of a model that denoises its whole canvas at once. The file's sampler and
/// schedule are not read: they are the class's defaults, and flags set them here.
void read_whole_canvas_settings(const JsonObject& generation, ModelConfig& config) {
  if (!config.denoises_whole_canvas()) return;
  constexpr Range<int64_t> kCount{1, 1 << 20};
  NoiseProcess& noise = *config.noise;
  WholeCanvas& canvas = *noise.whole_canvas;
  generation.expect("anchor_eosbos", true);
  const int64_t length = generation.integer("canvas_length", kPositionCount, canvas.length);
  canvas.length = std::min(length, config.max_positions);
  canvas.steps = generation.integer("num_denoising_steps", kCount, canvas.steps);
  config.default_tokens_per_step =
      static_cast<int32_t>(generation.integer("tokens_per_step", kCount, config.default_tokens_per_step));
  read_log_snr(generation, noise);
}

/// Reads the published answer length.
void read_answer_length(const JsonObject& json, bool takes_total, ModelConfig& config) {
  constexpr Range<int64_t> kLength{0, std::numeric_limits<int32_t>::max()};
  const int64_t tokens = json.integer("max_new_tokens", kLength, 0);
  if (tokens > 0) {
    config.max_new_tokens = tokens;
  } else if (takes_total) {
    config.max_length = json.integer("max_length", kLength, 0);
  }
}

/// Reads the keys that `lacuna quantize` and `lacuna pack` add to the config of a model that they wrote.
void read_own_form(const JsonObject& form, ModelConfig& config) {
  form.read_all();
  if (form.text("quant_method") == "lacuna") return form.require("version", 1);
  form.require("quant_method", "lacuna-packed");
  if (form.integer("version", {0, std::numeric_limits<int64_t>::max()}) != kPanelVersion)
    form.refuse("version", fmt::format("{}; pack the model again", kPanelVersion));
  const std::string dtype = form.text("dtype");
  if (dtype != "f32" && dtype != "bf16") form.refuse("dtype", "f32 or bf16");
  config.packed_for = dtype == "f32" ? DType::kF32 : DType::kBF16;
  const std::string names = form.text("names");
  if (names != "published" && names != "gguf") form.refuse("names", "published or gguf");
  config.gguf_names = names == "gguf";
}

/// Checks that the family applied the paradigm that "lacuna.paradigm" asks for.
void check_paradigm(const JsonObject& json, const ModelConfig& config) {
  if (!json.has("lacuna")) return;
  const JsonObject own = json.object("lacuna");
  for (const std::string& key : own.keys()) {
    if (key != "paradigm") own.refuse(key, "paradigm alone");
  }
  const std::string name(name_of(config.paradigm()));
  if (own.text("paradigm", name) != name) {
    own.refuse("paradigm", fmt::format("\"{}\", which {} is", name, in_quotes(config.architecture)));
  }
}

/// Checks "auto_map", which names a checkpoint's own code: its class must be that of "architectures", and
/// there must be none if the transformers library has the class. A user-chosen paradigm overrides this check.
void check_own_code(const JsonObject& json, const FamilyEntry& family, const ModelConfig& config) {
  if (!json.has("auto_map") || json.has("lacuna") || config.plans_slots) return;
  const JsonObject code = json.object("auto_map");
  std::string other;
  for (const std::string& key : code.keys()) {
    if (!key.starts_with("AutoModel")) continue;
    const std::string name = code.text(key);
    const bool is_same = name.substr(name.rfind('.') + 1) == family.architecture;
    const bool borrows = family.is_library_class && config.paradigm() == Paradigm::kCausal;
    if (borrows)
      code.refuse(
          key, fmt::format("no code of its own for {}; --paradigm causal runs the model as that class is run",
                           family.architecture));
    if (is_same) return;
    other = key;
  }
  if (!other.empty())
    code.refuse(other, fmt::format("the class {}, as \"architectures\" says; --ignore-config-keys auto_map "
                                   "runs the model as that class is run",
                                   family.architecture));
}

}  // namespace

ModelConfig read_config_texts(const ConfigTexts& texts, const fs::path& folder,
                              const ConfigChoices& choices) {
  const std::string file = (folder / "config.json").string();
  nlohmann::json parsed = parse_json(texts.config, file);
  if (choices.paradigm && parsed.is_object()) parsed["lacuna"] = {{"paradigm", name_of(*choices.paradigm)}};
  JsonObject json(parsed, file);
  json.track_reads();
  const FamilyEntry& family = find_family(json);
  check_model_type(json, family);
  ModelConfig config = family.read_config(json);
  if (!read_published_quantization(json) && json.has("quantization_config"))
    read_own_form(json.object("quantization_config"), config);
  config.family = family.name;
  config.architecture = family.architecture;
  if (config.rotary_dim == 0) config.rotary_dim = config.head_dim;
  check_sizes(config, json);
  if (json.has("rope_freqs")) read_rope_divisors(parsed, file, config);

  // Defaults are ids that the family's class may have set.
  config.bos_id = read_token_id(json, "bos_token_id", config, config.bos_id);
  config.pad_id = read_token_id(json, "pad_token_id", config, config.pad_id);
  const TokenId class_eos = std::exchange(config.eos_id, -1);
  add_eos_ids(json, config);
  const std::string generation_file = (folder / "generation_config.json").string();
  const nlohmann::json parsed_generation = texts.generation_config.empty()
                                               ? nlohmann::json::object()
                                               : parse_json(texts.generation_config, generation_file);
  const JsonObject generation(parsed_generation, generation_file);
  add_eos_ids(generation, config);
  read_answer_length(generation, true, config);
  read_decoding_defaults(generation, config);
  read_canvas_settings(generation, config);
  read_whole_canvas_settings(generation, config);
  // max_length in config.json is a leftover of older library versions and not read.
  if (config.max_new_tokens == 0 && config.max_length == 0) read_answer_length(json, false, config);
  if (config.end_ids.empty() && class_eos >= 0 && !json.has("eos_token_id")) {
    config.eos_id = class_eos;
    config.end_ids = {class_eos};
  }
  check_paradigm(json, config);
  const auto& ignored = choices.ignored_keys;
  const auto is_ignored = [&](std::string_view key) {
    return std::ranges::find(ignored, key) != ignored.end();
  };
  if (!is_ignored("auto_map")) check_own_code(json, family, config);
  // For files that claim tied embeddings but hold another head (model/unread_tensors.h).
  if (is_ignored("tie_word_embeddings")) config.tied_embeddings = false;
  config.unknown_keys = check_unread_keys(json, config, family.harmless_keys, ignored);
  const TokenFiles files(texts, folder);
  set_token_ids({json, generation, files, family, json.has("lacuna"), choices.reads_other_texts, ignored},
                config);
  return config;
}

}  // namespace lacuna
