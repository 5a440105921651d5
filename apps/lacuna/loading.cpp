#include "loading.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "backend/cpu/cpu_backend.h"
#include "base/affinity.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/gguf.h"
#include "base/threads.h"
#include "decode/setting_error.h"
#include "engine/preset_use.h"
#include "kernels/dispatch.h"
#include "model/adapters.h"
#include "model/locate.h"
#include "model/read_config.h"
#include "options/choose.h"
#include "packed_copy.h"
#include "progress_bar.h"
#include "sharding.h"
#include "terminal.h"
#include "tokenizer/json_file.h"

namespace lacuna {
namespace {

std::shared_ptr<const Model> load_weights(const ModelFlags& flags, const ModelSource& source,
                                          ThreadPool& threads) {
  const WeightFormats formats = weight_formats(flags, source);
  ProgressBar bar("Loading " + flags.model);
  const LoadProgress progress = [&](int64_t done, int64_t total) { bar.update(done, total); };
  if (source.folder.empty()) {
    return Model::random(source.config, flags.random_seed, formats, threads, progress);
  }
  if (!flags.pack_cache.empty() && !source.config.packed_for) {
    const std::filesystem::path copy = cached_copy(flags.pack_cache, source, formats);
    if (ensure_cached_copy(copy, source, formats, threads)) {
      ModelConfig config = source.config;
      config.adapters.clear();  // the copy has them in its weights
      return Model::load(copy, config, formats, threads, progress);
    }
  }
  return Model::load(source.folder, source.config, formats, threads, progress);
}

void check_download(const ModelSource& source) {
  if (!GgufFile::is_gguf(source.folder)) require_whole_download(source.folder);
}

/// Throws InputError if the download is incomplete or memory does not suffice.
void check_weights(const ModelFlags& flags, const ModelSource& source) {
  check_download(source);
  if (flags.ignore_memory) return;
  in_flags([&] { check_memory(flags.model, source, weight_formats(flags, source)); });
}

}  // namespace

std::unique_ptr<ThreadPool> make_threads(int threads, bool pin) {
  auto pool = std::make_unique<ThreadPool>(threads);
  if (pin) pin_workers(*pool);
  return pool;
}

void report_busy_cores(int threads) {
  if (isatty(STDERR_FILENO) == 0) return;
  const int cores = num_usable_cores();
  if (threads == 0) threads = cores;
  const int busy = num_busy_threads();
  const int all_cores = static_cast<int>(std::thread::hardware_concurrency());
  if (busy == 0 || busy + threads <= all_cores) return;
  print_message(
      "lacuna: other programs compute with {} threads, and this one with {}, on {} cores: all take longer, "
      "and "
      "times vary; -t N leaves the others their share\n",
      busy, threads, all_cores);
}

ModelSource find_model(const ModelFlags& flags) {
  ModelSource source = find_model_quietly(flags);
  const std::string warning = warning_of(source.config, source.folder);
  if (!warning.empty()) print_message("lacuna: {}\n", warning);
  return source;
}

ModelSource find_model_quietly(const ModelFlags& flags) {
  ModelSource source = find_model(flags.model, config_choices(flags));
  for (const std::string& note : use_adapters(source, flags.adapters, "--lora"))
    print_message("lacuna: {}\n", note);
  if (flags.rope_scale <= 1) return source;
  ModelConfig& config = source.config;
  scale_rope(config.rope, flags.rope_scale, config.rotary_dim);
  config.max_positions = static_cast<int64_t>(static_cast<double>(config.max_positions) * flags.rope_scale);
  return source;
}

namespace {

/// Loads a main model or a guide on a device other than the CPU.
std::shared_ptr<const BackendModel> load_on_device(const ModelFlags& flags, const ModelSource& source,
                                                   const LoadedModel& on) {
  ProgressBar bar("Loading " + flags.model);
  const LoadProgress progress = [&](int64_t done, int64_t total) { bar.update(done, total); };
  return load_on({on.device, on.cuda}, source.folder, source.config, weight_formats(flags, source),
                 flags.random_seed, progress);
}

}  // namespace

std::string weights_version(const ModelFlags& flags, const ModelSource& source) {
  if (source.folder.empty()) return fmt::format("random-{}", flags.random_seed);
  return fingerprint_of(source.folder, source.config.adapters);
}

LoadedModel load_model(const ModelFlags& flags, const ModelSource& source) {
  const Stopwatch clock;
  const DeviceName device = device_named(flags.device);
  check_shard_flags(flags);
  if (!flags.pack_cache.empty()) {
    if (device.kind != DeviceName::Kind::kCpu)
      throw InputError("--device is {}; expected cpu with --pack-cache, whose copies have its layout",
                       flags.device);
    refuse_shard(flags, "--pack-cache");
  }
  LoadedModel loaded;
  if (flags.is_sharded()) {
    require_cpu(flags, "--shard");
    check_download(source);  // memory is checked later, by all ranks together
    loaded = load_on_ranks(flags, source);
  } else if (device.kind != DeviceName::Kind::kCpu) {
    check_weights(flags, source);
    loaded.device = std::make_shared<const CpuDevice>(flags.threads, flags.pin);
    loaded.cuda = open_device(device, loaded.device).cuda;
    loaded.model = load_on_device(flags, source, loaded);
  } else {
    check_weights(flags, source);
    loaded.device = std::make_shared<const CpuDevice>(flags.threads, flags.pin);
    loaded.weights = load_weights(flags, source, loaded.device->threads());
    loaded.model = on_cpu(loaded.weights, loaded.device);
  }
  loaded.load_seconds = clock.seconds();
  return loaded;
}

std::unique_ptr<GuideSource> find_guide(const GuidedModelFlags& flags, const TextModel& main) {
  if (flags.guide.empty()) return nullptr;
  return std::make_unique<GuideSource>(flags.guide, main, "--guide", choices_of_other_models(flags));
}

std::unique_ptr<GuideSource> find_judge(const std::string& model, const ModelFlags& flags,
                                        const TextModel& main, bool reads_text) {
  if (model.empty()) return nullptr;
  const ConfigChoices choices = choices_of_other_models(flags);
  if (!has_tokenizer(find_model(model, choices).folder)) {
    throw InputError("--judge {}: has no tokenizer; expected one, because it reads what another model wrote",
                     model);
  }
  auto judge = std::make_unique<GuideSource>(model, main, "--judge", choices);
  if (!reads_text && !judge->guide.shares_vocabulary()) {
    throw InputError(
        "--judge {}: its tokens are not those of the model that it judges; expected the same tokenizer",
        model);
  }
  return judge;
}

std::shared_ptr<const BackendModel> load_guide(const ModelFlags& flags, const GuideSource* guide,
                                               const LoadedModel& main) {
  if (guide == nullptr) return nullptr;
  ModelFlags guide_flags = flags;
  guide_flags.model = guide->model;
  check_weights(guide_flags, guide->source);
  if (main.cuda != nullptr) return load_on_device(guide_flags, guide->source, main);
  return on_cpu(load_weights(guide_flags, guide->source, main.device->threads()), main.device);
}

void add_template_flags(CLI::App& command, TemplateFlags& flags, const char* group) {
  command
      .add_option(
          "--chat-template", flags.chat_template,
          "llada, chatml, nemotron, seed-coder, gemma, none, one of the checkpoint's by its name, or a "
          "file (default: the checkpoint's)")
      ->group(group);
  command
      .add_option("--chat-template-kwargs", flags.keywords,
                  "Variables of the chat template as a JSON object, {\"enable_thinking\": false}")
      ->group(group);
}

namespace {

ChatTemplate named_template(const std::filesystem::path& folder, const std::string& name) {
  TemplateSource source = read_chat_templates(folder);
  if (const std::string* program = source.find(name)) {
    source.programs = {{"default", *program}};
    source.places = {fmt::format("the checkpoint's template {}", in_quotes(name))};
    return ChatTemplate(std::move(source));
  }
  if (std::optional<ChatTemplate> built_in = ChatTemplate::built_in(name, source.special_tokens))
    return *std::move(built_in);
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(name, ignored))
    throw InputError("--chat-template is '{}'; expected {}, one of the checkpoint's templates, or a file",
                     name, ChatTemplate::kBuiltInNames);
  source.programs = {{"default", read_text_file(name)}};
  source.places = {name};
  ChatTemplate of_file(std::move(source));
  if (!of_file.problem().empty()) throw InputError("--chat-template: {}", of_file.problem());
  return of_file;
}

}  // namespace

ChatTemplate choose_chat_template(const std::filesystem::path& folder, const TemplateFlags& flags) {
  ChatTemplate chosen;
  if (!flags.chat_template.empty()) {
    chosen = named_template(folder, flags.chat_template);
  } else if (!flags.raw) {
    chosen = load_chat_template(folder);
  }
  if (flags.keywords.empty()) return chosen;
  constexpr std::string_view kFlag = "--chat-template-kwargs";
  const nlohmann::ordered_json keywords = parse_ordered_json(flags.keywords, kFlag);
  if (!keywords.is_object())
    throw InputError("{} is {}; expected a JSON object", kFlag, in_quotes(flags.keywords));
  if (chosen.is_none()) throw InputError("{} has no effect here: no chat template is used", kFlag);
  chosen.set_keywords(keywords);
  return chosen;
}

void warn_without_template(const OpenedModel& opened, const TemplateFlags& flags) {
  if (opened.tokenizer() == nullptr || flags.raw || !flags.chat_template.empty()) return;
  if (opened.chat_template().is_none()) {
    print_message("lacuna: {} has no chat template; prompts are used as they are (--chat-template)\n",
                  opened.name());
  } else if (!opened.chat_template().problem().empty()) {
    print_message("lacuna: the chat template of {} cannot be used: {}\n", opened.name(),
                  opened.chat_template().problem());
  }
}

std::shared_ptr<const OpenedModel> open_model(const GuidedModelFlags& flags, const TemplateFlags& chosen) {
  ModelSource source = find_model(flags);
  std::optional<Tokenizer> tokenizer = tokenizer_of(source);
  ChatTemplate chat_template;
  if (tokenizer || !chosen.chat_template.empty()) chat_template = choose_chat_template(source.folder, chosen);
  auto opened = std::make_shared<OpenedModel>(flags.model, std::move(source), std::move(tokenizer),
                                              std::move(chat_template));
  if (!flags.guide.empty()) opened->use_guide(flags.guide, choices_of_other_models(flags));
  return opened;
}

void expect_writer(const OpenedModel& opened) {
  if (opened.decision_temperatures().writes_text) return;
  throw InputError(
      "{} was made for decisions and writes no text; expected a question about a text: lacuna decide {} "
      "\"Ben is very sad.\" -q \"Is Ben happy?\"",
      opened.name(), opened.name());
}

std::unique_ptr<InferenceSession> load_session(const ModelFlags& flags,
                                               std::shared_ptr<const OpenedModel> opened,
                                               const SchedulerLimits& limits) {
  const LoadedModel loaded = load_model(flags, opened->source());
  InferenceSession::Parts parts{loaded.model, load_guide(flags, opened->guide(), loaded)};
  return std::make_unique<InferenceSession>(std::move(opened), std::move(parts), limits);
}

GenerationOptions resolve_run(ModelFlags& flags, const ModelSource& source, const GuideSource* guide,
                              const GenerationOptions& options) {
  ResolvedRun run =
      in_flags([&] { return resolve_run(source, flags.model, guide, format_names(flags), options); });
  static_cast<FormatNames&>(flags) = std::move(run.formats);
  for (const std::string& warning : run.warnings) print_message("lacuna: {}\n", warning);
  return std::move(run.options);
}

GenerationOptions resolve_run(ModelFlags& flags, const OpenedModel& opened,
                              const GenerationOptions& options) {
  return resolve_run(flags, opened.source(), opened.guide(), options);
}

GenerateRequest make_generate_request(const OpenedModel& opened, const GenerationOptions& given,
                                      Prompt prompt) {
  const GenerationOptions options = resolve_options(opened, nullptr, given);
  if (!options.stop.empty() && opened.tokenizer() == nullptr) {
    throw InputError("--stop: {} has no tokenizer", opened.name());
  }
  GenerateRequest request = request_of(opened, options, opened.guide() != nullptr);
  request.prompt = std::move(prompt);
  return request;
}

}  // namespace lacuna
