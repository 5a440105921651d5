#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/rng.h"
#include "bench/machine.h"
#include "commands.h"
#include "engine/preset_use.h"
#include "engine/tuned_formats.h"
#include "eval/tuning.h"
#include "evaluation.h"
#include "generation_flags.h"
#include "input.h"
#include "kernels/dispatch.h"
#include "lacuna/version.h"
#include "loading.h"
#include "model/fingerprint.h"
#include "numbers.h"
#include "progress_bar.h"
#include "terminal.h"
#include "tune_report.h"

namespace lacuna {
namespace {

constexpr int32_t kMaxSamples = 1'000'000;

struct TuneFlags : GuidedModelFlags {
  std::string task;
  TaskOptions task_options;
  std::string prompts_file;
  std::string system;
  bool raw = false;
  std::string loss = "changed-answer";
  std::string judge;     ///< empty: none
  double gflops = 0;     ///< 0: measured
  double gigabytes = 0;  ///< 0: measured
  Promise promise;
  std::vector<std::string> methods = {"all"};
  std::string budget;
  std::optional<int32_t> samples;
  int32_t batch = 8;
  std::string save;
  bool json = false;
  GenerationOptions generation;
};

/// Parses "20m", "90s" or "1.5h" into seconds.
double parse_duration(const std::string& text) {
  const std::string number = text.empty() ? text : text.substr(0, text.size() - 1);
  const char unit = text.empty() ? ' ' : text.back();
  const double scale = unit == 's' ? 1 : unit == 'm' ? 60 : unit == 'h' ? 3600 : 0;
  const std::optional<double> value = parse_number<double>(number);
  if (scale == 0 || !value || !(*value > 0) || !(*value * scale <= 1e9)) {
    throw InputError("--budget is '{}'; expected a time such as 90s, 20m or 1.5h", text);
  }
  return *value * scale;
}

TuningLoss parse_loss(const TuneFlags& flags) {
  const std::optional<TuningLoss> loss = tuning_loss_named(flags.loss);
  expects(loss.has_value(), "the command line takes no other losses");
  if (*loss == TuningLoss::kJudge && flags.judge.empty()) {
    throw InputError("--loss judge needs --judge, an autoregressive model with the same tokenizer");
  }
  if (*loss != TuningLoss::kJudge && !flags.judge.empty()) {
    throw InputError("--judge has no effect here: it belongs to --loss judge");
  }
  if (*loss == TuningLoss::kWrongAnswer && flags.task.empty()) {
    throw InputError(
        "--loss wrong-answer needs answers that are known to be correct; expected --task, or another --loss "
        "for --prompts-file");
  }
  return *loss;
}

void check_flags(const TuneFlags& flags) {
  if (flags.task.empty() == flags.prompts_file.empty()) {
    throw InputError("expected one of --task and --prompts-file");
  }
  if (flags.generation.preset) {
    throw InputError("--preset has no effect here: tune chooses the settings that it would set");
  }
  if (!flags.save.empty() && !is_preset_name(flags.save)) {
    throw InputError(
        "--save is '{}'; expected a name of up to 64 lower-case letters, digits, '.', '_' and '-', and not "
        "exact, balanced or fast",
        flags.save);
  }
  if (!flags.task.empty()) check_options(find_task(flags.task), flags.task_options);
  const bool has_task_options =
      flags.task_options.length || flags.task_options.depth || flags.task_options.difficulty;
  if (flags.task.empty() && has_task_options) {
    throw InputError("--length, --depth and --difficulty have no effect here: they belong to --task");
  }
}

/// The prompts in the order of their use, and a name for them.
struct TuningPrompts {
  std::string name;
  std::vector<TuningPrompt> prompts;
  std::string hash;  ///< hash of all prompts, including those that are not used
};

std::vector<Message> with_system(const TuneFlags& flags, std::vector<Message> messages) {
  if (!flags.system.empty()) messages.insert(messages.begin(), Message{"system", flags.system});
  return messages;
}

std::vector<Message> messages_of_line(const nlohmann::json& json, const std::string& place) {
  if (json.is_object() && json.contains("prompt") && json["prompt"].is_string()) {
    return {{"user", json["prompt"].get<std::string>()}};
  }
  if (!json.is_object() || !json.contains("messages") || !json["messages"].is_array() ||
      json["messages"].empty()) {
    throw InputError("{}: expected \"prompt\" (text) or \"messages\" (a list of role and content)", place);
  }
  std::vector<Message> messages;
  for (const nlohmann::json& message : json["messages"]) {
    const JsonObject object(message, place);
    messages.push_back({object.text("role"), object.text("content")});
  }
  return messages;
}

TuningPrompts read_prompts_file(const TuneFlags& flags) {
  TuningPrompts prompts{flags.prompts_file, {}, {}};
  const std::string text = read_file(flags.prompts_file);
  std::istringstream stream(text);
  std::string line;
  for (int number = 1; std::getline(stream, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string place = fmt::format("{}, line {}", flags.prompts_file, number);
    if (std::ssize(prompts.prompts) == kMaxSamples)
      throw InputError("{}: more than {} prompts", place, kMaxSamples);
    prompts.prompts.push_back({with_system(flags, messages_of_line(parse_json(line, place), place))});
  }
  if (prompts.prompts.empty()) throw InputError("{}: holds no prompt", flags.prompts_file);
  // Shuffled, because files are often sorted by topic: race and certification need similar prompts.
  std::vector<TuningPrompt>& all = prompts.prompts;
  const RngStream random(flags.generation.seed.value_or(0), 0);
  for (size_t i = all.size(); i > 1; --i) {
    const auto other = static_cast<size_t>(random.uniform(i) * static_cast<double>(i));
    std::swap(all[i - 1], all[std::min(other, i - 1)]);
  }
  Fnv1a hash;
  hash.add_piece(text);
  prompts.hash = hash.text();
  return prompts;
}

TuningPrompts make_prompts(const TuneFlags& flags) {
  if (flags.task.empty()) {
    TuningPrompts prompts = read_prompts_file(flags);
    if (flags.samples && *flags.samples < std::ssize(prompts.prompts)) {
      prompts.prompts.resize(static_cast<size_t>(*flags.samples));
    }
    return prompts;
  }
  const Task& task = find_task(flags.task);
  TuningPrompts prompts{"task " + flags.task, {}, {}};
  const uint64_t seed = flags.generation.seed.value_or(0);
  const int32_t samples = flags.samples.value_or(usual_prompts(flags.promise));
  for (int32_t i = 0; i < samples; ++i) {
    Sample sample = task.generate(Split::kTest, seed, static_cast<uint64_t>(i), flags.task_options);
    if (sample.hole > 0)
      throw InputError("--task {}: answers of this task fill holes; expected another task", task.name);
    prompts.prompts.push_back({with_system(flags, messages_of(sample)), std::move(sample)});
  }
  nlohmann::ordered_json options = nlohmann::ordered_json::object();
  add_options(flags.task_options, options);
  Fnv1a hash;
  hash.add_piece(fmt::format("{} {} {}", task.name, seed, options.dump()));
  prompts.hash = hash.text();
  return prompts;
}

std::vector<TuningPath> choose_paths(const TuneFlags& flags, const GenerationOptions& asked,
                                     const OpenedModel& opened) {
  const GuideSource* const guide = opened.guide();
  std::vector<TuningPath> paths = tuning_paths(opened.config(), asked, guide != nullptr);
  if (opened.config().paradigm() != Paradigm::kCausal && !flags.is_sharded()) {
    for (TuningPath& path : format_paths(flags, opened.source(), guide != nullptr ? &guide->source : nullptr))
      paths.push_back(std::move(path));
  }
  if (paths.empty()) {
    throw InputError(
        "{}: there is no method to tune; expected a diffusion model, and flags that do not fix every method",
        flags.model);
  }
  const std::vector<std::string> known = methods_of(paths);
  const auto is_wanted = [&](const std::string& name) {
    return std::find(flags.methods.begin(), flags.methods.end(), name) != flags.methods.end();
  };
  for (const std::string& method : flags.methods) {
    if (method == "all" || std::find(known.begin(), known.end(), method) != known.end()) continue;
    throw InputError("--methods '{}' is not a method that can be tuned here; expected all or some of {}",
                     method, fmt::join(known, ", "));
  }
  if (!is_wanted("all")) {
    std::erase_if(paths, [&](const TuningPath& path) { return !is_wanted(path.method); });
  }
  return paths;
}

/// The log file for a model, set of prompts and flags.
std::filesystem::path log_file(const std::string& key) {
  const auto folder = [](const char* variable) {
    const char* const value = std::getenv(variable);
    return std::filesystem::path(value == nullptr ? "" : value);
  };
  std::filesystem::path cache = folder("XDG_CACHE_HOME");
  if (!cache.is_absolute() && folder("HOME").is_absolute()) cache = folder("HOME") / ".cache";
  return cache.is_absolute() ? cache / "lacuna" / "tune" / (key + ".jsonl") : std::filesystem::path();
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm date{};
  gmtime_r(&now, &date);
  return fmt::format("{:04}-{:02}-{:02}", date.tm_year + 1900, date.tm_mon + 1, date.tm_mday);
}

/// The flags that load the model for a setting.
TuneFlags with_loading(TuneFlags flags, std::span<const TuningSetting> loading) {
  static_cast<FormatNames&>(flags) = with_formats(flags, loading);
  return flags;
}

/// Speeds from the flags, else from the log, else measured and logged, so that a resumed tuning uses the
/// same. The measurement reads the weights' amount of memory: small weights stay in the caches.
MachinePeaks machine_peaks(const TuneFlags& flags, const OpenedModel& opened, TuningLog& log) {
  MachinePeaks peaks{flags.gflops * 1e9, flags.gigabytes * 1e9};
  if (peaks.flops > 0 && peaks.bandwidth > 0) return peaks;
  if (!log.peaks()) {
    const auto as_printed = [](double value) { return std::stod(fmt::format("{:.3g}", value)); };
    const WeightFormats formats = weight_formats(flags, opened.source());
    const auto threads = make_threads(flags.threads, flags.pin);
    constexpr int64_t kPart = int64_t{1} << 22;  // bytes that one thread reads at a time
    constexpr int64_t kMax = int64_t{1} << 30;
    const int64_t weights = predict_run_memory(opened.source(), formats, 1).weights;
    const int64_t bytes = std::clamp(weights / kPart * kPart, kPart * threads->size(), kMax);
    log.set_peaks({as_printed(measure_peak_flops(*threads, default_table().name, formats.dtype)),
                   as_printed(measure_read_bandwidth(*threads, bytes))});
  }
  if (peaks.flops <= 0) peaks.flops = log.peaks()->flops;
  if (peaks.bandwidth <= 0) peaks.bandwidth = log.peaks()->bandwidth;
  return peaks;
}

/// Settings of `options` that are not in `given`.
std::vector<TuningSetting> added_settings(const GenerationOptions& options,
                                          const std::vector<TuningSetting>& given) {
  std::vector<TuningSetting> added;
  for (const TuningSetting& setting : given_settings(options)) {
    if (std::find(given.begin(), given.end(), setting) == given.end()) added.push_back(setting);
  }
  return added;
}

/// The preset that saves a chosen setting.
SavedPreset make_preset(const TuneFlags& flags, const OpenedModel& opened, const TuningPrompts& prompts,
                        const TuningReport& report) {
  const TuningPlan& plan = report.plan;
  const TunedCandidate& chosen = report.result.tested[*report.result.chosen];
  SavedPreset preset;
  preset.name = flags.save;
  GenerationOptions asked = plan.asked;
  asked.seed.reset();
  preset.tested_with = given_settings(asked);
  const auto options = tuned_options(opened.config(), asked, plan.paths, chosen.levels);
  preset.settings = added_settings(*options, preset.tested_with);  // including those that the baseline sets
  preset.model = flags.model;
  preset.model_hash = model_hash(opened.source(), opened.name());
  if (chosen.is_guided) {
    preset.guide = flags.guide;
    preset.guide_hash = model_hash(opened.guide()->source, opened.guide()->model);
  }
  preset.loading = loading_of(plan.paths, chosen.levels);
  preset.formats = preset_formats(weight_formats(with_loading(flags, preset.loading), opened.source()));
  preset.baseline_formats = preset_formats(weight_formats(flags, opened.source()));
  Certificate& certificate = preset.certificate;
  certificate.loss = name_of(plan.loss);
  certificate.risk = plan.promise.risk;
  certificate.confidence = plan.promise.confidence;
  certificate.bound = chosen.bound;
  certificate.prompts = chosen.sum.prompts;
  certificate.losses = chosen.sum.losses;
  certificate.prompts_name = prompts.name;
  certificate.prompts_hash = prompts.hash;
  certificate.peak_flops = plan.peaks.flops;
  certificate.peak_bandwidth = plan.peaks.bandwidth;
  certificate.predicted_ratio = chosen.ratios.predicted;
  certificate.flops_ratio = chosen.ratios.flops;
  certificate.rows_ratio = chosen.ratios.rows;
  certificate.seconds_ratio = chosen.ratios.seconds;
  certificate.date = today();
  certificate.version = LACUNA_VERSION;
  return preset;
}

/// Key of the runs with these flags: equal keys mean equal answers.
std::string log_key(const TuneFlags& flags, const OpenedModel& opened, const TuningPrompts& prompts,
                    const GenerationOptions& asked) {
  Fnv1a key;
  key.add_piece(LACUNA_VERSION);
  key.add_piece(default_table().name);  // instruction sets round differently
  key.add_piece(model_hash(opened.source(), opened.name()) + std::to_string(flags.random_seed));
  if (opened.guide() != nullptr) key.add_piece(model_hash(opened.guide()->source, opened.guide()->model));
  const PresetFormats formats = preset_formats(weight_formats(flags, opened.source()));
  for (const std::string& format :
       {formats.dtype, formats.weights, formats.head_weights, formats.kv_cache, formats.activations}) {
    key.add_piece(format);
  }
  if (!flags.judge.empty())
    key.add_piece(model_hash(find_model(flags.judge, choices_of_other_models(flags)), flags.judge));
  key.add_piece(fmt::format("{} {} {}", prompts.hash, flags.raw, flags.rope_scale));
  key.add_piece(flags.system);
  key.add_piece(given_options(asked).dump());
  return key.text();
}

TuningModels tuning_models(const TuneFlags& flags, const OpenedModel& opened, const GuideSource* judge) {
  TuningModels models;
  models.load = [&flags, &opened](std::span<const TuningSetting> loading) {
    const TuneFlags own = with_loading(flags, loading);
    const LoadedModel loaded = load_model(own, opened.source());
    return InferenceSession::Parts{loaded.model, load_guide(own, opened.guide(), loaded)};
  };
  if (judge != nullptr) {
    models.judge = &judge->guide;
    models.judge_model = load_guide(
        flags, judge, {nullptr, nullptr, std::make_shared<const CpuDevice>(flags.threads, flags.pin)});
  }
  return models;
}

void tune(const TuneFlags& flags) {
  check_flags(flags);
  TuningReport report;
  report.plan.loss = parse_loss(flags);
  report.plan.promise = flags.promise;
  report.plan.promise.kind = kind_of(report.plan.loss);
  if (!flags.budget.empty()) report.plan.budget_seconds = parse_duration(flags.budget);
  const TuningPrompts prompts = make_prompts(flags);
  report.plan.prompts = static_cast<int32_t>(prompts.prompts.size());
  split_prompts(report.plan.promise, report.plan.prompts);  // throws for too few before weights are read

  const std::shared_ptr<const OpenedModel> opened = open_model(flags, TemplateFlags{.raw = flags.raw});
  if (opened->tokenizer() == nullptr) throw InputError("{} has no tokenizer; prompts are texts", flags.model);
  report.plan.asked = flags.generation;
  if (!flags.task.empty()) {
    report.plan.asked = with_length(flags.generation, find_task(flags.task), flags.task_options);
  }
  report.plan.paths = choose_paths(flags, report.plan.asked, *opened);
  const std::unique_ptr<GuideSource> judge =
      find_judge(flags.judge, flags, {opened->config(), opened->tokenizer(), opened->chat_template()}, false);
  TuningLog log(log_file(log_key(flags, *opened, prompts, report.plan.asked)), report.plan.prompts);
  const Checker check = flags.task.empty() ? Checker() : Checker(find_task(flags.task).check);
  report.plan.peaks = machine_peaks(flags, *opened, log);
  TuningRuns runs(*opened, tuning_models(flags, *opened, judge.get()), prompts.prompts, check, flags.batch,
                  report.plan.loss, log);
  ProgressBar bar("Tuning");
  report.result = tune(report.plan, runs, log, [&](const char* phase, int64_t done, int64_t total) {
    bar.update(total > 0 ? done : 0, std::max<int64_t>(total, 1),
               total > 0 ? std::string(phase) : fmt::format("{}: {} runs", phase, done));
  });
  bar.clear();
  report.model = flags.model;
  report.guide = flags.guide;
  report.baseline = describe(added_settings(baseline_options(opened->config(), report.plan.asked),
                                            given_settings(report.plan.asked)));
  report.prompts_name = prompts.name;
  report.has_checker = !flags.task.empty();
  if (!flags.save.empty() && report.result.chosen) {
    report.saved_to = save_preset(make_preset(flags, *opened, prompts, report));
    report.saved_as = flags.save;
  }
  if (flags.json) {
    print_data("{}\n", to_json(report).dump());
  } else {
    print_report(report);
  }
}

}  // namespace

void add_tune_command(CLI::App& program) {
  auto flags = std::make_shared<TuneFlags>();
  CLI::App* command = program.add_subcommand(
      "tune", "Find the fastest setting that changes at most a promised share of your answers");
  add_model_flags(*command, *flags);
  add_guide_flag(*command, flags->guide);
  const auto add = [&](const char* name, auto& field, const char* help) {
    return command->add_option(name, field, help)->group("Promise");
  };
  add("--risk", flags->promise.risk, "Mean loss that is allowed, above 0 and below 1 (default 0.02)")
      ->check(number_in<double>(1e-6, 0.999));
  add("--confidence", flags->promise.confidence,
      "Probability that the promise holds, above 0 and below 1 (default 0.9)")
      ->check(number_in<double>(0.001, 0.999999));
  add("--loss", flags->loss, "Measure of harm: changed-answer (default), wrong-answer, token, kl or judge")
      ->check(CLI::IsMember({"changed-answer", "wrong-answer", "token", "kl", "judge"}));
  add("--judge", flags->judge, "An autoregressive model with the same tokenizer, for --loss judge");
  add("--methods", flags->methods, "Methods to choose among, such as cache,lock (default: all of the family)")
      ->delimiter(',');
  add("--gflops", flags->gflops,
      "GFLOP/s of the machine that settings are compared for (default: measured here)")
      ->check(CLI::Range(0.1, 1e9));
  add("--bandwidth", flags->gigabytes, "GB/s of its memory (default: measured here)")
      ->check(CLI::Range(0.1, 1e6));
  add("--budget", flags->budget, "Time that the runs may take, as 90s, 20m or 1.5h (default: no limit)");
  add("--save", flags->save, "Keep the chosen setting as a preset of this name");
  command->add_option("--task", flags->task, task_names())->group("Task");
  add_task_option_flags(*command, flags->task_options);
  command
      ->add_option("--prompts-file", flags->prompts_file,
                   "JSON lines with \"prompt\" or \"messages\": prompts of the kind that you will ask")
      ->group("Task");
  command
      ->add_option("--samples", flags->samples,
                   "Prompts to use (default: all of the file; of a task, four times as many as needed)")
      ->check(CLI::Range(1, kMaxSamples))
      ->group("Task");
  command->add_option("--batch", flags->batch, "Prompts that share each forward pass (default 8)")
      ->check(CLI::Range(1, 4096))
      ->group("Task");
  command->add_option("--system", flags->system, "System turn before each prompt")->group("Task");
  command->add_flag("--raw", flags->raw, "Apply no chat template")->group("Task");
  add_generation_flags(*command, flags->generation);
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->footer(
      "Flags of generation are the same in the baseline and in every setting. docs/guide/tune.md.");
  command->callback([flags] { tune(*flags); });
}

}  // namespace lacuna
