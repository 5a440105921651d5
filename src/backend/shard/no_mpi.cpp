// Replaces mpi.cpp in builds without MPI.
#include "backend/shard/mpi.h"
#include "base/error.h"

namespace lacuna {

std::unique_ptr<Communicator> ranks_of_mpi(std::chrono::milliseconds /*timeout*/) {
  throw InputError(
      "--shard: this program was built without MPI; expected a build with -DLACUNA_MPI=ON, or --ranks N "
      "without mpirun");
}

}  // namespace lacuna
