#include "model_flags.h"

#include <charconv>
#include <system_error>

#include "backend/device.h"
#include "backend/shard/shared_memory.h"
#include "base/numa.h"
#include "terminal.h"
#include "weights/weight_format.h"
#include "words.h"

namespace lacuna {
namespace {

constexpr double kMaxBitsPerSecond = 1e15;

/// Values of a flag: `first` ones, then the formats of weights.
std::vector<std::string> choices_of_format(std::vector<std::string> first) {
  for (std::string& name : weight_format_names()) first.push_back(std::move(name));
  return first;
}

}  // namespace

void require_cpu(const ModelFlags& flags, std::string_view flag) {
  if (device_named(flags.device).kind == DeviceName::Kind::kCpu) return;
  throw InputError("{}: expected --device cpu, as it measures this machine; --device is {}", flag,
                   flags.device);
}

FormatNames format_names(const ModelFlags& flags) {
  FormatNames names = flags;
  names.for_cpu = device_named(flags.device).kind == DeviceName::Kind::kCpu;
  return names;
}

WeightFormats weight_formats(const ModelFlags& flags, const ModelSource& source) {
  return in_flags([&] { return weight_formats(format_names(flags), source); });
}

void add_model_flag(CLI::App& command, std::string& model) {
  CLI::Option* const option =
      command.add_option("-m,--model", model,
                         "Folder, .gguf file, name from lacuna list, org/name from lacuna pull, or "
                         "random:FAMILY-SIZE");
  add_model_word(command, *option->required());
}

void add_threads_flag(CLI::App& command, int& threads) {
  command
      .add_option("-t,--threads", threads, "Threads (default 0: one for each core that the process may use)")
      ->check(CLI::Range(0, 1024));
}

void add_placement_flags(CLI::App& command, bool& pin) {
  command.add_flag("--pin", pin, "Bind each thread except the first to its own core, physical cores first");
  command
      .add_option_function<std::string>(
          "--numa",
          [](const std::string& numa) {
            if (numa == "off") return;
            interleave_memory();
            if (num_memory_nodes() == 1)
              print_message("lacuna: --numa interleave changes nothing: memory is that of one NUMA node\n");
          },
          "Memory of machines with several NUMA nodes: local to threads (default off) or interleave")
      ->check(CLI::IsMember({"off", "interleave"}));
}

void add_format_flags(CLI::App& command, ModelFlags& flags) {
  command
      .add_option("--dtype", flags.dtype,
                  "Element type of weights, matmuls and K/V: auto (as stored), f32 or bf16")
      ->check(CLI::IsMember({"auto", "f32", "bf16"}));
  command
      .add_option(
          "--weights", flags.weights,
          "Format of layers' weights: fastest (on this CPU), int8, ... (default auto: as stored, or --dtype)")
      ->check(CLI::IsMember(choices_of_format({"auto", "fastest"})));
  command
      .add_option("--head-weights", flags.head_weights,
                  "Format of embedding and head (default auto: as stored, or --dtype)")
      ->check(CLI::IsMember(choices_of_format({"auto"})));
}

void add_device_flag(CLI::App& command, std::string& device) {
  command.add_option(
      "--device", device,
      "Device that computes: auto (a GPU in builds with CUDA), cpu, cuda:N or simulator (slow, for tests)");
}

void add_kv_cache_flag(CLI::App& command, std::string& kv_cache) {
  command
      .add_option("--kv-cache", kv_cache,
                  "Format of keys and values: auto (--dtype), f32, bf16, or int8 with a scale per head")
      ->check(CLI::IsMember({"auto", "f32", "bf16", "int8"}));
}

void add_activations_flag(CLI::App& command, std::string& activations) {
  command
      .add_option("--activations", activations,
                  "Activations in matmuls with quantized weights: auto (bf16 or similarly accurate) or int8 "
                  "(default auto)")
      ->check(CLI::IsMember({"auto", "int8"}));
}

void add_model_flags(CLI::App& command, ModelFlags& flags) {
  add_model_flag(command, flags.model);
  add_loading_flags(command, flags);
}

void add_loading_flags(CLI::App& command, ModelFlags& flags) {
  add_device_flag(command, flags.device);
  add_format_flags(command, flags);
  add_kv_cache_flag(command, flags.kv_cache);
  add_activations_flag(command, flags.activations);
  add_threads_flag(command, flags.threads);
  add_placement_flags(command, flags.pin);
  command
      .add_option("--rope-scale", flags.rope_scale,
                  "Stretch the context this many times by NTK-aware RoPE, 1 to 1024 (default 1)")
      ->check(CLI::Range(1.0, 1024.0));
  command.add_flag("--ignore-memory", flags.ignore_memory,
                   "Load a model that needs more memory than is available");
  command.add_option("--pack-cache", flags.pack_cache,
                     "Folder of packed copies: the first start writes one, the next ones map it");
  add_lora_flag(command, flags.adapters);
  add_config_flags(command, flags);
  add_shard_flags(command, flags);
}

void add_lora_flag(CLI::App& command, std::vector<std::string>& adapters) {
  command
      .add_option("--lora", adapters,
                  "Adapter to merge into the weights, FOLDER or FOLDER=SCALE (PEFT's files); again for more")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
}

void add_config_flags(CLI::App& command, ModelFlags& flags) {
  command
      .add_option("--ignore-config-keys", flags.ignored_config_keys,
                  "Unknown keys of config.json to ignore, KEY,KEY (default: unknown keys are refused)")
      ->delimiter(',');
  command
      .add_option(
          "--paradigm", flags.paradigm,
          "Paradigm, where files do not say: causal, slots (ReFusion), masked or blocks (default auto)")
      ->check(CLI::IsMember({"auto", "causal", "slots", "masked", "blocks"}));
}

ConfigChoices config_choices(const ModelFlags& flags) {
  return {flags.ignored_config_keys, paradigm_named(flags.paradigm)};
}

ConfigChoices choices_of_other_models(const ModelFlags& flags) {
  return {flags.ignored_config_keys, {}, true};
}

void add_guide_flag(CLI::App& command, std::string& guide) {
  command.add_option(
      "--guide", guide,
      "A second model: autoregressive, it verifies drafts; of block diffusion, it makes them (SimSD)");
}

std::chrono::milliseconds heartbeat_timeout(const ShardFlags& flags) {
  return std::chrono::milliseconds(static_cast<int64_t>(flags.rank_timeout * 1e3));
}

void add_rank_timeout_flag(CLI::App& command, ShardFlags& flags) {
  command
      .add_option("--rank-timeout", flags.rank_timeout,
                  "Seconds without a response after which a rank counts as failed (default 10)")
      ->check(CLI::Range(0.5, 86400.0));
}

void add_shard_flags(CLI::App& command, ShardFlags& flags) {
  command
      .add_option(
          "--shard", flags.shard,
          "Divide the model among ranks: none, outputs, rows, layers or auto, the fastest (default none)")
      ->check(CLI::IsMember({"none", "outputs", "rows", "layers", "auto"}));
  command
      .add_option("--ranks", flags.ranks,
                  "Processes on this machine for --shard, 2 to 64 (default 0: those that mpirun started)")
      ->check(CLI::Range(2, kMaxLocalRanks));
  command.add_option(
      "--link", flags.link,
      "Bits per second that a rank receives, for --shard auto: 10Gb, 100Mb (default: measured)");
}

void check_shard_flags(const ShardFlags& flags) {
  if (flags.ranks > 0 && !flags.is_sharded())
    throw InputError("--ranks is {}; expected --shard with it", flags.ranks);
  if (flags.link.empty()) return;
  if (flags.shard != "auto") throw InputError("--link {}: expected --shard auto with it", flags.link);
  link_speed(flags.link);
}

void refuse_shard(const ShardFlags& flags, const std::string& what) {
  if (flags.is_sharded())
    throw InputError("--shard {}: expected none, as {} needs one process", flags.shard, what);
  check_shard_flags(flags);
}

double link_speed(const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [unit, error] = std::from_chars(text.data(), end, value);
  const std::string_view name(unit, static_cast<size_t>(end - unit));
  const double scale = name == "Gb" ? 1e9 : name == "Mb" ? 1e6 : 0;
  const double bits = value * scale;
  if (error != std::errc() || !(bits >= 1e6 && bits <= kMaxBitsPerSecond))
    throw InputError("--link {}: expected bits per second, such as 10Gb, 2.5Gb or 100Mb", text);
  return bits / 8;
}

}  // namespace lacuna
