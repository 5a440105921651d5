#include "model/gguf_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "model/config_texts.h"
#include "model/families.h"
#include "model/family_parts.h"
#include "model/gguf_keys.h"

namespace lacuna {
namespace {

using Json = nlohmann::json;

constexpr int64_t kControlToken = 3;

/// Adds RoPE scaling only if it changes anything, because some families refuse any.
void add_rope_scaling(const GgufFile& file, const GgufKeys& keys, Json& config) {
  // The default type is "linear", llama.cpp's first one; old files name the factor "scale_linear".
  const bool is_old = keys.has("rope.scale_linear");
  const bool is_linear = is_old || keys.has("rope.scaling.factor");
  const std::string_view type = file.text(keys.key("rope.scaling.type"), is_linear ? "linear" : "none");
  if (type == "none") return;
  const double factor = keys.number(is_old ? "rope.scale_linear" : "rope.scaling.factor");
  Json scaling = {{"rope_type", type}, {"factor", factor}};
  // The factor of cos and sin: either the total, as in config.json, or relative to YaRN's own.
  const double own = type == "yarn" && factor > 1 ? 0.1 * std::log(factor) + 1 : 1;
  if (keys.has("rope.scaling.yarn_attn_factor")) {
    scaling["attention_factor"] = keys.number("rope.scaling.yarn_attn_factor");
  } else if (keys.has("rope.scaling.attn_factor") && keys.number("rope.scaling.attn_factor") != 1) {
    scaling["attention_factor"] = own * keys.number("rope.scaling.attn_factor");
  }
  if (keys.has("rope.scaling.original_context_length")) {
    scaling["original_max_position_embeddings"] =
        keys.integer("rope.scaling.original_context_length", kPositionCount);
  }
  for (const char* const name : {"beta_fast", "beta_slow"}) {
    const std::string key = std::string("rope.scaling.yarn_") + name;
    if (keys.has(key)) scaling[name] = keys.number(key);
  }
  config["rope_scaling"] = scaling;
}

constexpr std::string_view kRopeDivisors = "rope_freqs.weight";

/// Adds the frequency divisors, one per pair of dimensions.
void add_rope_divisors(const GgufFile& file, Json& config) {
  const GgufTensor* const divisors = file.find(kRopeDivisors);
  if (divisors == nullptr) return;
  if (divisors->type != kGgmlF32 || divisors->shape.size() != 1) {
    throw InputError("{}: tensor {} is {} of {} dimensions; expected F32 of one", file.name(),
                     in_quotes(kRopeDivisors), describe_ggml_type(divisors->type), divisors->shape.size());
  }
  std::vector<float> values(static_cast<size_t>(divisors->shape[0]));
  std::memcpy(values.data(), divisors->bytes.data(), divisors->bytes.size());
  config["rope_freqs"] = values;
}

const FamilyEntry& family_of(const GgufFile& file) {
  const std::string_view name = file.text("general.architecture");
  std::vector<std::string_view> known;
  for (const FamilyEntry& family : families()) {
    if (!family.gguf) continue;
    if (family.gguf->architecture == name) return family;
    known.push_back(family.gguf->architecture);
  }
  file.refuse("general.architecture", fmt::format("{}", fmt::join(known, ", ")));
}

const GgufDialect& dialect_of(std::string_view family) {
  const FamilyEntry& entry = family_entry(family);
  expects(entry.gguf.has_value(), "a model from a GGUF file is of a family that GGUF files hold");
  return *entry.gguf;
}

void add_token_ids(const GgufFile& file, const GgufDialect& dialect, Json& config) {
  const Json& text = config.contains("text_config") ? config["text_config"] : config;
  const int64_t last = text["vocab_size"].get<int64_t>() - 1;
  const auto add = [&](const char* key, const char* name) {
    const std::string full = std::string("tokenizer.ggml.") + name;
    if (file.has(full)) config[key] = file.integer(full, {0, last});
  };
  add("bos_token_id", "bos_token_id");
  add("pad_token_id", "padding_token_id");
  add("mask_token_id", "mask_token_id");
  if (!config.contains("mask_token_id") && dialect.published_mask >= 0 && dialect.published_mask <= last)
    config["mask_token_id"] = dialect.published_mask;
  Json ends = Json::array();
  for (const char* name : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    if (file.has(name)) ends.push_back(file.integer(name, {0, last}));
  }
  // Gemma's end-of-turn token, which no key names.
  if (file.has("tokenizer.ggml.tokens")) {
    const auto& tokens = file.texts("tokenizer.ggml.tokens");
    const auto found = std::find(tokens.begin(), tokens.end(), "<end_of_turn>");
    if (found - tokens.begin() <= last && found != tokens.end()) ends.push_back(found - tokens.begin());
  }
  config["eos_token_id"] = ends;
}

/// The special tokens, as tokenizer_config.json would list them.
Json special_tokens(const GgufFile& file, int64_t vocab_size) {
  Json tokens = Json::object();
  if (!file.has("tokenizer.ggml.tokens") || !file.has("tokenizer.ggml.token_type")) return tokens;
  const auto& texts = file.texts("tokenizer.ggml.tokens");
  const auto& types = file.integers("tokenizer.ggml.token_type");
  const size_t count = std::min({texts.size(), types.size(), static_cast<size_t>(vocab_size)});
  for (size_t id = 0; id < count; ++id) {
    if (types[id] == kControlToken) tokens[std::to_string(id)] = {{"content", texts[id]}};
  }
  return {{"added_tokens_decoder", tokens}};
}

}  // namespace

namespace {

std::string config_text_of(const GgufKeys& keys) {
  const GgufFile& file = keys.file();
  const GgufDialect& dialect = *family_of(file).gguf;
  Json config = dialect.read_config(keys);
  if (keys.has("rope.dimension_count") && config.contains("head_dim") && !config.contains("rotary_dim")) {
    const auto head_dim = config["head_dim"].get<int64_t>();
    keys.integer("rope.dimension_count", {head_dim, head_dim});
  }
  if (file.has("general.name")) config["_name_or_path"] = file.text("general.name");
  add_rope_scaling(file, keys, config);
  if (dialect.divides_frequencies) add_rope_divisors(file, config);
  if (dialect.adds_one_to_norms) config["norms_add_one"] = false;
  add_token_ids(file, dialect, config);
  return dump_json(config);
}

/// Refuses unread keys of the architecture, as check_unread_keys() does for config.json. Harmless keys
/// concern storage, the origin of RoPE scaling, and the width of dense layers in models without any.
void refuse_unknown_gguf_keys(const GgufKeys& keys, std::span<const std::string> ignored) {
  for (const char* const harmless :
       {"feed_forward_length", "rope.scaling.finetuned", "tensor_data_layout", "vocab_size"})
    keys.has(harmless);
  for (const std::string& name : keys.unread()) {
    if (std::find(ignored.begin(), ignored.end(), name) != ignored.end()) continue;
    throw InputError(
        "{}: {} is not known for this architecture and may change what the model computes; expected keys "
        "that are known (--ignore-config-keys {} runs it nevertheless)",
        keys.file().name(), in_quotes(name), name);
  }
}

}  // namespace

std::string gguf_config_text(const GgufFile& file) {
  return config_text_of(GgufKeys(file));
}

ModelConfig read_gguf_config(const GgufFile& file, const ConfigChoices& choices) {
  const GgufKeys keys(file);
  const std::string config_text = config_text_of(keys);
  const std::string tokens_text = dump_json(special_tokens(file, gguf_rows(file, "token_embd.weight")));
  const GgufDialect& dialect = *family_of(file).gguf;
  const std::string generation_text =
      dialect.read_generation != nullptr ? dump_json(dialect.read_generation(keys)) : "";
  ModelConfig config = read_config_texts(
      {.config = config_text, .generation_config = generation_text, .tokenizer_config = tokens_text},
      file.name(), {.paradigm = choices.paradigm});
  config.gguf_names = true;
  keys.expect("attention.causal", config.causal);
  refuse_unknown_gguf_keys(keys, choices.ignored_keys);
  const std::string shift = "diffusion.shift_logits";
  if (!config.causal && file.flag(shift, config.shifted_logits) != config.shifted_logits) {
    file.refuse(shift, config.shifted_logits ? "true" : "false");
  }
  return config;
}

TensorNames gguf_tensor_names(std::string_view family) {
  const GgufDialect& dialect = dialect_of(family);
  TensorNames names{.embedding = "token_embd",
                    .final_norm = "output_norm",
                    .head = "output",
                    .layer = dialect.layer,
                    .expert = nullptr};
  if (dialect.rename != nullptr) dialect.rename(names);
  return names;
}

namespace {

/// Names of the tensors that a model reads.
class TensorList {
 public:
  TensorList(const ModelConfig& config, const TensorNames& names) : config_(config) {
    for (const std::string_view module :
         {names.embedding, names.final_norm, names.head, names.conditioning_norm, names.conditioning_gate,
          names.conditioning_up, names.conditioning_down})
      add_weight(std::string(module));
    if (config.layer_norm) add(std::string(names.final_norm) + ".bias");
    for (int64_t layer = 0; layer < config.num_layers; ++layer) add_layer(layer, names.layer(layer));
  }

  bool contains(std::string_view name) const { return names_.contains(name); }
  void add(const std::string& name) { names_.insert(name); }

 private:
  void add_weight(const std::string& module) { add(module + ".weight"); }
  void add_all(const ExpertTensorNames& modules) {
    for (const std::string& module : {modules.gate, modules.up, modules.down, modules.gate_up})
      add_weight(module);
  }

  void add_layer(int64_t layer, const LayerTensorNames& names) {
    for (const std::string& module : {names.attn_norm, names.ffn_norm, names.o}) add_weight(module);
    if (config_.layer_norm) {
      for (const std::string& module : {names.attn_norm, names.ffn_norm}) add(module + ".bias");
    }
    for (const std::string& module : {names.q, names.k, names.v, names.qkv}) {
      add_weight(module);
      if (config_.qkv_bias) add(module + ".bias");
    }
    if (config_.attn_output_bias) add(names.o + ".bias");
    if (config_.qk_norm_per_head || config_.qk_norm_full) {
      add_weight(names.q_norm);
      add_weight(names.k_norm);
    }
    if (config_.norms_outputs) {
      add_weight(names.post_attn_norm);
      add_weight(names.post_ffn_norm);
    }
    if (config_.layer_scalars) {
      add(names.layer_scalar);
      add(names.encoder_scalar);
    }
    const MoeConfig& moe = config_.moe;
    const bool has_experts = config_.layer_has_experts(layer);
    if (!has_experts || moe.parallel_dense) {
      add_all({names.gate, names.up, names.down});
      for (const std::string& module : {names.up, names.down}) {
        if (config_.ffn_bias) add(module + ".bias");
      }
    }
    if (!has_experts) return;
    add_weight(names.router);
    add_all(names.stacked_experts);
    if (moe.selection_bias) add(names.expert_bias);
    if (moe.shared_ffn_dim > 0) add_all(names.shared);
    if (!moe.parallel_dense) return;
    for (const std::string& module : {names.expert_norm, names.post_expert_norm, names.post_dense_norm})
      add_weight(module);
    add(names.router_scale);
    add(names.expert_scale);
  }

  const ModelConfig& config_;
  std::set<std::string, std::less<>> names_;
};

}  // namespace

void expect_no_unread_tensors(const GgufFile& file, const ModelConfig& config) {
  TensorList known(config, gguf_tensor_names(config.family));
  if (!config.rope.divisors.empty() || config.canvas) known.add(std::string(kRopeDivisors));
  for (const auto& [name, tensor] : file.tensors()) {
    if (known.contains(name)) continue;
    throw InputError(
        "{}: holds tensor {}, which is no part of {} here; expected the tensors of that architecture",
        tensor.file, in_quotes(name), in_quotes(file.text("general.architecture")));
  }
}

GgufWeights gguf_weights(const GgufFile& file, const ModelConfig& config) {
  std::map<std::string, int64_t, std::less<>> interleaved;
  const GgufDialect& dialect = dialect_of(config.family);
  for (int64_t layer = 0; dialect.interleaves_rotation && layer < config.num_layers; ++layer) {
    const LayerTensorNames names = dialect.layer(layer);
    interleaved[names.q] = config.num_heads;
    interleaved[names.k] = config.num_kv_heads;
  }
  return GgufWeights(file, std::move(interleaved));
}

}  // namespace lacuna
