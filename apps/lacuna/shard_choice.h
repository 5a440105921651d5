// Which part of a model the ranks load: what --shard says, or what --shard auto finds to be fastest.
#pragma once

#include <string>

#include "base/communicator.h"
#include "model/part.h"

namespace lacuna {

class CpuDevice;
struct ModelFlags;
struct ModelSource;

/// Bytes per second of "10Gb", "100Mb" or "2.5Gb", as --link takes them. Throws InputError.
double link_speed(const std::string& text);

/// This rank's part. Called by all ranks at once. With --shard auto, measures what machines and links can do,
/// and rank 0 says on standard error what was chosen and why. Throws InputError if nothing that may be chosen
/// fits into the memory of the ranks.
ModelPart choose_part(const ModelFlags& flags, const ModelSource& source, const CpuDevice& device,
                      Communicator& ranks);

}  // namespace lacuna
