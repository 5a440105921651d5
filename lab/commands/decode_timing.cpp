#include "decode_timing.h"

#include <memory>
#include <optional>

#include "base/dtype.h"
#include "generation_flags.h"
#include "kernels/table.h"
#include "options/choose.h"

namespace lacuna {

void add_decode_timing_flags(CLI::App& command, DecodeTimingFlags& flags) {
  add_model_flags(command, flags);
  add_guide_flag(command, flags.guide);
  DecodeBenchOptions& options = flags.options;
  command.add_option("--prompt-length", options.prompt_length, "Tokens of each prompt (default 128)")
      ->check(CLI::Range(1, 1 << 20));
  command.add_option("--batch", options.batch, "Requests that share each pass (default 1)")
      ->check(CLI::Range(1, 4096));
  command.add_option("--timed-passes", options.timed_passes, "Passes to compute of each run (default 8)")
      ->check(CLI::Range(1, 1 << 20));
  command.add_option("--repeat", options.repeat, "Times to compute each of them (default 3)")
      ->check(CLI::Range(1, 10'000));
  command
      .add_option(
          "--settle-passes", options.passes_to_converge,
          "Simulated: a row's posterior has converged after more passes than this with its token (default 2)")
      ->check(CLI::Range(0, 1 << 20));
  command
      .add_option("--accept-rate", options.accept_rate,
                  "Simulated: share of drafts that a guide, or ReFusion's own check, accepts (default 0.9)")
      ->check(CLI::Range(0.0, 1.0));
  command
      .add_option("--select-rate", options.select_rate,
                  "Simulated, ReFusion: share of slots whose first token is confident (default 0.5)")
      ->check(CLI::Range(0.0, 1.0));
  add_generation_flags(command, flags.generation);
}

nlohmann::ordered_json time_decode(const DecodeTimingFlags& flags) {
  const ModelSource source = find_model(flags);
  const std::optional<Tokenizer> tokenizer = tokenizer_of(source);
  const std::unique_ptr<GuideSource> guide = find_guide(flags, text_model(source, tokenizer));
  GenerationOptions generation = flags.generation;
  if (!generation.gen_length) {
    generation.gen_length =
        default_gen_length(source.config, choose_strategy(source.config, generation, guide != nullptr),
                           flags.options.prompt_length);
  }
  const LoadedModel loaded = load_model(flags, source);
  const std::shared_ptr<const BackendModel> guide_model = load_guide(flags, guide.get(), loaded);
  const auto [plain, timing] = bench_decode(*loaded.model, guide_model.get(), generation, flags.options);
  nlohmann::ordered_json report{{"bench", "decode"},
                                {"model", flags.model},
                                {"isa", loaded.model->device()},
                                {"dtype", name_of(loaded.model->dtype())},
                                {"threads", loaded.device->threads().size()},
                                {"prompt_length", flags.options.prompt_length},
                                {"batch", flags.options.batch}};
  report.update(to_json(plain, timing));
  const double tokens = flags.options.batch * *generation.gen_length;
  report["plain"]["tokens_per_second"] = tokens / report["plain"]["seconds"].get<double>();
  report["setting"]["tokens_per_second"] = tokens / report["setting"]["seconds"].get<double>();
  return report;
}

}  // namespace lacuna
