#include "sharding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "backend/shard/mpi.h"
#include "backend/shard/sharded_model.h"
#include "backend/shard/shared_memory.h"
#include "base/affinity.h"
#include "base/error.h"
#include "lacuna/version.h"
#include "model/adapters.h"
#include "progress_bar.h"
#include "shard_choice.h"

namespace lacuna {
namespace {

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
