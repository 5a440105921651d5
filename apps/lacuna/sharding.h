// --shard and --ranks: one model over several processes.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "base/communicator.h"

namespace lacuna {

struct LoadedModel;
struct ModelFlags;
struct ModelSource;

struct ShardFlags {
  std::string shard = "none";
  int ranks = 0;  ///< processes of this machine; 0: those that mpirun started

  bool is_sharded() const { return shard != "none"; }
};

/// --shard, --ranks.
void add_shard_flags(CLI::App& command, ShardFlags& flags);

/// Loads each rank's part. Returns on rank 0 alone: the processes of the other ranks end here when rank 0's
/// model is gone. InputError.
LoadedModel load_on_ranks(const ModelFlags& flags, const ModelSource& source);

}  // namespace lacuna
