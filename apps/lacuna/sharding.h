// --shard and --ranks: one model over several processes.
#pragma once

#include "loaded_model.h"
#include "model_flags.h"

namespace lacuna {

/// Loads each rank's part. Returns on rank 0 alone: the processes of the other ranks end here when rank 0's
/// model is gone. Throws InputError.
LoadedModel load_on_ranks(const ModelFlags& flags, const ModelSource& source);

/// Threads of each rank.
int threads_of_rank(const ModelFlags& flags);

}  // namespace lacuna
