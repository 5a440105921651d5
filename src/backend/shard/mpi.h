// Ranks that an MPI launcher (mpirun, srun) has started, one process each, on one machine or several.
#pragma once

#include <chrono>
#include <memory>

#include "backend/shard/shared_memory.h"
#include "base/communicator.h"

namespace lacuna {

/// Whether this process is one of several that a launcher of MPI has started. Reads the environment alone, so
/// that a program without MPI can tell as well.
bool is_started_by_mpi();

/// This process' end of the group of all that were started. Called once in a process. InputError in a program
/// that was built without MPI (LACUNA_MPI).
std::unique_ptr<Communicator> ranks_of_mpi(std::chrono::milliseconds timeout = kRankTimeout);

}  // namespace lacuna
