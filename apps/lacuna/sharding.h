// --shard and --ranks: one model over several processes.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "base/communicator.h"

namespace lacuna {

struct LoadedModel;
struct ModelFlags;
struct ModelSource;

struct ShardFlags {
  std::string shard = "none";
  std::string link;          ///< bits per second, as link_speed() takes them; empty: measured
  int ranks = 0;             ///< processes of this machine; 0: those that mpirun started
  double rank_timeout = 10;  ///< seconds without a sign of life after which a rank counts as ended

  bool is_sharded() const { return shard != "none"; }
};

/// --shard, --ranks, --link.
void add_shard_flags(CLI::App& command, ShardFlags& flags);
/// Throws InputError if one of them has no effect.
void check_shard_flags(const ShardFlags& flags);
/// Throws InputError with --shard: `what` needs a process of its own.
void refuse_shard(const ShardFlags& flags, const std::string& what);

/// --rank-timeout.
void add_rank_timeout_flag(CLI::App& command, ShardFlags& flags);
std::chrono::milliseconds rank_silence(const ShardFlags& flags);

/// Loads each rank's part. Returns on rank 0 alone: the processes of the other ranks end here when rank 0's
/// model is gone. Throws InputError.
LoadedModel load_on_ranks(const ModelFlags& flags, const ModelSource& source);

/// Threads of each rank.
int threads_of_rank(const ModelFlags& flags);

}  // namespace lacuna
