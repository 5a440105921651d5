#include "model/family_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"

namespace lacuna {
namespace {

bool has_name(std::string text, std::string_view lower_case_name) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text.find(lower_case_name) != std::string::npos;
}

}  // namespace

ModelConfig read_transformers_sizes(const JsonObject& json, std::string_view norm_eps_key,
                                    std::optional<float> usual_norm_eps) {
  ModelConfig config;
  config.num_layers = json.integer("num_hidden_layers", kLayerCount);
  config.hidden_dim = json.integer("hidden_size", kWidth);
  config.num_heads = json.integer("num_attention_heads", kWidth);
  config.num_kv_heads = json.integer("num_key_value_heads", kWidth, config.num_heads);
  config.vocab_size = json.integer("vocab_size", kVocabSize);
  config.max_positions = json.integer("max_position_embeddings", kPositionCount);
  config.norm_eps = json.number(norm_eps_key, kNormEps, usual_norm_eps);
  config.tied_embeddings = json.flag("tie_word_embeddings", false);
  return config;
}

int64_t read_head_dim(const JsonObject& json, const ModelConfig& config) {
  if (json.has("head_dim")) return json.integer("head_dim", kWidth);
  if (config.hidden_dim % config.num_heads != 0) {
    throw InputError("{}: {} heads split a hidden width of {}; expected a divisor, or \"head_dim\"",
                     json.file(), config.num_heads, config.hidden_dim);
  }
  return config.hidden_dim / config.num_heads;
}

void set_rope(const JsonObject& json, ModelConfig& config, const RopeRules& rules) {
  const Rotation rotation = read_rope(json, config.head_dim, config.max_positions, rules);
  config.rope = rotation.rope;
  config.rotary_dim = rotation.rotary_dim;
}

TokenId read_token_id(const JsonObject& json, std::string_view key, const ModelConfig& config) {
  return static_cast<TokenId>(json.integer(key, {0, config.vocab_size - 1}));
}

TokenId read_token_id(const JsonObject& json, std::string_view key, const ModelConfig& config,
                      TokenId fallback) {
  return static_cast<TokenId>(json.integer(key, {-1, config.vocab_size - 1}, fallback));
}

void turn_into_d2f_if_chosen(const JsonObject& json, ModelConfig& config) {
  constexpr int64_t kD2fBlock = 32;  // value of most published runs; adapters' files do not state it
  if (read_paradigm(json, {Paradigm::kMasked, Paradigm::kBlocks}) != Paradigm::kBlocks) return;
  turn_block_causal(config, kD2fBlock);
  config.whole_prompt = true;
}

void read_log_snr(const JsonObject& json, NoiseProcess& noise) {
  constexpr Range<double> kLogSnr{-30, 30};
  noise.min_log_snr = json.number("min_log_snr", kLogSnr, noise.min_log_snr);
  noise.max_log_snr = json.number("max_log_snr", kLogSnr, noise.max_log_snr);
  if (noise.min_log_snr < noise.max_log_snr) return;
  throw InputError("{}: \"min_log_snr\" is {} and \"max_log_snr\" {}; expected the first to be smaller",
                   json.file(), noise.min_log_snr, noise.max_log_snr);
}

std::optional<Paradigm> read_paradigm(const JsonObject& json, std::initializer_list<Paradigm> known) {
  if (!json.has("lacuna")) return {};
  const JsonObject own = json.object("lacuna");
  if (!own.has("paradigm")) return {};  // other keys are refused later
  const std::optional<Paradigm> chosen = paradigm_named(own.text("paradigm"));
  if (chosen && std::ranges::find(known, *chosen) != known.end()) return chosen;
  std::vector<std::string_view> names;
  for (const Paradigm each : known) names.push_back(name_of(each));
  own.refuse("paradigm", fmt::format("{}", fmt::join(names, " or ")));
}

bool says_its_name(const JsonObject& json, std::string_view lower_case_name) {
  const auto says = [&](const std::string& text) { return has_name(text, lower_case_name); };
  if (says(json.text("model_type", "")) || says(json.text("_name_or_path", ""))) return true;
  if (!json.has("auto_map")) return false;
  const JsonObject classes = json.object("auto_map");
  constexpr std::array<const char*, 3> kModels = {"AutoConfig", "AutoModel", "AutoModelForCausalLM"};
  return std::ranges::any_of(kModels, [&](const char* key) { return says(classes.text(key, "")); });
}

bool folder_says_its_name(const JsonObject& json, std::string_view lower_case_name) {
  std::filesystem::path folder = std::filesystem::path(json.file()).parent_path();
  // Path of a download: models--ORG--NAME/snapshots/REVISION.
  const std::filesystem::path outer = folder.parent_path();
  if (outer.filename() == "snapshots") folder = outer.parent_path();
  return has_name(folder.filename().string(), lower_case_name);
}

TensorNames transformers_tensors(LayerTensorNames (*layer)(int64_t layer)) {
  return {.embedding = "model.embed_tokens",
          .final_norm = "model.norm",
          .head = "lm_head",
          .layer = layer,
          .expert = nullptr};
}

LayerTensorNames transformers_layer(int64_t layer) {
  return transformers_layer_of("model", layer);
}

LayerTensorNames transformers_layer_of(std::string_view module, int64_t layer) {
  const std::string prefix = fmt::format("{}.layers.{}.", module, layer);
  LayerTensorNames names;
  names.attn_norm = prefix + "input_layernorm";
  names.q = prefix + "self_attn.q_proj";
  names.k = prefix + "self_attn.k_proj";
  names.v = prefix + "self_attn.v_proj";
  names.o = prefix + "self_attn.o_proj";
  names.ffn_norm = prefix + "post_attention_layernorm";
  names.gate = prefix + "mlp.gate_proj";
  names.up = prefix + "mlp.up_proj";
  names.down = prefix + "mlp.down_proj";
  return names;
}

LayerTensorNames transformers_layer_with_qk_norm(int64_t layer) {
  LayerTensorNames names = transformers_layer(layer);
  names.q_norm = fmt::format("model.layers.{}.self_attn.q_norm", layer);
  names.k_norm = fmt::format("model.layers.{}.self_attn.k_norm", layer);
  return names;
}

LayerTensorNames transformers_layer_with_experts(int64_t layer) {
  LayerTensorNames names = transformers_layer_with_qk_norm(layer);
  names.router = fmt::format("model.layers.{}.mlp.gate", layer);
  return names;
}

ExpertTensorNames transformers_expert(int64_t layer, int64_t expert) {
  const std::string prefix = fmt::format("model.layers.{}.mlp.experts.{}.", layer, expert);
  return {.gate = prefix + "gate_proj", .up = prefix + "up_proj", .down = prefix + "down_proj"};
}

void expect_silu(const JsonObject& json) {
  if (json.text("hidden_act", "silu") != "swish") json.expect("hidden_act", "silu");
}

}  // namespace lacuna
