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
  std::string link;  ///< bits per second, as link_speed() takes them; empty: measured
  int ranks = 0;     ///< processes of this machine; 0: those that mpirun started

  bool is_sharded() const { return shard != "none"; }
};

/// --shard, --ranks, --link.
void add_shard_flags(CLI::App& command, ShardFlags& flags);
/// InputError where one of them has no effect.
void check_shard_flags(const ShardFlags& flags);
/// InputError with --shard: `what` needs a process of its own.
void refuse_shard(const ShardFlags& flags, const std::string& what);

/// Loads each rank's part. Returns on rank 0 alone: the processes of the other ranks end here when rank 0's
/// model is gone. InputError.
LoadedModel load_on_ranks(const ModelFlags& flags, const ModelSource& source);

}  // namespace lacuna
