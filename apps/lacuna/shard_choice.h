// Which part of a model the ranks load: what --shard says, or what --shard auto finds to be fastest.
#pragma once

#include "backend/cpu/cpu_backend.h"
#include "base/communicator.h"
#include "model/part.h"
#include "model_flags.h"

namespace lacuna {

/// This rank's part. Called by all ranks at once. With --shard auto, measures what machines and links can do,
/// and rank 0 says on standard error what was chosen and why. Throws InputError if nothing that may be chosen
/// fits into the memory of the ranks.
ModelPart choose_part(const ModelFlags& flags, const ModelSource& source, const CpuDevice& device,
                      Communicator& ranks);

}  // namespace lacuna
