#include "sharding.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <memory>
#include <vector>

#include "backend/shard/machine_plan.h"
#include "backend/shard/mpi.h"
#include "backend/shard/rank_survey.h"
#include "backend/shard/sharded_model.h"
#include "backend/shard/shared_memory.h"
#include "base/affinity.h"
#include "base/error.h"
#include "base/memory.h"
#include "bench/machine.h"
#include "lacuna/version.h"
#include "model/adapters.h"
#include "progress_bar.h"
#include "terminal.h"

namespace lacuna {
namespace {

constexpr int64_t kPlannedRows = 256;
constexpr int64_t kPlannedCells = 1024;

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

MachineSpeeds speeds_of_ranks(const ModelFlags& flags, const CpuDevice& device, DType dtype,
                              Communicator& ranks) {
  MachineSpeeds speeds;
  const RankLink measured = measure_link(ranks);
  speeds.latency = measured.latency;
  speeds.link = flags.link.empty() ? measured.bytes_per_second : link_speed(flags.link);
  // Measured on all ranks at once: ranks on one machine share it, as in a pass.
  speeds.flops =
      least_of_ranks(ranks, measure_peak_flops(device.threads(), device.kernels().name, dtype, /*tries=*/5));
  speeds.bandwidth = least_of_ranks(ranks, measure_read_bandwidth(device.threads(), int64_t{1} << 29));
  return speeds;
}

std::string reason_for(const MachinePlan& chosen, const std::vector<MachinePlan>& plans,
                       const MachineSpeeds& speeds, int64_t memory) {
  std::string others;
  const MachinePlan& alone = plans.front();
  for (const MachinePlan& plan : plans) {
    if (!plan.shard || plan.way == chosen.way) continue;
    const bool fits = plan.weight_bytes + plan.kv_bytes <= memory;
    others += fmt::format(", {} {}", plan.way,
                          !plan.is_possible ? "needs more layers"
                          : !fits           ? "does not fit"
                                            : fmt::format("{:.0f} ms", 1e3 * plan.seconds()));
  }
  const bool does_not_pay = alone.seconds() < chosen.seconds();
  return fmt::format(
      "--shard auto: {} is predicted to take {:.0f} ms for a pass of {} rows{}, one rank alone {:.0f} ms{}; "
      "{} per rank, links of {:.2g} Gbit/s and {:.0f} us",
      chosen.way, 1e3 * chosen.seconds(), kPlannedRows, others, 1e3 * alone.seconds(),
      does_not_pay ? " (ranks do not pay for such passes)" : "",
      human_bytes(chosen.weight_bytes + chosen.kv_bytes), speeds.link * 8e-9, 1e6 * speeds.latency);
}

ShardBy fastest(const ModelFlags& flags, const ModelSource& source, const CpuDevice& device, int64_t memory,
                Communicator& ranks) {
  const WeightFormats formats = weight_formats(flags, source);
  const MachineSpeeds speeds = speeds_of_ranks(flags, device, formats.dtype, ranks);
  std::unique_ptr<WeightSource> stored;
  if (!source.folder.empty()) stored = open_weights(source.folder, source.config);
  const PlannedPass pass{ranks.size(), kPlannedRows, kPlannedCells};
  const std::vector<MachinePlan> plans = plan_machines(source.config, formats, stored.get(), speeds, pass);
  const MachinePlan* chosen = fastest_that_fits(plans, memory);
  if (chosen == nullptr) {
    throw InputError(
        "--shard auto: {} does not fit into the {} of memory that each of {} ranks has; expected more ranks, "
        "formats of --weights that take less, or --ignore-memory",
        flags.model, human_bytes(memory), ranks.size());
  }
  if (ranks.rank() == 0) print_message("{}\n", reason_for(*chosen, plans, speeds, memory));
  return *chosen->shard;
}

void check_memory(const ModelFlags& flags, const ModelSource& source, const ModelPart& part, int64_t memory) {
  const WeightFormats formats = weight_formats(flags, source);
  const int64_t canvas = std::min(source.config.max_positions, kPlannedCells);
  std::unique_ptr<WeightSource> stored;
  if (!source.folder.empty()) stored = open_weights(source.folder, source.config);
  const int64_t weights = predicted_bytes(source.config, formats, stored.get(), part);
  const KvShape shape = kv_shape(source.config, formats.dtype, formats.kv_int8, part);
  const int64_t rest = KvCache::bytes_for(shape, canvas) +
                       predict_cpu_memory(source.config, formats, canvas, stored.get()).buffers;
  if (weights + rest <= memory) return;
  throw InputError(
      "--shard {}: {} needs {} of memory on each rank (weights {}, K/V and buffers {} for {} tokens), and {} "
      "are available to it; expected more ranks, formats of --weights that take less{}, or --ignore-memory",
      flags.shard, flags.model, human_bytes(weights + rest), human_bytes(weights), human_bytes(rest), canvas,
      human_bytes(memory), part.by == ShardBy::kRows ? ", --shard outputs or layers" : "");
}

/// This rank's part: by --shard, or the fastest one with --shard auto, which measures machines and links;
/// rank 0 prints that choice and its reason on standard error. Collective: all ranks call it. Throws
/// InputError if no allowed choice fits into the ranks' memory.
ModelPart choose_part(const ModelFlags& flags, const ModelSource& source, const CpuDevice& device,
                      Communicator& ranks) {
  const int64_t available = memory_of_each(ranks, host_name(), available_memory().bytes);
  const int64_t memory = flags.ignore_memory ? std::numeric_limits<int64_t>::max() : available;
  ModelPart part{ranks.rank(), ranks.size(), ShardBy::kOutputs};
  if (flags.shard == "auto") {
    part.by = fastest(flags, source, device, memory, ranks);
    return part;
  }
  for (const ShardBy by : {ShardBy::kRows, ShardBy::kLayers}) {
    if (flags.shard == name_of(by)) part.by = by;
  }
  check_memory(flags, source, part.of(0), memory);
  return part;
}

std::shared_ptr<Communicator> join_ranks(const ModelFlags& flags) {
  const bool by_mpi = is_started_by_mpi();
  if (by_mpi && flags.ranks > 0)
    throw InputError("--ranks is {}; expected no --ranks under mpirun, which says how many there are",
                     flags.ranks);
  if (by_mpi) return ranks_of_mpi();
  if (flags.ranks == 0) throw InputError("--shard {}: expected --ranks N, or a start by mpirun", flags.shard);
  return fork_ranks(flags.ranks, kRankTimeout, heartbeat_timeout(flags));
}

std::string identity_of(const ModelFlags& flags, const ModelSource& source, ShardBy by,
                        std::string_view kernels) {
  const std::string model =
      source.folder.empty() ? fmt::format("{} of seed {}", flags.model, flags.random_seed)
                            : fmt::format("model {}", fingerprint_of(source.folder, source.config.adapters));
  return fmt::format(
      "lacuna {}, {}, {}, --shard {}, dtype {}, weights {}, head {}, K/V {}, activations {}, RoPE scale {}",
      LACUNA_VERSION, kernels, model, name_of(by), flags.dtype, flags.weights, flags.head_weights,
      flags.kv_cache, flags.activations, flags.rope_scale);
}

LoadedModel load_part(const ModelFlags& flags, const ModelSource& source,
                      const std::shared_ptr<Communicator>& ranks) {
  LoadedModel loaded;
  loaded.device = std::make_shared<const CpuDevice>(threads_of_rank(flags), flags.pin);
  const ModelPart part = choose_part(flags, source, *loaded.device, *ranks);
  std::string error;
  std::string identity;
  try {
    identity = identity_of(flags, source, part.by, loaded.device->kernels().name);
    ProgressBar bar("Loading " + flags.model);
    LoadProgress progress;
    if (ranks->rank() == 0) progress = [&](int64_t done, int64_t total) { bar.update(done, total); };
    loaded.weights =
        Model::load_part(source.folder, source.config, flags.random_seed, weight_formats(flags, source),
                         loaded.device->threads(), progress, ranks, part.by);
  } catch (const std::exception& caught) {
    error = caught.what();
  }
  agree_on_model(*ranks, identity, error);
  return loaded;
}

/// Runs a rank other than 0 until the process ends. Only rank 0 prints messages.
[[noreturn]] void run_follower(const ModelFlags& flags, const ModelSource& source,
                               std::shared_ptr<Communicator> ranks) {
  int code = 0;
  try {
    const LoadedModel loaded = load_part(flags, source, ranks);
    follow(*loaded.weights, *loaded.device, *ranks);
  } catch (const std::exception& error) {
    ranks->fail(error.what());
    code = 1;
  }
  ranks.reset();
  std::_Exit(code);
}

}  // namespace

int threads_of_rank(const ModelFlags& flags) {
  // Ranks on one machine share its cores.
  if (flags.threads > 0 || flags.ranks == 0) return flags.threads;
  return std::max(1, num_usable_cores() / flags.ranks);
}

LoadedModel load_on_ranks(const ModelFlags& flags, const ModelSource& source) {
  if (flags.pin) throw InputError("--pin: expected no --shard, whose ranks would share the same cores");
  std::shared_ptr<Communicator> ranks = join_ranks(flags);
  if (ranks->rank() != 0) run_follower(flags, source, std::move(ranks));
  LoadedModel loaded = load_part(flags, source, ranks);
  loaded.model = on_ranks(loaded.weights, loaded.device, std::move(ranks));
  return loaded;
}

}  // namespace lacuna
