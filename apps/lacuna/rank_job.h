// The ranks of a sharded model under `lacuna serve`: separate processes; the server survives their failure.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "backend/shard/message_socket.h"
#include "loading.h"

namespace lacuna {

struct RankJobFlags {
  std::string launch;                  ///< MPI launcher with its flags; empty: starts --ranks processes
  std::vector<std::string> arguments;  ///< the ranks' loading flags, without --model
};

/// --launch, --rank-timeout.
void add_rank_job_flags(CLI::App& command, RankJobFlags& job, ModelFlags& flags);
/// The given flags of add_loading_flags(), each as --NAME=VALUE.
std::vector<std::string> loading_arguments(const CLI::App& command);

/// Starts the ranks and waits until they have loaded the model; the processes end with the model. Throws
/// InputError.
///   flags  must be sharded, and this process not a rank
LoadedModel load_on_job(const ModelFlags& flags, const ModelSource& source, const RankJobFlags& job);

/// `lacuna serve-ranks`, which load_on_job() starts: rank 0 hosts the model, the other ranks follow it.
void add_serve_ranks_command(CLI::App& program);
constexpr std::string_view kServeRanks = "serve-ranks";

}  // namespace lacuna
