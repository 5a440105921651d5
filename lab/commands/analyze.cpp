#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "commands.h"
#include "eval/evaluate.h"
#include "generation_flags.h"
#include "instruments/attention_mass.h"
#include "instruments/instruments.h"
#include "instruments/locality.h"
#include "instruments/lock.h"
#include "instruments/recall.h"
#include "loading.h"
#include "numbers.h"
#include "options/choose.h"
#include "options/parse_policies.h"
#include "progress_bar.h"
#include "terminal.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace lacuna {
namespace {

using Json = nlohmann::ordered_json;

struct AnalyzeFlags : GuidedModelFlags {
  std::optional<std::string> prompt;
  std::optional<std::string> task;
  TaskOptions task_options;
  std::optional<int32_t> prompt_length;
  std::optional<int32_t> samples;
  bool raw = false;
  bool json = false;
  std::string map;
  std::vector<int32_t> layers;
  GenerationOptions generation;
  // For `analyze recall` alone:
  RecallSettings recall;
  std::optional<int32_t> as_blocks;
  std::optional<TokenId> mask_token;
};

constexpr const char* kUsualLock = "eps=5e-4";

/// Models and threads of an instrument.
struct AnalyzedModels {
  const BackendModel& model;
  const BackendModel* guide;  ///< null: none
  ThreadPool& threads;
};

/// The map that --map and --layers select; empty without them. Throws InputError.
std::optional<MapSettings> map_settings(const AnalyzeFlags& flags, const ModelConfig& config) {
  std::optional<MapSettings> map;
  if (!flags.map.empty()) map = parse_map(flags.map);
  if (flags.layers.empty()) return map;
  if (!map || map->rows != MapAxis::kStep || !map->has_positions()) {
    throw InputError("--layers {}: expected with --map step,position alone", flags.layers.front());
  }
  for (const int32_t layer : flags.layers) {
    if (layer < 0 || layer >= config.num_layers) {
      throw InputError("--layers {}: expected 0 to {}, the layers of {}", layer, config.num_layers - 1,
                       flags.model);
    }
  }
  map->layers = flags.layers;
  return map;
}

struct InstrumentCommand {
  const char* name;
  const char* help;
  /// The rows of the report.
  Json (*measure)(const AnalyzeFlags&, const AnalyzedModels&, Requests, const AnalysisProgress&);
  bool is_mapped = false;               ///< takes --map
  bool compares_caches = false;         ///< for uniform diffusion
  bool tries_sparse_attention = false;  ///< for block diffusion
  bool tries_lock = false;              ///< for masked diffusion
  bool follows_every_decoder = false;   ///< supports autoregressive models and guides too
};

/// Calls Analyze(model, threads or --map if it takes them, requests, progress).
template <auto Analyze>
Json measure(const AnalyzeFlags& flags, const AnalyzedModels& models, Requests requests,
             const AnalysisProgress& progress) {
  using Function = decltype(Analyze);
  if constexpr (std::is_invocable_v<Function, const BackendModel&, Requests, const AnalysisProgress&>) {
    return to_json(Analyze(models.model, requests, progress));
  } else if constexpr (std::is_invocable_v<Function, const BackendModel&, ThreadPool&, Requests,
                                           const AnalysisProgress&>) {
    return to_json(Analyze(models.model, models.threads, requests, progress));
  } else {
    return to_json(Analyze(models.model, requests, map_settings(flags, models.model.config()), progress));
  }
}

Json measure_profile(const AnalyzeFlags& /*flags*/, const AnalyzedModels& models, Requests requests,
                     const AnalysisProgress& progress) {
  return to_json(analyze_profile(models.model, requests, models.guide, progress));
}

Json measure_recall(const AnalyzeFlags& flags, const AnalyzedModels& models, Requests requests,
                    const AnalysisProgress& progress) {
  return to_json(analyze_recall(models.model, models.threads, requests, flags.recall, progress));
}

Json measure_lock(const AnalyzeFlags& flags, const AnalyzedModels& models, Requests requests,
                  const AnalysisProgress& progress) {
  const SureLock settings = parse_lock(flags.generation.lock.value_or(kUsualLock));
  return to_json(analyze_lock(models.model, models.threads, requests, settings, kMaxLogits, progress),
                 flags.json);
}

Json measure_locality(const AnalyzeFlags& flags, const AnalyzedModels& models, Requests requests,
                      const AnalysisProgress& progress) {
  return to_json(analyze_locality(models.model, requests, flags.generation.seed.value_or(0), progress));
}

const std::vector<InstrumentCommand>& instruments() {
  static const std::vector<InstrumentCommand> all = {
      {.name = "drift",
       .help = "How far keys and values move from pass to pass, by region",
       .measure = measure<analyze_drift>,
       .is_mapped = true},
      {.name = "attention",
       .help = "What the block's queries attend to, by region",
       .measure = measure<analyze_attention>,
       .is_mapped = true},
      {.name = "entropy",
       .help = "How sure the model is of the block's tokens, by step",
       .measure = measure<analyze_entropy>},
      {.name = "changes", .help = "Tokens that change, by step", .measure = measure<analyze_changes>},
      {.name = "staleness",
       .help = "How far a GIDD model's cache is from what a full pass would hold, by region and age",
       .measure = measure<analyze_staleness>,
       .compares_caches = true},
      {.name = "profile",
       .help = "Where the time of the passes goes, by operation and kind of pass, with every decoder",
       .measure = measure_profile,
       .follows_every_decoder = true},
      {.name = "recall",
       .help = "How well prefix cells chosen for a block serve its rows and later steps, and how far its "
               "states move",
       .measure = measure_recall,
       .tries_sparse_attention = true},
      {.name = "lock",
       .help = "What SureLock's Theorem 1 assumes and bounds, for rows that --lock would take, on a run "
               "without a lock",
       .measure = measure_lock,
       .tries_lock = true},
      {.name = "locality",
       .help = "How far the knowledge of one token of an answer reaches, by distance and by the share that "
               "is masked",
       .measure = measure_locality},
  };
  return all;
}

// Requests.

constexpr uint64_t kPromptNoise = 32;  // noise stream of random prompts

/// The model's start token, if any, then tokens sampled uniformly from all except the mask.
std::vector<TokenId> random_prompt(const ModelConfig& config, int32_t length, uint64_t seed) {
  const bool has_mask = config.mask_id >= 0 && config.mask_id < config.vocab_size;
  const auto choices = static_cast<uint32_t>(config.vocab_size - (has_mask ? 1 : 0));
  const RngStream noise(seed, kPromptNoise);
  std::vector<TokenId> prompt;
  if (config.bos_id >= 0) prompt.push_back(config.bos_id);
  while (static_cast<int32_t>(prompt.size()) < length) {
    const auto token = static_cast<TokenId>(noise.below(prompt.size(), choices));
    prompt.push_back(token + (has_mask && token >= config.mask_id ? 1 : 0));
  }
  return prompt;
}

/// Turns the flags into requests, before any weights are read.
class RequestMaker {
 public:
  RequestMaker(const AnalyzeFlags& flags, const ModelSource& source) : flags_(flags), config_(source.config) {
    check_flags();
    if (has_tokenizer(source.folder)) {
      tokenizer_ = Tokenizer::load(source.folder);
      if (!flags.raw) template_ = load_chat_template(source.folder);
    }
    guide_ = find_guide(flags, {config_, tokenizer_ ? &*tokenizer_ : nullptr, template_});
  }

  /// Null: none.
  const GuideSource* guide() const { return guide_.get(); }

  std::vector<std::unique_ptr<Decoder>> make() const {
    std::vector<std::unique_ptr<Decoder>> requests;
    const int32_t count = flags_.prompt ? 1 : flags_.samples.value_or(4);
    requests.reserve(static_cast<size_t>(std::max(count, 0)));
    for (int32_t i = 0; i < count; ++i) {
      requests.push_back(make_request(static_cast<uint64_t>(i)));
    }
    return requests;
  }

 private:
  void check_flags() const {
    const int sources =
        flags_.prompt.has_value() + flags_.task.has_value() + flags_.prompt_length.has_value();
    if (sources > 1) {
      throw InputError("expected at most one of --prompt, --task and --prompt-length; found {}", sources);
    }
    const bool has_task = !flags_.prompt && !flags_.prompt_length;
    if (has_task) {
      check_options(find_task(task_name()), flags_.task_options);
    } else if (flags_.task_options.length) {
      throw InputError("--length {}: expected with --task alone", *flags_.task_options.length);
    }
    if (flags_.prompt && flags_.samples) {
      throw InputError("--samples {}: --prompt is one sample; expected --task or --prompt-length with it",
                       *flags_.samples);
    }
  }

  std::string task_name() const { return flags_.task.value_or("arithmetic"); }

  std::unique_ptr<Decoder> make_request(uint64_t index) const {
    const uint64_t seed = flags_.generation.seed.value_or(0);
    GenerationOptions options = flags_.generation;
    options.seed = seed + index;
    if (flags_.prompt_length) {
      return decoder(options, random_prompt(config_, *flags_.prompt_length, seed + index), {});
    }
    if (flags_.prompt) return decoder_of_turn(options, *flags_.prompt);
    const Task& task = find_task(task_name());
    const Sample sample = task.generate(Split::kTest, seed, index, flags_.task_options);
    return decoder_of_turn(with_length(options, task), sample.prompt);
  }

  std::unique_ptr<Decoder> decoder_of_turn(const GenerationOptions& options, const std::string& text) const {
    return decoder(options, encode(text), std::array{Message{"user", text}});
  }

  ///   messages  source of the prompt; empty: the prompt was given as tokens
  std::unique_ptr<Decoder> decoder(const GenerationOptions& options, std::vector<TokenId> prompt,
                                   std::span<const Message> messages) const {
    DecoderContext context;
    if (tokenizer_) context.end_of_turn = end_of_turn(*tokenizer_).value_or(-1);
    context.token_of = [this](std::string_view text) {
      return tokenizer_ ? tokenizer_->token_of(text) : std::nullopt;
    };
    if (guide_) context.guide = guide_->guide.context(prompt, messages);
    return make_decoder(config_, options, std::move(prompt), context);
  }

  std::vector<TokenId> encode(const std::string& text) const {
    if (!tokenizer_) {
      throw InputError("{} has no tokenizer; expected --prompt-length N, for prompts of random tokens",
                       flags_.model);
    }
    return render(template_, *tokenizer_, std::array{Message{"user", text}});
  }

  const AnalyzeFlags& flags_;
  const ModelConfig& config_;
  std::optional<Tokenizer> tokenizer_;
  ChatTemplate template_;
  std::unique_ptr<GuideSource> guide_;
};

// An autoregressive model as the control of block diffusion.

/// The mask of the model's tokenizer: --mask-token, or a known name of a mask token.
TokenId find_mask(const AnalyzeFlags& flags, const ModelSource& source) {
  if (flags.mask_token) {
    if (*flags.mask_token < 0 || *flags.mask_token >= source.config.vocab_size) {
      throw InputError("--mask-token {}: expected a token below {}, the vocabulary of {}", *flags.mask_token,
                       source.config.vocab_size, flags.model);
    }
    return *flags.mask_token;
  }
  if (source.config.mask_id >= 0) return source.config.mask_id;
  if (has_tokenizer(source.folder)) {
    const Tokenizer tokenizer = Tokenizer::load(source.folder);
    for (const char* name : {"<|mdm_mask|>", "<|MASK|>", "<|mask|>"}) {
      if (const std::optional<TokenId> id = tokenizer.id_of(name)) return *id;
    }
  }
  throw InputError("--as-blocks: {} has no mask token; expected --mask-token ID, one that it never reads",
                   flags.model);
}

/// Config that runs an autoregressive model's weights as a block-diffusion model.
ModelConfig as_blocks(const AnalyzeFlags& flags, const ModelSource& source) {
  ModelConfig config = source.config;
  if (!config.causal) {
    throw InputError(
        "--as-blocks {}: {} is not an autoregressive model; expected one (Qwen2, Qwen3, ReFusion)",
        *flags.as_blocks, flags.model);
  }
  config.mask_id = find_mask(flags, source);
  config.family = "sdar";
  config.causal = false;
  config.plans_slots = false;
  config.block_causal = true;
  config.block_length = *flags.as_blocks;
  return config;
}

ModelSource find_analyzed(const InstrumentCommand& instrument, const AnalyzeFlags& flags) {
  ModelSource source = find_model(flags);
  if (flags.mask_token && !flags.as_blocks) {
    throw InputError("--mask-token {}: expected with --as-blocks alone", *flags.mask_token);
  }
  if (flags.as_blocks) source.config = as_blocks(flags, source);
  const bool has_sparse = source.config.block_causal && !source.config.causal_context;
  if (instrument.tries_sparse_attention && !has_sparse) {
    throw InputError(
        "--model {}: expected a block-diffusion model (SDAR, Fast-dLLM v2, LLaDA 2), or --as-blocks N with "
        "an autoregressive one",
        flags.model);
  }
  const std::string sparse = flags.generation.sparse.value_or("exact");
  if (instrument.tries_sparse_attention && sparse != "exact") {
    throw InputError("--sparse {}: analyze recall attends to all cells, and compares all policies with that",
                     sparse);
  }
  return source;
}

// Reports.

std::string as_cell(const Json& value) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>();
  return value.is_number_float() ? fmt::format("{:.5g}", value.get<double>()) : value.dump();
}

using TableLine = std::vector<std::string>;

std::vector<std::string> keys_of(const Json& row) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : row.items()) keys.push_back(key);
  return keys;
}

/// Prints lines of equal cell counts: words left-aligned, numbers right-aligned.
void print_table(const std::vector<TableLine>& lines, const std::vector<bool>& is_text) {
  std::vector<size_t> widths(is_text.size(), 0);
  for (const TableLine& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  for (const TableLine& line : lines) {
    std::string text;
    for (size_t i = 0; i < line.size(); ++i) {
      if (i > 0) text += "  ";
      text +=
          is_text[i] ? fmt::format("{:<{}}", line[i], widths[i]) : fmt::format("{:>{}}", line[i], widths[i]);
    }
    print_text("{}\n", text);
  }
}

/// One table for each kind of row, with an empty line between them.
void print_report(const Json& rows) {
  std::vector<TableLine> lines;
  std::vector<bool> is_text;
  std::vector<std::string> keys;
  for (const Json& row : rows) {
    if (keys_of(row) != keys) {
      print_table(lines, is_text);
      if (!lines.empty()) print_text("\n");
      keys = keys_of(row);
      lines = {keys};
      is_text.clear();
      for (const std::string& key : keys) is_text.push_back(row[key].is_string());
    }
    TableLine& line = lines.emplace_back();
    for (const std::string& key : keys) line.push_back(as_cell(row[key]));
  }
  print_table(lines, is_text);
}

void print_json_lines(const InstrumentCommand& instrument, const AnalyzeFlags& flags, const Json& rows) {
  for (const Json& row : rows) {
    Json line{{"instrument", instrument.name}, {"model", flags.model}};
    line.update(row);
    print_data("{}\n", line.dump());
  }
}

/// The flags without the lock, for `analyze lock`: no row may be locked, skipped or guided.
AnalyzeFlags without_lock(const AnalyzeFlags& flags, const ModelSource& source) {
  const std::string cache = flags.generation.cache.value_or("none");
  if (cache != "none") {
    throw InputError("--cache {}: Theorem 1 compares with a run that computes every row; expected none",
                     cache);
  }
  if (flags.generation.cfg_scale.value_or(0) != 0) {
    throw InputError("--cfg-scale {}: analyze lock reads logits without guidance; expected 0",
                     *flags.generation.cfg_scale);
  }
  AnalyzeFlags changed = flags;
  changed.generation.lock = flags.generation.lock.value_or(kUsualLock);
  RequestMaker(changed, source).make();  // throws for families without a lock, and for bad settings
  changed.generation.lock.reset();
  return changed;
}

/// The rows of the report.
Json run_instrument(const InstrumentCommand& instrument, const AnalyzeFlags& flags) {
  refuse_shard(flags, "analyze");
  const ModelSource source = find_analyzed(instrument, flags);
  const AnalyzeFlags run = instrument.tries_lock ? without_lock(flags, source) : flags;
  map_settings(flags, source.config);
  const RequestMaker maker(run, source);
  const std::vector<std::unique_ptr<Decoder>> requests = maker.make();
  if (!instrument.follows_every_decoder) expect_blocks(source.config);
  if (instrument.compares_caches) expect_uncached_plan(*requests.front());
  const LoadedModel loaded = load_model(flags, source);
  const std::shared_ptr<const BackendModel> guide = load_guide(flags, maker.guide(), loaded);
  ProgressBar bar("Analyzing");
  return instrument.measure(flags, {*loaded.model, guide.get(), loaded.device->threads()}, requests,
                            [&](int32_t done) { bar.update(done, static_cast<int64_t>(requests.size())); });
}

void analyze(const InstrumentCommand& instrument, const AnalyzeFlags& flags) {
  if (!flags.map.empty() && !flags.json) throw InputError("--map {}: expected with --json", flags.map);
  const Json rows = run_instrument(instrument, flags);
  if (flags.json) return print_json_lines(instrument, flags, rows);
  if (flags.map.empty()) print_report(rows);
}

void add_recall_flags(CLI::App& command, AnalyzeFlags& flags) {
  const auto add = [&](const char* names, auto& field, const char* help) {
    return command.add_option(names, field, help)->group("Recall");
  };
  add("--budgets", flags.recall.budgets,
      "Cells of each layer and kv head that are chosen, ascending (default 64,128,256)")
      ->delimiter(',')
      ->expected(1, 64)
      ->check(number<int32_t>());
  add("--page", flags.recall.page_size, "Cells of a page of Quest (default 16)")
      ->check(CLI::Range(1, 1 << 16));
  add("--as-blocks", flags.as_blocks,
      "Control experiment: run an autoregressive model as block diffusion with blocks of this many positions")
      ->check(CLI::Range(1, 1 << 16));
  add("--mask-token", flags.mask_token,
      "--as-blocks: the token that stands for a mask (default: the tokenizer's)")
      ->check(number<TokenId>());
}

void add_map_flags(CLI::App& command, AnalyzeFlags& flags) {
  command
      .add_option(
          "--map", flags.map,
          "Cells of a heat map (--json) by step,layer, step,position or layer,position: rows, then columns")
      ->group("Output");
  command
      .add_option("--layers", flags.layers,
                  "--map step,position: layers that get a panel each, L,L,... (default: one, their mean)")
      ->delimiter(',')
      ->check(number<int32_t>())
      ->group("Output");
}

void add_instrument(const InstrumentCommand& instrument, CLI::App& parent) {
  auto flags = std::make_shared<AnalyzeFlags>();
  CLI::App* command = parent.add_subcommand(instrument.name, instrument.help);
  add_model_flags(*command, *flags);
  const auto add = [&](const char* names, auto& field, const std::string& help) {
    return command->add_option(names, field, help)->group("Requests");
  };
  add("-p,--prompt", flags->prompt, "Text of the user's turn");
  add("--task", flags->task, task_names() + " (default arithmetic)");
  add("--length", flags->task_options.length,
      fmt::format("Tokens of a prompt of retrieval, {} to {} (default {})", kMinLength, kMaxLength,
                  kDefaultLength));
  add("--prompt-length", flags->prompt_length, "Random tokens of each prompt, for models without a tokenizer")
      ->check(CLI::Range(1, 1 << 20));
  add("--samples", flags->samples,
      "Samples of the task's test split, or random prompts (default 4); they run one by one")
      ->check(CLI::Range(1, 1'000'000));
  command->add_flag("--raw", flags->raw, "Apply no chat template")->group("Requests");
  add_generation_flags(*command, flags->generation);
  if (instrument.tries_sparse_attention) add_recall_flags(*command, *flags);
  if (instrument.follows_every_decoder) add_guide_flag(*command, flags->guide);
  command->add_flag("--json", flags->json, "Print one JSON object per row")->group("Output");
  if (instrument.is_mapped) add_map_flags(*command, *flags);
  command->footer(
      "The seed chooses the samples, and sample i is generated with seed + i. "
      "`python3 tools/results draw FIGURE.svg` draws what --json prints.");
  command->callback([flags, &instrument] { analyze(instrument, *flags); });
}

}  // namespace

void add_analyze_command(CLI::App& program) {
  CLI::App* command =
      program.add_subcommand("analyze", "Look inside a diffusion model while it denoises its blocks");
  command->require_subcommand(1);
  for (const InstrumentCommand& instrument : instruments()) add_instrument(instrument, *command);
}

}  // namespace lacuna
