#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "cache/kv_cache.h"
#include "checkpoint_summary.h"
#include "commands.h"
#include "engine/preset_use.h"
#include "kernels/dispatch.h"
#include "loading.h"
#include "model/families.h"
#include "model/model.h"
#include "model/parameters.h"
#include "model/read_config.h"
#include "options/choose.h"
#include "options/presets.h"
#include "terminal.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"
#include "weights/weight_format.h"

namespace lacuna {
namespace {

using Json = nlohmann::ordered_json;

struct InspectFlags : ModelFlags {
  std::string guide;
  int64_t canvas = 1024;
  bool json = false;
};

/// Data of the report. Parts that the folder lacks stay empty.
struct Findings {
  ModelSource source;
  std::optional<Tokenizer> tokenizer;
  std::optional<Json> checkpoint;  ///< files that hold the weights
  std::optional<Json> memory;      ///< predicted for a run with the same flags
  std::optional<Json> guide;       ///< with --guide
  ChatTemplate chat_template;
  std::vector<SavedPreset> saved_presets;
  std::vector<std::string> warnings;
};

/// Runs `open`; an InputError becomes a warning.
template <typename Open>
void attempt(std::vector<std::string>& warnings, Open&& open) {
  try {
    open();
  } catch (const InputError& error) {
    warnings.emplace_back(error.what());
  }
}

void check_special_tokens(Findings& findings) {
  const ModelConfig& config = findings.source.config;
  const auto warn = [&](std::string sentence) { findings.warnings.push_back(std::move(sentence)); };
  if (config.end_ids.empty()) warn("no token ends an answer: every run fills its whole length");
  if (config.mask_id >= config.vocab_size) {
    warn(fmt::format("the mask token {} is outside the vocabulary of {}", config.mask_id, config.vocab_size));
  }
  if (!findings.tokenizer) return;
  const Tokenizer& tokenizer = *findings.tokenizer;
  if (config.mask_id >= 0 && !tokenizer.is_special(config.mask_id)) {
    warn(fmt::format("the mask token {} is not a special token of the tokenizer", config.mask_id));
  }
  if (tokenizer.size() > config.vocab_size) {
    warn(fmt::format("the tokenizer has ids up to {}, the embedding only {} rows", tokenizer.size() - 1,
                     config.vocab_size));
  }
}

Json run_memory_json(const ModelSource& source, const WeightFormats& formats, int64_t canvas) {
  const RunMemory memory = predict_run_memory(source, formats, canvas);
  return {{"dtype", lacuna::name_of(formats.dtype)},
          {"weights_bytes", memory.weights},
          {"kv_bytes_canvas", memory.kv},
          {"buffer_bytes_canvas", memory.buffers},
          {"total_bytes", memory.total()}};
}

void predict_memory(const InspectFlags& flags, Findings& findings) {
  ModelSource source = findings.source;
  if (!findings.checkpoint) source.folder.clear();
  const WeightFormats formats = weight_formats(flags, source);
  attempt(findings.warnings, [&] { findings.memory = run_memory_json(source, formats, flags.canvas); });
  if (flags.canvas <= source.config.max_positions) return;
  findings.warnings.push_back(fmt::format("the model has {} positions, fewer than the canvas of {}",
                                          source.config.max_positions, flags.canvas));
}

/// Predicts the guide's memory, alone and with the model's. Throws InputError if it cannot guide this model.
void predict_guide(const InspectFlags& flags, Findings& findings) {
  if (flags.guide.empty()) return;
  const Tokenizer* const tokenizer = findings.tokenizer ? &*findings.tokenizer : nullptr;
  const GuideSource guide(flags.guide, {findings.source.config, tokenizer, findings.chat_template}, "--guide",
                          choices_of_other_models(flags));
  ModelFlags guide_flags = flags;
  guide_flags.model = flags.guide;
  Json json{{"model", flags.guide},
            {"parameters", count_parameters(guide.source.config)},
            {"shares_vocabulary", guide.guide.shares_vocabulary()}};
  json.update(run_memory_json(guide.source, weight_formats(guide_flags, guide.source), flags.canvas));
  if (findings.memory) {
    json["total_bytes_with_model"] =
        json["total_bytes"].get<int64_t>() + (*findings.memory)["total_bytes"].get<int64_t>();
  }
  findings.guide = std::move(json);
}

Findings examine(const InspectFlags& flags) {
  Findings findings;
  findings.source = find_model_quietly(flags);
  const std::filesystem::path& folder = findings.source.folder;
  if (!folder.empty()) {
    if (has_tokenizer(folder)) {
      attempt(findings.warnings, [&] { findings.tokenizer = Tokenizer::load(folder); });
    }
    if (findings.tokenizer) {
      attempt(findings.warnings, [&] {
        findings.chat_template = load_chat_template(folder);
        if (!findings.chat_template.is_none())
          render(findings.chat_template, *findings.tokenizer, std::array{Message{"user", "?"}});
      });
    }
    attempt(findings.warnings, [&] {
      Json checkpoint = checkpoint_json(folder);
      if (!checkpoint.is_null()) findings.checkpoint = std::move(checkpoint);
    });
  }
  const std::string warning = warning_of(findings.source.config, folder);
  if (!warning.empty()) findings.warnings.push_back(warning);
  attempt(findings.warnings,
          [&] { findings.saved_presets = saved_presets_of(findings.source, flags.model); });
  check_special_tokens(findings);
  predict_memory(flags, findings);
  predict_guide(flags, findings);
  return findings;
}

int64_t active_parameters(const ModelConfig& config) {
  const MoeConfig& moe = config.moe;
  return count_parameters(config) - config.num_expert_layers() * (moe.num_experts - moe.experts_per_token) *
                                        3 * config.hidden_dim * moe.expert_ffn_dim;
}

/// Elements of one token's keys over all layers.
int64_t kv_numbers(const ModelConfig& config) {
  int64_t numbers = 0;
  for (int64_t layer = 0; layer < config.num_layers; ++layer) numbers += config.kv_dim_of(layer);
  return numbers;
}

Json memory_json(const ModelConfig& config, const WeightFormat& format, int64_t canvas) {
  const DType dtype = format.is_quantized() ? DType::kBF16 : format.dtype;
  WeightFormats formats(dtype);
  formats.layers = format;
  const KvShape shape = kv_shape(config, dtype, false);
  KvShape int8 = shape;
  int8.is_int8 = true;
  return {{"weights_bytes", predicted_bytes(config, formats)},
          {"kv_bytes_per_token", 2 * kv_numbers(config) * static_cast<int64_t>(size_of(dtype))},
          {"kv_bytes_canvas", KvCache::bytes_for(shape, canvas)},
          {"kv_int8_bytes_canvas", KvCache::bytes_for(int8, canvas)}};
}

Json all_memory_json(const Findings& findings, int64_t canvas) {
  const ModelConfig& config = findings.source.config;
  Json memory{{"canvas_tokens", canvas}, {"run", findings.memory ? *findings.memory : Json()}};
  for (const NamedWeightFormat& known : kWeightFormats)
    memory[std::string(known.name)] = memory_json(config, known.format, canvas);
  return memory;
}

Json token_json(const Findings& findings, TokenId id) {
  if (id < 0) return nullptr;
  Json token{{"id", id}};
  if (findings.tokenizer) token["text"] = findings.tokenizer->decode(std::array{id}, false);
  return token;
}

Json special_tokens_json(const Findings& findings) {
  const ModelConfig& config = findings.source.config;
  Json ends = Json::array();
  for (const TokenId id : config.end_ids) ends.push_back(token_json(findings, id));
  return {{"mask", token_json(findings, config.mask_id)},
          {"bos", token_json(findings, config.bos_id)},
          {"eos", token_json(findings, config.eos_id)},
          {"pad", token_json(findings, config.pad_id)},
          {"end", std::move(ends)}};
}

std::string_view attention_of(const ModelConfig& config) {
  if (config.causal) return "causal";
  if (config.canvas) return "causal, bidirectional in a canvas";
  if (config.causal_context) return "causal context, bidirectional";
  return config.block_causal ? "block-causal" : "bidirectional";
}

std::string_view name_of(RopeConfig::Scaling scaling) {
  constexpr std::string_view kNames[] = {"none", "linear", "yarn", "llama3", "dynamic"};
  return kNames[static_cast<size_t>(scaling)];
}

Json chat_template_json(const Findings& findings) {
  if (!findings.tokenizer) return {{"source", "none: there is no tokenizer"}, {"keywords", Json::object()}};
  const ChatTemplate& chat = findings.chat_template;
  Json json{{"source", chat.description()}, {"keywords", chat.keywords()}};
  if (!chat.is_none()) {
    const TemplateTraits& traits = chat.traits(/*has_tools=*/true);
    json["shows_tools"] = traits.shows_tools;
    json["shows_calls"] = traits.shows_calls;
    json["program"] = chat.program();
  }
  return json;
}

Json report(const Findings& findings, int64_t canvas) {
  const ModelConfig& config = findings.source.config;
  Json json{{"family", family_entry(config.family).name},
            {"architecture", config.architecture},
            {"folder", findings.source.folder.empty() ? Json() : Json(findings.source.folder.string())},
            {"parameters", count_parameters(config)},
            {"active_parameters", active_parameters(config)},
            {"layers", config.num_layers},
            {"hidden", config.hidden_dim},
            {"heads", config.num_heads},
            {"kv_heads", config.num_kv_heads},
            {"head_dim", config.head_dim},
            {"ffn", config.has_experts() ? config.moe.expert_ffn_dim : config.ffn_dim},
            {"experts", config.moe.num_experts},
            {"experts_per_token", config.moe.experts_per_token},
            {"expert_groups", config.moe.num_groups},
            {"groups_per_token", config.moe.groups_per_token},
            {"shared_expert_ffn", config.moe.shared_ffn_dim},
            {"dense_layers", config.num_layers - config.num_expert_layers()},
            {"dense_ffn", config.ffn_dim},
            {"vocabulary", config.vocab_size},
            {"positions", config.max_positions},
            {"rope_theta", config.rope.theta},
            {"rope_scaling", name_of(config.rope.scaling)},
            {"rotary_dim", config.rotary_dim},
            {"norm_eps", config.norm_eps},
            {"attention", attention_of(config)},
            {"block_length", config.block_length},
            {"sub_block_length", config.sub_block_length},
            {"plans_slots", config.plans_slots},
            {"noise_shift", config.noise ? nlohmann::ordered_json(config.noise->uniform_shift) : nullptr},
            {"shifted_logits", config.shifted_logits},
            {"tied_embeddings", config.tied_embeddings},
            {"qk_norm", config.qk_norm_per_head ? "per head"
                        : config.qk_norm_full   ? "whole row"
                                                : "none"},
            {"qkv_bias", config.qkv_bias},
            {"attention_output_bias", config.attn_output_bias}};
  if (config.sliding) {
    json["sliding"] = {{"layers", std::ranges::count(config.sliding->layers, true)},
                       {"window", config.sliding->window},
                       {"kv_heads", config.sliding->num_kv_heads},
                       {"head_dim", config.sliding->head_dim},
                       {"rope_theta", config.sliding->rope.theta}};
  }
  if (config.denoises_whole_canvas()) {
    const WholeCanvas& published = *config.noise->whole_canvas;
    json["whole_canvas"] = {{"length", published.length}, {"steps", published.steps}};
  }
  if (config.canvas) {
    const CanvasConfig& published = *config.canvas;
    json["canvas"] = {{"length", published.length},
                      {"steps", published.steps},
                      {"entropy_bound", published.entropy_bound},
                      {"temperatures", {published.first_temperature, published.last_temperature}},
                      {"stable_steps", published.stable_steps},
                      {"stop_entropy", published.stop_entropy}};
  }
  json["memory"] = all_memory_json(findings, canvas);
  if (findings.guide) json["guide"] = *findings.guide;
  json["special_tokens"] = special_tokens_json(findings);
  json["tokenizer"] = findings.tokenizer ? Json{{"size", findings.tokenizer->size()}} : Json();
  json["chat_template"] = chat_template_json(findings);
  json["checkpoint"] = findings.checkpoint ? *findings.checkpoint : Json();
  Json presets = Json::object();
  for (const Preset& preset : presets_of(config)) presets[std::string(preset.name)] = describe(preset);
  json["presets"] = std::move(presets);
  json["saved_presets"] = Json::array();
  for (const SavedPreset& preset : findings.saved_presets) json["saved_presets"].push_back(to_json(preset));
  const GenerationOptions defaults = with_defaults(config, {}, false);
  json["default_unmask"] = defaults.unmask ? Json(*defaults.unmask) : Json();
  json["default_tokens_per_step"] = defaults.tokens_per_step ? Json(*defaults.tokens_per_step) : Json();
  json["isa"] = default_table().name;
  json["devices"] = device_list();
  json["warnings"] = findings.warnings;
  return json;
}

std::string token_text(const Json& token) {
  if (token.is_null()) return "none";
  std::string text = token["id"].dump();
  // A token may be part of a UTF-8 character, which dump_json() accepts.
  if (token.contains("text")) text += ' ' + dump_json(token["text"]);
  return text;
}

void print_line(std::string_view label, std::string_view value) {
  print_text("{:<20} {}\n", label, value);
}

std::string blocks_text(const ModelConfig& config) {
  if (!config.block_causal) return "";
  std::string text =
      fmt::format(" in blocks of {}{}", config.block_length, config.whole_prompt ? " behind the prompt" : "");
  if (config.sub_block_length > 0) text += fmt::format(" denoised {} at a time", config.sub_block_length);
  return text;
}

std::string feed_forward_text(const ModelConfig& config) {
  const MoeConfig& moe = config.moe;
  if (config.num_expert_layers() == 0) return fmt::format("width {}", config.ffn_dim);
  std::string text =
      fmt::format("{} of {} experts of width {}", moe.experts_per_token, moe.num_experts, moe.expert_ffn_dim);
  if (moe.parallel_dense) text = fmt::format("width {} and {}", config.ffn_dim, text);
  if (moe.num_groups > 1) text += fmt::format(" from {} of {} groups", moe.groups_per_token, moe.num_groups);
  if (moe.shared_ffn_dim > 0) text += fmt::format(", one of width {} for all", moe.shared_ffn_dim);
  if (moe.first_dense_layers > 0) {
    text +=
        fmt::format("; the first {} dense, of width {}",
                    moe.first_dense_layers == 1 ? "layer" : fmt::format("{} layers", moe.first_dense_layers),
                    config.ffn_dim);
  }
  return text;
}

void print_packed(const ModelConfig& config, const Json& panel_bytes) {
  int64_t total = 0;
  std::vector<std::string> parts;
  for (const auto& [format, bytes] : panel_bytes.items()) {
    total += bytes.get<int64_t>();
    parts.push_back(fmt::format("{} {}", format, human_bytes(bytes.get<int64_t>())));
  }
  print_line("packed",
             fmt::format("activations {}: weights {} ({}), mapped and not copied; the system may take "
                         "their pages back",
                         config.packed_for ? lacuna::name_of(*config.packed_for) : "any dtype",
                         human_bytes(total), fmt::join(parts, ", ")));
}

/// Properties that only few families have.
std::vector<std::string> traits_of(const ModelConfig& config) {
  std::vector<std::string> traits;
  if (config.shifted_logits) traits.emplace_back("row i predicts position i + 1");
  if (config.tied_embeddings) traits.emplace_back("head tied to the embedding");
  if (config.rope.query_growth > 0) {
    traits.push_back(fmt::format("queries grow by {:g} ln(1 + p / {})", config.rope.query_growth,
                                 config.rope.original_positions));
  }
  if (config.kv_sink) traits.emplace_back("a learned key and value in each layer");
  if (config.layer_norm) traits.emplace_back("layer norms with means and biases");
  if (config.zero_sink) traits.emplace_back("one more score of 0 in each softmax (softmax_one)");
  if (config.denoises_whole_canvas()) {
    traits.push_back(fmt::format("a canvas of {} positions denoised at once, in {} steps",
                                 config.noise->whole_canvas->length, config.noise->whole_canvas->steps));
  }
  if (config.noise) {
    traits.push_back(fmt::format("noise shift {:+g} (uniform above 0, masks below), log-SNR {:g} to {:g}",
                                 config.noise->uniform_shift, config.noise->min_log_snr,
                                 config.noise->max_log_snr));
  }
  if (config.canvas) {
    traits.push_back(fmt::format("canvases of {} positions, in {} passes at most", config.canvas->length,
                                 config.canvas->steps));
  }
  if (config.shares_keys) traits.emplace_back("values are keys in layers that do not slide");
  if (config.logit_soft_cap > 0)
    traits.push_back(fmt::format("logits capped at {:g}", config.logit_soft_cap));
  if (config.qkv_bias) traits.emplace_back("q, k, v biases");
  if (config.attn_output_bias) traits.emplace_back("attention output bias");
  return traits;
}

void print_shape(const Findings& findings, const Json& json) {
  const ModelConfig& config = findings.source.config;
  print_line("model", fmt::format("{} ({}{})", family_entry(config.family).name, config.architecture,
                                  config.plans_slots ? ", a ReFusion model" : ""));
  std::string parameters = human_count(count_parameters(config));
  if (config.has_experts())
    parameters += fmt::format(", {} per token", human_count(active_parameters(config)));
  print_line("parameters", parameters);
  print_line("layers", fmt::format("{} of width {}", config.num_layers, config.hidden_dim));
  print_line("attention",
             fmt::format("{}{}, {} heads of {}, {} K/V heads", attention_of(config), blocks_text(config),
                         config.num_heads, config.head_dim, config.num_kv_heads));
  if (config.sliding) {
    print_line(
        "sliding layers",
        fmt::format("{} of {}, over {} positions: {} K/V heads of {}, RoPE theta {:g}",
                    json["sliding"]["layers"].get<int64_t>(), config.num_layers, config.sliding->window,
                    config.sliding->num_kv_heads, config.sliding->head_dim, config.sliding->rope.theta));
  }
  print_line("feed-forward", feed_forward_text(config));
  print_line("vocabulary", fmt::format("{} rows{}", config.vocab_size,
                                       findings.tokenizer ? fmt::format(", the tokenizer names {}",
                                                                        findings.tokenizer->size())
                                                          : ""));
  print_line("positions", fmt::format("{}, RoPE theta {:g} on {} of {} dimensions, scaling {}",
                                      config.max_positions, config.rope.theta,
                                      config.rope.num_rotated_pairs > 0 ? 2 * config.rope.num_rotated_pairs
                                                                        : config.rotary_dim,
                                      config.head_dim, name_of(config.rope.scaling)));
  print_line("norms", fmt::format("epsilon {:g}, of q and k: {}", config.norm_eps,
                                  json["qk_norm"].get<std::string>()));
  const std::vector<std::string> traits = traits_of(config);
  if (!traits.empty()) print_line("traits", fmt::format("{}", fmt::join(traits, ", ")));
}

void print_memory(const Json& json, int64_t canvas) {
  if (const Json& memory = json["memory"]["run"]; !memory.is_null()) {
    const auto bytes = [&](const char* key) { return human_bytes(memory[key].get<int64_t>()); };
    print_line("memory", fmt::format("{} for a canvas of {}: weights {}, K/V {}, buffers of a pass {}",
                                     bytes("total_bytes"), canvas, bytes("weights_bytes"),
                                     bytes("kv_bytes_canvas"), bytes("buffer_bytes_canvas")));
  }
  if (json.contains("guide")) {
    const Json& guide = json["guide"];
    const auto bytes = [&](const char* key) { return human_bytes(guide[key].get<int64_t>()); };
    print_line("guide", fmt::format("{}, {} parameters, {}", guide["model"].get<std::string>(),
                                    human_count(guide["parameters"].get<int64_t>()),
                                    guide["shares_vocabulary"].get<bool>() ? "the same tokens"
                                                                           : "other tokens: reads the text"));
    std::string memory =
        fmt::format("{} for {} tokens: weights {}, K/V {}, buffers of a pass {}", bytes("total_bytes"),
                    canvas, bytes("weights_bytes"), bytes("kv_bytes_canvas"), bytes("buffer_bytes_canvas"));
    if (guide.contains("total_bytes_with_model")) {
      memory += fmt::format("; {} with the model", bytes("total_bytes_with_model"));
    }
    print_line("memory guide", memory);
  }
  for (const NamedWeightFormat& known : kWeightFormats) {
    const Json& memory = json["memory"][std::string(known.name)];
    print_line(fmt::format("memory {}", known.name),
               fmt::format("weights {}, K/V {} per token, {} for a canvas of {} ({} with --kv-cache int8)",
                           human_bytes(memory["weights_bytes"].get<int64_t>()),
                           human_bytes(memory["kv_bytes_per_token"].get<int64_t>()),
                           human_bytes(memory["kv_bytes_canvas"].get<int64_t>()), canvas,
                           human_bytes(memory["kv_int8_bytes_canvas"].get<int64_t>())));
  }
}

/// Prints special tokens and other settings of text.
void print_text_settings(const Findings& findings, const Json& json) {
  const ModelConfig& config = findings.source.config;
  const Json& tokens = json["special_tokens"];
  print_line("mask token", token_text(tokens["mask"]));
  print_line("end of text", token_text(tokens["eos"]));
  std::vector<std::string> ends;
  for (const Json& token : tokens["end"]) ends.push_back(token_text(token));
  print_line("answers end at", ends.empty() ? "none" : fmt::format("{}", fmt::join(ends, ", ")));
  const Json& chat = json["chat_template"];
  print_line("chat template",
             fmt::format("{}{}{}", safe_for_terminal(chat["source"].get<std::string>()),
                         chat.value("shows_tools", false) ? ", shows tools" : "",
                         chat["keywords"].empty() ? "" : ", with " + chat["keywords"].dump()));
  if (!json["default_unmask"].is_null()) {
    print_line("default --unmask", json["default_unmask"].get<std::string>());
  }
  if (!json["default_tokens_per_step"].is_null()) {
    print_line("default --tokens-per-step", std::to_string(json["default_tokens_per_step"].get<int32_t>()));
  }
  for (const Preset& preset : presets_of(config)) {
    print_line(fmt::format("preset {}", preset.name), describe(preset));
  }
  for (const SavedPreset& preset : findings.saved_presets) {
    const Certificate& of = preset.certificate;
    print_line(
        fmt::format("preset {}", preset.name),
        fmt::format("{} (tuned {}: {} at most {:.3g}, confidence {:.3g}, {} prompts)",
                    describe(all_settings(preset)), of.date, of.loss, of.risk, of.confidence, of.prompts));
  }
}

void print_report(const Findings& findings, const Json& json, int64_t canvas) {
  const ModelConfig& config = findings.source.config;
  print_shape(findings, json);
  print_memory(json, canvas);
  print_text_settings(findings, json);
  const Json& checkpoint = json["checkpoint"];
  print_line("checkpoint", checkpoint.is_null() ? "no weights here"
                                                : fmt::format("{} files, {} tensors, {}, mostly {}",
                                                              checkpoint["files"].get<int64_t>(),
                                                              checkpoint["tensors"].get<int64_t>(),
                                                              human_bytes(checkpoint["bytes"].get<int64_t>()),
                                                              checkpoint["dtype"].get<std::string>()));
  if (checkpoint.contains("panel_bytes")) print_packed(config, checkpoint["panel_bytes"]);
  print_line("instructions", default_table().name);
  for (const FormatSpeed& speed : faster_formats(default_table().name)) {
    print_line(fmt::format("faster {}", speed.weights), describe(speed));
  }
  print_line("devices", describe_devices());
  for (const std::string& warning : findings.warnings) print_line("warning", warning);
}

void inspect(const InspectFlags& flags) {
  const Findings findings = examine(flags);
  const Json json = report(findings, flags.canvas);
  if (flags.json) {
    print_data("{}\n", dump_json(json, 2));
  } else {
    print_report(findings, json, flags.canvas);
  }
}

}  // namespace

void add_inspect_command(CLI::App& program) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* command =
      program.add_subcommand("inspect", "Say what a checkpoint is and needs, without loading its weights");
  add_model_flag(*command, flags->model);
  command->add_option("--canvas", flags->canvas, "Tokens to predict the memory of a run for (default 1024)")
      ->check(CLI::Range(1, 1 << 20));
  add_guide_flag(*command, flags->guide);
  add_format_flags(*command, *flags);
  add_kv_cache_flag(*command, flags->kv_cache);
  add_activations_flag(*command, flags->activations);
  add_config_flags(*command, *flags);
  command->footer("Memory is predicted as `lacuna run` with the same flags will have it.");
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags] { inspect(*flags); });
}

}  // namespace lacuna
