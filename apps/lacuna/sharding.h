// --shard and --ranks: one model over several processes.
#pragma once

#include "loaded_model.h"
#include "model_flags.h"

namespace lacuna {

/// Loads each rank's part. Returns on rank 0 only: the other ranks serve its passes and their processes end
/// here when rank 0's model is destroyed. Throws InputError.
LoadedModel load_on_ranks(const ModelFlags& flags, const ModelSource& source);

/// Number of threads of each rank.
int threads_of_rank(const ModelFlags& flags);

}  // namespace lacuna
