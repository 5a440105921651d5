// Ranks that an MPI launcher (mpirun, srun) has started, one process each, on one machine or several.
#pragma once

#include <chrono>
#include <memory>

#include "backend/shard/shared_memory.h"
#include "base/communicator.h"

namespace lacuna {

/// Whether an MPI launcher started this process as one of several. Reads only the environment, so it also
/// works in programs without MPI.
bool is_started_by_mpi();

/// This process's rank in the group of all started processes. Call once per process. Throws InputError in a
/// build without MPI (LACUNA_MPI).
std::unique_ptr<Communicator> ranks_of_mpi(std::chrono::milliseconds timeout = kRankTimeout);

}  // namespace lacuna
