#include "block_timing.h"

#include "base/dtype.h"
#include "base/error.h"
#include "kernels/table.h"
#include "numbers.h"
#include "options/parse_policies.h"

namespace lacuna {

void add_block_timing_flags(CLI::App& command, BlockTimingFlags& flags) {
  add_model_flags(command, flags);
  BlockBenchOptions& options = flags.options;
  command
      .add_option("--prefix", options.prefixes, "Cells before the block, separated by commas (default 8192)")
      ->delimiter(',')
      ->check(number_in<int32_t>(1, 1 << 20));
  command
      .add_option("--sparse", flags.sparse,
                  "A policy; may be given several times (default: exact, mage=512, quest=512, sparsed=512)")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_option("--block-length", options.block_length, "Rows of the block (default 32)")
      ->check(CLI::Range(1, 4096));
  command.add_option("--steps", options.steps, "Denoising steps of the block (default 32)")
      ->check(CLI::Range(1, 4096));
  command.add_option("--repeat", options.repeat, "Timed passes of each kind (default 3)")
      ->check(CLI::Range(1, 10'000));
}

nlohmann::ordered_json time_blocks(const BlockTimingFlags& flags) {
  BlockBenchOptions options = flags.options;
  for (const std::string& text : flags.sparse) options.policies.emplace_back(text, parse_sparse(text));
  const ModelSource source = find_model(flags);
  if (!source.config.block_causal || source.config.causal_context) {
    throw InputError("{}: is not a model of block diffusion (SDAR, Fast-dLLM v2, LLaDA 2)", flags.model);
  }
  require_cpu(flags, "bench block");
  refuse_shard(flags, "bench block");
  const LoadedModel loaded = load_model(flags, source);
  return {{"bench", "block"},
          {"model", flags.model},
          {"isa", loaded.model->device()},
          {"dtype", name_of(loaded.model->dtype())},
          {"threads", loaded.device->threads().size()},
          {"block_length", options.block_length},
          {"steps", options.steps},
          {"repeat", options.repeat},
          {"results", to_json(bench_blocks(*loaded.weights, loaded.context(), options))}};
}

}  // namespace lacuna
