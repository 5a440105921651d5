// Chooses the part of a model that each rank loads: by --shard, or the fastest one with --shard auto.
#pragma once

#include "backend/cpu/cpu_backend.h"
#include "base/communicator.h"
#include "model/part.h"
#include "model_flags.h"

namespace lacuna {

/// Returns this rank's part. Collective: all ranks call it. With --shard auto, measures machines and links;
/// rank 0 prints the choice and its reason on standard error. Throws InputError if no allowed choice fits
/// into the ranks' memory.
ModelPart choose_part(const ModelFlags& flags, const ModelSource& source, const CpuDevice& device,
                      Communicator& ranks);

}  // namespace lacuna
